"""One attempt: its board, the engine at work, what it leaves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any, cast

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.checks import has_own_output, kind_of
from upshot.contract.base.enums import Origin, Role
from upshot.contract.base.json_values import is_plain, to_free_json
from upshot.contract.error import RunWarning
from upshot.contract.events import BoardChanged, RunResumed, RunStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer
from upshot.contract.protocols import Board as BoardRole
from upshot.contract.result import OUTPUT_VAR, AgentResult
from upshot.errors import Misuse
from upshot.runs.budget import RunBudget
from upshot.runs.callbacks import Wait, blame, call, method
from upshot.runs.ending import COMPLETED, Ending, Returned, classify, read_raised, read_returned
from upshot.runs.engine_api.exceptions import Failed, Signal, signal_of
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.plan import ParentRun, Plan, Seeder
from upshot.runs.recorder import Recorder
from upshot.runs.redaction import COUNT_OPTION, MARKS_OPTION, Redaction, in_order, marks_for
from upshot.runs.replay.recording import Recording
from upshot.runs.result_builder import Report
from upshot.runs.resumption import changes_since, overlooking, restore, starting_over
from upshot.runs.run_context import RunContext
from upshot.runs.services.hooks import Hooks
from upshot.runs.services.run_services import Box
from upshot.runs.task_supervisor import TaskSupervisor, current_run
from upshot.state.board import Board
from upshot.state.run_state import RunState
from upshot.tools.secrets import is_fenced

__all__ = ["Equipment", "board_of", "ending_of", "seed", "seed_board", "work_on"]

_OTHER_SECRETS = RunWarning(
    code="secrets_changed",
    message=(
        "the run goes on with other secrets than it began with, or without: what stood for them "
        "in its log stays masked, also for the model and the tools. Give the same secrets= again"
    ),
    origin=Origin.CALLER,
)


class Equipment:
    """The parts of one session; they know each other as far as they must.

    Args:
        plan: What to do.
        past: What earlier sessions logged; None for a new run.
        epoch: Under which the log was claimed, None without a log.
        record: What stands for the world outside where a run is replayed; None is the world.

    Attributes:
        plan: What to do.
        record: As given.
        info: Whose run it is.
        depth: How deep the run is, 0 for a root run.
        redaction: What keeps its secrets out of log and result, None without any.
        recorder: The log.
        ledger: The account.
        scope: Where the engine works.
        box: The way to models and tools.
        host: What surrounds the engine.
        run: What the engine sees of it all.
        report: What the result is made from.
        board: What the engine works on, a new one for every attempt; it is there once one was
            prepared or needed.
    """

    board: Board

    def __init__(
        self, plan: Plan, past: RunState | None, epoch: int | None, record: Recording | None = None
    ) -> None:
        ground = RunContext(plan, past, epoch, record)
        self.plan = plan
        self.record = record
        self.info: RunInfo = ground.info
        self.depth: int = ground.depth
        self.redaction: Redaction | None = ground.redaction
        self.recorder: Recorder = ground.recorder
        self.ledger: RunBudget = ground.ledger
        self.scope: TaskSupervisor = ground.scope
        self.box: Box = Box(ground)
        self.report: Report = Report(ground, self.box)
        self.run: Run = Run(ground, self.report, self.box)
        self.host: RunHost = RunHost(ground, self.run)
        if plan.host is not None and not _is_told_outside(plan):
            self.ledger.tell = self.host.usage_listener()

    @property
    def hooks(self) -> Hooks:
        """Observers, deciders and committers."""
        return self.box.hooks

    def parent(self, *, is_hooks: bool = False) -> ParentRun:
        """What runs inside this one inherit, those that its hooks start or its engine."""
        return ParentRun(
            plan=self.plan,
            depth=self.depth,
            ledger=self.ledger,
            loop=asyncio.get_running_loop(),
            box=self.box,
            tell=self.recorder.emit,
            wish=self.host.look,
            admit=self.scope.admit,
            pause=self.scope.pause,
            stand_in=self.plan.child if self.record is not None else None,
            is_hooks=is_hooks,
        )

    def begin_attempt(self, number: int, feedback: str) -> None:
        """Stamp what comes with the attempt's number, and show it to the engine."""
        self.recorder.attempt = number
        self.run.begin_attempt(number, feedback)

    def take_returned(self, value: object) -> None:
        """What an engine returned: its board, nothing, or a value that becomes the output.

        Raises:
            Signal: It returned a result, a reply or an error that did not complete.
        """
        if value is None:
            return
        if is_plain(value):
            self.board.put(OUTPUT_VAR, cast("Any", value))
        elif hasattr(value, "snapshot") and hasattr(value, "messages"):
            board: BoardRole = value  # pyright: ignore[reportAssignmentType]  # by its methods
            self.board.adopt(board)
        elif (told := read_returned(value)) is not None:
            self._take_told(told)
        else:
            self._set_output(value)

    def _take_told(self, told: Returned) -> None:
        """Take what a result, a reply or an error says that an engine returned.

        Raises:
            Signal: It did not complete, and so ends the run.
        """
        if told.content and told.content != self.board.answer():
            self.board.append(Message(Role.ASSISTANT, told.content))
        if has_own_output(told.output, told.content):
            self._set_output(told.output)
        if told.ending is not None:
            raise told.ending

    def _set_output(self, value: object) -> None:
        output, lossy = to_free_json(value)
        self.recorder.warn_of_losses("output", lossy)
        self.board.set(OUTPUT_VAR, output)

    def conclude_board(self, error: BaseException | None) -> BaseException | None:
        """Put on the board what else was said, and log what is changed.

        That is what people saw of a reply that was cut, and what an agent said that ended the run.

        Args:
            error: What the engine raised, None for a clean return.

        Returns:
            The same; what a result that it unwrapped says; or that it left something on the board
            that is no JSON.
        """
        try:
            self.board.notice()
        except Misuse as misuse:
            return self.conclude_board(error or misuse)
        if cut := self.box.cut:
            self.board.extend(Message(Role.ASSISTANT, text) for text in cut)
        if error is None:
            return None
        told = read_raised(error) or error
        if isinstance(told, Signal) and told.said and told.said != self.board.answer():
            self.board.append(Message(Role.ASSISTANT, told.said))
        return told

    async def close_calls(self) -> None:
        """Put an outcome on the board for each call of the last reply that the engine left open.

        For an engine that did not come to its end: nobody will make them any more, and a message
        list with open calls is not one that a model can be given.

        Raises:
            JournalError: The log refuses events.
        """
        run, last = self.run, self.ledger.last
        if self.recorder.is_lost or self.record is not None or self.scope.abandoned:
            # Engines that were left behind may still be at them.
            return
        own = {call.id for call in last.tool_calls} if last is not None else set[str]()
        # Calls of a foreign engine's own model are none of ours.
        own = own.union(run.asked, run.settled, run.unsettled)
        calls = [call for call in self.board.open_calls() if call.id in own]
        if not calls:
            return
        known, tools = {**run.settled, **self.box.fresh}, self.box.tools
        left = [call for call in calls if call.id not in known]
        turn = self.ledger.turns - self.ledger.turns_before
        called_off = await tools.call_off(left, run.unsettled, turn=turn)
        known |= {outcome.call_id: outcome for outcome in called_off}
        self.board.extend(
            Message(
                Role.TOOL,
                tools.content_of(known[call.id]),
                tool_call_id=call.id,
                name=call.name,
            )
            for call in calls
        )

    def result(self, ending: Ending) -> AgentResult[Any]:
        """The result as it is now, for a run that ended so."""
        result = self.report.result(ending, self.board)
        return result if self.redaction is None else self.redaction.show_result(result)

    def start(self) -> None:
        """Log that the run begins."""
        plan = self.plan
        options = plan.logged_options()
        if plan.secrets:
            options[COUNT_OPTION] = len(in_order(plan.secrets))
        started = RunStarted(
            agent=plan.spec,
            request=plan.request,
            parent_run_id=plan.parent_run_id,
            depth=self.depth,
            options=options,
            attributes=plan.attributes,
        )
        self.recorder.emit(started)
        if started.time is not None:
            # What the log says is what every later session will say.
            self.report.started_at = started.time
        elif self.report.started_at is None:
            self.report.started_at = plan.clock.now()
        for warning in plan.warnings:
            self.recorder.warn(warning)

    def go_on(self, past: RunState, answers: tuple[AnyAnswer, ...]) -> None:
        """Log that the run goes on, and what people answered since."""
        self.take_up(past)
        self.recorder.emit(
            RunResumed(
                answers=answers,
                agent=self.plan.spec,
                options=self.plan.logged_options(),
                interrupted_calls=tuple(past.unsettled),
            )
        )
        past.take_answers(answers)
        self.host.tell_answers(answers)
        started = past.started or RunStarted()
        if MARKS_OPTION in started.options and not marks_for(self.plan.secrets, started):
            self.recorder.warn(_OTHER_SECRETS)
        for warning in (*self.plan.warnings, *changes_since(past, self.plan)):
            self.recorder.warn(warning)

    def take_up(self, past: RunState) -> None:
        """Go on with the account and the tools where earlier sessions left them."""
        # Who has this run inside has counted what it used until now.
        self.ledger.is_known = self.plan.is_known
        # The user's host was told in those sessions.
        tell, self.ledger.tell = self.ledger.tell, None
        restore(self.ledger, past)
        self.ledger.is_known, self.ledger.tell = False, tell
        self.box.restore(past.records[: past.records_before])
        self.box.new_turn()
        self.box.restore(past.records[past.records_before :])
        self.report.lines.extend(past.lines)
        self.report.state.update(past.state)
        self.box.stored.extend(past.stored)
        self.recorder.warnings.extend(past.warnings)
        self.recorder.attempt, self.recorder.handoff = past.attempt, past.handoff
        # A script has a place; it goes on after the replies that the log holds.
        go_on_after = getattr(self.plan.model, "go_on_after", None)
        if callable(go_on_after):
            go_on_after(past.responses, conversation=past.board.messages())

    def need_board(self) -> None:
        """Have an empty board at least, where none could be prepared."""
        if not hasattr(self, "board"):
            self.use_board(Board())

    def use_board(self, board: Board) -> None:
        """Have the engine work on *board* from now on, and log what it changes."""
        self.board = board
        self.box.use_board(board)
        board.watch(self.recorder.emit, self.recorder.warn_of_losses)

    def take_board(self, past: RunState) -> None:
        """Go on with the board that the log shows."""
        self.board = past.board
        self.box.use_board(past.board)
        for record in past.records[past.records_before :]:
            # The process may have ended between the call's end and the word of it.
            self.box.handoffs.note(record)
        self.run.take_up(past)
        self.board.watch(self.recorder.emit, self.recorder.warn_of_losses)


