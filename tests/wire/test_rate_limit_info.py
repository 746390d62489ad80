"""Rate limits under the providers' own names."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire import (
    AnthropicRateLimits,
    CerebrasRateLimits,
    OpenAIRateLimits,
    RateLimitInfo,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_openai_rate_limits,
)

NOON = datetime(2024, 6, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("limits", "bucket", "wait"),
    [
        ({}, None, None),
        ({"remaining_requests_minute": 10}, None, None),
        ({"remaining_requests_minute": 0}, "minute", 60),
        ({"remaining_tokens_minute": 0, "remaining_requests_hour": 0}, "hour", 3600),
        ({"remaining_tokens_minute": 0, "remaining_tokens_day": 0}, "day", 86400),
        ({"remaining_tokens_day": 0, "reset_tokens_day_seconds": 99}, "day", 99),
    ],
)
def test_the_longest_empty_bucket_decides(limits, bucket, wait):
    found = CerebrasRateLimits(**limits)
    assert found.get_most_restrictive_bucket() == bucket
    assert found.get_suggested_wait_seconds() == wait
    assert found.is_limited() is (bucket is not None)


def test_cerebras_headers_become_fields():
    found = extract_cerebras_rate_limits(
        {
            "X-RateLimit-Remaining-Requests-Minute": "10",
            "x-ratelimit-limit-tokens-day": "1000",
            "x-ratelimit-remaining-tokens-hour": "junk",
            "x-ratelimit-reset-tokens-day": "1.5",
        }
    )
    assert (found.remaining_requests_minute, found.limit_tokens_day) == (10, 1000)
    assert (found.remaining_tokens_hour, found.reset_tokens_day_seconds) == (None, 2)


def test_anthropic_headers_become_fields():
    found = extract_anthropic_rate_limits(
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2024-06-15T12:00:00Z",
            "anthropic-ratelimit-output-tokens-limit": "50",
            "anthropic-ratelimit-tokens-reset": "junk",
        }
    )
    assert (found.requests_remaining, found.output_tokens_limit) == (0, 50)
    assert (found.requests_reset, found.tokens_reset) == (NOON, None)
    assert found.is_limited()


def test_anthropic_tells_the_earliest_reset():
    found = AnthropicRateLimits(requests_reset=NOON.replace(hour=13), tokens_reset=NOON)
    assert found.get_next_reset() == NOON
    assert found.get_seconds_until_reset(now=NOON.replace(hour=11)) == 3600
    assert found.get_seconds_until_reset(now=NOON.replace(hour=15)) == 0
    assert AnthropicRateLimits().get_seconds_until_reset() is None


def test_openai_keeps_its_duration_strings():
    found = extract_openai_rate_limits(
        {"x-ratelimit-reset-requests": "6m30s", "x-ratelimit-reset-tokens": "500ms"}
    )
    assert (found.reset_requests, found.reset_requests_seconds) == ("6m30s", 390)
    assert found.reset_tokens_seconds == found.get_seconds_until_reset() == 1


@pytest.mark.parametrize("field", ["remaining_requests", "remaining_tokens"])
def test_openai_is_limited_where_nothing_remains(field):
    assert OpenAIRateLimits(**{field: 0}).is_limited()
    assert not OpenAIRateLimits(**{field: 1}).is_limited()


def test_the_flat_form_prefers_plain_windows():
    found = RateLimitInfo.from_headers(
        {
            "x-ratelimit-remaining-requests": "100",
            "x-ratelimit-remaining-requests-minute": "10",
            "anthropic-ratelimit-input-tokens-remaining": "7",
            "set-cookie": "secret",
        }
    )
    assert (found.remaining_requests, found.remaining_tokens) == (100, 7)
    assert "set-cookie" not in found.raw_headers
    assert not found.is_limited()


def test_the_flat_form_tells_how_long_to_wait():
    assert RateLimitInfo(retry_after=3, reset_at=99.0).get_retry_delay(now=0.0) == 3
    assert RateLimitInfo(reset_at=99.5).get_retry_delay(now=9.0) == 91
    assert RateLimitInfo().get_retry_delay() is None
    assert RateLimitInfo(remaining_tokens=0).is_limited()


@given(st.dictionaries(st.text(), st.text()))
def test_extractors_take_any_headers(headers):
    assert not extract_cerebras_rate_limits(headers).is_limited()
    assert not extract_anthropic_rate_limits(headers).is_limited()
    assert not extract_openai_rate_limits(headers).is_limited()


@pytest.mark.parametrize(
    ("remaining", "wait"), [((0, 5), 60), ((5, 0), 6), ((0, 0), 60), ((5, 5), 6), ((None, None), 6)]
)
def test_the_wait_is_the_longest_of_those_used_up_else_the_shortest(remaining, wait):
    found = OpenAIRateLimits(
        remaining_requests=remaining[0],
        reset_requests_seconds=60,
        remaining_tokens=remaining[1],
        reset_tokens_seconds=6,
    )
    assert found.get_seconds_until_reset() == wait
    found = AnthropicRateLimits(
        requests_remaining=remaining[0],
        requests_reset=NOON.replace(minute=1),
        output_tokens_remaining=remaining[1],
        output_tokens_reset=NOON.replace(second=6),
    )
    assert found.get_seconds_until_reset(now=NOON) == wait


@pytest.mark.parametrize(
    "info",
    [
        RateLimitInfo.from_headers({"x-ratelimit-remaining-requests": "3"}),
        extract_openai_rate_limits({"x-ratelimit-remaining-requests": "3"}),
        extract_cerebras_rate_limits({"x-ratelimit-remaining-requests-day": "3"}),
        extract_anthropic_rate_limits({"anthropic-ratelimit-requests-remaining": "3"}),
    ],
    ids=lambda info: type(info).__name__,
)
def test_they_are_plain_dataclasses(info: Any) -> None:
    form = dataclasses.asdict(info)
    assert type(info)(**form) == info
    assert type(info)(*form.values()) == info
    for name in form:
        setattr(info, name, None)
    assert set(dataclasses.asdict(info).values()) == {None}


def test_two_of_them_share_no_headers() -> None:
    first, second = RateLimitInfo(1), RateLimitInfo(2)
    first.raw_headers["a"] = "1"
    assert (second.remaining_requests, second.raw_headers) == (2, {})
