"""The flat metrics structures: plain dataclasses in which 0 means unknown.

They are mutable, and ``dataclasses.asdict`` and ``replace`` work on them, as flat code expects.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from upshot.contract.base.enums import FinishReason
from upshot.contract.base.structs import Json, JsonObject
from upshot.wire.rate_limits import RateLimitInfo


@dataclass
class CostInfo:
    """The cost of a call, in dollars.

    Attributes:
        input: The uncached part of the prompt.
        output: The answer.
        cache_read: Prompt tokens that were read from a cache.
        cache_write: Prompt tokens that were written to a cache.
        total: The total cost.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


@dataclass
class UsageInfo:
    """Tokens of a call; 0 also if the provider reported nothing.

    Attributes:
        input_tokens: All prompt tokens, cached ones included.
        output_tokens: All generated tokens.
        total_tokens: Their sum.
        cache_read_tokens: The part of the input that was read from a cache.
        cache_write_tokens: The part of the input that was written to a cache.
        cost: Their cost; None if the price is unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: CostInfo | None = None

    @property
    def estimated_cost(self) -> float:
        """The total cost, 0.0 if it is unknown."""
        return self.cost.total if self.cost else 0.0


@dataclass
class ErrorInfo:
    """Why a call failed.

    Attributes:
        error_type: The exception's class, or the provider's word.
        message: One line for the user.
        status_code: The HTTP status, None if there was none.
        retryable: Whether the same call may succeed later.
        code: The kind of failure in the contract's words, "" if unknown.
    """

    error_type: str
    message: str
    status_code: int | None = None
    retryable: bool = False
    code: str = ""


@dataclass
class ToolCall:
    """A tool call that the model requests.

    Attributes:
        id: The provider's id of the call.
        server: The MCP server of the tool, "" for any other tool.
        tool: The tool's name.
        arguments: The arguments, by name.
    """

    id: str
    server: str = ""
    tool: str = ""
    arguments: JsonObject = field(default_factory=dict[str, Json])

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool


@dataclass
class AgentResponse:
    """The outcome of a model call, success or failure.

    Attributes:
        content: The text; None if there is none.
        output: The answer as data if a schema was requested, otherwise None.
        tool_calls: The requested tool calls; None if there are none.
        raw_response: The reply as received, in this process only.
        usage: Tokens and money.
        rate_limit: The provider's rate limits.
        finish_reason: Why the model stopped; None if unknown.
        error: Why it failed; None if it did not.
    """

    content: str | None = None
    output: Json = None
    tool_calls: list[ToolCall] | None = None
    raw_response: object = None
    usage: UsageInfo | None = None
    rate_limit: RateLimitInfo | None = None
    finish_reason: FinishReason | None = None
    error: ErrorInfo | None = None

    @property
    def success(self) -> bool:
        """Whether there is no error."""
        return self.error is None