def _is_told_outside(plan: Plan) -> bool:
    """Whether a run round this one has the same host, which is told there what is used in here."""
    parent = plan.parent
    while parent is not None:
        if parent.plan.host is plan.host:
            return True
        parent = parent.plan.parent
    return False


async def seed_board(
    plan: Plan, info: RunInfo, *, attempt: int, feedback: str, wait: Wait
) -> Board:
    """Prepare a board: of the checkpoint, by the user's seeder, or of history, request and inputs.

    Args:
        plan: The run.
        info: Its identity.
        attempt: Which attempt it is for; a checkpoint counts for the first alone.
        feedback: What the decider that asked for this attempt wants changed, "" for nothing.
        wait: Waits for an async seeder, as long as the run has patience.

    Returns:
        The board, its content marked as seeded.

    Raises:
        ValueError: The seeder gave no board.
        Exception: Whatever the seeder raised.
    """
    checkpoint = plan.resume_from
    if checkpoint is not None and attempt == 1:
        return Board.restore(checkpoint.board)
    if plan.prepare is not None:
        board = await _prepared(plan.prepare, info, plan.request, wait=wait)
    elif plan.seed and not plan.history:
        # Neither history nor what was handed over is known to who goes on with a run.
        return board_of(plan.seed, feedback)
    else:
        board = Board()
        board.extend((*plan.history, plan.request.to_message()))
        for name, value in plan.request.inputs.items():
            board.set(name, value)
    if plan.handed:
        board.extend(plan.handed)
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board


