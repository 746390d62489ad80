"""One session of a run, from its start or its log to a result; its phases as one table.

The life of a run: from its first event to its last, whatever the engine does.

What comes after what stands in the table of ``phase``; here is what is done in each phase.

Phase: the life of a run as one table, which the lifecycle drives by.

A session is in one phase at a time. What it did there gives a cue, and the table says
which phase that leads to. Nothing else knows the order of a life.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import force_setattr, replace

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import Origin, Status
from upshot.contract.error import RunWarning
from upshot.contract.events import (
    AttemptEnded,
    AttemptStarted,
    Committed,
    Event,
    RunInterrupted,
    RunSettled,
    StepStarted,
)
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import is_safe_at_append
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Interrupt
from upshot.errors import JournalError
from upshot.runs.attempt import Equipment, ending_of, seed, work_on
from upshot.runs.callbacks import forget_way, is_closing
from upshot.runs.ending import COMPLETED, Ending, StopReason, internal_error
from upshot.runs.engine_api.exceptions import Interrupted
from upshot.runs.plan import ParentRun, Plan
from upshot.runs.recorder import Recorder, anybody_listens
from upshot.runs.replay.recording import Recording
from upshot.runs.result_builder import refused_modes
from upshot.runs.services.hooks import (
    ACCEPTED,
    Verdict,
    note_verdict,
    reason_against,
    wants_revision,
    with_verdict,
)
from upshot.runs.services.run_services import Box
from upshot.runs.task_supervisor import current_run
from upshot.state.child_runs import settled_step, step_of
from upshot.state.run_state import RunState

__all__ = [
    "BROKEN",
    "CLOSED",
    "Cue",
    "DECIDED",
    "DISPOSED",
    "FINAL",
    "FIRST",
    "Judged",
    "NEXT",
    "OPENED",
    "PREPARED",
    "Phase",
    "RECALLED",
    "RESUMED",
    "REVISED",
    "ROWS",
    "Row",
    "Session",
    "TOLD",
    "Tie",
    "UNPREPARED",
    "WAITS",
    "WORKED",
    "cue_of_ending",
    "cue_of_verdict",
    "diagram",
    "hear_host",
    "judge",
    "with_loss",
]


async def hear_host(parts: Equipment) -> None:
    """Let the user's host finish, so that what it raised of the run is in the result.

    Args:
        parts: Of the run.
    """
    scope = parts.scope
    # The time that is left to a stopped run is its observers'.
    if scope.is_stopped():
        return
    try:
        await parts.host.hear_out(scope.wait)
    except asyncio.CancelledError:
        # A closing loop's; observers hear of the end all the same.
        scope.end("caller")


def with_loss(
    parts: Equipment, result: AgentResult[Any], error: BaseException, *, committed: bool
) -> AgentResult[Any]:
    """*result* of a run whose end could not be logged or told, which it warns of.

    Args:
        parts: Of the run.
        result: What came of it.
        error: Why not.
        committed: Whether it was committed before.
    """
    origin = Origin.JOURNAL if isinstance(error, JournalError) else Origin.HOST
    lost = RunWarning(code="journal_failed", message=str(error), origin=origin)
    parts.recorder.warn(lost)
    # A recorder that has told of the end takes no warning any more.
    warnings = tuple(dict.fromkeys((*parts.recorder.warnings, lost)))
    lines = tuple(parts.report.lines)
    return replace(result, committed=committed, attempt_log=lines, warnings=warnings)


class _Word(StrEnum):
    # That of an enum is written in Python; this is asked for at every step of every run.
    __hash__ = str.__hash__


class Phase(_Word):
    """Where a session stands."""

    OPENING = "opening"
    PREPARING = "preparing"
    ATTEMPTING = "attempting"
    DECIDING = "deciding"
    COMMITTING = "committing"
    ENDING = "ending"
    CLOSING = "closing"
    PARKED = "parked"
    SETTLED = "settled"


class Cue(_Word):
    """What came of a phase."""

    OPENED = "opened"
    RECALLED = "recalled"
    PREPARED = "prepared"
    UNPREPARED = "unprepared"
    WORKED = "worked"
    WAITS = "waits"
    REVISED = "revised"
    DECIDED = "decided"
    DISPOSED = "disposed"
    TOLD = "told"
    CLOSED = "closed"
    RESUMED = "resumed"
    BROKEN = "broken"


# By name too: a class of Python 3.11 is slow to give a member of its own.
OPENED = Cue.OPENED
RECALLED = Cue.RECALLED
PREPARED = Cue.PREPARED
UNPREPARED = Cue.UNPREPARED
WORKED = Cue.WORKED
WAITS = Cue.WAITS
REVISED = Cue.REVISED
DECIDED = Cue.DECIDED
DISPOSED = Cue.DISPOSED
TOLD = Cue.TOLD
CLOSED = Cue.CLOSED
RESUMED = Cue.RESUMED
BROKEN = Cue.BROKEN


class Row(NamedTuple):
    """One transition.

    Attributes:
        source: The phase that the session is in.
        cue: What came of it.
        target: The phase that follows.
        when: The condition under which the phase gives this cue, for people.
    """

    source: Phase
    cue: Cue
    target: Phase
    when: str


FIRST = Phase.OPENING
FINAL = frozenset({Phase.PARKED, Phase.SETTLED})

_BROKEN = "the log is lost, the loop closes, or upshot has a fault"

ROWS = (
    Row(Phase.OPENING, OPENED, Phase.PREPARING, "an attempt is to be made or gone on with"),
    Row(Phase.OPENING, RECALLED, Phase.COMMITTING, "the log shows how the last attempt ended"),
    Row(Phase.OPENING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.PREPARING, PREPARED, Phase.ATTEMPTING, "the board stands"),
    Row(Phase.PREPARING, UNPREPARED, Phase.DECIDING, "the seeder raised, or it is too deep"),
    Row(Phase.PREPARING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.ATTEMPTING, WORKED, Phase.DECIDING, "the engine ended, well or not"),
    Row(Phase.ATTEMPTING, WAITS, Phase.ENDING, "people are waited for"),
    Row(Phase.ATTEMPTING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.DECIDING, REVISED, Phase.PREPARING, "a revision is wanted and an attempt left"),
    Row(Phase.DECIDING, DECIDED, Phase.COMMITTING, "else"),
    Row(Phase.DECIDING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.COMMITTING, DISPOSED, Phase.ENDING, "committed, or not"),
    Row(Phase.COMMITTING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.ENDING, TOLD, Phase.CLOSING, "observers were told of the end"),
    Row(Phase.ENDING, BROKEN, Phase.CLOSING, f"{_BROKEN}; nobody is told twice"),
    Row(Phase.CLOSING, CLOSED, Phase.SETTLED, "the result is in the log, and final"),
    Row(Phase.CLOSING, WAITS, Phase.PARKED, "the result is in the log: input_required"),
    Row(Phase.CLOSING, BROKEN, Phase.SETTLED, "the log could not be written to its end"),
    Row(Phase.PARKED, RESUMED, Phase.OPENING, "answers are there, in another session"),
)

# Where the cues of each phase lead.
NEXT = {phase: {row.cue: row.target for row in ROWS if row.source is phase} for phase in Phase}


def cue_of_ending(status: Status) -> Cue:
    """What the engine's end means: only a parked run goes by deciders and committers."""
    return WAITS if status is _PARKED else WORKED


