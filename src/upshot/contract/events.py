"""The events of a run, and their union; the events of model calls are in ``model_calls``.

A durable event is stored in the run's log; its ``seq`` counts from 1 without gaps. A delta (text,
reasoning, tool call, progress) has the ``seq`` of the durable event before it and ``part`` 1, 2,
...; it is for subscribers and is not stored.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from upshot.contract.agent_spec import AgentSpec, HandoffEvent
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject, Moment, RunEvent, Value
from upshot.contract.call_counts import CallCount
from upshot.contract.effects import EffectClaim
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.message import MAIN_CHANNEL, File, Message, Unknown
from upshot.contract.model_calls import (
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    PartDelta,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.pending import (
    AnyAnswer,
    Pending,
    PendingApproval,
    PendingEffect,
    PendingExternal,
    PendingQuestion,
    TaintOrigin,
)
from upshot.contract.result import AgentResult, AttemptLine
from upshot.contract.run_control import Compacted, FinalizeDecision, Interrupt
from upshot.contract.tool_calls import Settlement, ToolCall, ToolRecord

ReleaseReason: TypeAlias = Literal["drain", "due", "outer"]


class ToolStarted(RunEvent, frozen=True, kw_only=True, gc=False):
    """All gates passed the call; the tool is about to run.

    Attributes:
        call: The call as the model made it.
        arguments: The arguments that the tool gets; secrets are masked.
        turn: The number that the caller of ``dispatch`` gave.
        effect: The effect that the tool declares.
        idempotent: Whether the tool declares that running it again is safe.
        tool_version: Digest of the tool's schema and description.
        idempotency_key: The tool's key for recognising a repeated call.
        step: The key of the step that made the call, "" if none.
        claim: The identity of its effect, None if its tool declares none.
    """

    call: ToolCall = ToolCall("", "")
    arguments: JsonObject = {}
    turn: int = 0
    effect: Effect = Effect.WRITE
    idempotent: bool = False
    tool_version: str = ""
    idempotency_key: str = ""
    step: str = ""
    claim: EffectClaim | None = None

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id


class ToolStateSaved(RunEvent, frozen=True, kw_only=True):
    """A tool saved what it needs to continue its call, also in a later session.

    Attributes:
        call_id: The call.
        tool_name: The tool.
        idempotency_key: The key of the call.
        state: What the tool needs; None if an interrupted call must not be continued any more.
    """

    call_id: str = ""
    tool_name: str = ""
    idempotency_key: str = ""
    state: Json = None


class ToolProgress(RunEvent, frozen=True, kw_only=True):
    """A tool reported its progress.

    Attributes:
        call_id: The call.
        tool_name: The tool.
        text: Text for the user.
        data: Data for programs.
    """

    call_id: str = ""
    tool_name: str = ""
    text: str = ""
    data: Json = None


class ToolSettled(RunEvent, frozen=True, kw_only=True, gc=False):
    """A call settled: its outcome is final.

    Attributes:
        record: All facts of the call.
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
        artifact: The reference to the stored output.
    """

    call_id: str = ""
    artifact: File = File()


class ApprovalRequested(RunEvent, frozen=True, kw_only=True):
    """A call waits for approval.

    Attributes:
        pending: The request for approval.
        step: The key of the step that made the call, "" if none.
    """

    pending: PendingApproval = PendingApproval()
    step: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.pending.call_id


class ApprovalAnswered(RunEvent, frozen=True, kw_only=True):
    """The user answered a request for approval.

    Attributes:
        answer: Approve, Deny or Edit.
        digest: The digest of the question that was answered.
    """

    answer: AnyAnswer
    digest: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call, "" if the answer is not about a call."""
        return str(getattr(self.answer, "call_id", ""))


REDACTED = "(redacted)"
"""Stands for a text that was redacted from a log."""


class Redacted(Value, frozen=True, kw_only=True):
    """Who redacted the content of a run in its log, and when.

    Attributes:
        by: The user, "" if not given.
        at: When it was redacted.
    """

    by: str = ""
    at: Moment | None = None


