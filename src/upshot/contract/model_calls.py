"""Requests to agents and models, replies, and the events of model calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import (
    FinishReason,
    FinishReasonField,
    FinishReasonWord,
    Role,
    Status,
    word,
)
from upshot.contract.base.json_values import clean_fields
from upshot.contract.base.structs import (
    Json,
    JsonObject,
    KeywordMeta,
    Local,
    Root,
    RunEvent,
    Value,
    check_given,
    check_types,
    freeze,
    set_field,
    unchecked,
)
from upshot.contract.error import AgentError
from upshot.contract.message import (
    Message,
    MessageList,
    Part,
    Reasoning,
    Text,
    check_parts,
    with_views,
)
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import NO_USAGE, Cost, RateLimitState, Usage, measured
from upshot.errors import Misuse, RunFailed

# Looked up once, like every enum member that a run needs at each step: in Python 3.11 looking up an
# enum member is slow.
_make = msgspec.StructMeta.__call__
_ASSISTANT = Role.ASSISTANT


# Text checks its own text.
_make_text = unchecked(Text())
_LOOKED_UP = frozenset({"server_tools", "web_searches", "cites"})


class _ResponseMeta(msgspec.StructMeta):
    """Metaclass that also accepts the views and turns them into parts."""

    # A type checker reads __init__ below. Decoding bypasses this.
    if not TYPE_CHECKING:

        def __call__(cls, *, content=None, tool_calls=(), reasoning=(), **fields):
            """Create the reply."""
            if content or tool_calls or reasoning:
                if fields.get("parts"):
                    raise Misuse(
                        "ModelResponse got both parts and a view of them (content, tool_calls or "
                        "reasoning): give one or the other"
                    )
                parts_of_content = (_make_text(text=content),) if content else ()
                fields["parts"] = (*reasoning, *parts_of_content, *tool_calls)
            made = _make(cls, **fields)
            check_given(made, fields)
            check_parts(made.parts)
            return made

        @property
        def __signature__(cls):
            return with_views(super().__signature__, "content", "tool_calls", "reasoning")


class ModelResponse(Root, frozen=True, kw_only=True, metaclass=_ResponseMeta):
    """The outcome of one model call: an answer, tool calls, or an error as a value.

    ``content``, ``tool_calls`` and ``reasoning`` are views of ``parts``, and may be given instead:
    ``ModelResponse(content="Hello")``. They become parts in the order thoughts, text, calls.

    Attributes:
        parts: Thoughts, text, calls and blocks of the provider's own tools, in the order received.
        output: The answer parsed as JSON if a schema was requested, otherwise None.
        refusal: Why the model refused to answer, None if it did not refuse.
        usage: Tokens; falsy if the provider reported none.
        cost: Money, None if the price is unknown.
        finish_reason: Why the model stopped; None if it did not finish, or the reason is unknown.
        paused: Whether the provider paused, and continues when the reply is sent back to it.
        error: What went wrong, None if nothing did.
        rate_limit: The provider's rate-limit windows, None if it reported none.
        provider_data: provider, model, request_id, raw_headers, finish_raw, and further facts.
        duration_ms: From the request to the last byte, 0 if it was not measured.
        local: In this process only: ``raw``, the reply as received.
    """

    parts: tuple[Part, ...] = ()
    output: Json = None
    refusal: str | None = None
    usage: Usage = Usage()
    cost: Cost | None = None
    finish_reason: FinishReasonField = word(None)
    paused: bool = False
    error: AgentError | None = None
    rate_limit: RateLimitState | None = None
    provider_data: JsonObject = {}
    duration_ms: int = 0
    local: Local | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            parts: Sequence[Part] = (),
            content: str | None = None,
            tool_calls: Sequence[ToolCall] = (),
            reasoning: Sequence[Reasoning] = (),
            output: Json = None,
            refusal: str | None = None,
            usage: Usage = ...,
            cost: Cost | None = None,
            finish_reason: FinishReasonWord | None = None,
            paused: bool = False,
            error: AgentError | None = None,
            rate_limit: RateLimitState | None = None,
            provider_data: JsonObject = ...,
            duration_ms: int = 0,
            local: Local | None = None,
            schema_version: int = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if type(self.finish_reason) is str:
            set_field(self, "finish_reason", FinishReason(self.finish_reason))
        if type(self.parts) is not tuple:
            freeze(self, "parts")
        if self.refusal is not None:
            clean_fields(self, "refusal")
        usage, cost = self.usage, self.cost
        if type(usage) is not Usage or (cost is not None and type(cost) is not Cost):
            check_types(self, "usage", "cost")
        if cost is not usage.cost:
            set_field(self, "usage", usage.with_cost(cost if usage else None))

    @property
    def content(self) -> str | None:
        """All visible text, joined without a separator; None if there is none."""
        return "".join([part.text for part in self.parts if type(part) is Text]) or None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        # Called often: before Python 3.12 a comprehension costs a function call, a loop does not.
        calls: list[ToolCall] = []
        for part in self.parts:
            if type(part) is ToolCall:
                calls.append(part)
        return tuple(calls)

    @property
    def reasoning(self) -> tuple[Reasoning, ...]:
        """The thoughts, with the provider's signatures."""
        return tuple([part for part in self.parts if type(part) is Reasoning])

    @property
    def looked_up(self) -> str:
        """The provider's own search tool that the answer relies on, "" if none."""
        data = self.provider_data
        if _LOOKED_UP.isdisjoint(data):
            return ""
        tools = data.get("server_tools")
        if tools and isinstance(tools, list):
            return str(tools[0])
        return "web_search" if data.get("web_searches") or data.get("cites") else ""

    @property
    def success(self) -> bool:
        """Whether the call ended without an error."""
        return self.error is None

    @property
    def status(self) -> Status:
        """Completed or failed, as the status of a run."""
        return Status.COMPLETED if self.error is None else Status.FAILED

    @property
    def raw(self) -> object:
        """The reply as received, in this process only; None if it was not kept."""
        return self.local.get("raw") if self.local is not None else None

    def unwrap(self) -> str:
        """Return the text, "" if there is none.

        Raises:
            RunFailed: The call ended with an error.
        """
        if self.error is not None:
            raise RunFailed(self)
        return self.content or ""

    def to_message(self) -> Message:
        """Return the assistant message that this reply adds to the conversation, with all parts."""
        parts: str | tuple[Part, ...] = self.parts
        if len(parts) == 1 and type(only := parts[0]) is Text:
            # The usual answer is plain text, which a message stores as a string.
            parts = parts if only.trust or only.citations or only.signature else only.text
        if self.paused:
            return Message(_ASSISTANT, parts, paused=True)
        return Message(_ASSISTANT, parts)