def cue_of_verdict(*, wants_revision: bool, is_last: bool) -> Cue:
    """What the deciders' word means.

    Args:
        wants_revision: Whether it is a revision of a completed attempt.
        is_last: Whether no attempt is left.
    """
    return REVISED if wants_revision and not is_last else DECIDED


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "stateDiagram-v2"
    yield f"    [*] --> {FIRST}"
    for row in ROWS:
        yield f"    {row.source} --> {row.target}: {row.cue}"
    yield f"    {Phase.SETTLED} --> [*]"


class Judged(NamedTuple):
    """What became of an attempt.

    Attributes:
        result: Of it, after the verdict.
        cue: Whether it is done again.
        stopped: How the run was stopped before what deciders wanted revised was done again; None
            where it was not.
    """

    result: AgentResult[Any]
    cue: Cue
    stopped: Ending | None = None


def judge(parts: Equipment, result: AgentResult[Any], verdict: Verdict, *, is_last: bool) -> Judged:
    """Do what deciders want.

    Args:
        parts: Of the run; its state gets what they said.
        result: Of the attempt.
        verdict: What they want.
        is_last: Whether no other attempt may follow.
    """
    state = parts.report.state
    note_verdict(state, verdict, result, is_last=is_last)
    stopped = ending_of(parts, TimeoutError()) if parts.scope.stop else None
    _warn_of_replaced(parts, result, verdict)
    result = with_verdict(result, verdict, state, stopped=stopped)
    cue = cue_of_verdict(wants_revision=wants_revision(verdict, result), is_last=is_last)
    if cue is REVISED and (parts.scope.stop or parts.host.interrupt is not None):
        return _unrevised(parts, result)
    return Judged(result, cue)


