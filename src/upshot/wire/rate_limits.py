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

_PARTS = frozenset({"limit", "remaining", "reset"})
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


class _Shape(NamedTuple):
    """What the names of a window's headers say about it."""

    name: str
    resource: Resource
    length_s: int | None


class _Slot(NamedTuple):
    """A window and the names of its headers, None for one that does not come."""

    shape: _Shape
    limit: str | None
    remaining: str | None
    reset: str | None


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
    windows = [_window(slot, fields, now) for slot in _layout(tuple(fields))]
    return tuple([window for window in windows if window is not None])


def _window(slot: _Slot, fields: Mapping[str, str], now: float) -> RateLimitWindow | None:
    shape, most, left, reset = slot
    limit = None if most is None else parse_integer(fields[most])
    remaining = None if left is None else parse_integer(fields[left])
    if limit is None and remaining is None:
        return None
    wait, moment = None, None
    if reset is not None:
        if (found := read_reset(fields[reset], now=now)) is not None:
            wait, moment = math.ceil(found[0]), found[1]
    elif shape.length_s is not None:
        # Cerebras and Mistral name the bucket and not always its end: it is at most its length off.
        wait, moment = shape.length_s, now + shape.length_s
    return RateLimitWindow(
        name=shape.name,
        resource=shape.resource,
        limit=limit,
        remaining=remaining,
        resets_in=wait,
        reset_at=moment,
        estimated=reset is None and wait is not None,
    )


# A server names the headers of all its replies alike, so each list of names is taken apart once.
@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...]) -> tuple[_Slot, ...]:
    """The windows that *names* speak of, in the order in which they come up."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        family, words, part = _place(name)
        if part:
            found.setdefault((family, *words), {})[part] = name
    return tuple(
        _Slot(_shape(key[1:]), parts.get("limit"), parts.get("remaining"), parts.get("reset"))
        for key, parts in found.items()
    )


def _place(name: str) -> tuple[str, list[str], str]:
    """Take *name* apart: its family, what it counts, and which part it is ("" for none)."""
    family, _, rest = name.replace("rate-limit", "ratelimit").partition("ratelimit")
    if not rest.startswith("-"):
        return family, [], ""
    words = rest[1:].split("-")
    if words[0] in _PARTS:
        return family, words[1:], words[0]
    return family, words[:-1], words[-1] if words[-1] in _PARTS else ""


def _shape(words: tuple[str, ...]) -> _Shape:
    whole = [_WHOLE_WORDS.get(word, word) for word in words]
    period: list[str] = []
    if whole and whole[-1] in _LENGTH_S:
        period = whole[-2:] if len(whole) > 1 and whole[-2].isdecimal() else whole[-1:]
        whole = whole[: -len(period)]
    resource = "_".join(whole) or "requests"
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
