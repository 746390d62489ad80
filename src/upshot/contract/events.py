"""All other events of a run, and their union.

RunEvent and its kinds: the small facts that a run is a log of.

A durable event has a dense ``seq`` from 1. A delta (text, reasoning, tool call,
progress) has the ``seq`` of the durable event before it and ``part`` 1, 2, ...;
it is for watchers and not stored.
"""

from __future__ import annotations

from typing import TypeAlias

from upshot.contract.agent_spec import AgentSpec, HandoffEvent
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject, RunEvent
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.message import MAIN_CHANNEL, File, Message, Unknown
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.pending import AnyAnswer, PendingApproval, PendingQuestion
from upshot.contract.result import AgentResult, AttemptLine
from upshot.contract.run_control import FinalizeDecision, Interrupt
from upshot.contract.tool_calls import ToolCall, ToolRecord

__all__ = [
    "ApprovalAnswered",
    "ApprovalRequested",
    "ArtifactStored",
    "AttemptEnded",
    "AttemptStarted",
    "BoardChanged",
    "CheckpointSaved",
    "Committed",
    "DELTAS",
    "Decided",
    "Event",
    "Lagged",
    "ModelReplied",
    "ModelRetried",
    "ModelStarted",
    "QuestionAnswered",
    "QuestionAsked",
    "ReasoningDelta",
    "RunEvent",
    "RunInterrupted",
    "RunResumed",
    "RunSettled",
    "RunStarted",
    "StepSettled",
    "StepStarted",
    "TextDelta",
    "ToolCallDelta",
    "ToolProgress",
    "ToolSettled",
    "ToolStarted",
    "UsageReported",
    "Warned",
]


class ToolStarted(RunEvent, frozen=True, kw_only=True):
    """All gates let the call pass; its body is about to run.

    Attributes:
        call: The call as the model made it.
        arguments: What the body gets; secrets are masked.
        turn: The label that the caller of ``dispatch`` gave.
        effect: What the tool says it may do.
        idempotent: Whether the tool says that running it again is safe.
        tool_version: Digest of the tool's schema and description.
        idempotency_key: What the tool is given to recognise a repetition.
    """

    call: ToolCall = ToolCall("", "")
    arguments: JsonObject = {}
    turn: int = 0
    effect: Effect = Effect.WRITE
    idempotent: bool = False
    tool_version: str = ""
    idempotency_key: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id


class ToolProgress(RunEvent, frozen=True, kw_only=True):
    """A tool tells how far it is.

    Attributes:
        call_id: The call.
        text: For people.
        data: For programs.
    """

    call_id: str = ""
    text: str = ""
    data: Json = None


class ToolSettled(RunEvent, frozen=True, kw_only=True):
    """A call has its outcome.

    Attributes:
        record: All facts of it.
    """

    record: ToolRecord

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.record.call_id


class ArtifactStored(RunEvent, frozen=True, kw_only=True):
    """A large output was stored.

    Attributes:
        call_id: The call that it came from.
        artifact: Where it is and what it is.
    """

    call_id: str = ""
    artifact: File = File()


class ApprovalRequested(RunEvent, frozen=True, kw_only=True):
    """A call waits for somebody's word.

    Attributes:
        pending: What is asked.
    """

    pending: PendingApproval = PendingApproval()

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.pending.call_id


