"""One session of a run, from its start or resume to a result. Its phases are a table.

A session is in one phase at a time. Each phase ends with a cue (an event of the state machine), and
the table maps phase and cue to the next phase. Nothing else knows the order of the phases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import force_setattr, replace

from upshot.contract.agent_spec import HANDOFF_STATE_KEY
from upshot.contract.base.enums import Origin, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.secrets import MARKS_OPTION
from upshot.contract.error import RunWarning
from upshot.contract.events import (
    AttemptEnded,
    AttemptStarted,
    Committed,
    RunInterrupted,
    RunResumed,
    RunSettled,
    RunStarted,
    StepStarted,
)
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import is_safe_at_append
from upshot.contract.result import AgentResult, AttemptLine
from upshot.contract.run_control import Interrupt
from upshot.errors import JournalError
from upshot.runs.attempt import (
    build_result,
    close_calls,
    conclude_board,
    ending_of,
    facts_at_end,
    log_waits,
    report_to_parent,
    restore_board,
    seed,
    settle_earlier,
    settle_lost_calls,
    warn_of_artifacts,
    work_on,
)
from upshot.runs.callbacks import forget_way, is_closing
from upshot.runs.dependencies import close_dependencies, open_dependencies
from upshot.runs.ending import COMPLETED, Ending, error_of
from upshot.runs.engine_api.exceptions import Interrupted
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.plan import Plan
from upshot.runs.recorder import anybody_listens
from upshot.runs.redaction import COUNT_OPTION, in_order, marks_for
from upshot.runs.release import handle_parent_signal, leave
from upshot.runs.replay.recording import Recording
from upshot.runs.resumption import changes_since, log_answers, taint_in
from upshot.runs.run_context import RunContext, current_run, inherit_taint
from upshot.runs.services import hooks
from upshot.runs.services.hooks import (
    ACCEPTED,
    Verdict,
    note_verdict,
    verdict_of,
    wants_revision,
    with_verdict,
    without_refused,
)
from upshot.runs.services.model_caller import count_conversation
from upshot.runs.services.run_tools import restore_progress
from upshot.runs.services.unknown_effects import find_settled, store_end
from upshot.state.board import Board
from upshot.state.child_runs import step_of
from upshot.state.run_state import RunState


class _FastEnum(StrEnum):
    # Enum.__hash__ is pure Python and slow; every step of every run hashes these.
    __hash__ = str.__hash__


class Phase(_FastEnum):
    """The phase that a session is in."""

    OPENING = "opening"
    PREPARING = "preparing"
    ATTEMPTING = "attempting"
    DECIDING = "deciding"
    COMMITTING = "committing"
    ENDING = "ending"
    CLOSING = "closing"
    PARKED = "parked"
    SETTLED = "settled"


class Cue(_FastEnum):
    """How a phase ended."""

    OPENED = "opened"
    RECALLED = "recalled"
    PREPARED = "prepared"
    UNPREPARED = "unprepared"
    WORKED = "worked"
    WAITS = "waits"
    REVISED = "revised"
    DECIDED = "decided"
    RELEASED = "released"
    DISPOSED = "disposed"
    NOTIFIED = "notified"
    CLOSED = "closed"
    RESUMED = "resumed"
    BROKEN = "broken"


# Module constants: in Python 3.11, looking a member up on its enum class is slow.
OPENED = Cue.OPENED
RECALLED = Cue.RECALLED
PREPARED = Cue.PREPARED
UNPREPARED = Cue.UNPREPARED
WORKED = Cue.WORKED
WAITS = Cue.WAITS
REVISED = Cue.REVISED
DECIDED = Cue.DECIDED
RELEASED = Cue.RELEASED
DISPOSED = Cue.DISPOSED
NOTIFIED = Cue.NOTIFIED
CLOSED = Cue.CLOSED
RESUMED = Cue.RESUMED
BROKEN = Cue.BROKEN


class Row(NamedTuple):
    """One transition.

    Attributes:
            source: The phase that the session is in.
            cue: How that phase ended.
            target: The phase that follows.
            when: When the phase ends with this cue, in words for the documentation.
    """

    source: Phase
    cue: Cue
    target: Phase
    when: str


FIRST = Phase.OPENING
FINAL = frozenset({Phase.PARKED, Phase.SETTLED})

_BROKEN = "the log is lost, the loop closes, or upshot has a fault"

ROWS = (
    Row(Phase.OPENING, OPENED, Phase.PREPARING, "an attempt starts or continues"),
    Row(Phase.OPENING, RECALLED, Phase.COMMITTING, "the log shows how the last attempt ended"),
    Row(Phase.OPENING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.PREPARING, PREPARED, Phase.ATTEMPTING, "the board is ready"),
    Row(
        Phase.PREPARING,
        UNPREPARED,
        Phase.DECIDING,
        "the seeder raised, the run is too deep, or it got no turn",
    ),
    Row(Phase.PREPARING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.ATTEMPTING, WORKED, Phase.DECIDING, "the engine ended, with or without an error"),
    Row(Phase.ATTEMPTING, WAITS, Phase.ENDING, "the run waits for an answer"),
    Row(Phase.ATTEMPTING, RELEASED, Phase.CLOSING, "the run is left to another session"),
    Row(Phase.ATTEMPTING, BROKEN, Phase.ENDING, _BROKEN),
    Row(
        Phase.DECIDING,
        REVISED,
        Phase.PREPARING,
        "a decider wants a revision, and an attempt is left",
    ),
    Row(Phase.DECIDING, DECIDED, Phase.COMMITTING, "otherwise"),
    Row(Phase.DECIDING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.COMMITTING, DISPOSED, Phase.ENDING, "committed, or not"),
    Row(Phase.COMMITTING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.ENDING, NOTIFIED, Phase.CLOSING, "observers were notified of the end"),
    Row(Phase.ENDING, BROKEN, Phase.CLOSING, f"{_BROKEN}; no observer is called twice"),
    Row(Phase.CLOSING, CLOSED, Phase.SETTLED, "the result is in the log, and final"),
    Row(Phase.CLOSING, WAITS, Phase.PARKED, "the log says that it waits, or was released"),
    Row(Phase.CLOSING, BROKEN, Phase.SETTLED, "the end could not be logged"),
    Row(Phase.PARKED, RESUMED, Phase.OPENING, "another session resumes it"),
)

# The next phase, by phase and cue.
NEXT = {phase: {row.cue: row.target for row in ROWS if row.source is phase} for phase in Phase}


def cue_of_ending(status: Status) -> Cue:
    """Return the cue for the engine's status. Only a parked run skips deciders and committers."""
    return WAITS if status is _PARKED else WORKED


