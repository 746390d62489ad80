"""The one reader of rate-limit headers, for all providers: it turns them into windows.

Header names follow one of two patterns, ``<family>-<part>-<what>`` (OpenAI and its followers,
Cerebras, Mistral) and ``<family>-<what>-<part>`` (Anthropic), where the part is limit, remaining
or reset. So the reader needs no list of providers.

Source:
    https://platform.openai.com/docs/guides/rate-limits,
    https://docs.anthropic.com/en/api/rate-limits,
    https://inference-docs.cerebras.ai/support/rate-limits, and recorded replies of Azure, Groq,
    Mistral, OpenRouter, Together and xAI.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil, inf
from typing import Any, NamedTuple, TypeVar, cast

from upshot.contract.base.enums import Resource
from upshot.contract.base.structs import unchecked
from upshot.contract.usage import RateLimitState, RateLimitWindow
from upshot.wire.headers import (
    WAITS,
    Headers,
    is_text,
    normalize_headers,
    parse_datetime,
    parse_integer,
    read_reset,
    read_retry_after,
    to_columns,
    to_plain_names,
    to_raw_headers,
)

_make_state = unchecked(RateLimitState())
_PARTS = frozenset({"limit", "remaining", "reset"})
# Month and year have no fixed length, so their windows get no estimated reset.
_LENGTH_S = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 604800,
    "month": None,
    "year": None,
}
_WHOLE_WORDS = {"req": "requests", "request": "requests", "token": "tokens"}


class _Slot(NamedTuple):
    """A window's constructor, and the positions of its headers, None for a missing one."""

    make: Callable[..., RateLimitWindow]
    length_s: int | None
    limit: int | None
    remaining: int | None
    reset: int | None


class _Layout(NamedTuple):
    """Where the rate-limit headers are among the headers of a reply."""

    slots: tuple[_Slot, ...]
    waits: tuple[tuple[str, int], ...]


def build_rate_limit_windows(
    headers: Headers, *, now: float | None = None
) -> tuple[RateLimitWindow, ...]:
    """Read the rate-limit windows in *headers*, in any provider's form.

    Args:
        headers: A mapping, pairs, anything with ``items()``, or None; names in any letter case.
        now: When they were received, in unix seconds; None is the current time.

    Returns:
        A window for each limit that has a usable limit or remaining count, in the order of the
        headers. Never raises.
    """
    layout, values = _lay_out(headers)
    return _read_windows(layout.slots, values, time.time() if now is None else now)


def build_rate_limit_state(
    headers: Headers, retry_after: float | None = None, *, now: float | None = None
) -> RateLimitState:
    """Read the windows in *headers*, and whether they limit the account now.

    Args:
        headers: As for :func:`build_rate_limit_windows`.
        retry_after: Seconds to wait, if the caller knows them; it overrides the headers.
        now: When they were received, in unix seconds; None is the current time.

    Returns:
        The state; ``limited`` if a window is exhausted. Never raises.
    """
    layout, values = _lay_out(headers)
    wait = to_amount(retry_after)
    return _read_state(layout, values, time.time() if now is None else now, wait)