def _warn_of_replaced(parts: Equipment, result: AgentResult[Any], verdict: Verdict) -> None:
    """Tell of the error of *result*, where that of a decider that raised takes its place."""
    error = result.error
    if error is not None and verdict.error is not None and not verdict.was_cut:
        warning = RunWarning(code=error.code, message=error.message, origin=error.origin)
        parts.recorder.warn(warning)


def _unrevised(parts: Equipment, result: AgentResult[Any]) -> Judged:
    """No further attempt, since the run was stopped before this one was accepted."""
    wish = parts.host.interrupt
    why = Interrupted() if wish is None else Interrupted(wish.cause, wish.detail)
    ending = ending_of(parts, TimeoutError() if parts.scope.stop else why)
    facts: dict[str, Any] = {"status": ending.status, "error": ending.error}
    if ending.interrupt is not None:
        facts |= {"cause": ending.interrupt.cause, "detail": ending.interrupt.detail}
    return Judged(replace(result, **facts), DECIDED, ending)


class Tie:
    """Between a session and the run round it, which may live in the loop of another thread.

    Args:
        parent: The run round it.
        run_id: The run inside.
        box: Its tools.
        interrupt: Interrupts it.
    """

    def __init__(
        self, parent: ParentRun, run_id: str, *, box: Box, interrupt: Callable[[Interrupt], None]
    ) -> None:
        self._parent = parent
        self._run_id = run_id
        self._box = box
        self._interrupt = interrupt
        self._loop = asyncio.get_running_loop()
        self._let_go: Callable[[], None] | None = None

    def begin(self) -> None:
        """Log in the outer run that this one begins."""
        self._tell(StepStarted(key=step_of(self._run_id)))

    def follow(self) -> None:
        """Stop from now on where the outer run shall, at once if that is wished already."""
        is_near = self._parent.loop is self._loop
        self._let_go = self._parent.admit(self._interrupt if is_near else self._hear_from_afar)
        if is_near:
            self._look(self._interrupt)
        else:
            # Its host belongs to its own loop, which may be gone by now.
            with contextlib.suppress(RuntimeError):
                self._parent.loop.call_soon_threadsafe(self._look, self._hear_from_afar)

    def inherit_distrust(self) -> None:
        """Distrust what the outer run has in its context."""
        if self._parent.box.tainted:
            self._box.distrust(f"{self._parent.box.tainted}, in the outer run")

    def bequeath_distrust(self) -> None:
        """Have the outer run distrust what this one has in its context."""
        if self._box.tainted:
            self._parent.box.distrust(f"{self._box.tainted}, in a run inside")

    def settle(self, result: AgentResult[Any], tools: Mapping[str, int]) -> None:
        """Log in the outer run how a session of this one ended, and what it used."""
        self._tell(settled_step(result, tools))

    def leave(self) -> None:
        """Hear of no more wishes."""
        if self._let_go is not None:
            self._let_go()

    def _tell(self, event: Event) -> None:
        parent = self._parent
        # A log that is lost, or a loop that is closed, is that run's own concern.
        with contextlib.suppress(JournalError, RuntimeError):
            if parent.loop is self._loop:
                parent.tell(event)
            else:
                parent.loop.call_soon_threadsafe(parent.tell, event)

    def _look(self, hear: Callable[[Interrupt], None]) -> None:
        wish = self._parent.wish()
        if wish is not None:
            hear(wish)

    def _hear_from_afar(self, wish: Interrupt) -> None:
        # The loop of this run may have ended by now.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._interrupt, wish)


