"""The life of a run: from its first event to its last, whatever the engine does.

run_started -> attempt_started -> engine -> attempt_ended -+-> committed -> run_settled
                    ^                                      |
                    +---------------- revise --------------+
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ..contract import (
    OUTPUT_VAR,
    AgentError,
    AgentResult,
    AnyAnswer,
    Artifact,
    ArtifactStored,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    Committed,
    ErrorCode,
    Event,
    Interrupt,
    JsonObject,
    Origin,
    RunInfo,
    RunInterrupted,
    RunResumed,
    RunSettled,
    RunStarted,
    RunWarning,
    Status,
    to_free_json,
)
from ..contract import Board as BoardRole
from ..errors import JournalError
from ..tools import Toolbox
from .board import Board
from .callback import call
from .calls import ModelCaller
from .ending import Ending, StopReason, classify, internal_error
from .hooks import Hooks, Verdict
from .host import RunHost, Steps
from .ledger import Ledger, deadline_error
from .past import Past
from .plan import Parent, Plan
from .recorder import Recorder
from .report import Report
from .run import Run
from .scope import Scope, current_run
from .seed import seed_board

__all__ = ["Sitting"]

# Deciders' word and status that are committed; nothing else is.
_COMMITS = {
    ("accept", Status.COMPLETED),
    ("revise", Status.COMPLETED),
    ("keep_partial", Status.COMPLETED),
    ("keep_partial", Status.INTERRUPTED),
}


class Sitting:
    """One sitting of a run: from its start, or from where its log stands, to a result.

    Args:
        plan: What to do.
        past: What earlier sittings logged; None for a new run.
        answers: What people answered since.
        epoch: Under which the log was claimed, None without a log.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        past: Past | None = None,
        answers: tuple[AnyAnswer, ...] = (),
        epoch: int | None = None,
    ) -> None:
        self.plan = plan
        self.info = RunInfo(
            agent_id=plan.agent.id,
            run_id=plan.run_id,
            task_id=plan.request.task_id,
            context_id=plan.request.context_id,
        )
        self._past = past
        self._answers = answers
        parent = plan.parent
        self._depth = 0 if parent is None else parent.depth + 1
        self.recorder = Recorder(
            plan.run_id,
            clock=plan.clock,
            journal=plan.journal,
            epoch=epoch,
            seq=past.seq if past is not None else 0,
        )
        self.ledger = Ledger(
            plan.budget, clock=plan.clock, parent=None if parent is None else parent.ledger
        )
        self._hooks = Hooks(
            (*plan.agent.observers, *plan.observers),
            (*plan.agent.deciders, *plan.deciders),
            plan.committers,
            info=self.info,
            recorder=self.recorder,
        )
        self._caller = ModelCaller(
            recorder=self.recorder,
            ledger=self.ledger,
            hooks=self._hooks,
            retry=plan.retry,
            clock=plan.clock,
        )
        self._toolbox = self._make_toolbox()
        self._host = RunHost(
            plan.host,
            recorder=self.recorder,
            steps=past.steps if past is not None else Steps(),
            report=self._caller.note,
        )
        self._run = Run(
            plan, info=self.info, depth=self._depth, tools=self._toolbox, caller=self._caller
        )
        self._scope = Scope(plan.clock)
        self._report = Report(
            plan=plan,
            info=self.info,
            ledger=self.ledger,
            caller=self._caller,
            started_at=self._began(),
        )
        self._board = Board()

    # -- what others may do to a run in flight

    def interrupt(self, interrupt: Interrupt) -> None:
        """Wish that the run stop at its next safe point; after a grace it is cancelled."""
        if self._host.interrupt is None:
            self._host.interrupt = interrupt
            self.recorder.emit(RunInterrupted(interrupt=interrupt))
            self._toolbox.cancel()
            self._scope.end_soon("interrupt")

    def end(self, reason: StopReason) -> None:
        """Cancel the engine; the run ends as *reason* says."""
        self._scope.end(reason)

    # -- the life

    async def live(self) -> AgentResult[Any]:
        """Live the run to its end; everything that can happen in it is in the result."""
        try:
            return await self._live()
        except JournalError as error:
            # The log is gone, so nothing more can be logged; the caller still learns all.
            failed = AgentError(
                ErrorCode.INTERNAL, str(error), type="JournalError", origin=Origin.JOURNAL
            )
            return self._result(Ending(status=Status.FAILED, error=failed), 1)

    async def _live(self) -> AgentResult[Any]:
        await self._open()
        attempt = max(1, self._past.attempt) if self._past is not None else 1
        feedback = self._past.feedback if self._past is not None else ""
        while True:
            self.recorder.attempt = self._run.attempt = attempt
            self._run.feedback = feedback
            ending = await self._attempt(attempt, feedback)
            result = self._result(ending, attempt)
            verdict = await self._decide(result)
            result = self._after_verdict(result, verdict, attempt)
            again = self._wants_again(result, verdict, attempt)
            feedback = verdict.feedback if again else ""
            self._report.line(result, reason=verdict.reason if again else "", feedback=feedback)
            self.recorder.emit(
                AttemptEnded(line=self._report.lines[-1], state=dict(self._report.state))
            )
            await self._hooks.tell("on_attempt_end", result)
            if not again:
                return await self._settle(result, verdict)
            await self._hooks.tell("on_run_revise", result, attempt + 1)
            attempt += 1

    async def _open(self) -> None:
        past, plan = self._past, self.plan
        if past is None:
            self.recorder.emit(
                RunStarted(
                    agent=plan.agent.spec(),
                    request=plan.request,
                    parent_run_id=plan.parent_run_id,
                    depth=self._depth,
                    options=_logged_options(plan),
                    attributes=plan.attributes,
                )
            )
        else:
            self._take_up(past)
            self.recorder.emit(
                RunResumed(
                    answers=self._answers,
                    agent=plan.agent.spec(),
                    interrupted_calls=tuple(past.unsettled),
                )
            )
        await self._hooks.tell("on_run_start", plan.request)

    def _take_up(self, past: Past) -> None:
        """Go on with the account and the tools where earlier sittings left them."""
        for response in past.responses:
            self._caller.note(response)
        self.ledger.turns = past.turns
        self.ledger.since_mark()
        self._toolbox.restore(past.records)
        self._report.lines.extend(past.lines)
        self._report.state.update(past.state)
        self.recorder.warnings.extend(past.warnings)
        self.recorder.attempt = past.attempt
        # A script has a place; it goes on after the replies that the log holds.
        go_on_after = getattr(self.plan.model, "go_on_after", None)
        if callable(go_on_after):
            go_on_after(past.responses, conversation=past.board.messages())

    # -- one attempt

    async def _attempt(self, attempt: int, feedback: str) -> Ending:
        """Seed a board, or take the logged one up, and have the engine work on it."""
        too_deep = self._too_deep()
        if too_deep is not None:
            return Ending(status=Status.FAILED, error=too_deep)
        try:
            await self._seed(attempt, feedback)
        except JournalError:
            raise
        except Exception as error:
            # The host prepares the board; what it raises ends the run and nothing else.
            failed = internal_error(error, Origin.HOST)
            return Ending(status=Status.FAILED, error=failed, exception=error)
        await self._hooks.tell("on_attempt_start", attempt)
        value, error = await self._scope.drive(self._execute(), deadline=self.ledger.deadline)
        if self._scope.abandoned:
            message = "the engine ignored its cancellation and was left behind"
            self.recorder.warn(RunWarning(code="abandoned", message=message, origin=Origin.ENGINE))
        ending = classify(
            error,
            stop=self._scope.stop,
            interrupt=self._host.interrupt,
            deadline=deadline_error(self.plan.budget),
        )
        if ending.interrupt is not None:
            await self._hooks.tell("on_interrupt", ending.interrupt)
        if error is None:
            self._take_answer(value)
        return ending

    async def _seed(self, attempt: int, feedback: str) -> None:
        past = self._past
        if past is not None and past.is_seeded and past.attempt == attempt:
            self._board = past.board
            self._run.settled = {key: record.outcome for key, record in past.settled.items()}
            self._run.unsettled = dict(past.unsettled)
            self._run.reply = past.reply
            self._board.watch(self.recorder.emit)
            return
        self._board = await seed_board(self.plan, self.info, feedback=feedback)
        self.recorder.emit(AttemptStarted(feedback=feedback))
        snapshot = self._board.snapshot()
        for channel, messages in snapshot.channels.items():
            self.recorder.emit(BoardChanged(channel=channel, messages=messages, seeded=True))
        if snapshot.variables or not snapshot.channels:
            self.recorder.emit(BoardChanged(variables=snapshot.variables, seeded=True))
        self._toolbox.new_turn()
        self._board.watch(self.recorder.emit)

    async def _execute(self) -> object:
        current_run.set(
            Parent(
                run_id=self.info.run_id,
                depth=self._depth,
                ledger=self.ledger,
                journal=self.plan.journal,
            )
        )
        self._run.instructions = await self._instructions()
        engine = cast("Any", self.plan.engine)
        return await engine.execute(self._run, self._host, self._board)

    async def _instructions(self) -> str | None:
        asked = self.plan.agent.instructions
        return await call(asked, self._run) if callable(asked) else asked

    def _take_answer(self, value: object) -> None:
        """What an engine returned: its board, nothing, or a value that becomes the output."""
        if value is None:
            return
        if isinstance(value, Board) or (hasattr(value, "snapshot") and hasattr(value, "messages")):
            board: BoardRole = value  # pyright: ignore[reportAssignmentType]  # by its methods
            self._board.adopt(board)
        else:
            self._board.set(OUTPUT_VAR, to_free_json(value)[0])

    # -- the end

    async def _decide(self, result: AgentResult[Any]) -> Verdict:
        if result.status is Status.INPUT_REQUIRED:
            return Verdict()
        return await self._hooks.before_finalize(self.plan.request, result)

    def _after_verdict(
        self, result: AgentResult[Any], verdict: Verdict, attempt: int
    ) -> AgentResult[Any]:
        state = self._report.state
        state.update(verdict.state)
        if verdict.reason and "finalize_reason" not in state:
            state["finalize_reason"] = verdict.reason
        if verdict.word == "revise" and result.success and attempt >= self.plan.max_attempts:
            state["revise_exhausted"] = True
        if verdict.error is not None:
            return msgspec.structs.replace(
                result, status=Status.FAILED, error=verdict.error, state=dict(state)
            )
        return msgspec.structs.replace(result, state=dict(state)) if state else result

    def _wants_again(self, result: AgentResult[Any], verdict: Verdict, attempt: int) -> bool:
        return (
            verdict.word == "revise"
            and verdict.error is None
            and result.status is Status.COMPLETED
            and attempt < self.plan.max_attempts
        )

    async def _settle(self, result: AgentResult[Any], verdict: Verdict) -> AgentResult[Any]:
        reason = verdict.reason or str(result.status)
        committed = verdict.error is None and (verdict.word, result.status) in _COMMITS
        if committed:
            reason = await self._hooks.commit(self.plan.request, result)
            committed = not reason
        if result.status is not Status.INPUT_REQUIRED:
            self.recorder.emit(Committed(committed=committed, reason=reason))
        result = msgspec.structs.replace(
            result,
            committed=committed,
            attempt_log=tuple(self._report.lines),
            warnings=tuple(self.recorder.warnings),
        )
        await self._hooks.tell("on_run_end", result)
        if len(self.recorder.warnings) != len(result.warnings):
            result = msgspec.structs.replace(result, warnings=tuple(self.recorder.warnings))
        self.recorder.emit(RunSettled(result=result))
        await self.recorder.barrier()
        return result

    # -- parts

    def _result(self, ending: Ending, attempt: int) -> AgentResult[Any]:
        return self._report.result(
            ending,
            self._board,
            attempt=attempt,
            records=self._toolbox.records,
            warnings=self.recorder.warnings,
        )

    def _too_deep(self) -> AgentError | None:
        limit = self.plan.budget.max_depth
        if limit is None or self._depth <= limit:
            return None
        return AgentError(
            ErrorCode.BUDGET_EXCEEDED,
            f"A run may start runs {limit} deep, and this one is {self._depth} deep: "
            "raise Budget(max_depth=).",
            origin=Origin.LIMIT,
            details={"dimension": "depth", "limit": limit, "used": self._depth},
        )

    def _began(self) -> Any:
        started = self._past.started if self._past is not None else None
        return (started.time if started is not None else None) or self.plan.clock.now()

    def _make_toolbox(self) -> Toolbox:
        plan = self.plan
        return Toolbox(
            plan.tools,
            budget=plan.budget,
            policy=plan.policy,
            approve=plan.approve,
            artifacts=plan.artifact_store,
            secrets=plan.secrets,
            clock=plan.clock,
            identity=self.info,
            parent_run_id=plan.parent_run_id,
            dependencies=plan.dependencies,
            emit=self._emit_of_tools,
            barrier=self.recorder.barrier,
        )

    def _emit_of_tools(self, event: Event) -> None:
        if isinstance(event, ArtifactStored):
            self._report.stored.append(
                Artifact(event.artifact.name or event.call_id, (event.artifact,))
            )
        self.recorder.emit(event)


def _logged_options(plan: Plan) -> JsonObject:
    options: JsonObject = {"max_attempts": plan.max_attempts}
    if plan.model is not None:
        options["model"] = plan.model.name
    if plan.launch:
        options["launch"] = plan.launch
    return options
