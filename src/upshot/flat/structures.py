"""The flat metrics structures: plain dataclasses in which 0 stands for what is not known.

They can be assigned to, and ``dataclasses.asdict`` and ``replace`` work on them, as code that was
written for them expects.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from upshot.contract.base.enums import FinishReason
from upshot.contract.base.structs import Json, JsonObject
from upshot.wire.rate_limits import RateLimitInfo

__all__ = ["AgentResponse", "CostInfo", "ErrorInfo", "ToolCall", "UsageInfo"]


@dataclass
class CostInfo:
    """What a call cost, in dollars.

    Attributes:
        input: The uncached part of the prompt.
        output: The answer.
        cache_read: Prompt tokens that were read from a cache.
        cache_write: Prompt tokens that were written to one.
        total: All of it.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


@dataclass
class UsageInfo:
    """Tokens of a call; 0 also where the provider told nothing.

    Attributes:
        input_tokens: All prompt tokens, cached ones included.
        output_tokens: All generated tokens.
        total_tokens: Their sum.
        cache_read_tokens: The part of the input that was read from a cache.
        cache_write_tokens: The part of the input that was written to one.
        cost: What they cost; None where the price is unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: CostInfo | None = None

    @property
    def estimated_cost(self) -> float:
        """The total cost, 0.0 where it is unknown."""
        return self.cost.total if self.cost else 0.0


@dataclass
class ErrorInfo:
    """Why a call failed.

    Attributes:
        error_type: The exception's class, or the provider's word.
        message: One line for people.
        status_code: The HTTP status, None where there was none.
        retryable: Whether the same call may succeed later.
        code: The kind of failure as the contract names it; "" where nobody said.
    """

    error_type: str
    message: str
    status_code: int | None = None
    retryable: bool = False
    code: str = ""


@dataclass
class ToolCall:
    """A call that the model asks for.

    Attributes:
        id: The provider's id of it.
        server: The MCP server of the tool, "" for any other tool.
        tool: The tool's name.
        arguments: As an object.
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
    """What came of a call, good or bad.

    Attributes:
        content: The text; None where there is none.
        output: The answer as data where a schema asked for it, else None.
        tool_calls: What the model asks for; None where it asks for nothing.
        raw_response: The reply as it came, in process only.
        usage: Tokens and money.
        rate_limit: What the provider said of its limits.
        finish_reason: Why the model stopped; None where unknown.
        error: Why it failed; None where it did not.
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
