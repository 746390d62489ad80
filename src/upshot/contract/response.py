"""ModelResponse: what came of one model call."""

from __future__ import annotations

from ..errors import RunFailed
from .call import ToolCall
from .error import AgentError
from .free_json import clean_fields
from .message import Message, Part, Reasoning, Text
from .rate_limit import RateLimitState
from .usage import Cost, Usage
from .value import Json, JsonObject, Local, Root, freeze, set_field
from .word_field import FinishReasonField, word
from .words import FinishReason, Role, Status

__all__ = ["ModelResponse"]


class ModelResponse(Root, frozen=True, kw_only=True):
    """What came of one model call: an answer, calls, or an error as a value.

    Attributes:
        content: All visible text, joined with nothing between; None where there is none.
        output: The answer read as JSON where a schema was asked for, else None.
        tool_calls: What the model asks to be done, in order.
        reasoning: What it thought, with the provider's signatures.
        refusal: Why it would not answer, None if it did.
        usage: Tokens; falsy where the provider told none.
        cost: Money, None where the price is unknown.
        finish_reason: Why it stopped; None while it was not over, or unknown.
        error: What went wrong, None if nothing did.
        rate_limit: The provider's windows, None where it told none.
        provider_data: provider, model, request_id, raw_headers, finish_raw, and what else it sent.
        duration_ms: From the request to the last byte, 0 where it was not measured.
        local: In process only: ``raw``, the reply as it came.
    """

    content: str | None = None
    output: Json = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    refusal: str | None = None
    usage: Usage = Usage()
    cost: Cost | None = None
    finish_reason: FinishReasonField = word(None)
    error: AgentError | None = None
    rate_limit: RateLimitState | None = None
    provider_data: JsonObject = {}
    duration_ms: int = 0
    local: Local | None = None

    def __post_init__(self) -> None:
        if type(self.finish_reason) is str:
            set_field(self, "finish_reason", FinishReason(self.finish_reason))
        if type(self.tool_calls) is not tuple or type(self.reasoning) is not tuple:
            freeze(self, "tool_calls", "reasoning")
        content = self.content
        # A call costs more than a look, and nearly every reply passes.
        if self.refusal is not None or (content is not None and not content.isascii()):
            clean_fields(self, "content", "refusal")
        usage, cost = self.usage, self.cost
        if cost is not usage.cost:
            set_field(self, "usage", usage.with_cost(cost if usage else None))

    @property
    def success(self) -> bool:
        """Whether there is no error."""
        return self.error is None

    @property
    def status(self) -> Status:
        """Completed or failed, in the words of a run."""
        return Status.COMPLETED if self.error is None else Status.FAILED

    @property
    def raw(self) -> object:
        """The reply as it came, in process only; None where it was not kept."""
        return self.local.get("raw") if self.local is not None else None

    def unwrap(self) -> str:
        """The text, "" where there is none.

        Raises:
            RunFailed: The call ended with an error.
        """
        if self.error is not None:
            raise RunFailed(self)
        return self.content or ""

    def to_message(self) -> Message:
        """The assistant message that this reply adds to the conversation."""
        content: str | tuple[Part, ...] = self.content or ""
        if self.reasoning:
            said: tuple[Part, ...] = (Text(self.content),) if self.content else ()
            content = (*self.reasoning, *said)
        return Message(Role.ASSISTANT, content, tool_calls=self.tool_calls)