def to_amount(value: object) -> float | None:
    """Return *value*, a number or its text, as seconds; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def find_rate_limit_state(
    fields: Mapping[str, str],
    *,
    now: float,
    retry_after: float | None = None,
    limited: bool = False,
) -> RateLimitState | None:
    """Read the state like :func:`build_rate_limit_state`, from headers already normalised.

    Args:
        fields: Normalised headers.
        now: When they were received, in unix seconds.
        retry_after: Seconds to wait, if the caller knows them.
        limited: Whether the reply was a rate-limit error.

    Returns:
        The state; None if there is no sign of a limit.
    """
    layout = _layout(tuple(fields))
    # Many servers send no limits at all: their replies cost one look-up.
    if not (layout.slots or layout.waits or limited or retry_after is not None):
        return None
    state = _read_state(layout, list(fields.values()), now, retry_after, limited=limited)
    known = limited or state.windows or state.retry_after is not None
    return state if known else None


def _lay_out(headers: Headers) -> tuple[_Layout, Sequence[str]]:
    """Return the layout of *headers*, and their values."""
    if isinstance(headers, dict):
        plain = cast("dict[object, object]", headers)
        layout = _plain_layout(tuple(plain))
        values = list(plain.values())
        if layout is not None and is_text(values):
            return layout, values
    names, texts = to_columns(cast("Headers", headers))
    return _layout(names), texts


def _read_state(
    layout: _Layout,
    values: Sequence[str],
    now: float,
    retry_after: float | None,
    *,
    limited: bool = False,
) -> RateLimitState:
    windows = _read_windows(layout.slots, values, now)
    # NaN fails the comparison too.
    wait = retry_after if retry_after is not None and 0 <= retry_after < inf else None
    if wait is None and layout.waits:
        wait = read_retry_after({name: values[place] for name, place in layout.waits}, now=now)
    for window in windows:
        if window.remaining == 0:
            limited = True
    if wait is None and limited:
        wait = _longest_wait(windows)
    return _make_state(
        limited=limited, retry_after=None if wait is None else ceil(wait), windows=windows
    )


def _longest_wait(windows: Iterable[RateLimitWindow]) -> int | None:
    waits = [window.resets_in for window in windows if window.remaining == 0]
    return max([wait for wait in waits if wait is not None], default=None)


def _read_windows(
    slots: tuple[_Slot, ...], values: Sequence[str], now: float
) -> tuple[RateLimitWindow, ...]:
    windows: list[RateLimitWindow] = []
    # Most windows of one reply reset at the same moment.
    known: dict[str, tuple[int | None, float | None]] = {}
    for make, length_s, most, left, reset in slots:
        limit = None if most is None else _parse_limit(values[most])
        remaining = None if left is None else parse_integer(values[left])
        if limit is None and remaining is None:
            continue
        if reset is not None:
            text = values[reset]
            found = known.get(text)
            if found is None:
                found = known[text] = _read_whole_reset(text, now)
            wait, moment = found
        elif length_s is not None:
            # Cerebras and Mistral do not always say when a bucket is full again; that takes at most
            # the bucket's length.
            wait, moment = length_s, now + length_s
        else:
            wait, moment = None, None
        windows.append(
            make(
                limit=limit,
                remaining=remaining,
                resets_in=wait,
                reset_at=moment,
                estimated=reset is None and wait is not None,
            )
        )
    return tuple(windows)


def _read_whole_reset(text: str, now: float) -> tuple[int | None, float | None]:
    reset = read_reset(text, now=now)
    return (None, None) if reset is None else (ceil(reset[0]), reset[1])


# Cached, because an account's limits rarely change.
_parse_limit = lru_cache(maxsize=256)(parse_integer)


# All replies of a server have the same header names, so each list of names is parsed once.
@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...]) -> _Layout:
    """Return the windows that *names* describe, in order of appearance."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for place, name in enumerate(names):
        family, words, part = _split_name(name)
        if part:
            found.setdefault((family, *words), {})[part] = place
    slots = tuple(_slot(key, parts) for key, parts in found.items())
    waits = tuple((name, place) for place, name in enumerate(names) if name in WAITS)
    return _Layout(slots, waits)


def _slot(key: tuple[str, ...], parts: dict[str, int]) -> _Slot:
    name, resource, length_s = _shape(key[1:])
    # Values read from headers have the right types, and each reply has several windows.
    make = unchecked(RateLimitWindow(name=name, resource=resource))
    return _Slot(make, length_s, parts.get("limit"), parts.get("remaining"), parts.get("reset"))


@lru_cache(maxsize=256)
def _plain_layout(given: tuple[object, ...]) -> _Layout | None:
    """Return the layout of headers named *given*; None if they need more than lower-casing."""
    names = to_plain_names(given)
    return None if names is None else _layout(names)


def _split_name(name: str) -> tuple[str, list[str], str]:
    """Split *name*: its family, what it counts, and which part it is.

    The part is "" for a name without "ratelimit": a provider with other names is added here.
    """
    # Some providers write it with a hyphen.
    family, _, rest = name.replace("rate-limit", "ratelimit").partition("ratelimit")
    if not rest.startswith("-"):
        return family, [], ""
    words = rest[1:].split("-")
    if words[0] in _PARTS:
        return family, words[1:], words[0]
    return family, words[:-1], words[-1] if words[-1] in _PARTS else ""


