"""Past: what the log of earlier sittings says, folded into what a run goes on with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..contract import (
    AgentResult,
    AnyAnswer,
    ApprovalAnswered,
    AttemptEnded,
    AttemptLine,
    AttemptStarted,
    BoardChanged,
    Committed,
    Event,
    Json,
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    Pending,
    QuestionAnswered,
    Role,
    RunEvent,
    RunResumed,
    RunSettled,
    RunStarted,
    RunWarning,
    StepSettled,
    StepStarted,
    ToolRecord,
    ToolSettled,
    ToolStarted,
    Unknown,
    Warned,
)
from ..errors import JournalError
from .board import Board
from .host import Steps

__all__ = ["Past"]


class Past:
    """The fold of a run's events, in order; reading is resuming.

    Attributes:
        started: The first event, None before it was read.
        seq: Of the last event.
        attempt: The attempt that was under way, 0 before the first.
        board: Its board.
        is_seeded: Whether the board was prepared.
        turns: Model calls that were begun.
        responses: Every reply, those of failed tries too.
        records: Settled tool calls.
        unsettled: Tool calls of the last reply that started and have no outcome, by id.
        settled: Outcomes of the last reply's calls, by id.
        reply: A reply that is not on the board yet.
        steps: Keyed steps and answers.
        answers: What people answered, in order.
        lines: Attempts that ended.
        state: The deciders' facts.
        warnings: All that were told.
        pending: What the last sitting waited for.
        result: What the last sitting ended with, None where it was cut off.
    """

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.seq = 0
        self.attempt = 0
        self.feedback = ""
        self.board = Board()
        self.is_seeded = False
        self.turns = 0
        self.responses: list[ModelResponse] = []
        self.records: list[ToolRecord] = []
        self.unsettled: dict[str, ToolStarted] = {}
        self.settled: dict[str, ToolRecord] = {}
        self.reply: ModelResponse | None = None
        self.steps = Steps()
        self.answers: list[AnyAnswer] = []
        self.lines: list[AttemptLine] = []
        self.state: dict[str, Json] = {}
        self.warnings: list[RunWarning] = []
        self.pending: tuple[Pending, ...] = ()
        self.result: AgentResult[Json] | None = None
        self._apply: dict[type[RunEvent], Callable[[Any], None]] = {
            RunStarted: self._run_started,
            RunResumed: self._run_resumed,
            AttemptStarted: self._attempt_started,
            ModelStarted: self._model_started,
            ModelRetried: self._model_retried,
            ModelReplied: self._model_replied,
            ToolStarted: self._tool_started,
            ToolSettled: self._tool_settled,
            ApprovalAnswered: self._approval_answered,
            QuestionAnswered: self._question_answered,
            BoardChanged: self._board_changed,
            StepStarted: self._step_started,
            StepSettled: self._step_settled,
            AttemptEnded: self._attempt_ended,
            Warned: self._warned,
            Committed: lambda _: None,
            RunSettled: self._run_settled,
        }

    @property
    def ended(self) -> bool:
        """Whether nothing is left to resume."""
        return self.result is not None and not self.result.pending

    def add(self, event: Event) -> None:
        """Take the next event.

        Raises:
            JournalError: It is of a kind that this version does not know, so going on is unsafe.
        """
        if isinstance(event, Unknown):
            raise JournalError(
                f"the log holds an event of kind {event.kind!r}, which this version cannot resume "
                "from: update upshot"
            )
        self.seq = event.seq
        apply = self._apply.get(type(event))
        if apply is not None:
            apply(event)

    def _run_started(self, event: RunStarted) -> None:
        self.started = event

    def _run_resumed(self, event: RunResumed) -> None:
        self.answers.extend(event.answers)
        self.result = None
        self.pending = ()

    def _attempt_started(self, event: AttemptStarted) -> None:
        self.attempt = event.attempt
        self.feedback = event.feedback
        self.board = Board()
        self.is_seeded = False
        self.reply = None
        self.settled, self.unsettled = {}, {}

    def _model_started(self, _: ModelStarted) -> None:
        self.turns += 1

    def _model_retried(self, event: ModelRetried) -> None:
        self.responses.append(event.response)

    def _model_replied(self, event: ModelReplied) -> None:
        self.responses.append(event.response)
        self.reply = event.response if event.response.success else None

    def _tool_started(self, event: ToolStarted) -> None:
        self.unsettled[event.call.id] = event

    def _tool_settled(self, event: ToolSettled) -> None:
        self.records.append(event.record)
        self.unsettled.pop(event.record.call_id, None)
        self.settled[event.record.call_id] = event.record

    def _approval_answered(self, event: ApprovalAnswered) -> None:
        self.answers.append(event.answer)

    def _question_answered(self, event: QuestionAnswered) -> None:
        self.steps.answers[event.id] = event.value

    def _board_changed(self, event: BoardChanged) -> None:
        self.board.apply(event)
        if event.seeded:
            self.is_seeded = True
            self.board.mark_seeded()
        elif any(message.role is Role.ASSISTANT for message in event.messages):
            # Providers use call ids again, so outcomes count for the latest reply only.
            self.reply = None
            self.settled, self.unsettled = {}, {}

    def _step_started(self, event: StepStarted) -> None:
        self.steps.started[event.key] = event.effect

    def _step_settled(self, event: StepSettled) -> None:
        self.steps.settled[event.key] = event

    def _attempt_ended(self, event: AttemptEnded) -> None:
        self.lines.append(event.line)
        self.state = dict(event.state)

    def _warned(self, event: Warned) -> None:
        self.warnings.append(event.warning)

    def _run_settled(self, event: RunSettled) -> None:
        self.result = event.result
        self.pending = event.result.pending