def cue_of_verdict(*, wants_revision: bool, is_last: bool) -> Cue:
    """Return the cue for the deciders' verdict.

    Args:
        wants_revision: Whether the deciders want a completed attempt revised.
        is_last: Whether this is the last allowed attempt.
    """
    return REVISED if wants_revision and not is_last else DECIDED


# The pairs of verdict and status that are committed.
_COMMITS = {
    ("accept", Status.COMPLETED),
    ("revise", Status.COMPLETED),
    ("keep_partial", Status.COMPLETED),
    ("keep_partial", Status.INTERRUPTED),
}


def reason_against(verdict: Verdict, status: Status) -> str:
    """Return why a run with this verdict and *status* is not committed, or "" if it is."""
    if verdict.error is None and (verdict.word, status) in _COMMITS:
        return ""
    return (verdict.word in ("discard", "refuse") and verdict.why) or str(status)


_PARKED = Status.INPUT_REQUIRED
# With these statuses, the engine left no call that needs an outcome from the session.
_WHOLE = (Status.COMPLETED, _PARKED)


_OTHER_SECRETS = RunWarning(
    code="secrets_changed",
    message=(
        "the run was resumed without its secrets, or with others: the marks in its log stay "
        "masked, also for the model and the tools. Pass the same secrets= again"
    ),
    origin=Origin.CALLER,
)