class RequestDigests(Value, frozen=True, kw_only=True):
    """Digests of the parts of a model request; equal parts have equal digests in every run.

    They cover the text as logged, after the deciders and before it is encoded for a provider.
    Secrets, the run's id and the names of its artifacts do not affect them.

    Attributes:
        instructions: Digest of the instructions, "" if there are none.
        tools: Digest of the offered tools, "" if there are none.
        settings: Digest of the settings and the output schema, "" if there are neither.
        messages: Digest of all messages in order; the digest of the last one covers them.
        count: The number of messages.
        added: One digest for each message that this request adds to the ones it shares with the
            run's previous model call. Each covers all messages up to its own.
    """

    instructions: str = ""
    tools: str = ""
    settings: str = ""
    messages: str = ""
    count: int = 0
    added: tuple[str, ...] = ()


class ModelStarted(RunEvent, frozen=True, kw_only=True):
    """A model is about to be called.

    Attributes:
        model: "provider:name".
        turn: The turn of the attempt, from 1.
        request: Digests of the request; None if an engine reports its own call.
        purpose: "repair" if the call corrects a tool call's arguments, "sampling" if it replies to
            an MCP server, "summary" if it sums up older messages; "" for a call of the engine.
        step: The key of the step that makes the call, "" if none.
        withheld: Tools that deciders left out of the request; calls of them are denied.
        prompt: The file of the instructions and the digest of its text, as ``Prompt.version`` has
            them; "" if they come from no file, or a decider changed them.
    """

    model: str = ""
    turn: int = 0
    request: RequestDigests | None = None
    purpose: str = ""
    step: str = ""
    withheld: tuple[str, ...] = ()
    prompt: str = ""


class ModelRetried(RunEvent, frozen=True, kw_only=True):
    """A model call failed and is retried; the deltas shown so far are void.

    Attributes:
        model: "provider:name".
        turn: The turn of the attempt.
        tries: How many tries have failed.
        wait_s: Seconds until the next try.
        next_model: The model that a ``Fallback`` calls next, in the same try; "" if the same model
            is tried again.
        response: The failed reply, with usage and rate limits.
    """

    model: str = ""
    turn: int = 0
    tries: int = 0
    wait_s: float = 0.0
    next_model: str = ""
    response: ModelResponse = ModelResponse()

    @property
    def error(self) -> AgentError | None:
        """Why the call failed."""
        return self.response.error