class ApprovalAnswered(RunEvent, frozen=True, kw_only=True):
    """Somebody answered for a call.

    Attributes:
        answer: Approve, Deny or Edit.
        digest: Which arguments and version it was about.
    """

    answer: AnyAnswer
    digest: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call, "" where the answer is not about one."""
        return str(getattr(self.answer, "call_id", ""))


class RunStarted(RunEvent, frozen=True, kw_only=True, gc=False):
    """A run began.

    Attributes:
        agent: The agent, in names only.
        request: What was asked.
        parent_run_id: The run that started it, "" for a root run.
        depth: 0 for a root run.
        options: The options of the call that are JSON, and under "launch" what a command
            line needs to resume it; never a key.
        attributes: Free JSON of the caller.
    """

    agent: AgentSpec = AgentSpec()
    request: Request = Request("")
    parent_run_id: str = ""
    depth: int = 0
    options: JsonObject = {}
    attributes: JsonObject = {}


class RunResumed(RunEvent, frozen=True, kw_only=True):
    """A run that was parked, or whose process died, goes on.

    Attributes:
        answers: What people answered, in the order given.
        agent: The agent that goes on with it; its version may have changed.
        options: Its options as far as they can be logged.
        interrupted_calls: Calls that had started and have no outcome.
    """

    answers: tuple[AnyAnswer, ...] = ()
    agent: AgentSpec | None = None
    options: JsonObject = {}
    interrupted_calls: tuple[str, ...] = ()


class AttemptStarted(RunEvent, frozen=True, kw_only=True):
    """The engine is started on a fresh board.

    Attributes:
        feedback: What the decider that asked for this attempt wants changed, "" for the first.
    """

    feedback: str = ""


class QuestionAsked(RunEvent, frozen=True, kw_only=True):
    """A person is asked.

    Attributes:
        pending: The question.
    """

    pending: PendingQuestion = PendingQuestion()


class QuestionAnswered(RunEvent, frozen=True, kw_only=True):
    """A question has its answer.

    Attributes:
        id: The question's id.
        value: The answer.
    """

    id: str = ""
    value: Json = None


class BoardChanged(RunEvent, frozen=True, kw_only=True, gc=False):
    """Messages were appended or variables set.

    Attributes:
        channel: Where the messages went.
        messages: What was appended, in order.
        variables: What was set.
        seeded: Whether this is what the board was started with.
        refs: In a log, instead of the messages: the events, by ``seq``, whose replies and outcomes
            were appended; empty elsewhere.
    """

    channel: str = MAIN_CHANNEL
    messages: tuple[Message, ...] = ()
    variables: JsonObject = {}
    seeded: bool = False
    refs: tuple[int, ...] = ()


class StepStarted(RunEvent, frozen=True, kw_only=True):
    """A step of an engine began: a node, a state, a ``host.once``.

    Attributes:
        key: Unique in the run.
        effect: What it may do.
    """

    key: str = ""
    effect: Effect = Effect.WRITE


class StepSettled(RunEvent, frozen=True, kw_only=True):
    """A step ended.

    Attributes:
        key: The step.
        effect: What came of it outside.
        value: What it gave.
        error: Why it failed, None if it did not.
    """

    key: str = ""
    effect: Effect = Effect.APPLIED
    value: Json = None
    error: AgentError | None = None


class UsageReported(RunEvent, frozen=True, kw_only=True):
    """An engine told what it used by ways of its own.

    Attributes:
        number: Which report of the attempt it is, from 1.
        response: What was used and what came of it, as far as the engine told.
    """

    number: int = 1
    response: ModelResponse = ModelResponse()


class RunInterrupted(RunEvent, frozen=True, kw_only=True, tag="interrupted"):
    """Somebody wants the run to stop.

    Attributes:
        interrupt: Who and why.
    """

    interrupt: Interrupt = Interrupt()


class CheckpointSaved(RunEvent, frozen=True, kw_only=True):
    """A point of the log got a name; its board is folded from the log.

    Attributes:
        step: The name.
        iteration: How many steps the engine had made.
        payload: What the engine needs besides the board.
    """

    step: str = ""
    iteration: int = 0
    payload: Json = None


class Decided(RunEvent, frozen=True, kw_only=True):
    """A decider said its word.

    Attributes:
        decider: Its class name.
        decision: The word.
    """

    decider: str = ""
    decision: FinalizeDecision = FinalizeDecision()


class AttemptEnded(RunEvent, frozen=True, kw_only=True, gc=False):
    """The engine is done with an attempt.

    Attributes:
        line: How it went.
        state: The deciders' facts so far.
    """

    line: AttemptLine = AttemptLine()
    state: JsonObject = {}


class Committed(RunEvent, frozen=True, kw_only=True):
    """The disposition of the run is settled.

    Attributes:
        committed: Whether its messages count for the conversation.
        reason: Why not, "" if they do.
    """

    committed: bool = True
    reason: str = ""


class Warned(RunEvent, frozen=True, kw_only=True, tag="warning"):
    """Something went wrong that does not fail the run.

    Attributes:
        warning: What.
    """

    warning: RunWarning = RunWarning()


class Lagged(RunEvent, frozen=True, kw_only=True):
    """A slow watcher missed deltas; durable events are never left out.

    Attributes:
        missed: How many.
    """

    missed: int = 0


class RunSettled(RunEvent, frozen=True, kw_only=True):
    """The last event of a session: what came of the run so far.

    Attributes:
        result: The very result that the caller gets.
    """

    result: AgentResult[Json]


Event: TypeAlias = (
    RunStarted
    | RunResumed
    | AttemptStarted
    | ModelStarted
    | ModelRetried
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ModelReplied
    | ToolStarted
    | ToolProgress
    | ToolSettled
    | ArtifactStored
    | ApprovalRequested
    | ApprovalAnswered
    | QuestionAsked
    | QuestionAnswered
    | BoardChanged
    | StepStarted
    | StepSettled
    | UsageReported
    | RunInterrupted
    | CheckpointSaved
    | HandoffEvent
    | Decided
    | AttemptEnded
    | Committed
    | Warned
    | Lagged
    | RunSettled
    | Unknown
)

DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta, ToolProgress, Lagged)
