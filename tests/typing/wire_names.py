"""Reading the wire, prices and models as a user would write it; checked, never run."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import assert_type

from upshot.adapters import from_litellm, from_smolagents
from upshot.contract import (
    AgentError,
    AgentResult,
    FinishReason,
    Json,
    ModelResponse,
    RateLimitState,
    RateLimitWindow,
    contract_schema,
    contract_typescript,
)
from upshot.flat import AgentResponse, to_agent_response
from upshot.models import Fallback, HttpModel, Prices, missing_key, resolve
from upshot.wire import (
    Price,
    RateLimitInfo,
    StreamReader,
    build_rate_limit_state,
    build_rate_limit_windows,
    classify_error,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_openai_rate_limits,
    parse_duration,
    parse_finish_reason,
    parse_reset,
    read_response,
)

HEADERS = {"x-ratelimit-remaining-requests": "9"}


def reading(body: bytes) -> None:
    response = read_response("chat", status=200, headers=HEADERS, body=body)
    assert_type(response, ModelResponse)
    reader = StreamReader("messages", provider="anthropic")
    reader.feed(body)
    assert_type(reader.close(), ModelResponse)
    assert_type(classify_error(status=429, body=body), AgentError)


def limits(now: float) -> None:
    assert_type(list(build_rate_limit_windows(HEADERS)), list[RateLimitWindow])
    assert_type(build_rate_limit_state(HEADERS), RateLimitState)
    assert_type(RateLimitInfo.from_headers(HEADERS), RateLimitInfo)
    assert_type(extract_openai_rate_limits(HEADERS).get_seconds_until_reset(), int | None)
    extract_anthropic_rate_limits(HEADERS).get_next_reset()
    extract_cerebras_rate_limits(HEADERS).get_suggested_wait_seconds()
    assert_type(parse_duration("6m30s"), float | None)
    assert_type(parse_reset("1s", now=now), float | None)
    assert_type(parse_finish_reason("stop"), FinishReason | None)


async def asking() -> None:
    own = Prices(
        {"openai:ours": Price(input_per_mtok=1, output_per_mtok="2.50", per_call=Decimal("0.01"))}
    )
    model = resolve("groq:llama", prices=own)
    both = Fallback(model, "anthropic:claude", on=("rate_limit",))
    assert_type(await both.call("Hello"), ModelResponse)
    assert_type(missing_key(both), str | None)
    print(HttpModel.__name__)


def elsewhere(native: object, responses: Sequence[ModelResponse]) -> None:
    assert_type(from_smolagents(native), AgentResult[Json])
    assert_type(from_litellm(native), AgentResult[Json])
    assert_type([to_agent_response(response) for response in responses], list[AgentResponse])
    assert_type(contract_typescript(), str)
    print(contract_schema())
