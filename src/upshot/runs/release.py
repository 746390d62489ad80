"""Leaving a run to another session before its end, as a worker does when it is stopped.

Nothing new starts: a step that would start waits forever. When no step is under way, or when the
grace period is over, the log refuses further events, the work is cancelled, and ``run_released`` is
the last event. The next session continues from the log as after a crash.

The parent run notifies its child runs through its interrupts: first to start nothing, then to end.
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
    """The part of a session that this module needs."""

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
        session: The session that works on it.
        reason: The reason for ``RunReleased``.
        grace_s: Seconds that steps under way may take to finish. Child runs wait for the same
            moment.
        at: The earliest time to resume the run, None for at once.
    """
    context = session.context
    if context.release is not None or session.phase not in _BEFORE_END:
        return
    context.release = RunReleased(reason=reason, at=at or context.plan.clock.now())
    _block_new_steps(context)
    if reason == "due":
        # Only waits are under way.
        _end_work(session)
        return
    context.recorder.watch(lambda _: _cut_if_idle(session))
    timer = asyncio.get_running_loop().call_later(grace_s, _end_work, session)
    context.end_grace = timer.cancel
    _cut_if_idle(session)


def cancel_lost_session(session: Leavable) -> None:
    """Cancel the work, because another process has claimed the run. Nothing more is logged."""
    session.context.is_taken_over = True
    session.context.supervisor.notify_child_runs(CUT)
    session.context.supervisor.end("caller")


def handle_parent_signal(session: Leavable, word: Interrupt) -> None:
    """Handle an interrupt or a release that comes from the parent run."""
    context = session.context
    if word is HOLD:
        outer = None if context.parent is None else context.parent.context.release
        at = None if outer is None or outer.reason == "drain" else outer.at
        context.release = RunReleased(reason="outer", at=at)
        _block_new_steps(context)
    elif word is CUT:
        _end_work(session)
    else:
        session.interrupt(word)


async def leave(context: RunContext) -> Ending:
    """Return the ending of a session that left its run. No hook is called."""
    if context.end_grace is not None:
        context.end_grace()
    if context.opened is not None:
        await close_dependencies(context)
    context.recorder.accept_only(None)
    context.is_left = True
    reason = "" if context.release is None else context.release.reason
    message = f"the run continues in another session: {reason}"
    error = AgentError(ErrorCode.INTERRUPTED, message, origin=Origin.HOST)
    return Ending(status=Status.INTERRUPTED, error=error, interrupt=Interrupt(_CAUSE, reason))


def _block_new_steps(context: RunContext) -> None:
    """Make every new step wait forever."""
    recorder, tools = context.recorder, context.toolbox
    recorder.held = asyncio.Event()
    if tools is not None:
        tools.wait_before_start(recorder.held)
    context.supervisor.notify_child_runs(HOLD)


def _cut_if_idle(session: Leavable) -> None:
    """End the work if no step is under way."""
    context = session.context
    state, inside = context.state, context.supervisor.inside > 0
    is_asking = state.lost_calls > context.lost_before
    is_resting = not (inside or is_asking or state.unsettled or state.steps_started)
    if is_resting or (
        context.supervisor.parking is not None and context.supervisor.parking.is_all()
    ):
        _end_work(session)


def _end_work(session: Leavable) -> None:
    """End the work. The log records calls under way only as having an unknown outcome."""
    context = session.context
    supervisor, recorder = context.supervisor, context.recorder
    if session.phase != "attempting" or recorder.only is not None:
        return
    # A call that contains a child run continues with that run.
    keeps_unknown = not supervisor.inside

    def only(event: Event) -> bool:
        """Whether *event* settles an interrupted call whose effect is unknown."""
        if not (keeps_unknown and isinstance(event, ToolSettled)):
            return False
        return event.record.effect is Effect.UNKNOWN and event.call_id in context.state.unsettled

    recorder.accept_only(only)
    supervisor.notify_child_runs(CUT)
    supervisor.end("caller")