def _log_start(context: RunContext) -> None:
    """Log the start of the run."""
    plan = context.plan
    # Building the options takes time; skip it when nothing reads the log.
    options = plan.logged_options() if context.recorder.is_heard else {}
    if plan.secrets:
        options[COUNT_OPTION] = len(in_order(plan.secrets))
    context.recorder.emit(
        RunStarted(
            agent=plan.spec,
            request=plan.request,
            parent_run_id=plan.parent_run_id,
            depth=context.depth,
            options=options,
            attributes=plan.attributes,
        )
    )
    if context.state.started_at is None:
        context.state.started_at = plan.clock.now()
    for warning in plan.warnings:
        context.recorder.warn(warning)


def _log_resume(context: RunContext, answers: Sequence[AnyAnswer]) -> None:
    """Log that the run was resumed, and the answers given since."""
    plan, state = context.plan, context.state
    started = state.started or RunStarted()
    changes = (*plan.warnings, *changes_since(state, plan))
    restore_progress(context)
    context.recorder.emit(
        RunResumed(
            agent=plan.spec,
            options=plan.logged_options(),
            interrupted_calls=tuple(state.unsettled),
        )
    )
    for end in state.ends_found:
        # The earlier process died after the child run had ended and before this log said so.
        context.recorder.emit(end)
    log_answers(answers, context.recorder)
    if (taint := taint_in(state)) is not None:
        context.distrust(taint)
    if MARKS_OPTION in started.options and not marks_for(plan.secrets, started):
        context.recorder.warn(_OTHER_SECRETS)
    for warning in changes:
        context.recorder.warn(warning)