async def _prepared(prepare: Seeder, info: RunInfo, request: Request, *, wait: Wait) -> Board:
    try:
        made = await call(prepare, info, request, wait=wait)
    except Exception as error:
        blame(error, "prepare", info.run_id)
        raise
    if isinstance(made, Board):
        # A seeder may give one board for all: what is done in one attempt is not in the next.
        return made.apart() if type(made) is Board else made
    if method(made, "snapshot") is None:
        what = "None" if made is None else f"a value of type {type(made).__name__}"
        raise ValueError(f"prepare returned {what}: return the Board that the run shall start with")
    return Board.restore(made.snapshot())


def board_of(changes: Iterable[BoardChanged], feedback: str = "") -> Board:
    """A board that is seeded as the log says, and with *feedback* after that."""
    board = Board()
    for change in changes:
        board.apply(change)
    if feedback:
        board.append(Message("user", feedback))
    board.mark_seeded()
    return board


async def seed(parts: Equipment, attempt: int, feedback: str) -> None:
    """Prepare the board of an attempt, and log what stands on it.

    Args:
        parts: Of the run.
        attempt: Its number.
        feedback: What the decider that asked for it wants changed, "" for nothing.

    Raises:
        Exception: Whatever the user's seeder raised.
    """
    if attempt > 1:
        parts.run.take_up(None)
    if parts.record is None:
        wait = parts.scope.wait
        board = await seed_board(
            parts.plan, parts.info, attempt=attempt, feedback=feedback, wait=wait
        )
    else:
        board = board_of(parts.record.begin(attempt))
    for change in board.facts():
        parts.recorder.emit(change)
    parts.box.new_turn()
    if any(map(is_fenced, board.messages())):
        parts.box.distrust("an earlier run")
    parts.use_board(board)