def _shape(words: tuple[str, ...]) -> tuple[str, Resource, int | None]:
    """Return the name of a window, what it counts, and its length in seconds."""
    whole = [_WHOLE_WORDS.get(word, word) for word in words]
    period: list[str] = []
    if whole and whole[-1] in _LENGTH_S:
        period = whole[-2:] if len(whole) > 1 and whole[-2].isdecimal() else whole[-1:]
        whole = whole[: -len(period)]
    resource = "_".join(whole) or "requests"
    name = f"{resource}_per_{'_'.join(period)}" if period else resource
    return name, Resource(resource), _length_s(period)


def _length_s(period: list[str]) -> int | None:
    length = _LENGTH_S[period[-1]] if period else None
    count = parse_integer(period[0]) if len(period) > 1 else 1
    return None if length is None or count is None else length * count


_Limits = TypeVar("_Limits", "CerebrasRateLimits", "AnthropicRateLimits", "OpenAIRateLimits")
_BUCKETS = {"day": 86400, "hour": 3600, "minute": 60}
_ANTHROPIC_LIMITS = ("requests", "tokens", "input_tokens", "output_tokens")


@dataclass
class RateLimitInfo:
    """The flat form of rate limits: one figure for requests and one for tokens.

    Attributes:
        remaining_requests: What is left, in the window with the least left.
        remaining_tokens: The same for tokens, input and output tokens included.
        limit_requests: The limit of that window.
        limit_tokens: The limit of that window.
        reset_at: When the first of these windows is full again, in unix seconds.
        retry_after: Whole seconds to wait; None if unknown.
        raw_headers: All headers, names in lower case, without secrets.
    """

    remaining_requests: int | None = None
    remaining_tokens: int | None = None
    limit_requests: int | None = None
    limit_tokens: int | None = None
    reset_at: float | None = None
    retry_after: int | None = None
    raw_headers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def from_headers(cls, headers: Headers, *, now: float | None = None) -> RateLimitInfo:
        """Read *headers*, received at *now* (unix seconds; None means now)."""
        fields = normalize_headers(headers)
        state = build_rate_limit_state(fields, now=now)
        return cls.from_state(state, to_raw_headers(fields))

    @classmethod
    def from_state(
        cls, state: RateLimitState, raw_headers: Mapping[str, str] | None = None
    ) -> RateLimitInfo:
        """Convert *state*, which was read from *raw_headers*."""
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
        """Whether requests or tokens are exhausted."""
        return self.remaining_requests == 0 or self.remaining_tokens == 0

    def get_retry_delay(self, *, now: float | None = None) -> int | None:
        """Return the whole seconds to wait: ``retry_after``, or until ``reset_at``, or None."""
        if self.retry_after is not None or self.reset_at is None:
            return self.retry_after
        return max(0, ceil(self.reset_at - (time.time() if now is None else now)))


@dataclass
class CerebrasRateLimits:
    """What Cerebras reports: requests and tokens per minute, hour and day.

    Attributes:
        remaining_requests_minute: Requests left in this minute; the other fields likewise. None if
            the header is absent or not a number.
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
        """Return the longest empty bucket, "day", "hour" or "minute": the last to fill again."""
        for bucket in _BUCKETS:
            if 0 in (self._remaining("requests", bucket), self._remaining("tokens", bucket)):
                return bucket
        return None

    def get_suggested_wait_seconds(self) -> int | None:
        """Return seconds until the longest empty bucket is full; None if none is empty.

        If the reply does not say, that is the bucket's whole length.
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


