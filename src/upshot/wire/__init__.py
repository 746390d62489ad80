"""Sans-I/O: what providers send becomes contract values, and contract values what they want."""

from .document import NOT_JSON, NotJson, parse_json
from .draft import StreamEvent
from .failures import classify_error
from .fields import parse_duration, parse_reset
from .finish import parse_finish_reason
from .prices import Billing, Price, Rate, price_usage, read_billing
from .rate_limit_info import (
    AnthropicRateLimits,
    CerebrasRateLimits,
    OpenAIRateLimits,
    RateLimitInfo,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_openai_rate_limits,
)
from .rate_limits import build_rate_limit_state, build_rate_limit_windows
from .reading import Mode, StreamReader, read_response
from .surfaces import make_transcript
from .transcript import Transcript

__all__ = [
    "AnthropicRateLimits",
    "Billing",
    "CerebrasRateLimits",
    "Mode",
    "NOT_JSON",
    "NotJson",
    "OpenAIRateLimits",
    "Price",
    "Rate",
    "RateLimitInfo",
    "StreamEvent",
    "StreamReader",
    "Transcript",
    "build_rate_limit_state",
    "build_rate_limit_windows",
    "classify_error",
    "extract_anthropic_rate_limits",
    "extract_cerebras_rate_limits",
    "extract_openai_rate_limits",
    "make_transcript",
    "parse_duration",
    "parse_finish_reason",
    "parse_json",
    "parse_reset",
    "price_usage",
    "read_billing",
    "read_response",
]