async def work_on(parts: Equipment) -> None:
    """Have the engine work on the board, and take what it returns.

    Raises:
        BaseException: Whatever it raised.
    """
    current_run.set(parts.parent())
    if parts.plan.agent.instructions is not None:
        parts.run.instruct(await _instructions(parts))
    if parts.plan.handoffs:
        await parts.box.handoffs.ask_filters()
    engine: Any = parts.plan.engine
    try:
        made = engine.execute(parts.run, parts.host, parts.board)
        returned = await made if inspect.isawaitable(made) else made
    except Exception as error:
        blame(error, f"the engine {type(engine).__name__}", parts.info.run_id)
        _warn_of_lost(parts, error)
        raise
    finally:
        # Only now is it known that it did not ask for what the log has.
        warning = starting_over(engine) if parts.run.is_at_top else None
        is_first = parts.run.attempt == 1
        if parts.plan.resume_from is not None and is_first and not parts.run.has_looked_back:
            warning = overlooking(engine)
        if warning is not None and not parts.recorder.is_lost:
            parts.recorder.warn(warning)
    parts.take_returned(returned)


def ending_of(parts: Equipment, error: BaseException | None) -> Ending:
    """How a pass of the engine ended, or the run where it stands.

    Args:
        parts: Of the run.
        error: What was raised, None for a clean return.
    """
    if error is None and not parts.scope.was_cut:
        return COMPLETED
    return classify(
        error,
        stop=parts.scope.stop,
        was_cut=parts.scope.was_cut,
        interrupt=parts.host.interrupt,
        limit=parts.host.overrun or parts.ledger.time_error(parts.scope.stop),
        questions=parts.host.questions,
    )


def _warn_of_lost(parts: Equipment, error: Exception) -> None:
    """Tell what of a failure's details JSON cannot hold."""
    # In a frame that ends here: one that keeps the error, which has it, is left to the collector.
    told = signal_of(error)
    if isinstance(told, Failed) and not parts.recorder.is_lost:
        parts.recorder.warn_of_losses("details", told.lost)


async def _instructions(parts: Equipment) -> str | None:
    asked = parts.plan.agent.instructions
    try:
        told = await call(asked, parts.run) if callable(asked) else asked
        if not isinstance(told, str | None):
            given = kind_of(told)
            raise TypeError(f"the agent's instructions gave {given}, not a text")
    except Exception as error:
        blame(error, "the agent's instructions", parts.info.run_id)
        raise
    return told
