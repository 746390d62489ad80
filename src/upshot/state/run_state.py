"""Past: what the log of earlier sessions says, folded into what a run goes on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from upshot.contract.agent_spec import AgentSpec, HandoffEvent
from upshot.contract.base.enums import Role, Status
from upshot.contract.base.structs import Json, RunEvent
from upshot.contract.error import RunWarning
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    CheckpointSaved,
    Committed,
    Decided,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RunInterrupted,
    RunResumed,
    RunSettled,
    RunStarted,
    StepSettled,
    StepStarted,
    ToolSettled,
    ToolStarted,
    Warned,
)
from upshot.contract.message import Artifact, Unknown
from upshot.contract.model_calls import ModelReplied, ModelResponse, ModelRetried, ModelStarted
from upshot.contract.pending import Answer, AnyAnswer, Approve, Deny, Edit, Pending, PendingApproval
from upshot.contract.result import AgentResult, AttemptLine
from upshot.contract.run_control import FinalizeDecision, Interrupt
from upshot.contract.tool_calls import ToolRecord
from upshot.errors import JournalError
from upshot.runs.engine_api.steps import Steps
from upshot.runs.redaction import lift
from upshot.state.board import Board
from upshot.state.child_runs import Spent, child_of, spent_of
from upshot.tools.secrets import Secrets

__all__ = ["CallAnswer", "RunState", "to_artifact"]

CallAnswer: TypeAlias = Approve | Deny | Edit


class RunState:
    """The fold of a run's events, in order; reading is resuming.

    Args:
        secrets: Texts for which marks stand in the log, in the order in which the run had them.

    Attributes:
        started: The first event, None before it was read.
        agent: The agent as it was in the last session.
        options: What the log keeps of the options of the last session.
        seq: Of the last event.
        spent_s: Seconds that the sessions took, the time between them left out.
        attempt: The attempt that was under way, 0 before the first.
        feedback: What the decider that asked for it wanted changed.
        board: Its board.
        is_seeded: Whether the board was prepared, to its end.
        turns: Model calls that were answered.
        turns_before: Those of earlier attempts.
        responses: Every reply, those of failed tries too.
        responses_before: How many of them are of earlier attempts.
        records: Settled tool calls.
        records_before: How many of them are of earlier attempts.
        unsettled: Tool calls of the last reply that started and have no outcome, by id.
        settled: Outcomes of the last reply's calls that the board does not show, by id.
        reply: A reply that is not on the board yet, or the error that ended the attempt.
        models: Which model was asked in each turn of the attempt, in order.
        bodies: The ``host.once`` in whose body it was asked, by turn, where there is one.
        replies: What it replied, by turn.
        seed: What the board of the first attempt was started with.
        lost_calls: How many models were asked and never answered, since the process ended.
        stored: Large outputs that were stored.
        steps: Keyed steps and answers.
        children: What runs inside this one used, by their id; None where the log does not say.
        children_before: Ids of those that belong to earlier attempts.
        asked: What people were asked about calls that are not settled, by call id.
        questions: What may be answered to questions that nobody has answered, by their id; empty
            for anything.
        answers: What people answered for calls that are not settled, by call id.
        answered: Ids of the questions that were answered since a session ended.
        line: Of the attempt under way, None while the engine is at it.
        handoff: The first hand-off of the attempt.
        interrupt: The last wish to stop.
        point: The last point of the attempt that its engine named, None for none.
        decisions: What deciders said of the attempt.
        committed: What became of the run, None while that is open.
        lines: Attempts that ended.
        state: The deciders' facts.
        warnings: All that were told.
        result: What the last session ended with, None where it was cut off.
    """

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._lifting: Secrets | None = None
        self.started: RunStarted | None = None
        self.agent: AgentSpec = AgentSpec()
        self.options: dict[str, Json] = {}
        self.seq: int = 0
        self.spent_s: float = 0.0
        self._last_time: datetime | None = None
        self.attempt: int = 0
        self.feedback: str = ""
        self.board: Board = Board()
        self.is_seeded: bool = False
        self.turns: int = 0
        self.turns_before: int = 0
        self.responses: list[ModelResponse] = []
        self.responses_before: int = 0
        self.records: list[ToolRecord] = []
        self.records_before: int = 0
        self.unsettled: dict[str, ToolStarted] = {}
        self.settled: dict[str, ToolRecord] = {}
        self.reply: ModelResponse | None = None
        self.lost_calls: int = 0
        self.models: dict[int, str] = {}
        self.bodies: dict[int, str] = {}
        self.replies: dict[int, ModelResponse] = {}
        self.seed: list[BoardChanged] = []
        self.stored: list[Artifact] = []
        self.steps: Steps = Steps()
        self.children: dict[str, Spent | None] = {}
        self.children_before: frozenset[str] = frozenset()
        self.asked: dict[str, PendingApproval] = {}
        self.questions: dict[str, tuple[str, ...]] = {}
        self.answers: dict[str, CallAnswer] = {}
        self.answered: set[str] = set()
        self.line: AttemptLine | None = None
        self.handoff: HandoffEvent | None = None
        self.interrupt: Interrupt | None = None
        self.point: CheckpointSaved | None = None
        self.decisions: list[FinalizeDecision] = []
        self.committed: Committed | None = None
        self.lines: list[AttemptLine] = []
        self.state: dict[str, Json] = {}
        self.warnings: list[RunWarning] = []
        self.result: AgentResult[Json] | None = None
        self._is_seeding = False

    @property
    def ended(self) -> bool:
        """Whether nothing is left to resume."""
        return self.result is not None and self.result.status is not Status.INPUT_REQUIRED

    @property
    def pending(self) -> tuple[Pending, ...]:
        """What the last session waited for."""
        return () if self.result is None else self.result.pending

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
        if isinstance(event, RunStarted):
            self._lifting = lift(self._secrets, event)
        if self._lifting is not None:
            # The other way round than usual: marks become the secrets that they stand for, since
            # tools and models work with the real ones.
            event = self._lifting.mask(event)
        self.seq = event.seq
        self._count_time(event)
        if self._is_seeding and not (isinstance(event, BoardChanged) and event.seeded):
            # What comes after a seed says that it was whole; a cut seed is sown again.
            self._is_seeding = False
            self.is_seeded = not isinstance(event, RunResumed)
        apply = _APPLY.get(type(event))
        if apply is not None:
            apply(self, event)

    def take_answers(self, answers: Iterable[AnyAnswer]) -> None:
        """Keep what people answered until it is asked for."""
        for answer in answers:
            if isinstance(answer, Answer):
                self._keep_answer(answer.id, answer.value)
            else:
                self.answers[answer.call_id] = answer

    def _count_time(self, event: RunEvent) -> None:
        last, self._last_time = self._last_time, event.time
        # In the time before a RunResumed nobody worked. Clocks may be set back, or be another
        # machine's.
        if last is not None and event.time is not None and not isinstance(event, RunResumed):
            self.spent_s += max(0.0, (event.time - last).total_seconds())

    def _run_started(self, event: RunStarted) -> None:
        self.started = event
        self.agent = event.agent
        self.options = event.options

    def _run_resumed(self, event: RunResumed) -> None:
        self.take_answers(event.answers)
        self.agent = event.agent or self.agent
        self.options = event.options or self.options
        self.result = None
        if self.line is None:
            # Deciders are asked anew about an attempt that was not concluded.
            self.decisions = []

    def _attempt_started(self, event: AttemptStarted) -> None:
        self.attempt = event.attempt
        self.feedback = event.feedback
        self.board = Board()
        self.is_seeded = False
        self.reply = self.line = self.handoff = self.point = None
        self.decisions = []
        self.settled, self.unsettled = {}, {}
        self.models, self.replies, self.bodies = {}, {}, {}

    def _model_started(self, event: ModelStarted) -> None:
        # Taken back by the answer.
        self.lost_calls += 1
        if not event.purpose:
            # A turn whose process ended is begun a second time; its place in the order is the
            # first.
            self.models.setdefault(event.turn, event.model)
            if event.step:
                self.bodies[event.turn] = event.step

    def _model_retried(self, event: ModelRetried) -> None:
        self.responses.append(event.response)

    def _model_replied(self, event: ModelReplied) -> None:
        self.turns += 1
        self.lost_calls -= 1
        self.responses.append(event.response)
        if not event.purpose:
            self.reply = self.replies[event.turn] = event.response

    def _tool_started(self, event: ToolStarted) -> None:
        self.unsettled[event.call.id] = event

    def _tool_settled(self, event: ToolSettled) -> None:
        self.records.append(event.record)
        for open_calls in (self.unsettled, self.asked, self.answers):
            open_calls.pop(event.record.call_id, None)
        self.settled[event.record.call_id] = event.record

    def _artifact_stored(self, event: ArtifactStored) -> None:
        self.stored.append(to_artifact(event))

    def _approval_requested(self, event: ApprovalRequested) -> None:
        # It is asked anew only where it is another question, so what was answered is void.
        self.answers.pop(event.call_id, None)
        self.asked[event.call_id] = event.pending

    def _approval_answered(self, event: ApprovalAnswered) -> None:
        asked = self.asked.get(event.call_id)
        if asked is not None and asked.digest == event.digest:
            self.take_answers((event.answer,))

    def _question_asked(self, event: QuestionAsked) -> None:
        self.questions[event.pending.id] = event.pending.choices

    def _question_answered(self, event: QuestionAnswered) -> None:
        self._keep_answer(event.id, event.value)

    def _keep_answer(self, id: str, value: Json) -> None:
        self.steps.answers[id] = value
        self.questions.pop(id, None)
        self.answered.add(id)

    def _board_changed(self, event: BoardChanged) -> None:
        self.board.apply(event)
        for message in event.messages:
            self.settled.pop(message.tool_call_id or "", None)
        if event.seeded:
            if self.attempt == 1:
                # A seed that was cut off is sown again as a whole, so its pieces from before count
                # no more.
                self.seed = [*self.seed, event] if self._is_seeding else [event]
            self._is_seeding = True
            self.board.mark_seeded()
        elif any(message.role is Role.ASSISTANT for message in event.messages):
            # Providers use call ids again, so outcomes count for the latest reply only.
            self.settled, self.unsettled = {}, {}
            # An error stays, for it is no message: the attempt ended with it.
            if self.reply is not None and self.reply.success:
                self.reply = None

    def _step_started(self, event: StepStarted) -> None:
        child = child_of(event.key)
        if child is None:
            self.steps.started[event.key] = event.effect
        else:
            self.children[child] = None

    def _step_settled(self, event: StepSettled) -> None:
        child = child_of(event.key)
        if child is None:
            self.steps.take(event)
        else:
            self.children[child] = spent_of(event.value)

    def _checkpoint_saved(self, event: CheckpointSaved) -> None:
        self.point = event

    def _run_interrupted(self, event: RunInterrupted) -> None:
        self.interrupt = event.interrupt

    def _handed_over(self, event: HandoffEvent) -> None:
        self.handoff = self.handoff or event

    def _decided(self, event: Decided) -> None:
        self.decisions.append(event.decision)

    def _attempt_ended(self, event: AttemptEnded) -> None:
        self.line = event.line
        self.lines.append(event.line)
        self.state = dict(event.state)
        self.turns_before = self.turns
        self.responses_before = len(self.responses)
        self.records_before = len(self.records)
        self.children_before = frozenset(self.children)

    def _run_committed(self, event: Committed) -> None:
        self.committed = event

    def _warned(self, event: Warned) -> None:
        self.warnings.append(event.warning)

    def _run_settled(self, event: RunSettled) -> None:
        self.result = event.result
        # What is still waited for then is asked anew, whatever was answered to it before.
        self.answered = set()


# Only within this module is what is private of it touched.
_APPLY: dict[type[RunEvent], Callable[[RunState, Any], None]] = {
    RunStarted: RunState._run_started,  # pyright: ignore[reportPrivateUsage]
    RunResumed: RunState._run_resumed,  # pyright: ignore[reportPrivateUsage]
    AttemptStarted: RunState._attempt_started,  # pyright: ignore[reportPrivateUsage]
    ModelStarted: RunState._model_started,  # pyright: ignore[reportPrivateUsage]
    ModelRetried: RunState._model_retried,  # pyright: ignore[reportPrivateUsage]
    ModelReplied: RunState._model_replied,  # pyright: ignore[reportPrivateUsage]
    ToolStarted: RunState._tool_started,  # pyright: ignore[reportPrivateUsage]
    ToolSettled: RunState._tool_settled,  # pyright: ignore[reportPrivateUsage]
    ArtifactStored: RunState._artifact_stored,  # pyright: ignore[reportPrivateUsage]
    ApprovalRequested: RunState._approval_requested,  # pyright: ignore[reportPrivateUsage]
    ApprovalAnswered: RunState._approval_answered,  # pyright: ignore[reportPrivateUsage]
    QuestionAsked: RunState._question_asked,  # pyright: ignore[reportPrivateUsage]
    QuestionAnswered: RunState._question_answered,  # pyright: ignore[reportPrivateUsage]
    BoardChanged: RunState._board_changed,  # pyright: ignore[reportPrivateUsage]
    StepStarted: RunState._step_started,  # pyright: ignore[reportPrivateUsage]
    StepSettled: RunState._step_settled,  # pyright: ignore[reportPrivateUsage]
    CheckpointSaved: RunState._checkpoint_saved,  # pyright: ignore[reportPrivateUsage]
    RunInterrupted: RunState._run_interrupted,  # pyright: ignore[reportPrivateUsage]
    HandoffEvent: RunState._handed_over,  # pyright: ignore[reportPrivateUsage]
    Decided: RunState._decided,  # pyright: ignore[reportPrivateUsage]
    AttemptEnded: RunState._attempt_ended,  # pyright: ignore[reportPrivateUsage]
    Warned: RunState._warned,  # pyright: ignore[reportPrivateUsage]
    Committed: RunState._run_committed,  # pyright: ignore[reportPrivateUsage]
    RunSettled: RunState._run_settled,  # pyright: ignore[reportPrivateUsage]
}


def to_artifact(event: ArtifactStored) -> Artifact:
    """The artifact of a result that a stored large output is."""
    return Artifact(event.artifact.name or event.call_id, (event.artifact,))