_PARKED = Status.INPUT_REQUIRED
# An engine that ended so has no call open that nobody will make.
_WHOLE = (Status.COMPLETED, _PARKED)


class Session:
    """One session of a run: from its start, or from where its log stands, to a result.

    Args:
        plan: What to do.
        past: What earlier sessions logged; None for a new run.
        answers: What people answered since.
        epoch: Under which the log was claimed, None without a log.
        record: What stands for the world outside where a run is replayed; None is the world.
    """

    # What the run has in hand from the engine's end on.
    _told: AgentResult[Any]

    def __init__(
        self,
        plan: Plan,
        *,
        past: RunState | None = None,
        answers: tuple[AnyAnswer, ...] = (),
        epoch: int | None = None,
        record: Recording | None = None,
    ) -> None:
        self.plan = plan
        self._past = past
        self._answers = answers
        self._parts = parts = Equipment(plan, past, epoch, record)
        self.info: RunInfo = parts.info
        self.recorder: Recorder = parts.recorder
        self.phase: Phase = FIRST
        self._attempt, self._feedback = 1, ""
        self._verdict = ACCEPTED
        self._ending = COMPLETED
        self._interrupt: Interrupt | None = None
        self._committed = self._has_begun = False
        self._early: Interrupt | None = None
        self._has_hooks = bool(plan.observers or plan.deciders or plan.committers)
        # Whether nobody but the engine does anything in the run.
        self._is_alone = not self._has_hooks and plan.host is None and plan.prepare is None
        parent = plan.parent
        self._tie = parent and Tie(parent, plan.run_id, box=parts.box, interrupt=self.interrupt)

    # -- what others may do to a run in flight

    def interrupt(self, interrupt: Interrupt) -> None:
        """Wish that the run stop at its next safe point; after a grace it is cancelled."""
        if self._has_begun:
            self._parts.host.take_wish(interrupt)
        else:
            # Nothing of a run is logged before its beginning.
            self._early = self._early or interrupt

    def _heed(self, wish: Interrupt) -> None:
        """Begin to stop, whoever wished it: only the first wish comes by here."""
        parts = self._parts
        if not parts.scope.is_final:
            parts.box.caller.interrupt = wish
            parts.box.cancel()
            parts.scope.end_soon("interrupt")
            self._note_interrupt(wish)
            parts.scope.tell_inside(wish)

    def cancel_call(self, call_id: str) -> bool:
        """End one tool call; returns whether there was one under way."""
        return self._parts.box.cancel_call(call_id)

    def has_call(self, call_id: str) -> bool:
        """Whether such a tool call is under way; may be asked in any thread."""
        return self._parts.box.has_call(call_id)

    def end(self, reason: StopReason) -> None:
        """Cancel the engine; the run ends as *reason* says."""
        self._parts.scope.end(reason)

    @property
    def stop(self) -> StopReason:
        """Why the engine was cancelled from outside, "" if it was not."""
        return self._parts.scope.stop

    @property
    def is_bare(self) -> bool:
        """Whether nothing but the engine is ever waited for, and nobody listens."""
        journal = self.plan.journal
        is_instant = journal is None or is_safe_at_append(journal)
        return is_instant and self._is_alone and not anybody_listens()

    # -- the life

    async def live(self) -> AgentResult[Any]:
        """Live the run to its end; everything that can happen in it is in the result."""
        # What hooks start is inside the run too.
        hooks_in = None if self._is_alone else self._parts.parent(is_hooks=True)
        token = hooks_in and current_run.set(hooks_in)
        self._parts.host.on_wish = self._heed
        while (step := _STEPS.get(self.phase)) is not None:
            act, targets = step
            try:
                cue = await act(self)
            except BaseException as error:
                # The run's edge: observers, log and watchers learn of its end, whatever went wrong.
                if isinstance(error, GeneratorExit) and is_closing():
                    raise
                cue = self._take_fault(error)
            self.phase = targets[cue]
        self._parts.host.on_wish = None
        self._parts.scope.close()
        if self._tie is not None:
            self._tie.leave()
            self._tie = None
        if token is not None:
            current_run.reset(token)
        return self._told

    def _amend(self, result: AgentResult[Any], facts: dict[str, Any]) -> AgentResult[Any]:
        """*result* with some facts changed: another one, for hooks may hold what they saw."""
        if self._has_hooks or self._parts.redaction is not None:
            return self._hold(msgspec.structs.replace(result, **facts))
        for name, fact in facts.items():
            force_setattr(result, name, fact)
        return result

    def _hold(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """Keep *result* as the one that the run has in hand, without its secrets."""
        redaction = self._parts.redaction
        self._told = result if redaction is None else redaction.show_result(result)
        return self._told

    def _take_fault(self, error: BaseException) -> Cue:
        """A closing loop, a lost log or a fault of ours: the run still ends whole."""
        recorder, is_told = self.recorder, self.phase in (Phase.ENDING, Phase.CLOSING)
        if isinstance(error, asyncio.CancelledError):
            self._parts.scope.end("caller")
        elif recorder.is_lost or is_told:
            recorder.leave_journal()
        if not is_told:
            self._parts.need_board()
            result = self._parts.result(ending_of(self._parts, error))
            lines = tuple(self._parts.report.lines)
            self._hold(msgspec.structs.replace(result, attempt_log=lines))
            return BROKEN
        result = self._told
        if not isinstance(error, asyncio.CancelledError):
            lost = with_loss(self._parts, result, error, committed=self._committed)
            result = self._hold(lost)
        if self.phase is Phase.CLOSING and not recorder.is_settled:
            recorder.emit(RunSettled(result=result))
        return BROKEN

    # -- opening

    async def _open(self) -> Cue:
        past, plan = self._past, self.plan
        if self._tie is not None:
            self._tie.begin()
        if past is None:
            self._parts.start()
        else:
            self._parts.go_on(past, self._answers)
        self._has_begun = True
        if self._early is not None:
            self.interrupt(self._early)
        if self._tie is not None:
            self._tie.follow()
        if self._has_hooks:
            await self._parts.hooks.tell("on_run_start", plan.request)
        if past is None:
            return OPENED
        self._attempt, self._feedback = max(1, past.attempt), past.feedback
        if past.line is None:
            return OPENED
        if past.line.revise_reason:
            self._attempt, self._feedback = self._attempt + 1, past.line.feedback
            return OPENED
        self._recall(past)
        return RECALLED

    def _recall(self, past: RunState) -> None:
        """Take up a run whose last attempt had ended when its process did."""
        self._parts.board, line = past.board, past.line
        if line is not None and line.error is not None:
            wish = past.interrupt if line.status is Status.INTERRUPTED else None
            self._ending = Ending(status=line.status, error=line.error, interrupt=wish)
        self._verdict = Verdict()
        for decision in past.decisions:
            self._verdict.add(decision)
        self._told = self._parts.result(self._ending)

    # -- one attempt

    async def _prepare(self) -> Cue:
        """Seed a board, or take the logged one up."""
        past, parts = self._past, self._parts
        parts.begin_attempt(self._attempt, self._feedback)
        goes_on = past is not None and past.is_seeded and past.attempt == self._attempt
        if not goes_on:
            parts.ledger.turns_before = parts.ledger.turns
            self.recorder.handoff = None
            self.recorder.emit(AttemptStarted(feedback=self._feedback))
        if self._has_hooks:
            await parts.hooks.tell("on_attempt_start", self._attempt)
        too_deep = parts.ledger.too_deep(parts.depth)
        if too_deep is not None:
            return self._unprepared(Ending(status=Status.FAILED, error=too_deep))
        try:
            if past is not None and goes_on:
                parts.take_board(past)
            else:
                await seed(parts, self._attempt, self._feedback)
                if self._tie is not None:
                    self._tie.inherit_distrust()
        except Exception as error:
            if self.recorder.is_lost:
                raise
            # The host prepares the board; what it raises ends the run and nothing else.
            if isinstance(error, TimeoutError) and parts.scope.stop:
                return self._unprepared(ending_of(parts, error))
            failed = internal_error(error, Origin.HOST)
            forget_way(error, __file__, seed.__code__.co_filename)
            return self._unprepared(Ending(status=Status.FAILED, error=failed, exception=error))
        return PREPARED

    def _unprepared(self, ending: Ending) -> Cue:
        self._ending = ending
        self._parts.need_board()
        self._parts.report.show_handoff()
        return UNPREPARED

    async def _work(self) -> Cue:
        """Have the engine work on the board."""
        parts = self._parts
        _, error = await parts.scope.drive(work_on(parts))
        if parts.scope.abandoned:
            message = "the engine ignored its cancellation and was left behind"
            self.recorder.warn(RunWarning(code="abandoned", message=message, origin=Origin.ENGINE))
        if self._tie is not None:
            self._tie.bequeath_distrust()
        self._ending = ending = ending_of(parts, parts.conclude_board(error))
        if ending.status not in _WHOLE:
            await parts.close_calls()
        if ending.interrupt is not None:
            self._note_interrupt(ending.interrupt)
            await parts.hooks.tell("on_interrupt", ending.interrupt)
        parts.report.show_handoff()
        cue = cue_of_ending(ending.status)
        if cue is WAITS:
            # A parked attempt goes on in the next session, so the log has no end of it.
            result, state = parts.result(ending), parts.report.state
            note_verdict(state, self._verdict, result, is_last=False)
            result = self._hold(msgspec.structs.replace(result, state=dict(state)))
            await self._end_attempt(result)
        return cue

    def _note_interrupt(self, interrupt: Interrupt) -> None:
        if interrupt != self._interrupt:
            self._interrupt = interrupt
            self.recorder.emit(RunInterrupted(interrupt=interrupt))

    # -- what becomes of it

    async def _decide(self) -> Cue:
        parts = self._parts
        result = self._told = parts.result(self._ending)
        if self._has_hooks:
            self._verdict = await parts.hooks.before_finalize(self.plan.request, result)
            # A decider may have asked a model, in a run of its own.
            result = self._hold(parts.report.with_spent(result))
        elif result.handoff is None and not parts.report.state:
            # There is nothing to judge by.
            await self._end_attempt(result)
            return DECIDED
        return await self._judge(result)

    async def _judge(self, result: AgentResult[Any]) -> Cue:
        """Do what deciders want."""
        parts, verdict = self._parts, self._verdict
        is_last = self._attempt >= self.plan.max_attempts
        judged = judge(parts, result, verdict, is_last=is_last)
        result = self._hold(judged.result)
        if judged.stopped is not None and (wish := judged.stopped.interrupt) is not None:
            self._note_interrupt(wish)
            await parts.hooks.tell("on_interrupt", wish)
        again = judged.cue is REVISED
        self._feedback = verdict.feedback if again else ""
        reason = verdict.why or "revise" if again else ""
        await self._end_attempt(result, reason=reason, feedback=self._feedback)
        if again:
            await parts.hooks.tell("on_run_revise", result, self._attempt + 1)
            self._attempt += 1
        return judged.cue

    async def _end_attempt(
        self, result: AgentResult[Any], *, reason: str = "", feedback: str = ""
    ) -> None:
        report = self._parts.report
        report.line(result, reason=reason, feedback=feedback)
        if result.status is not _PARKED:
            self.recorder.emit(AttemptEnded(line=report.lines[-1], state=dict(report.state)))
        if self._has_hooks:
            await self._parts.hooks.tell("on_attempt_end", result)

    async def _commit(self) -> Cue:
        self._parts.scope.is_final = True
        event = self._past.committed if self._past is not None else None
        if event is None:
            told = self._told
            reason = reason_against(self._verdict, told.status)
            if not reason and self._has_hooks:
                reason = await self._parts.hooks.commit(self.plan.request, told)
            event = Committed(committed=not reason, reason=reason)
            self.recorder.emit(event)
        self._committed = event.committed
        return DISPOSED

    # -- the end

    async def _end(self) -> Cue:
        """Tell observers of the end, once."""
        parts = self._parts
        parts.scope.is_final = True
        if self.plan.host is not None:
            await hear_host(parts)
        parts.box.warn_of_leftovers()
        if (config := self.plan.request.config) is not None:
            for warning in refused_modes(self._told.artifacts, config):
                self.recorder.warn(warning)
        facts = {
            "committed": self._committed,
            "attempt_log": tuple(parts.report.lines),
            "warnings": tuple(self.recorder.warnings),
        }
        result = self._amend(self._told, facts)
        if result.local is not None:
            # Whoever still has the engine's board changes it and nothing that was returned.
            result.local.values["last_board"] = parts.board.hand_over()
        if self._has_begun and self._has_hooks:
            await parts.hooks.tell("on_run_end", result)
        return TOLD

    async def _close(self) -> Cue:
        """Tell watchers and log of the end, once."""
        result = self._told
        if len(self.recorder.warnings) != len(result.warnings):
            warnings = tuple(self.recorder.warnings)
            result = self._hold(msgspec.structs.replace(result, warnings=warnings))
        parts, cue = self._parts, CLOSED
        if result.status is _PARKED:
            cue = WAITS
        try:
            self.recorder.emit(RunSettled(result=result))
            await self.recorder.barrier()
        except JournalError as error:
            # Who looks on learns of the end all the same.
            cue, result = self._take_fault(error), self._told
        if self._tie is not None:
            self._tie.settle(result, parts.ledger.tool_calls)
        if self.plan.host is not None:
            await parts.host.drain(parts.scope.wait)
        return cue


# What is done in each phase; it returns what came of it.
_ACTS: dict[Phase, Callable[[Session], Awaitable[Cue]]] = {
    Phase.OPENING: Session._open,  # pyright: ignore[reportPrivateUsage]  # of this module
    Phase.PREPARING: Session._prepare,  # pyright: ignore[reportPrivateUsage]
    Phase.ATTEMPTING: Session._work,  # pyright: ignore[reportPrivateUsage]
    Phase.DECIDING: Session._decide,  # pyright: ignore[reportPrivateUsage]
    Phase.COMMITTING: Session._commit,  # pyright: ignore[reportPrivateUsage]
    Phase.ENDING: Session._end,  # pyright: ignore[reportPrivateUsage]
    Phase.CLOSING: Session._close,  # pyright: ignore[reportPrivateUsage]
}
# Beside that, where each cue leads to; a final phase has neither.
_STEPS = {phase: (act, NEXT[phase]) for phase, act in _ACTS.items()}
