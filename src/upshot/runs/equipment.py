"""Equipment: what a sitting works with, made from its plan and what the log says."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ..contract import (
    OUTPUT_VAR,
    AgentResult,
    AnyAnswer,
    Message,
    Origin,
    Role,
    RunInfo,
    RunResumed,
    RunStarted,
    RunWarning,
    to_free_json,
)
from ..contract import Board as BoardRole
from ..contract.free_json import is_plain
from ..contract.own_output import has_own_output
from ..errors import Misuse
from .account import restore
from .board import Board
from .box import Box
from .change import changes_since
from .ending import Ending
from .ground import Ground
from .hooks import Hooks
from .host import RunHost
from .ledger import Ledger
from .past import Past
from .plan import Parent, Plan
from .recorder import Recorder
from .recording import Recording
from .report import Report
from .returned import Returned, read_raised, read_returned
from .run import Run
from .scope import Scope
from .signals import Signal
from .veil import COUNT_OPTION, MARKS_OPTION, Veil, in_order, marks_for

__all__ = ["Equipment"]

_OTHER_SECRETS = RunWarning(
    code="secrets_changed",
    message=(
        "the run goes on with other secrets than it began with, or without: what stood for them "
        "in its log stays masked, also for the model and the tools. Give the same secrets= again"
    ),
    origin=Origin.CALLER,
)


class Equipment:
    """The parts of one sitting; they know each other as far as they must.

    Args:
        plan: What to do.
        past: What earlier sittings logged; None for a new run.
        epoch: Under which the log was claimed, None without a log.
        record: What stands for the world outside where a run is replayed; None is the world.

    Attributes:
        plan: What to do.
        record: As given.
        info: Whose run it is.
        depth: How deep the run is, 0 for a root run.
        veil: What keeps its secrets out of log and result, None without any.
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
        self, plan: Plan, past: Past | None, epoch: int | None, record: Recording | None = None
    ) -> None:
        ground = Ground(plan, past, epoch, record)
        self.plan = plan
        self.record = record
        self.info: RunInfo = ground.info
        self.depth: int = ground.depth
        self.veil: Veil | None = ground.veil
        self.recorder: Recorder = ground.recorder
        self.ledger: Ledger = ground.ledger
        self.scope: Scope = ground.scope
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

    def parent(self, *, is_hooks: bool = False) -> Parent:
        """What runs inside this one inherit, those that its hooks start or its engine."""
        return Parent(
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
        return result if self.veil is None else self.veil.show_result(result)

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
            # What the log says is what every later sitting will say.
            self.report.started_at = started.time
        elif self.report.started_at is None:
            self.report.started_at = plan.clock.now()
        for warning in plan.warnings:
            self.recorder.warn(warning)

    def go_on(self, past: Past, answers: tuple[AnyAnswer, ...]) -> None:
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

    def take_up(self, past: Past) -> None:
        """Go on with the account and the tools where earlier sittings left them."""
        # Who has this run inside has counted what it used until now.
        self.ledger.is_known = self.plan.is_known
        # The user's host was told in those sittings.
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

    def take_board(self, past: Past) -> None:
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
