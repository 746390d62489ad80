"""Response headers, wherever a client library put them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from ..contract import RateLimitState
from ..wire import build_rate_limit_state
from ..wire.headers import Headers, normalize_headers, to_raw_headers
from .reader import look

__all__ = ["find_headers", "find_rate_limit"]

# The first ones win: what LiteLLM rewrites stands last.
_REWRITTEN: Final = ("_hidden_params", "additional_headers")
_PLACES: Final = (
    ("headers",),
    ("response", "headers"),
    ("_response_headers",),
    ("litellm_response_headers",),
    _REWRITTEN,
)
_COMMON: Final = "x-ratelimit-"
_CAUSES: Final = 5


def find_headers(native: object) -> dict[str, str]:
    """The headers of the reply that *native* was made of.

    Args:
        native: A response or an exception of any client library; of an exception its causes are
            looked at too.

    Returns:
        Names in lower case, without what is secret; empty where it carries none. Never raises.
    """
    found: dict[str, str] = {}
    for source in _sources(native):
        for place in _PLACES:
            read = _read(look(source, *place))
            found = {**(_without_copies(read) if place is _REWRITTEN else read), **found}
    return to_raw_headers(found)


def find_rate_limit(
    headers: Headers, *, limited: bool = False, retry_after_s: float | None = None
) -> RateLimitState | None:
    """What *headers* say of rate limits.

    Args:
        headers: As :func:`find_headers` gives them.
        limited: Whether the reply was a rate-limit error.
        retry_after_s: Seconds to wait, where the error tells them.

    Returns:
        The state; None where nothing is known of any limit.
    """
    state = build_rate_limit_state(headers, retry_after_s)
    if limited and not state.limited:
        state = RateLimitState(limited=True, retry_after=state.retry_after, windows=state.windows)
    known = state.limited or state.windows or state.retry_after is not None
    return state if known else None


def _sources(native: object) -> Iterator[object]:
    yield native
    one = native if isinstance(native, BaseException) else None
    for _ in range(_CAUSES):
        if one is None:
            return
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        yield one


def _without_copies(headers: dict[str, str]) -> dict[str, str]:
    """Leave out what LiteLLM copies from the provider's own limits to the names of OpenAI's."""
    limits = [name for name in headers if "ratelimit-" in name]
    if all(name.startswith(_COMMON) for name in limits):
        return headers
    return {name: value for name, value in headers.items() if not name.startswith(_COMMON)}


def _read(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping | list | tuple) and not hasattr(headers, "items"):
        return {}
    try:
        return normalize_headers(cast("Headers", headers))
    # Foreign code: what has items() need not be headers.
    except Exception:
        return {}
