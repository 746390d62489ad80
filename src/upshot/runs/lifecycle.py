"""The life of a run: from its first event to its last, whatever the engine does.

run_started -> attempt_started -> engine -> attempt_ended -+-> committed -> run_settled
                    ^                                      |
                    +---------------- revise --------------+
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, cast

import msgspec

from ..contract import (
    OUTPUT_VAR,
    AgentResult,
    AnyAnswer,
    AttemptEnded,
    AttemptStarted,
    Committed,
    Interrupt,
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
from ..tools.fence import is_fenced
from .board import Board
from .box import Box
from .callback import call
from .calls import ModelCaller
from .change import changes_since
from .disposition import is_committed, is_done_again, note_verdict, with_verdict
from .ending import Ending, StopReason, classify, internal_error
from .handoff import Handoffs, current_handoffs
from .hooks import Hooks, Verdict
from .host import RunHost, Steps
from .ledger import Ledger, deadline_error
from .past import Past
from .plan import Parent, Plan
from .recorder import Recorder
from .report import Report
from .run import Run
from .scope import Scope, current_run
from .seed import changes_of, seed_board

__all__ = ["Sitting"]


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
        started = None if past is None else past.started
        self._depth = started.depth if started else plan.depth
        self.recorder = Recorder(
            plan.run_id,
            clock=plan.clock,
            journal=plan.journal,
            epoch=epoch,
            seq=past.seq if past is not None else 0,
        )
        outer = None if plan.parent is None else plan.parent.ledger
        spent_s = 0.0 if past is None else past.spent_s
        self.ledger = Ledger(plan.budget, clock=plan.clock, parent=outer, spent_s=spent_s)
        self._scope = Scope(plan.clock, self.ledger.deadline)
        self._hooks = self._make_hooks()
        self._caller = ModelCaller(
            recorder=self.recorder,
            ledger=self.ledger,
            hooks=self._hooks,
            retry=plan.retry,
            clock=plan.clock,
        )
        self._handoffs = Handoffs(
            plan.handoffs, info=self.info, recorder=self.recorder, board=lambda: self._board
        )
        self._box = Box(
            plan,
            info=self.info,
            recorder=self.recorder,
            handoffs=self._handoffs,
            deadline=self.ledger.deadline,
        )
        self._host = RunHost(
            plan.host,
            recorder=self.recorder,
            steps=past.steps if past is not None else Steps(),
            report=self._caller.note,
        )
        self._run = Run(plan, info=self.info, depth=self._depth, box=self._box, caller=self._caller)
        self._report = self._make_report(started.time if started else None)
        self._board = Board()
        self._interrupt: Interrupt | None = None
        self._has_begun = False
        self._told: AgentResult[Any] | None = None

    # -- what others may do to a run in flight

    def interrupt(self, interrupt: Interrupt) -> None:
        """Wish that the run stop at its next safe point; after a grace it is cancelled."""
        if self._host.interrupt is None and not self._scope.is_final:
            self._host.interrupt = interrupt
            self._box.cancel()
            self._scope.end_soon("interrupt")
            self._note_interrupt(interrupt)

    def cancel_call(self, call_id: str) -> bool:
        """End one tool call; returns whether there was one under way."""
        return self._box.cancel_call(call_id)

    def end(self, reason: StopReason) -> None:
        """Cancel the engine; the run ends as *reason* says."""
        self._scope.end(reason)

    # -- the life

    async def live(self) -> AgentResult[Any]:
        """Live the run to its end; everything that can happen in it is in the result."""
        try:
            return await self._live()
        except (Exception, asyncio.CancelledError) as error:
            # The run's edge: observers, log and watchers learn of its end, whatever went wrong.
            return await self._rescue(error)

    async def _live(self) -> AgentResult[Any]:
        await self._open()
        attempt, feedback = 1, ""
        past, plan = self._past, self.plan
        if past is not None:
            attempt, feedback = max(1, past.attempt), past.feedback
            if past.line is not None:
                if not past.line.revise_reason:
                    return await self._settle_as_logged(past)
                attempt, feedback = attempt + 1, past.line.feedback
        while True:
            self.recorder.attempt = self._run.attempt = attempt
            self._run.feedback = feedback
            ending = await self._attempt(attempt, feedback)
            self._handoffs.show(self._report.state)
            result = self._result(ending)
            verdict = await self._decide(result)
            is_last = attempt >= plan.max_attempts
            note_verdict(self._report.state, verdict, result, is_last=is_last)
            stopped = self._classify(TimeoutError()) if self._scope.stop else None
            result = with_verdict(result, verdict, self._report.state, stopped=stopped)
            again = is_done_again(verdict, result, is_last=is_last)
            feedback = verdict.feedback if again else ""
            reason = verdict.reason or "revise" if again else ""
            await self._end_attempt(result, reason=reason, feedback=feedback)
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
                    options=plan.logged_options(),
                    attributes=plan.attributes,
                )
            )
            for warning in plan.warnings:
                self.recorder.warn(warning)
        else:
            self._take_up(past)
            self.recorder.emit(
                RunResumed(
                    answers=self._answers,
                    agent=plan.agent.spec(),
                    interrupted_calls=tuple(past.unsettled),
                )
            )
            past.take_answers(self._answers)
            for warning in changes_since(past, plan):
                self.recorder.warn(warning)
        self._has_begun = True
        await self._hooks.tell("on_run_start", plan.request)

    def _take_up(self, past: Past) -> None:
        """Go on with the account and the tools where earlier sittings left them."""
        for response in past.responses[: past.responses_before]:
            self._caller.note(response)
        self.ledger.since_mark()
        for response in past.responses[past.responses_before :]:
            self._caller.note(response)
        for _ in range(past.lost_calls):
            self.ledger.add_unfinished()
        self.ledger.turns = past.turns
        self._caller.turns_before = past.turns_before
        self._box.restore(past.records[: past.records_before])
        self._box.new_turn()
        self._box.restore(past.records[past.records_before :])
        self._report.lines.extend(past.lines)
        self._report.state.update(past.state)
        self._box.stored.extend(past.stored)
        self.recorder.warnings.extend(past.warnings)
        self.recorder.attempt, self.recorder.handoff = past.attempt, past.handoff
        # A script has a place; it goes on after the replies that the log holds.
        go_on_after = getattr(self.plan.model, "go_on_after", None)
        if callable(go_on_after):
            go_on_after(past.responses, conversation=past.board.messages())

    # -- one attempt

    async def _attempt(self, attempt: int, feedback: str) -> Ending:
        """Seed a board, or take the logged one up, and have the engine work on it."""
        past = self._past
        goes_on = past is not None and past.is_seeded and past.attempt == attempt
        if not goes_on:
            self._caller.turns_before = self.ledger.turns
            self.recorder.handoff = None
            self.recorder.emit(AttemptStarted(feedback=feedback))
        await self._hooks.tell("on_attempt_start", attempt)
        too_deep = self.ledger.too_deep(self._depth)
        if too_deep is not None:
            return Ending(status=Status.FAILED, error=too_deep)
        try:
            if past is not None and goes_on:
                self._take_board(past)
            else:
                await self._seed(feedback)
        except JournalError:
            raise
        except Exception as error:
            # The host prepares the board; what it raises ends the run and nothing else.
            if isinstance(error, TimeoutError) and self._scope.stop:
                return self._classify(error)
            failed = internal_error(error, Origin.HOST)
            return Ending(status=Status.FAILED, error=failed, exception=error)
        return await self._drive()

    async def _drive(self) -> Ending:
        _, error = await self._scope.drive(self._execute())
        if self._scope.abandoned:
            message = "the engine ignored its cancellation and was left behind"
            self.recorder.warn(RunWarning(code="abandoned", message=message, origin=Origin.ENGINE))
        ending = self._classify(error)
        if ending.interrupt is not None:
            self._note_interrupt(ending.interrupt)
            await self._hooks.tell("on_interrupt", ending.interrupt)
        return ending

    def _classify(self, error: BaseException | None) -> Ending:
        return classify(
            error,
            stop=self._scope.stop,
            interrupt=self._host.interrupt,
            deadline=deadline_error(self.plan.budget),
        )

    def _note_interrupt(self, interrupt: Interrupt) -> None:
        if interrupt != self._interrupt:
            self._interrupt = interrupt
            self.recorder.emit(RunInterrupted(interrupt=interrupt))

    def _take_board(self, past: Past) -> None:
        """Go on with the board that the log shows."""
        self._board = past.board
        for record in past.records[past.records_before :]:
            # The process may have ended between the call's end and the word of it.
            self._handoffs.note(record)
        self._run.settled = {key: record.outcome for key, record in past.settled.items()}
        self._run.unsettled = dict(past.unsettled)
        self._run.reply = past.reply
        self._run.asked, self._run.answers = dict(past.asked), dict(past.answers)
        self._board.watch(self.recorder.emit)

    async def _seed(self, feedback: str) -> None:
        self._run.settled, self._run.unsettled, self._run.reply = {}, {}, None
        board = await seed_board(self.plan, self.info, feedback=feedback, wait=self._scope.wait)
        for change in changes_of(board):
            self.recorder.emit(change)
        self._box.new_turn()
        if any(map(is_fenced, board.messages())):
            self._box.tools.distrust("an earlier run")
        board.watch(self.recorder.emit)
        self._board = board

    async def _execute(self) -> None:
        current_run.set(
            Parent(
                run_id=self.info.run_id,
                depth=self._depth,
                ledger=self.ledger,
                journal=self.plan.journal,
                clock=self.plan.clock,
                loop=asyncio.get_running_loop(),
                policy=self.plan.policy,
            )
        )
        current_handoffs.set(self._handoffs)
        self._run.instructions = await self._instructions()
        engine = cast("Any", self.plan.engine)
        self._take_answer(await engine.execute(self._run, self._host, self._board))

    async def _instructions(self) -> str | None:
        asked = self.plan.agent.instructions
        told = await call(asked, self._run) if callable(asked) else asked
        if not isinstance(told, str | None):
            raise TypeError(f"the agent's instructions gave a {type(told).__name__}, not a text")
        return told

    def _take_answer(self, value: object) -> None:
        """What an engine returned: its board, nothing, or a value that becomes the output."""
        if value is None:
            return
        if isinstance(value, Board) or (hasattr(value, "snapshot") and hasattr(value, "messages")):
            board: BoardRole = value  # pyright: ignore[reportAssignmentType]  # by its methods
            self._board.adopt(board)
        else:
            self._board.set(OUTPUT_VAR, to_free_json(value)[0])

    async def _end_attempt(self, result: AgentResult[Any], *, reason: str, feedback: str) -> None:
        self._report.line(result, reason=reason, feedback=feedback)
        # A parked attempt goes on in the next sitting, so the log has no end of it.
        if result.status is not Status.INPUT_REQUIRED:
            self.recorder.emit(
                AttemptEnded(line=self._report.lines[-1], state=dict(self._report.state))
            )
        await self._hooks.tell("on_attempt_end", result)

    # -- the end

    async def _decide(self, result: AgentResult[Any]) -> Verdict:
        if result.status is Status.INPUT_REQUIRED:
            return Verdict()
        return await self._hooks.before_finalize(self.plan.request, result)

    async def _settle_as_logged(self, past: Past) -> AgentResult[Any]:
        """Conclude a run whose last attempt had ended when its process did."""
        self._board, line = past.board, past.line
        ending = Ending()
        if line is not None and line.error is not None:
            wish = past.interrupt if line.status is Status.INTERRUPTED else None
            ending = Ending(status=line.status, error=line.error, interrupt=wish)
        verdict = Verdict()
        for decision in past.decisions:
            verdict.add(decision)
        return await self._settle(self._result(ending), verdict)

    async def _settle(self, result: AgentResult[Any], verdict: Verdict) -> AgentResult[Any]:
        self._scope.is_final = True
        committed = self._past.committed if self._past is not None else None
        if committed is None:
            committed = await self._commit(result, verdict)
        result = msgspec.structs.replace(
            result,
            committed=committed.committed,
            attempt_log=tuple(self._report.lines),
            warnings=tuple(self.recorder.warnings),
        )
        return await self._conclude(result)

    async def _commit(self, result: AgentResult[Any], verdict: Verdict) -> Committed:
        reason = verdict.reason or str(result.status)
        committed = is_committed(verdict, result.status)
        if committed:
            reason = await self._hooks.commit(self.plan.request, result)
        event = Committed(committed=committed and not reason, reason=reason)
        if result.status is not Status.INPUT_REQUIRED:
            self.recorder.emit(event)
        return event

    async def _conclude(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """Tell observers, watchers and log of the end, once."""
        self._scope.is_final = True
        self._box.warn_of_leftovers()
        result = msgspec.structs.replace(result, warnings=tuple(self.recorder.warnings))
        self._told = result
        if self._has_begun:
            await self._hooks.tell("on_run_end", result)
        if len(self.recorder.warnings) != len(result.warnings):
            result = msgspec.structs.replace(result, warnings=tuple(self.recorder.warnings))
        self._told = result
        self.recorder.emit(RunSettled(result=result))
        await self.recorder.barrier()
        await self._host.drain(self._scope.wait)
        return result

    async def _rescue(self, error: BaseException) -> AgentResult[Any]:
        """Conclude a run whose life was cut by a closing loop, a lost log or a fault of ours."""
        if isinstance(error, asyncio.CancelledError):
            self._scope.end("caller")
        if isinstance(error, JournalError):
            self.recorder.leave_journal()
        result = self._told
        if result is None:
            result = self._result(self._classify(error))
            result = msgspec.structs.replace(result, attempt_log=tuple(self._report.lines))
            return await self._conclude(result)
        # The end was being told already; nobody is told twice.
        if isinstance(error, JournalError):
            lost = RunWarning(code="journal_failed", message=str(error), origin=Origin.JOURNAL)
            self.recorder.warn(lost)
            # A recorder that has told of the end takes no warning any more.
            warnings = dict.fromkeys((*self.recorder.warnings, lost))
            result = msgspec.structs.replace(result, warnings=tuple(warnings))
        if not self.recorder.is_settled:
            self.recorder.emit(RunSettled(result=result))
        return result

    # -- parts

    def _result(self, ending: Ending) -> AgentResult[Any]:
        return self._report.result(
            ending,
            self._board,
            attempt=max(1, self.recorder.attempt),
            records=self._box.records,
            stored=self._box.stored,
            warnings=self.recorder.warnings,
        )

    def _make_report(self, first_started_at: datetime | None) -> Report:
        plan = self.plan
        now = plan.clock.now()
        if plan.resume_from is not None:
            first_started_at = first_started_at or plan.resume_from.original_started_at
        began_at = first_started_at or now
        return Report(
            plan=plan,
            info=self.info,
            ledger=self.ledger,
            caller=self._caller,
            started_at=began_at,
            earlier_ms=round((now - began_at).total_seconds() * 1000),
            began=plan.clock.monotonic(),
        )

    def _make_hooks(self) -> Hooks:
        plan = self.plan
        return Hooks(
            (*plan.agent.observers, *plan.observers),
            (*plan.agent.deciders, *plan.deciders),
            plan.committers,
            info=self.info,
            recorder=self.recorder,
            wait=self._scope.wait,
        )
