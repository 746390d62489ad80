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

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil, inf
from typing import NamedTuple, cast

from ..contract import RateLimitState, RateLimitWindow, Resource
from .fields import parse_integer, read_reset
from .headers import WAITS, Headers, is_text, read_retry_after, to_columns, to_plain_names

__all__ = [
    "build_rate_limit_state",
    "build_rate_limit_windows",
    "find_rate_limit_state",
    "read_rate_limit_state",
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


class _Slot(NamedTuple):
    """A window and the places of its headers, None for one that does not come."""

    name: str
    resource: Resource
    length_s: int | None
    limit: int | None
    remaining: int | None
    reset: int | None


class _Layout(NamedTuple):
    """What is where among the headers of a reply."""

    slots: tuple[_Slot, ...]
    waits: tuple[tuple[str, int], ...]


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
    layout, values = _lay_out(headers)
    return _read_windows(layout.slots, values, time.time() if now is None else now)


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
    layout, values = _lay_out(headers)
    return _read_state(layout, values, time.time() if now is None else now, retry_after)


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
    layout = _layout(tuple(fields))
    return _read_state(layout, list(fields.values()), now, retry_after, limited=limited)


def find_rate_limit_state(
    fields: Mapping[str, str],
    *,
    now: float,
    retry_after: float | None = None,
    limited: bool = False,
) -> RateLimitState | None:
    """Do what :func:`read_rate_limit_state` does; None where nothing speaks of limits."""
    layout = _layout(tuple(fields))
    if not (layout.slots or layout.waits or limited or retry_after is not None):
        return None
    state = _read_state(layout, list(fields.values()), now, retry_after, limited=limited)
    known = limited or state.windows or state.retry_after is not None
    return state if known else None


def _lay_out(headers: Headers) -> tuple[_Layout, Sequence[str]]:
    """What is where among *headers*, and their values."""
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
    # Written so that NaN is no wait either.
    wait = retry_after if retry_after is not None and 0 <= retry_after < inf else None
    if wait is None and layout.waits:
        wait = read_retry_after({name: values[place] for name, place in layout.waits}, now=now)
    for window in windows:
        if window.remaining == 0:
            limited = True
    if wait is None and limited:
        wait = _longest_wait(windows)
    return RateLimitState(
        limited=limited, retry_after=None if wait is None else ceil(wait), windows=windows
    )


def _longest_wait(windows: Iterable[RateLimitWindow]) -> int | None:
    waits = [window.resets_in for window in windows if window.remaining == 0]
    return max([wait for wait in waits if wait is not None], default=None)


def _read_windows(
    slots: tuple[_Slot, ...], values: Sequence[str], now: float
) -> tuple[RateLimitWindow, ...]:
    windows: list[RateLimitWindow] = []
    # The windows of one reply are mostly reset at the same moment.
    known: dict[str, tuple[int | None, float | None]] = {}
    for name, resource, length_s, most, left, reset in slots:
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
            # Cerebras and Mistral name the bucket and not always its end, which is at most its
            # length off.
            wait, moment = length_s, now + length_s
        else:
            wait, moment = None, None
        windows.append(
            RateLimitWindow(
                name=name,
                resource=resource,
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


# An account's limits seldom change.
_parse_limit = lru_cache(maxsize=256)(parse_integer)


# A server names the headers of all its replies alike, so each list of names is taken apart once.
@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...]) -> _Layout:
    """The windows that *names* speak of, in the order in which they come up."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for place, name in enumerate(names):
        family, words, part = _take_apart(name)
        if part:
            found.setdefault((family, *words), {})[part] = place
    slots = tuple(
        _Slot(*_shape(key[1:]), parts.get("limit"), parts.get("remaining"), parts.get("reset"))
        for key, parts in found.items()
    )
    waits = tuple((name, place) for place, name in enumerate(names) if name in WAITS)
    return _Layout(slots, waits)


@lru_cache(maxsize=256)
def _plain_layout(given: tuple[object, ...]) -> _Layout | None:
    """The layout of headers that are named *given*; None where these need more than lower case."""
    names = to_plain_names(given)
    return None if names is None else _layout(names)


def _take_apart(name: str) -> tuple[str, list[str], str]:
    """Take *name* apart: its family, what it counts, and which part it is ("" for none)."""
    family, _, rest = name.replace("rate-limit", "ratelimit").partition("ratelimit")
    if not rest.startswith("-"):
        return family, [], ""
    words = rest[1:].split("-")
    if words[0] in _PARTS:
        return family, words[1:], words[0]
    return family, words[:-1], words[-1] if words[-1] in _PARTS else ""


def _shape(words: tuple[str, ...]) -> tuple[str, Resource, int | None]:
    """The name of a window, what it counts, and its length in seconds."""
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