@dataclass
class AnthropicRateLimits:
    """What Anthropic reports: requests, and tokens in total, input and output.

    Attributes:
        requests_limit: Requests that the window allows; the other fields likewise.
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
        """Whether any of the four limits is exhausted."""
        return any(getattr(self, f"{name}_remaining") == 0 for name in _ANTHROPIC_LIMITS)

    def get_next_reset(self) -> datetime | None:
        """Return the earliest reset, None if none is known."""
        resets = [getattr(self, f"{name}_reset") for name in _ANTHROPIC_LIMITS]
        return min((reset for reset in resets if reset is not None), default=None)

    def get_seconds_until_reset(self, *, now: datetime | None = None) -> int | None:
        """Return whole seconds to wait, rounded up.

        That is until the last reset of the exhausted limits, or the earliest reset if none is
        exhausted; 0 if it has passed, None if none is known.
        """
        moment = now or datetime.now(UTC)
        waits: list[tuple[int | None, int | None]] = []
        for name in _ANTHROPIC_LIMITS:
            reset: datetime | None = getattr(self, f"{name}_reset")
            if reset is not None and reset.tzinfo is None:
                reset = reset.replace(tzinfo=UTC)
            wait = None if reset is None else max(0, ceil((reset - moment).total_seconds()))
            waits.append((getattr(self, f"{name}_remaining"), wait))
        return _wait_of(waits)


@dataclass
class OpenAIRateLimits:
    """What OpenAI and compatible servers report: requests and tokens.

    Attributes:
        limit_requests: Requests that the window allows.
        remaining_requests: Requests left.
        reset_requests: Time until they are full again, as received, such as "6m30s".
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
        """Whether requests or tokens are exhausted."""
        return self.remaining_requests == 0 or self.remaining_tokens == 0

    def get_seconds_until_reset(self) -> int | None:
        """Return the longest wait of exhausted limits, else the shortest; None if none is known."""
        return _wait_of(
            (
                (self.remaining_requests, self.reset_requests_seconds),
                (self.remaining_tokens, self.reset_tokens_seconds),
            )
        )


def _wait_of(waits: Iterable[tuple[int | None, int | None]]) -> int | None:
    """Return the wait, from pairs of a limit's remaining amount and the wait until it is full."""
    known = [(remaining, wait) for remaining, wait in waits if wait is not None]
    exhausted = [wait for remaining, wait in known if remaining == 0]
    return max(exhausted) if exhausted else min((wait for _, wait in known), default=None)


def extract_cerebras_rate_limits(
    headers: Headers, *, now: float | None = None
) -> CerebrasRateLimits:
    """Read Cerebras' headers; a field is None if its header is absent or not a number.

    Args:
        headers: Any header container, or None.
        now: When they were received, in unix seconds; None is the current time.
    """
    return _read_fields(CerebrasRateLimits, "x-ratelimit-", headers, now=now)


def extract_anthropic_rate_limits(headers: Headers) -> AnthropicRateLimits:
    """Read Anthropic's headers; a field is None if its header is absent or unreadable."""
    return _read_fields(AnthropicRateLimits, "anthropic-ratelimit-", headers, reset=parse_datetime)


def extract_openai_rate_limits(headers: Headers, *, now: float | None = None) -> OpenAIRateLimits:
    """Read the headers of OpenAI, Azure, Groq and compatible servers.

    Args:
        headers: Any header container, or None.
        now: When they were received, in unix seconds; None is the current time.
    """
    return _read_fields(OpenAIRateLimits, "x-ratelimit-", headers, now=now)


def _read_fields(
    kind: type[_Limits],
    prefix: str,
    headers: Headers,
    *,
    now: float | None = None,
    reset: Callable[[str], object] = str,
) -> _Limits:
    """Read the fields of *kind* from the headers named *prefix* plus the field's name.

    *reset* parses a reset; a field ``..._seconds`` is the wait until that reset.
    """
    fields = normalize_headers(headers)
    values: dict[str, Any] = {}
    for name in (each.name for each in fields_of(kind)):
        text = fields.get(prefix + name.removesuffix("_seconds").replace("_", "-"))
        if text is None:
            continue
        if name.endswith("_seconds"):
            wait = read_reset(text, now=time.time() if now is None else now)
            values[name] = None if wait is None else ceil(wait[0])
        else:
            values[name] = reset(text) if "reset" in name else parse_integer(text)
    return kind(**values)


def _tightest(windows: tuple[RateLimitWindow, ...], word: str) -> RateLimitWindow | None:
    """Return the window called *word*, else the window of that resource with the least left."""
    plain = [window for window in windows if window.name == word]
    found = plain or [window for window in windows if word in window.resource.split("_")]
    return min(
        found,
        key=lambda window: inf if window.remaining is None else window.remaining,
        default=None,
    )
