"""Reading the wire and pricing it, as a user would write it; checked, never run."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import assert_type

from upshot.contract import (
    AgentError,
    Cost,
    FinishReason,
    Json,
    Message,
    ModelResponse,
    ModelSettings,
    RateLimitState,
    RateLimitWindow,
    TextDelta,
    Usage,
)
from upshot.wire import (
    NOT_JSON,
    AnthropicRateLimits,
    Billing,
    CerebrasRateLimits,
    Mode,
    NotJson,
    OpenAIRateLimits,
    Price,
    Rate,
    RateLimitInfo,
    RequestEncoder,
    StreamEvent,
    StreamReader,
    build_rate_limit_state,
    build_rate_limit_windows,
    classify_error,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_openai_rate_limits,
    make_request_encoder,
    parse_duration,
    parse_finish_reason,
    parse_json,
    parse_reset,
    price_usage,
    read_billing,
    read_response,
)

HEADERS = {"x-ratelimit-remaining-requests": "9"}
EVENTS: Mode = "sse"
CHEAP: Rate = "0.10"


def reading(body: bytes) -> None:
    response = read_response("chat", status=200, headers=HEADERS, body=body)
    assert_type(response, ModelResponse)
    reader = StreamReader("messages", provider="anthropic", mode=EVENTS)
    events: list[StreamEvent] = reader.feed(body)
    print("".join(event.text for event in events if isinstance(event, TextDelta)))
    assert_type(reader.close(), ModelResponse)
    assert_type(classify_error(status=429, body=body), AgentError)
    document = parse_json(body)
    if isinstance(document, NotJson):
        assert document is NOT_JSON
    else:
        known: Json = document
        print(known)


def writing(messages: list[Message]) -> bytes:
    transcript: RequestEncoder = make_request_encoder("chat", provider="groq")
    for message in messages:
        transcript.append(message)
    return transcript.body(
        model="llama",
        system=None,
        tools=(),
        output_schema=None,
        settings=ModelSettings(temperature=0),
        stream=False,
    )


def limits(now: float) -> None:
    assert_type(list(build_rate_limit_windows(HEADERS)), list[RateLimitWindow])
    assert_type(build_rate_limit_state(HEADERS), RateLimitState)
    assert_type(RateLimitInfo.from_headers(HEADERS), RateLimitInfo)
    openai = extract_openai_rate_limits(HEADERS)
    assert_type(openai, OpenAIRateLimits)
    assert_type(openai.get_seconds_until_reset(), int | None)
    anthropic = extract_anthropic_rate_limits(HEADERS)
    assert_type(anthropic, AnthropicRateLimits)
    assert_type(anthropic.get_next_reset(), datetime | None)
    cerebras = extract_cerebras_rate_limits(HEADERS)
    assert_type(cerebras, CerebrasRateLimits)
    assert_type(cerebras.get_suggested_wait_seconds(), int | None)
    assert_type(parse_duration("6m30s"), float | None)
    assert_type(parse_reset("1s", now=now), float | None)
    assert_type(parse_finish_reason("stop"), FinishReason | None)


def pricing(response: ModelResponse) -> None:
    price = Price(input_per_mtok=1, output_per_mtok=CHEAP, per_call=Decimal("0.01"))
    assert_type(price.input_per_mtok, Decimal)
    billing = read_billing(response)
    assert_type(billing, Billing)
    assert_type(price_usage(Usage(input_tokens=7), price, billing), Cost | None)