class TextDelta(RunEvent, frozen=True, kw_only=True):
    """A piece of the visible text.

    Attributes:
        text: The piece.
    """

    text: str = ""


class ReasoningDelta(RunEvent, frozen=True, kw_only=True):
    """A piece of the model's thoughts.

    Attributes:
        text: The piece.
    """

    text: str = ""


class ToolCallDelta(RunEvent, frozen=True, kw_only=True):
    """A piece of a tool call that is being written.

    Attributes:
        index: The position of the call in the reply, from 0.
        call_id: The call's id, "" until it is known.
        name: The tool's name, "" until it is known.
        arguments: The piece of the JSON text.
    """

    index: int = 0
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class PartDelta(RunEvent, frozen=True, kw_only=True):
    """A part of the reply that is no text, thought or call, or a piece of one.

    The bytes of a sound follow those of the piece before it with the same index. Any other part
    replaces the one with the same index, as an image does its draft. The whole reply has all of
    them among its parts.

    Attributes:
        index: The number of the part among these, from 0.
        content: The part: an ``Audio``, an ``Image``, a ``File``, or a ``ServerToolBlock`` of the
            provider's own tools.
    """

    index: int = 0
    content: Part = Text("")


class ModelReplied(RunEvent, frozen=True, kw_only=True):
    """A model call ended, with or without an error.

    Attributes:
        model: "provider:name".
        turn: The turn of the attempt.
        tries: How many tries it took.
        response: The reply to the last try.
        purpose: As in ``ModelStarted``.
    """

    model: str = ""
    turn: int = 0
    tries: int = 1
    response: ModelResponse = ModelResponse()
    purpose: str = ""


class RequestConfig(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """What the caller can handle.

    Attributes:
        accepted_output_modes: Media types such as ``text/plain`` or ``image/*``; empty accepts
            all. An artifact of another type causes a warning.
    """

    accepted_output_modes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "accepted_output_modes")
        check_types(self)


class _Asked(Root, frozen=True, kw_only=False):
    message: Message | str


# Reads all fields of a request at once; the usual types need no further check.
_fields_of = attrgetter(
    "message", "inputs", "metadata", "task_id", "context_id", "run_id", "config"
)
_USER = Role.USER
_USUAL_TYPES = (Message, dict, dict, str, str, str, NoneType)