class Session:
    """One session of a run: works from the start, or from the end of its log, to a result.

    Args:
        plan: What to run, and with what.
        past: The state folded from earlier sessions; None for a new run.
        answers: Answers given since the last session.
        epoch: The epoch under which the log was claimed; None without a log.
        recording: Replaces models, tools and users in a replay; None for a real run.
    """

    # The current result; set when the engine ends.
    _result: AgentResult[Any]
    # Made when another task waits for the end of the session.
    _ended: asyncio.Event | None = None

    def __init__(
        self,
        plan: Plan,
        *,
        past: RunState | None = None,
        answers: tuple[AnyAnswer, ...] = (),
        epoch: int | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.plan = plan
        self.context: RunContext = RunContext(plan, past, epoch, recording)
        self.phase: Phase = FIRST
        self._is_resumed = past is not None
        self._answers = answers
        self._run = Run(self.context, is_resumed=self._is_resumed)
        self._host = RunHost(self.context, self._run)
        self._attempt, self._feedback = 1, ""
        self._verdict = ACCEPTED
        self._ending = COMPLETED
        self._interrupt: Interrupt | None = None
        self._committed = self._has_begun = False
        self._early: Interrupt | None = None
        self._leave_parent: Callable[[], None] | None = None
        self._has_hooks = bool(plan.observers or plan.deciders or plan.committers)
        # Whether the run has no hooks and no host: only the engine's own code runs in it.
        self._is_alone = not self._has_hooks and plan.host is None and not plan.is_prepared
        self.context.look_for_interrupt = self._host.look
        if plan.budget.scope == "conversation":
            count_conversation(self.context)
        if plan.host is not None and not _has_parents_host(self.context):
            self.context.budget.tell = self._host.usage_listener()

    # -- control of a run in progress

    def interrupt(self, interrupt: Interrupt) -> None:
        """Ask the run to stop at its next safe point. After a grace period it is cancelled."""
        if self._has_begun:
            self.context.ask_to_stop(interrupt)
        else:
            # RunStarted must be the first event of the log; _open repeats the request after it.
            self._early = self._early or interrupt

    def _start_stopping(self, interrupt: Interrupt) -> None:
        """Start stopping the run. Called once, for the first request."""
        context = self.context
        if not context.supervisor.is_final:
            if context.toolbox is not None:
                context.toolbox.cancel(running=False)
            context.supervisor.end_soon("interrupt", self._host.writes_in_hand)
            self._log_interrupt(interrupt)
            context.supervisor.notify_child_runs(interrupt)

    @property
    def is_bare(self) -> bool:
        """Whether only the engine can make the run wait, and no process-wide listener is set."""
        journal = self.plan.journal
        is_instant = journal is None or is_safe_at_append(journal)
        return is_instant and self._is_alone and not anybody_listens()

    # -- the session

    async def run(self) -> AgentResult[Any]:
        """Run the session to its end. Returns a result whatever happens; it contains any error."""
        context = self.context
        # Runs that hooks start are child runs too.
        token = None if self._is_alone else current_run.set(context.link(is_hooks=True))
        context.on_interrupt = self._start_stopping
        while (step := _STEPS.get(self.phase)) is not None:
            act, targets = step
            try:
                cue = await act(self)
            except BaseException as error:
                # The run's edge: observers, log and watchers learn of the end, whatever was raised.
                if isinstance(error, GeneratorExit) and is_closing():
                    raise
                cue = self._recover_from(error)
            self.phase = targets[cue]
        context.close()
        if self._leave_parent is not None:
            self._leave_parent()
            self._leave_parent = None
        if token is not None:
            current_run.reset(token)
        if self._ended is not None:
            self._ended.set()
        return self._result

    async def wait_for_result(self) -> AgentResult[Any]:
        """Wait for the result of this session while another task runs it."""
        if self.phase not in FINAL:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()
        return self._result

    def _change_result(self, facts: dict[str, Any]) -> None:
        """Change some fields of the result. Copies it if hooks may still refer to the old one."""
        if self._has_hooks or self.context.redaction is not None:
            self._set_result(replace(self._result, **facts))
            return
        for name, fact in facts.items():
            force_setattr(self._result, name, fact)

    def _set_result(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """Make *result*, with its secrets masked, the current result."""
        redaction = self.context.redaction
        self._result = result if redaction is None else redaction.show_result(result)
        return self._result

    def _recover_from(self, error: BaseException) -> Cue:
        """Turn a cancellation, a lost log or a fault of ours into BROKEN, with a result."""
        context, is_told = self.context, self.phase in (Phase.ENDING, Phase.CLOSING)
        recorder, is_cancel = context.recorder, isinstance(error, asyncio.CancelledError)
        if is_cancel:
            context.supervisor.end("caller")
        elif recorder.is_lost or is_told:
            recorder.leave_journal()
        if not is_told:
            settle_lost_calls(context)
            self._set_result(build_result(context, ending_of(context, self._host, error)))
            return BROKEN
        if not is_cancel:
            self._warn_of_loss(error)
        if self.phase is Phase.CLOSING and not recorder.is_settled:
            recorder.emit(RunSettled(result=self._result))
        return BROKEN

    def _warn_of_loss(self, error: BaseException) -> None:
        """Add a warning to the result: the end was not logged, or observers missed it."""
        state = self.context.state
        origin = Origin.JOURNAL if isinstance(error, JournalError) else Origin.HOST
        lost = RunWarning(code="journal_failed", message=str(error), origin=origin)
        self.context.recorder.warn(lost)
        # The recorder ignores warnings after the last event, so add it to the result as well.
        warnings = tuple(dict.fromkeys((*state.warnings, lost)))
        lines = self._result.attempt_log or tuple(state.lines)
        self._set_result(
            replace(self._result, committed=self._committed, attempt_log=lines, warnings=warnings)
        )

    # -- opening

    async def _open(self) -> Cue:
        context, parent = self.context, self.context.parent
        if parent is not None:
            # Log it in the parent before this run's log starts: after a crash, the parent must know
            # that this run may exist.
            parent.log(StepStarted(key=step_of(self.plan.run_id)))
        if self._is_resumed:
            _log_resume(context, self._answers)
        else:
            _log_start(context)
        self._has_begun = True
        if self._early is not None:
            self.interrupt(self._early)
        if parent is not None:
            self._leave_parent = parent.follow(
                partial(handle_parent_signal, self), self._host.writes_in_hand
            )
        if self._has_hooks:
            await hooks.notify_observers(context, "on_run_start", self.plan.request)
        state = context.state
        if not self._is_resumed:
            return OPENED
        self._attempt, self._feedback = max(1, state.attempt), state.feedback
        if state.line is None:
            await find_settled(context)
            return OPENED
        if state.line.revise_reason:
            self._attempt, self._feedback = self._attempt + 1, state.line.feedback
            return OPENED
        self._restore_ending(state.line)
        return RECALLED

    def _restore_ending(self, line: AttemptLine) -> None:
        """Restore the ending and the verdict of an attempt that ended before its process died."""
        state = self.context.state
        if line.error is not None:
            interrupt = state.interrupt if line.status is Status.INTERRUPTED else None
            self._ending = Ending(status=line.status, error=line.error, interrupt=interrupt)
        self._verdict = verdict_of(state.decisions)
        self._result = without_refused(build_result(self.context, self._ending), self._verdict)

    # -- one attempt

    async def _prepare(self) -> Cue:
        """Seed a new board, or continue with the logged one."""
        context, recorder, budget = self.context, self.context.recorder, self.context.budget
        state, attempt = context.state, self._attempt
        recorder.attempt = attempt
        goes_on = self._is_resumed and state.is_seeded and state.attempt == attempt
        if not goes_on:
            budget.turns_before = budget.turns
            if attempt > 1 or self._is_resumed:
                # Code that still has the board of an earlier attempt must not change this one.
                state.board.watch(None)
                state.board = Board()
            recorder.emit(AttemptStarted(feedback=self._feedback))
        self._run.begin_attempt(attempt, self._feedback)
        if self._has_hooks:
            await hooks.notify_observers(context, "on_attempt_start", attempt)
        refusal = self.plan.conflict or budget.too_deep(context.depth)
        if refusal is not None:
            return self._end_unprepared(Ending(status=Status.FAILED, error=refusal))
        try:
            if self.plan.dependency_factory is not None:
                self._run.depend_on(await open_dependencies(context))
            if goes_on:
                restore_board(context, self._run)
            else:
                await seed(context, attempt, self._feedback)
            inherit_taint(context)
        except Exception as error:
            if recorder.is_lost:
                raise
            # Seeders and factories are user code: an exception in them fails only this run.
            if isinstance(error, TimeoutError) and context.supervisor.stop:
                return self._end_unprepared(ending_of(context, self._host, error))
            failed = error_of(error, Origin.HOST)
            forget_way(error, __file__, seed.__code__.co_filename)
            return self._end_unprepared(Ending(status=Status.FAILED, error=failed, exception=error))
        return PREPARED

    def _end_unprepared(self, ending: Ending) -> Cue:
        self._ending = ending
        self._set_handoff_fact()
        return UNPREPARED

    async def _work(self) -> Cue:
        """Run the engine on the board."""
        context, supervisor = self.context, self.context.supervisor
        error, is_left = None, context.release is not None
        if not is_left:
            _, error = await supervisor.drive(work_on(context, self._run, self._host))
        if is_left or context.recorder.only is not None:
            self._set_result(build_result(context, await leave(context)))
            return RELEASED
        if supervisor.abandoned:
            message = "the engine ignored its cancellation and was abandoned"
            warning = RunWarning(code="abandoned", message=message, origin=Origin.ENGINE)
            context.recorder.warn(warning)
        if context.parent is not None and (taint := context.state.taint) is not None:
            context.parent.distrust(taint.seen_from(context.info.run_id))
        error = conclude_board(context, error)
        self._ending = ending = ending_of(context, self._host, error)
        if ending.status not in _WHOLE:
            await close_calls(context, self._run)
        if self._is_resumed:
            settle_earlier(context, self._run, ending)
        if ending.interrupt is not None:
            self._log_interrupt(ending.interrupt)
            await hooks.notify_observers(context, "on_interrupt", ending.interrupt)
        self._set_handoff_fact()
        cue = cue_of_ending(ending.status)
        if cue is WAITS:
            # The attempt continues in the next session, so its end is not logged.
            self._ending = ending = log_waits(context, ending)
            result = build_result(context, ending)
            note_verdict(context.facts, self._verdict, result, is_last=False)
            result = self._set_result(replace(result, state=dict(context.facts)))
            await self._end_attempt(result)
        return cue

    def _set_handoff_fact(self) -> None:
        """Set the accepted handoff in the facts, or remove an earlier one."""
        facts, handoff = self.context.facts, self.context.state.handoff
        if facts:
            facts.pop(HANDOFF_STATE_KEY, None)
        if handoff is not None:
            facts[HANDOFF_STATE_KEY] = to_free_json(handoff)[0]

    def _log_interrupt(self, interrupt: Interrupt) -> None:
        if interrupt != self._interrupt:
            self._interrupt = interrupt
            self.context.recorder.emit(RunInterrupted(interrupt=interrupt))

    # -- deciding and committing

    async def _decide(self) -> Cue:
        context = self.context
        result = self._result = build_result(context, self._ending)
        if self._has_hooks:
            self._verdict = await hooks.before_finalize(context, self.plan.request, result)
            usage, cost = context.budget.total
            if usage != result.usage or cost != result.cost:
                # A decider called a model in a run of its own; include that usage.
                result = self._set_result(replace(result, usage=usage, cost=cost))
        elif result.handoff is None and not context.facts:
            # No hooks, handoff or facts: there is nothing to decide.
            await self._end_attempt(result)
            return DECIDED
        return await self._judge(result)

    async def _judge(self, result: AgentResult[Any]) -> Cue:
        """Apply the deciders' verdict."""
        context, verdict = self.context, self._verdict
        is_last = self._attempt >= self.plan.max_attempts
        note_verdict(context.facts, verdict, result, is_last=is_last)
        stopped = self._ending_if_stopped() if context.supervisor.stop else None
        error = result.error
        if error is not None and verdict.error is not None and not verdict.was_cut:
            # The decider's error replaces this one, so keep this one as a warning.
            warning = RunWarning(code=error.code, message=error.message, origin=error.origin)
            context.recorder.warn(warning)
        result = self._set_result(with_verdict(result, verdict, context.facts, stopped=stopped))
        cue = cue_of_verdict(wants_revision=wants_revision(verdict, result), is_last=is_last)
        if cue is REVISED and (context.supervisor.stop or context.interrupt is not None):
            result, cue = await self._stop_before_revision(result), DECIDED
        again = cue is REVISED
        self._feedback = verdict.feedback if again else ""
        reason = verdict.why or "revise" if again else ""
        await self._end_attempt(result, reason=reason, feedback=self._feedback)
        if again:
            await hooks.notify_observers(context, "on_run_revise", result, self._attempt + 1)
            self._attempt += 1
        return cue

    def _ending_if_stopped(self) -> Ending:
        return ending_of(self.context, self._host, TimeoutError())

    async def _stop_before_revision(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """Replace a wanted revision by the ending of the stop that came before it."""
        context, asked = self.context, self.context.interrupt
        if context.supervisor.stop:
            ending = self._ending_if_stopped()
        else:
            why = Interrupted() if asked is None else Interrupted(asked.cause, asked.detail)
            ending = ending_of(context, self._host, why)
        facts: dict[str, Any] = {"status": ending.status, "error": ending.error}
        if ending.interrupt is not None:
            facts |= {"cause": ending.interrupt.cause, "detail": ending.interrupt.detail}
        result = self._set_result(replace(result, **facts))
        if ending.interrupt is not None:
            self._log_interrupt(ending.interrupt)
            await hooks.notify_observers(context, "on_interrupt", ending.interrupt)
        return result

    async def _end_attempt(
        self, result: AgentResult[Any], *, reason: str = "", feedback: str = ""
    ) -> None:
        context = self.context
        usage, cost = context.budget.since_mark()
        # Usage and cost of this attempt alone.
        line = AttemptLine(
            attempt=result.attempts,
            status=result.status,
            error=result.error,
            usage=usage,
            cost=cost,
            content=result.content,
            revise_reason=reason,
            feedback=feedback,
        )
        if result.status is _PARKED:
            self._change_result({"attempt_log": (*context.state.lines, line)})
        else:
            context.recorder.emit(AttemptEnded(line=line, state=dict(context.facts)))
        if self._has_hooks:
            await hooks.notify_observers(context, "on_attempt_end", result)

    async def _commit(self) -> Cue:
        context = self.context
        context.supervisor.is_final = True
        # An earlier session may have committed and then died; do not run committers twice.
        event = context.state.committed if self._is_resumed else None
        if event is None:
            reason = reason_against(self._verdict, self._result.status)
            if not reason and self._has_hooks:
                reason = await hooks.commit(context, self.plan.request, self._result)
            event = Committed(committed=not reason, reason=reason)
            context.recorder.emit(event)
        self._committed = event.committed
        return DISPOSED

    # -- the end

    async def _end(self) -> Cue:
        """Notify observers of the end, once."""
        context, state = self.context, self.context.state
        context.supervisor.is_final = True
        if context.opened is not None:
            await close_dependencies(context)
        if self.plan.host is not None:
            await self._drain_host()
        if context.toolbox is not None:
            context.toolbox.warn_of_leftovers()
        if self.plan.artifacts or self.plan.request.config is not None:
            warn_of_artifacts(context, self._result)
        self._change_result(facts_at_end(context, self._result, committed=self._committed))
        if self._result.local is not None:
            # Code that still has the engine's board must not change the returned one.
            self._result.local.values["last_board"] = state.board.hand_over()
        if self._has_begun and self._has_hooks:
            await hooks.notify_observers(context, "on_run_end", self._result)
        return NOTIFIED

    async def _drain_host(self) -> None:
        """Wait for the user's host to finish, so that its errors are in the result."""
        supervisor = self.context.supervisor
        # What is left of a stopped run's time is for its observers.
        if supervisor.is_stopped():
            return
        try:
            await self._host.drain_host(supervisor.wait)
        except asyncio.CancelledError:
            # The event loop is closing; observers are still notified.
            supervisor.end("caller")

    async def _close(self) -> Cue:
        """Log the end and notify watchers, once."""
        context, warnings = self.context, self.context.state.warnings
        if len(warnings) != len(self._result.warnings):
            self._set_result(replace(self._result, warnings=tuple(warnings)))
        released = context.release if context.is_left else None
        cue = WAITS if released is not None or self._result.status is _PARKED else CLOSED
        try:
            context.recorder.emit(released or RunSettled(result=self._result))
            await store_end(context, self._result.pending)
        except JournalError as error:
            # Watchers are still notified.
            cue = self._recover_from(error)
        if released is None and context.parent is not None:
            report_to_parent(context.parent, context, self._result)
        if self.plan.host is not None:
            await self._host.drain(context.supervisor.wait)
        return cue


def _has_parents_host(context: RunContext) -> bool:
    """Whether a parent run has the same host, which then gets this run's usage through it."""
    parent = context.parent
    while parent is not None:
        if parent.context.plan.host is context.plan.host:
            return True
        parent = parent.context.parent
    return False


# The method of each phase; it returns the cue.
_ACTS: dict[Phase, Callable[[Session], Awaitable[Cue]]] = {
    Phase.OPENING: Session._open,  # pyright: ignore[reportPrivateUsage]  # of this module
    Phase.PREPARING: Session._prepare,  # pyright: ignore[reportPrivateUsage]
    Phase.ATTEMPTING: Session._work,  # pyright: ignore[reportPrivateUsage]
    Phase.DECIDING: Session._decide,  # pyright: ignore[reportPrivateUsage]
    Phase.COMMITTING: Session._commit,  # pyright: ignore[reportPrivateUsage]
    Phase.ENDING: Session._end,  # pyright: ignore[reportPrivateUsage]
    Phase.CLOSING: Session._close,  # pyright: ignore[reportPrivateUsage]
}
# The method of each phase and where its cues lead. Final phases have no entry.
_STEPS = {phase: (act, NEXT[phase]) for phase, act in _ACTS.items()}
