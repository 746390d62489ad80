"""The names of the flat contract and of its metrics, for code that was written for them.

Where the contract says None, the structures here say 0. Nothing in this package calls a model:
it may be taken alone, and makes results of what other code has at hand.
"""

from upshot.contract.base.enums import FinishReason
from upshot.contract.forms.execution_form import AgentExecutionResult
from upshot.flat.conversion import (
    FlatAgent,
    StructView,
    build_rate_limit_state,
    build_rate_limit_windows,
    extract_headers_from_error,
    extract_headers_from_response,
    extract_rate_limit_info,
    extract_status_code,
    from_agent_response,
    from_pi_agent,
    from_smolagents,
    is_retryable_error,
    to_agent_response,
)
from upshot.flat.flat_result import AgentResult, coerce_agent_result
from upshot.flat.structures import AgentResponse, CostInfo, ErrorInfo, ToolCall, UsageInfo
from upshot.wire.rate_limits import (
    AnthropicRateLimits,
    CerebrasRateLimits,
    OpenAIRateLimits,
    RateLimitInfo,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_openai_rate_limits,
)

__all__ = [
    "AgentExecutionResult",
    "AgentResponse",
    "AgentResult",
    "AnthropicRateLimits",
    "CerebrasRateLimits",
    "CostInfo",
    "ErrorInfo",
    "FinishReason",
    "FlatAgent",
    "OpenAIRateLimits",
    "RateLimitInfo",
    "StructView",
    "ToolCall",
    "UsageInfo",
    "build_rate_limit_state",
    "build_rate_limit_windows",
    "coerce_agent_result",
    "extract_anthropic_rate_limits",
    "extract_cerebras_rate_limits",
    "extract_headers_from_error",
    "extract_headers_from_response",
    "extract_openai_rate_limits",
    "extract_rate_limit_info",
    "extract_status_code",
    "from_agent_response",
    "from_pi_agent",
    "from_smolagents",
    "is_retryable_error",
    "to_agent_response",
]
