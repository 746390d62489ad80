"""Sans-I/O: what providers send becomes contract values, and contract values what they want."""

from upshot.wire.accumulator import StreamEvent, parse_finish_reason
from upshot.wire.decoding import NOT_JSON, NotJson, parse_json
from upshot.wire.encoding import RequestEncoder
from upshot.wire.error_classification import classify_error
from upshot.wire.headers import parse_duration, parse_reset
from upshot.wire.pricing import Billing, Price, Rate, price_usage, read_billing
from upshot.wire.rate_limits import (
    AnthropicRateLimits,
    CerebrasRateLimits,
    OpenAIRateLimits,
    RateLimitInfo,
    build_rate_limit_state,
    build_rate_limit_windows,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_openai_rate_limits,
)
from upshot.wire.reader import Mode, StreamReader, make_request_encoder, read_response

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
    "RequestEncoder",
    "build_rate_limit_state",
    "build_rate_limit_windows",
    "classify_error",
    "extract_anthropic_rate_limits",
    "extract_cerebras_rate_limits",
    "extract_openai_rate_limits",
    "make_request_encoder",
    "parse_duration",
    "parse_finish_reason",
    "parse_json",
    "parse_reset",
    "price_usage",
    "read_billing",
    "read_response",
]