class RunStarted(RunEvent, frozen=True, kw_only=True, gc=False):
    """A run started.

    Attributes:
        agent: The agent's spec.
        request: The request.
        parent_run_id: The run that started it, "" for a root run.
        depth: 0 for a root run.
        options: The options of the run that JSON can express, including the policy. "launch" has
            what the command line needs to resume the run; "dependencies" is true if the run was
            given any. Never an API key.
        attributes: Free JSON from the caller.
        redacted: Who redacted the content of the run in its log; None if it was not redacted.
    """

    agent: AgentSpec = AgentSpec()
    request: Request = Request("")
    parent_run_id: str = ""
    depth: int = 0
    options: JsonObject = {}
    attributes: JsonObject = {}
    redacted: Redacted | None = None


class RunResumed(RunEvent, frozen=True, kw_only=True):
    """A run that was parked, or whose process died, continues.

    Attributes:
        agent: The agent that continues it; its version may have changed.
        options: The options of the run that can be logged.
        interrupted_calls: Ids of calls that had started and have no outcome.
    """

    agent: AgentSpec | None = None
    options: JsonObject = {}
    interrupted_calls: tuple[str, ...] = ()


class AttemptStarted(RunEvent, frozen=True, kw_only=True):
    """The engine starts on a fresh board.

    Attributes:
        feedback: What the decider wants changed in this attempt, "" for the first.
    """

    feedback: str = ""


class QuestionAsked(RunEvent, frozen=True, kw_only=True):
    """The run asks the user a question, or waits for a result from another system.

    Attributes:
        pending: What the run waits for; logged again by each session that waits for it.
    """

    pending: PendingQuestion | PendingExternal | PendingEffect = PendingQuestion()


class QuestionAnswered(RunEvent, frozen=True, kw_only=True):
    """A question was answered.

    Attributes:
        id: The question's id.
        value: The answer.
        settled: How the effect of a ``PendingEffect`` was resolved, even if not by an answer to the
            question; None for other questions.
    """

    id: str = ""
    value: Json = None
    settled: Settlement | None = None


class Tainted(RunEvent, frozen=True, kw_only=True):
    """Untrusted content reached the run other than through its own tool calls.

    If one of the run's calls brought untrusted content, the call's record says so (``trust``).

    Attributes:
        origin: Where the content came from.
    """

    origin: TaintOrigin = TaintOrigin()


class SeedReference(Value, frozen=True, kw_only=True):
    """A reference to messages of a stored conversation, in place of the messages themselves.

    Attributes:
        conversation: The conversation.
        revision: How many changes the conversation had had at that point.
        digest: The messages' ``digest_of_messages``; messages with another digest are refused.
    """

    conversation: str = ""
    revision: int = 0
    digest: str = ""


class BoardChanged(RunEvent, frozen=True, kw_only=True, gc=False):
    """Messages were appended or variables set.

    Attributes:
        channel: The channel of the messages.
        messages: The messages that were appended, in order.
        variables: The variables that were set.
        seeded: Whether this was on the board before the engine started.
        refs: In a log, instead of the messages: the ``seq`` of the events whose replies and
            outcomes were appended; empty elsewhere.
        seed: In a log, instead of the first messages of a run: a reference to them; None elsewhere.
    """

    channel: str = MAIN_CHANNEL
    messages: tuple[Message, ...] = ()
    variables: JsonObject = {}
    seeded: bool = False
    refs: tuple[int, ...] = ()
    seed: SeedReference | None = None


class StepStarted(RunEvent, frozen=True, kw_only=True):
    """A step of an engine started: a node, a state, a ``host.once``.

    Attributes:
        key: The step's key, unique in the run.
        effect: The effect that the step may have.
    """

    key: str = ""
    effect: Effect = Effect.WRITE


class StepSettled(RunEvent, frozen=True, kw_only=True):
    """A step ended.

    Attributes:
        key: The step.
        effect: The effect that the step had.
        value: Its return value.
        error: Why it failed, None if it did not.
    """

    key: str = ""
    effect: Effect = Effect.APPLIED
    value: Json = None
    error: AgentError | None = None


class UsageReported(RunEvent, frozen=True, kw_only=True):
    """Usage of model calls that have no reply in the log.

    Either an engine reported it for its own calls, or the run stopped reading a streamed reply
    that had already reported it.

    Attributes:
        number: The number of the engine's report in the attempt, from 1; 0 for a reply that the
            run stopped reading.
        response: The usage, and the reply as far as it is known.
    """

    number: int = 1
    response: ModelResponse = ModelResponse()


class RunInterrupted(RunEvent, frozen=True, kw_only=True, tag="interrupted"):
    """The run was asked to stop.

    Attributes:
        interrupt: The reason.
    """

    interrupt: Interrupt = Interrupt()


