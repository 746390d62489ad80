"""Rate limits under the providers' own names, for code that was written for one provider."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from ..contract import RateLimitState, RateLimitWindow
from .fields import parse_datetime, parse_integer, parse_reset
from .headers import Headers, normalize_headers, to_raw_headers
from .rate_limits import read_rate_limit_state

__all__ = [
    "AnthropicRateLimits",
    "CerebrasRateLimits",
    "OpenAIRateLimits",
    "RateLimitInfo",
    "extract_anthropic_rate_limits",
    "extract_cerebras_rate_limits",
    "extract_openai_rate_limits",
]

_BUCKETS = {"day": 86400, "hour": 3600, "minute": 60}


class RateLimitInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The flat form: one figure for requests and one for tokens.

    Attributes:
        remaining_requests: What is left; of several windows the one with least left.
        remaining_tokens: The same for tokens, input and output ones included.
        limit_requests: The limit of that window.
        limit_tokens: The limit of that window.
        reset_at: When the first of these windows is full again, in unix seconds.
        retry_after: Whole seconds to wait; None where nothing says so.
        raw_headers: All headers, names in lower case, without secrets.
    """

    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    limit_requests: int | None = None
    limit_tokens: int | None = None
    reset_at: float | None = None
    retry_after: int | None = None
    raw_headers: dict[str, str] = {}

    @classmethod
    def from_headers(cls, headers: Headers, *, now: float | None = None) -> RateLimitInfo:
        """Make it of *headers*, received at *now* (unix seconds; None takes this moment)."""
        fields = normalize_headers(headers)
        state = read_rate_limit_state(fields, now=time.time() if now is None else now)
        return cls.from_state(state, to_raw_headers(fields))

    @classmethod
    def from_state(
        cls, state: RateLimitState, raw_headers: Mapping[str, str] | None = None
    ) -> RateLimitInfo:
        """Make it of *state*, which was read from *raw_headers*."""
        requests = _tightest(state.windows, "requests")
        tokens = _tightest(state.windows, "tokens")
        resets = [
            window.reset_at
            for window in (requests, tokens)
            if window and window.reset_at is not None
        ]
        return cls(
            remaining_requests=requests and requests.remaining,
            remaining_tokens=tokens and tokens.remaining,
            limit_requests=requests and requests.limit,
            limit_tokens=tokens and tokens.limit,
            reset_at=min(resets, default=None),
            retry_after=state.retry_after,
            raw_headers=dict(raw_headers or {}),
        )

    def is_limited(self) -> bool:
        """Whether requests or tokens are used up."""
        return self.remaining_requests == 0 or self.remaining_tokens == 0

    def get_retry_delay(self, *, now: float | None = None) -> int | None:
        """Whole seconds to wait: ``retry_after``, else until ``reset_at``; None where both lack."""
        if self.retry_after is not None or self.reset_at is None:
            return self.retry_after
        return max(0, math.ceil(self.reset_at - (time.time() if now is None else now)))


class CerebrasRateLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Cerebras reports: requests and tokens, a minute, an hour and a day.

    Attributes:
        remaining_requests_minute: Requests left in this minute; the others alike. None where the
            header is absent or no number.
    """

    remaining_requests_minute: int | None = None
    remaining_requests_hour: int | None = None
    remaining_requests_day: int | None = None
    limit_requests_minute: int | None = None
    limit_requests_hour: int | None = None
    limit_requests_day: int | None = None
    remaining_tokens_minute: int | None = None
    remaining_tokens_hour: int | None = None
    remaining_tokens_day: int | None = None
    limit_tokens_minute: int | None = None
    limit_tokens_hour: int | None = None
    limit_tokens_day: int | None = None
    reset_requests_minute_seconds: int | None = None
    reset_requests_hour_seconds: int | None = None
    reset_requests_day_seconds: int | None = None
    reset_tokens_minute_seconds: int | None = None
    reset_tokens_hour_seconds: int | None = None
    reset_tokens_day_seconds: int | None = None

    def is_limited(self) -> bool:
        """Whether any bucket is empty."""
        return self.get_most_restrictive_bucket() is not None

    def get_most_restrictive_bucket(self) -> str | None:
        """The longest empty bucket, "day", "hour" or "minute": it is the last to fill again."""
        for bucket in _BUCKETS:
            if 0 in (self._remaining("requests", bucket), self._remaining("tokens", bucket)):
                return bucket
        return None

    def get_suggested_wait_seconds(self) -> int | None:
        """Seconds until that bucket is full again; None where none is empty.

        Where the reply does not say when, it is the bucket's whole length.
        """
        bucket = self.get_most_restrictive_bucket()
        if bucket is None:
            return None
        waits = [
            getattr(self, f"reset_{resource}_{bucket}_seconds")
            for resource in ("requests", "tokens")
            if self._remaining(resource, bucket) == 0
        ]
        known = [wait for wait in waits if wait is not None]
        return max(known) if known else _BUCKETS[bucket]

    def _remaining(self, resource: str, bucket: str) -> int | None:
        return getattr(self, f"remaining_{resource}_{bucket}")


class AnthropicRateLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What Anthropic reports: requests, and tokens in all, in and out.

    Attributes:
        requests_limit: The most requests of the window; the others alike.
        requests_remaining: Requests left.
        requests_reset: When they are full again, as an aware moment.
    """

    requests_limit: int | None = None
    requests_remaining: int | None = None
    requests_reset: datetime | None = None
    tokens_limit: int | None = None
    tokens_remaining: int | None = None
    tokens_reset: datetime | None = None
    input_tokens_limit: int | None = None
    input_tokens_remaining: int | None = None
    input_tokens_reset: datetime | None = None
    output_tokens_limit: int | None = None
    output_tokens_remaining: int | None = None
    output_tokens_reset: datetime | None = None

    def is_limited(self) -> bool:
        """Whether any of the four is used up."""
        return 0 in (
            self.requests_remaining,
            self.tokens_remaining,
            self.input_tokens_remaining,
            self.output_tokens_remaining,
        )

    def get_next_reset(self) -> datetime | None:
        """The earliest reset, None where none is known."""
        resets = (
            self.requests_reset,
            self.tokens_reset,
            self.input_tokens_reset,
            self.output_tokens_reset,
        )
        return min((reset for reset in resets if reset is not None), default=None)

    def get_seconds_until_reset(self, *, now: datetime | None = None) -> int | None:
        """Whole seconds until the earliest reset, rounded up, 0 where it has passed."""
        reset = self.get_next_reset()
        if reset is None:
            return None
        if reset.tzinfo is None:
            reset = reset.replace(tzinfo=UTC)
        return max(0, math.ceil((reset - (now or datetime.now(UTC))).total_seconds()))


class OpenAIRateLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What OpenAI and those that follow it report: requests and tokens.

    Attributes:
        limit_requests: The most requests of the window.
        remaining_requests: Requests left.
        reset_requests: Until they are full again, as it came, such as "6m30s".
        reset_requests_seconds: The same in whole seconds, rounded up.
    """

    limit_requests: int | None = None
    limit_tokens: int | None = None
    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    reset_requests: str | None = None
    reset_requests_seconds: int | None = None
    reset_tokens: str | None = None
    reset_tokens_seconds: int | None = None

    def is_limited(self) -> bool:
        """Whether requests or tokens are used up."""
        return self.remaining_requests == 0 or self.remaining_tokens == 0

    def get_seconds_until_reset(self) -> int | None:
        """The shorter of the two waits, None where neither is known."""
        waits = (self.reset_requests_seconds, self.reset_tokens_seconds)
        return min((wait for wait in waits if wait is not None), default=None)


def extract_cerebras_rate_limits(
    headers: Headers, *, now: float | None = None
) -> CerebrasRateLimits:
    """Read Cerebras' headers; a field is None where its header is absent or no number.

    Args:
        headers: Any header container, or None.
        now: When they were received, in unix seconds; None takes this moment.
    """
    fields = normalize_headers(headers)
    values: dict[str, int | None] = {}
    for resource in ("requests", "tokens"):
        for bucket in _BUCKETS:
            for part in ("limit", "remaining"):
                values[f"{part}_{resource}_{bucket}"] = _count(
                    fields, f"x-ratelimit-{part}-{resource}-{bucket}"
                )
            reset = fields.get(f"x-ratelimit-reset-{resource}-{bucket}")
            values[f"reset_{resource}_{bucket}_seconds"] = _seconds(reset, now)
    return CerebrasRateLimits(**values)


def extract_anthropic_rate_limits(headers: Headers) -> AnthropicRateLimits:
    """Read Anthropic's headers; a field is None where its header is absent or unreadable."""
    fields = normalize_headers(headers)
    read: dict[str, int | datetime | None] = {}
    for resource in ("requests", "tokens", "input-tokens", "output-tokens"):
        stem, name = f"anthropic-ratelimit-{resource}", resource.replace("-", "_")
        for part in ("limit", "remaining"):
            read[f"{name}_{part}"] = _count(fields, f"{stem}-{part}")
        read[f"{name}_reset"] = parse_datetime(fields.get(f"{stem}-reset", ""))
    return msgspec.convert(read, AnthropicRateLimits)


def extract_openai_rate_limits(headers: Headers, *, now: float | None = None) -> OpenAIRateLimits:
    """Read the headers of OpenAI, Azure, Groq and their like.

    Args:
        headers: Any header container, or None.
        now: When they were received, in unix seconds; None takes this moment.
    """
    fields = normalize_headers(headers)
    requests, tokens = (fields.get(f"x-ratelimit-reset-{name}") for name in ("requests", "tokens"))
    return OpenAIRateLimits(
        limit_requests=_count(fields, "x-ratelimit-limit-requests"),
        limit_tokens=_count(fields, "x-ratelimit-limit-tokens"),
        remaining_requests=_count(fields, "x-ratelimit-remaining-requests"),
        remaining_tokens=_count(fields, "x-ratelimit-remaining-tokens"),
        reset_requests=requests,
        reset_requests_seconds=_seconds(requests, now),
        reset_tokens=tokens,
        reset_tokens_seconds=_seconds(tokens, now),
    )


def _tightest(windows: tuple[RateLimitWindow, ...], word: str) -> RateLimitWindow | None:
    """The plain window of *word*, else the one of its kind with the least left."""
    plain = [window for window in windows if window.name == word]
    kin = plain or [window for window in windows if word in window.resource.split("_")]
    return min(
        kin,
        key=lambda window: math.inf if window.remaining is None else window.remaining,
        default=None,
    )


def _count(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name)
    return None if text is None else parse_integer(text)


def _seconds(text: str | None, now: float | None) -> int | None:
    wait = None if text is None else parse_reset(text, now=time.time() if now is None else now)
    return None if wait is None else math.ceil(wait)