class Request(_Asked, frozen=True, kw_only=True):
    """One request to an agent: ``Request("Where is order 7?")``.

    Attributes:
        message: The message; a string becomes a user message.
        inputs: Variables set on the board before the engine starts; None means none.
        task_id: The caller's task, "" if none.
        context_id: The conversation that this run belongs to, "" if none.
        run_id: The id of the run; "" generates one.
        config: What the caller can handle.
        metadata: Free JSON from the caller; None means none.
    """

    inputs: JsonObject = {}
    task_id: str = ""
    context_id: str = ""
    run_id: str = ""
    config: RequestConfig | None = None
    metadata: JsonObject = {}

    def __post_init__(self) -> None:
        if isinstance(self.message, str):
            set_field(self, "message", Message(_USER, self.message))
        if (*map(type, _fields_of(self)),) == _USUAL_TYPES:
            return
        check_types(self, "message", "task_id", "context_id", "run_id", "config")
        if type(self.inputs) is dict and type(self.metadata) is dict:
            return
        for name in ("inputs", "metadata"):
            given: object = getattr(self, name)
            if given is None:
                set_field(self, name, {})
            elif not isinstance(given, Mapping):
                raise Misuse(
                    f"{name} of the request must be a mapping from names to JSON values, "
                    f"got {kind_of(given)}"
                )

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message if isinstance(self.message, str) else self.message.text

    def to_message(self) -> Message:
        """Return the message as a ``Message``."""
        return Message("user", self.message) if isinstance(self.message, str) else self.message


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a model.

    Attributes:
        messages: The conversation so far; a string is one user message. With a ``MessageList`` an
            encoder can cache its bytes from turn to turn.
        system: Instructions, apart from the messages; None for none.
        tools: The tools offered to the model, in order.
        output_schema: JSON Schema for the answer, None for free text.
        settings: Settings of the call; None leaves everything to the provider.

    Raises:
        Misuse: The messages are not ``Message`` objects.
    """

    messages: Sequence[Message]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    output_schema: JsonObject | None = None
    settings: ModelSettings | None = None

    def __post_init__(self) -> None:
        if isinstance(self.messages, MessageList):
            return
        given = cast("object", self.messages)
        if isinstance(given, str):
            set_field(self, "messages", (Message("user", given),))
        elif isinstance(given, Message):
            set_field(self, "messages", (given,))
        elif not isinstance(given, Sequence):
            raise Misuse(f"messages must be a list of Message objects, got {kind_of(given)}")
        else:
            for one in cast("Sequence[object]", given):
                if not isinstance(one, Message):
                    hint = "give Message('user', ...)"
                    raise Misuse(f"messages must be Message objects, got {kind_of(one)}: {hint}")

    @staticmethod
    def of(asked: ModelInput) -> ModelRequest:
        """Create a request from a string or messages; a request is returned as it is."""
        return asked if isinstance(asked, ModelRequest) else ModelRequest(cast("Any", asked))


ModelInput: TypeAlias = str | Sequence[Message] | ModelRequest


def name_of(model: object) -> str:
    """Return the name of *model*, for logs and prices, or of its class if it has no name."""
    name = getattr(model, "name", None)
    return str(name) if name else type(model).__name__


class CountedCall(NamedTuple):
    """What one model call, or all model calls of a child run, add to the totals.

    Attributes:
        usage: The tokens.
        cost: The cost, None if no call had a price.
        unpriced: The number of missing prices; refused calls need none.
    """

    usage: Usage
    cost: Cost | None
    unpriced: int


UNFINISHED = CountedCall(Usage(api_calls=1, unmeasured_calls=1), None, 1)
"""A model call that was cut off before it was answered."""


def counted(response: ModelResponse) -> CountedCall:
    """Return what a model call, failed or not, adds to the totals; it is at least one call."""
    usage, error = response.usage, response.error
    cost = response.cost
    if not usage.input_tokens and usage and not usage.is_measured:
        # All zeros mean that the usage is unknown; then a cost of zero is unknown too.
        usage = measured(usage)
        cost = cost if cost is not None and cost.total else None
    is_told = bool(usage.unmeasured_calls or usage)
    if error is None and usage.api_calls and is_told:
        # The usual case.
        return CountedCall(usage, cost, 1)
    if error is not None and not usage and error.was_free:
        # Not sent or refused, so it used nothing, and the totals are complete without it.
        return CountedCall(Usage(api_calls=max(1, usage.api_calls)), response.cost, 0)
    if not (usage.api_calls and is_told):
        missing = 0 if is_told else 1
        usage = usage + Usage(api_calls=max(0, 1 - usage.api_calls), unmeasured_calls=missing)
    return CountedCall(usage, cost, 1)


def is_unmeasured_answer(response: ModelResponse) -> bool:
    """Whether the model answered, and what that cost cannot be known."""
    call = counted(response)
    return response.error is None and call.cost is None and call.usage.unmeasured_calls > 0


def counted_run(usage: Usage, cost: Cost | None) -> CountedCall:
    """Return what the calls of a run add to the totals if only their sum is known.

    Without a cost, no call had a price. If the tokens are unknown too, only the unmeasured calls
    lack a price: the others were refused and used nothing.
    """
    return CountedCall(usage, cost, usage.api_calls if usage else usage.unmeasured_calls)


def costs_of(call: CountedCall) -> list[Cost | None]:
    """Return the costs of *call*: None for each missing price."""
    return [None] * call.unpriced if call.cost is None else [call.cost]


def sum_of(calls: Iterable[CountedCall]) -> tuple[Usage, Cost | None]:
    """Return the tokens and the cost of *calls*; the cost is None if no call had a price."""
    usage, costs = NO_USAGE, list[Cost | None]()
    for call in calls:
        usage = usage + call.usage
        costs += costs_of(call)
    return usage, Cost.of_calls(costs)


def with_earlier(response: ModelResponse, passed: Sequence[ModelResponse]) -> ModelResponse:
    """Return *response* with the usage, cost and duration of the failed replies *passed* added."""
    if not passed:
        return response
    replies = (*passed, response)
    usage, cost = sum_of(map(counted, replies))
    duration_ms = sum(reply.duration_ms for reply in replies)
    error = response.error
    if error is not None and error.was_free and (usage or usage.unmeasured_calls):
        error = msgspec.structs.replace(error, details={**error.details, "charged": True})
    return msgspec.structs.replace(
        response, usage=usage, cost=cost, error=error, duration_ms=duration_ms
    )
