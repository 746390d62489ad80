"""Rate-limit headers of all providers, read as windows.

Every family names its headers by one of two patterns, ``<family>-<part>-<what>`` (OpenAI and
those that follow it, Cerebras, Mistral) and ``<family>-<what>-<part>`` (Anthropic), where the part
is limit, remaining or reset. So there is one reader and no list of providers.

Source:
    https://platform.openai.com/docs/guides/rate-limits,
    https://docs.anthropic.com/en/api/rate-limits,
    https://inference-docs.cerebras.ai/support/rate-limits, and recorded replies of Azure, Groq,
    Mistral, OpenRouter, Together and xAI.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ..contract import RateLimitState, RateLimitWindow, Resource
from .fields import parse_integer, read_reset
from .headers import Headers, normalize_headers, read_retry_after

__all__ = [
    "build_rate_limit_state",
    "build_rate_limit_windows",
    "read_rate_limit_state",
    "read_rate_limit_windows",
]

_PARTS = {"limit": 0, "remaining": 1, "reset": 2}
_RESET = 2
# Month and year have no fixed length: a window of them gets no estimated reset.
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


class _Place(NamedTuple):
    """Where a header belongs: its window, by a key of its family and words, and its part."""

    window: str
    part: int


class _Shape(NamedTuple):
    """What a window's key says about it."""

    name: str
    resource: Resource
    length_s: int | None


def build_rate_limit_windows(
    headers: Headers, *, now: float | None = None
) -> tuple[RateLimitWindow, ...]:
    """Read the rate-limit windows that *headers* name, in any provider's way.

    Args:
        headers: A mapping, pairs, anything with ``items()``, or None; names in any letter case.
        now: When they were received, in unix seconds; None takes this moment.

    Returns:
        A window for each limit that has a usable limit or remaining count, in the order in which
        the headers name them. Never raises.
    """
    return read_rate_limit_windows(normalize_headers(headers), now=_moment(now))


def build_rate_limit_state(
    headers: Headers, retry_after: float | None = None, *, now: float | None = None
) -> RateLimitState:
    """Read the windows and what they mean together.

    Args:
        headers: As for :func:`build_rate_limit_windows`.
        retry_after: Seconds to wait, where the caller knows them; it wins over the headers.
        now: When they were received, in unix seconds; None takes this moment.

    Returns:
        The state; ``limited`` where a window is exhausted. Never raises.
    """
    fields = normalize_headers(headers)
    return read_rate_limit_state(fields, retry_after=retry_after, now=_moment(now))


def read_rate_limit_state(
    fields: Mapping[str, str],
    *,
    now: float,
    retry_after: float | None = None,
    limited: bool = False,
) -> RateLimitState:
    """Do what :func:`build_rate_limit_state` does, for headers that are normalised already.

    Args:
        fields: Normalised headers.
        now: When they were received, in unix seconds.
        retry_after: Seconds to wait, where the caller knows them.
        limited: Whether the reply was a rate-limit error.
    """
    windows = read_rate_limit_windows(fields, now=now)
    exhausted = [window for window in windows if window.remaining == 0]
    wait = retry_after if _is_wait(retry_after) else read_retry_after(fields, now=now)
    if wait is None:
        resets = [window.resets_in for window in exhausted if window.resets_in is not None]
        wait = max(resets, default=None)
    return RateLimitState(
        limited=limited or bool(exhausted),
        retry_after=None if wait is None else math.ceil(wait),
        windows=windows,
    )


def read_rate_limit_windows(
    fields: Mapping[str, str], *, now: float
) -> tuple[RateLimitWindow, ...]:
    """Do what :func:`build_rate_limit_windows` does, for headers that are normalised already.

    Args:
        fields: Normalised headers.
        now: When they were received, in unix seconds.
    """
    found: dict[str, list[str | None]] = {}
    for name, value in fields.items():
        place = _place(name)
        if place is not None:
            parts = found.get(place.window)
            if parts is None:
                parts = found[place.window] = [None, None, None]
            parts[place.part] = value
    if not found:
        return ()
    windows = (_window(key, parts, now) for key, parts in found.items())
    return tuple(window for window in windows if window is not None)


def _window(key: str, parts: list[str | None], now: float) -> RateLimitWindow | None:
    limit, remaining = (None if text is None else parse_integer(text) for text in parts[:_RESET])
    if limit is None and remaining is None:
        return None
    name, resource, length_s = _shape(key)
    text = parts[_RESET]
    reset = None if text is None else read_reset(text, now=now)
    estimated = text is None and length_s is not None
    if estimated and length_s is not None:
        reset = float(length_s), now + length_s
    return RateLimitWindow(
        name=name,
        resource=resource,
        limit=limit,
        remaining=remaining,
        resets_in=None if reset is None else math.ceil(reset[0]),
        reset_at=None if reset is None else reset[1],
        estimated=estimated,
    )


# Names repeat with every reply, so each is taken apart once; the bound is for hostile ones.
@lru_cache(maxsize=2048)
def _place(name: str) -> _Place | None:
    family, found, rest = name.partition("ratelimit")
    if not found:
        family, found, rest = name.partition("rate-limit")
    if not rest.startswith("-"):
        return None
    words = rest[1:].split("-")
    if words[0] in _PARTS:
        part, words = words[0], words[1:]
    elif words[-1] in _PARTS:
        part, words = words[-1], words[:-1]
    else:
        return None
    return _Place(f"{family} {' '.join(words)}", _PARTS[part])


@lru_cache(maxsize=1024)
def _shape(key: str) -> _Shape:
    words = [_WHOLE_WORDS.get(word, word) for word in key.partition(" ")[2].split()]
    period: list[str] = []
    if words and words[-1] in _LENGTH_S:
        period = words[-2:] if len(words) > 1 and words[-2].isdecimal() else words[-1:]
        words = words[: -len(period)]
    resource = "_".join(words) or "requests"
    name = f"{resource}_per_{'_'.join(period)}" if period else resource
    return _Shape(name, Resource(resource), _length_s(period))


def _length_s(period: list[str]) -> int | None:
    length = _LENGTH_S[period[-1]] if period else None
    count = parse_integer(period[0]) if len(period) > 1 else 1
    return None if length is None or count is None else length * count


def _is_wait(seconds: float | None) -> bool:
    # Written so that NaN is none either.
    return seconds is not None and 0 <= seconds < math.inf


def _moment(now: float | None) -> float:
    return time.time() if now is None else now