class CheckpointSaved(RunEvent, frozen=True, kw_only=True):
    """The engine saved a checkpoint; its board is rebuilt from the log.

    Attributes:
        step: The engine's name for the point.
        iteration: How many steps the engine had taken.
        payload: What the engine needs in addition to the board.
    """

    step: str = ""
    iteration: int = 0
    payload: Json = None


class Decided(RunEvent, frozen=True, kw_only=True):
    """A decider judged an attempt, or the request of the run.

    Attributes:
        decider: Its ``name``, or the name of its class.
        decision: Its decision.
        stage: "request" if it judged the request, "" if it judged an attempt.
    """

    decider: str = ""
    decision: FinalizeDecision = FinalizeDecision()
    stage: Literal["", "request"] = ""


class AttemptEnded(RunEvent, frozen=True, kw_only=True, gc=False):
    """The engine finished an attempt.

    Attributes:
        line: A summary of the attempt.
        state: The facts that deciders have set so far.
    """

    line: AttemptLine = AttemptLine()
    state: JsonObject = {}


class Committed(RunEvent, frozen=True, kw_only=True):
    """It was decided whether the run counts for the conversation.

    Attributes:
        committed: Whether its messages count.
        reason: Why not, "" if they do.
    """

    committed: bool = True
    reason: str = ""


class Warned(RunEvent, frozen=True, kw_only=True, tag="warning"):
    """Something went wrong without failing the run.

    Attributes:
        warning: The warning.
    """

    warning: RunWarning = RunWarning()


class Lagged(RunEvent, frozen=True, kw_only=True):
    """A slow subscriber missed deltas; durable events are never dropped.

    Attributes:
        missed: How many deltas.
    """

    missed: int = 0


class RunReleased(RunEvent, frozen=True, kw_only=True):
    """The last event of a session that released its run before the run ended or parked.

    Another session continues it; the log looks as it does after a process died.

    Attributes:
        reason: "drain": the worker shuts down; "due": the run waits until a moment; "outer": a
            child run whose parent was released.
        at: When the run should be resumed; for a child run, the time until which its root run
            waits, None if the root run does not wait.
    """

    reason: ReleaseReason = "drain"
    at: Moment | None = None

    @property
    def due_at(self) -> Moment | None:
        """When to resume the run; None for a child run, which resumes with its parent."""
        return None if self.reason == "outer" else self.at


class RunSettled(RunEvent, frozen=True, kw_only=True):
    """The last event of a session that ends or parks the run: the result so far.

    Attributes:
        result: The result that the caller gets.
        asks: In a log: the run's own unanswered questions in the form shown to the user, each under
            the id of the question; empty elsewhere.
        effect: In a log: the worst effect of the run and its child runs; "none" elsewhere.
        answer: In a log: the start of its answer, 200 characters or fewer; "" elsewhere.
        tools: In a log: the tools that it called or asks for, without duplicates, 20 or fewer.
        took_s: In a log: how many seconds its sessions took together; 0 elsewhere.
        due_at: In a log: when the run continues although what it waits for has not arrived; None
            for never, and elsewhere.
        calls: In a log: how often its sessions called each model and tool, 20 of each or fewer.
    """

    result: AgentResult[Json]
    effect: Effect = Effect.NONE
    asks: dict[str, Pending] = {}
    answer: str = ""
    tools: tuple[str, ...] = ()
    took_s: float = 0.0
    due_at: Moment | None = None
    calls: tuple[CallCount, ...] = ()


Event: TypeAlias = (
    RunStarted
    | RunResumed
    | AttemptStarted
    | ModelStarted
    | ModelRetried
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | PartDelta
    | ModelReplied
    | ToolStarted
    | ToolStateSaved
    | ToolProgress
    | ToolSettled
    | ArtifactStored
    | ApprovalRequested
    | ApprovalAnswered
    | QuestionAsked
    | QuestionAnswered
    | BoardChanged
    | Compacted
    | StepStarted
    | StepSettled
    | UsageReported
    | Tainted
    | RunInterrupted
    | CheckpointSaved
    | HandoffEvent
    | Decided
    | AttemptEnded
    | Committed
    | Warned
    | Lagged
    | RunReleased
    | RunSettled
    | Unknown
)

DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta, PartDelta, ToolProgress, Lagged)
