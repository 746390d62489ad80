"""Leaving a run to another session before its end, as a worker does that is stopped.

Nothing is begun any more: what would begin a step waits for good. Once no step is in hand, or when
the grace is over, the log takes no more of the run, its work is cancelled, and ``run_released`` is
the last event. The log goes on from there as where a process died.

Child runs are told by their parent, as of a wish to stop: first to begin nothing, then to end.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol

from upshot.contract.base.enums import Effect, ErrorCode, Origin, Status
from upshot.contract.error import AgentError
from upshot.contract.events import Event, ReleaseReason, RunReleased, ToolSettled
from upshot.contract.run_control import Interrupt
from upshot.runs.dependencies import close_dependencies
from upshot.runs.ending import Ending
from upshot.runs.run_context import CUT, HOLD, RunContext

_BEFORE_END = ("opening", "preparing", "attempting")
_CAUSE = "released"


class Leavable(Protocol):
    """A session, as far as it matters here."""

    @property
    def context(self) -> RunContext: ...
    @property
    def phase(self) -> str: ...
    def interrupt(self, interrupt: Interrupt) -> None: ...


def release(
    session: Leavable, reason: ReleaseReason, *, grace_s: float = 0.0, at: datetime | None = None
) -> None:
    """Leave the run to another session, unless it is about to end.

    Args:
        session: What works on it.
        reason: As ``RunReleased`` has it.
        grace_s: So long steps in hand may go on; where there are child runs, these wait for its
            end.
        at: From when on the run may be taken up, None for at once.
    """
    context = session.context
    if context.release is not None or session.phase not in _BEFORE_END:
        return
    context.release = RunReleased(reason=reason, at=at or context.plan.clock.now())
    _hold(context)
    if reason == "due":
        # Nothing is in hand but a wait.
        _cut(session)
        return
    context.recorder.watch(lambda _: _look_for_rest(session))
    timer = asyncio.get_running_loop().call_later(grace_s, _cut, session)
    context.end_grace = timer.cancel
    _look_for_rest(session)


def lose(session: Leavable) -> None:
    """Cancel the work, since another process has taken the run; the log takes no more of it."""
    session.context.is_taken_over = True
    session.context.supervisor.tell_inside(CUT)
    session.context.supervisor.end("caller")


def hear(session: Leavable, word: Interrupt) -> None:
    """Follow what the parent run is asked, or tells."""
    context = session.context
    if word is HOLD:
        outer = None if context.parent is None else context.parent.context.release
        at = None if outer is None or outer.reason == "drain" else outer.at
        context.release = RunReleased(reason="outer", at=at)
        _hold(context)
    elif word is CUT:
        _cut(session)
    else:
        session.interrupt(word)


async def leave(context: RunContext) -> Ending:
    """Say how a session ended that was left: no hook is called, and nothing is concluded."""
    if context.end_grace is not None:
        context.end_grace()
    if context.opened is not None:
        await close_dependencies(context)
    context.recorder.take_only(None)
    context.is_left = True
    reason = "" if context.release is None else context.release.reason
    message = f"the run goes on in another session: {reason}"
    error = AgentError(ErrorCode.INTERRUPTED, message, origin=Origin.HOST)
    return Ending(status=Status.INTERRUPTED, error=error, interrupt=Interrupt(_CAUSE, reason))


def _hold(context: RunContext) -> None:
    """Have what would begin a step wait for good."""
    recorder, tools = context.recorder, context.toolbox
    recorder.held = asyncio.Event()
    if tools is not None:
        tools.hold(recorder.held)
    context.supervisor.tell_inside(HOLD)


def _look_for_rest(session: Leavable) -> None:
    """End the work if no step is in hand."""
    context = session.context
    state, inside = context.state, context.supervisor.inside > 0
    is_asking = state.lost_calls > context.lost_before
    is_resting = not (inside or is_asking or state.unsettled or state.steps_started)
    if is_resting or (
        context.supervisor.parking is not None and context.supervisor.parking.is_all()
    ):
        _cut(session)


def _cut(session: Leavable) -> None:
    """End the work; of what was in hand the log has only that nobody knows what came of it."""
    context = session.context
    supervisor, recorder = context.supervisor, context.recorder
    if session.phase != "attempting" or recorder.only is not None:
        return
    # A call that has a child run inside goes on with that.
    keeps_unknown = not supervisor.inside

    def only(event: Event) -> bool:
        """Whether it tells that a body was cut off that may have done something."""
        if not (keeps_unknown and isinstance(event, ToolSettled)):
            return False
        return event.record.effect is Effect.UNKNOWN and event.call_id in context.state.unsettled

    recorder.take_only(only)
    supervisor.tell_inside(CUT)
    supervisor.end("caller")
