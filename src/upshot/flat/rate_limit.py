"""Rate limits in the flat form: dicts as the flat contract has them, and one figure for each."""

from __future__ import annotations

import time
from typing import Generic, TypeVar, cast

import msgspec

from ..contract import Json, RateLimitState, RateLimitWindow, encode
from ..wire import RateLimitInfo
from ..wire import build_rate_limit_state as build_state
from ..wire.fields import read_reset
from ..wire.headers import Headers, normalize_headers

__all__ = [
    "StructView",
    "build_rate_limit_state",
    "build_rate_limit_windows",
    "extract_rate_limit_info",
]

V = TypeVar("V", bound=msgspec.Struct)


class StructView(dict[str, Json], Generic[V]):
    """A real dict of a struct's known fields, whose attributes are the struct's.

    Attributes:
        value: The struct itself, with all its fields.
    """

    __slots__ = ("value",)

    def __init__(self, value: V) -> None:
        super().__init__(cast("dict[str, Json]", msgspec.json.decode(encode(value))))
        self.value: V = value

    def __getattr__(self, name: str) -> object:
        if name == "value":
            # It is asked for before it is there only while a copy is being made.
            raise AttributeError(name)
        return getattr(self.value, name)

    def __reduce__(self) -> tuple[type[StructView[V]], tuple[V]]:
        return type(self), (self.value,)


def build_rate_limit_windows(
    headers: Headers, *, now: float | None = None
) -> list[StructView[RateLimitWindow]]:
    """Read the windows that *headers* name.

    Args:
        headers: A mapping, pairs, anything with ``items()``, or None; names in any letter case.
        now: When they were received, in unix seconds; None takes this moment.

    Returns:
        A dict for each window: name, resource, and limit, remaining, resets_in, reset_at,
        estimated where known. Never raises.
    """
    return [StructView(window) for window in build_state(headers, now=now).windows]


def build_rate_limit_state(
    headers: Headers, retry_after: float | None = None, *, now: float | None = None
) -> StructView[RateLimitState]:
    """Read the windows and what they mean together.

    Args:
        headers: As for :func:`build_rate_limit_windows`.
        retry_after: Seconds to wait, where the caller knows them; it wins over the headers.
        now: When they were received, in unix seconds; None takes this moment.

    Returns:
        A dict with limited, and with retry_after and windows where there are any. Never raises.
    """
    return StructView(build_state(headers, retry_after, now=now))


def extract_rate_limit_info(headers: Headers, *, now: float | None = None) -> RateLimitInfo:
    """Read one figure for requests and one for tokens.

    Args:
        headers: As for :func:`build_rate_limit_windows`.
        now: When they were received, in unix seconds; None takes this moment.

    Returns:
        The figures; of several windows those of the one with least left. Never raises.
    """
    moment = time.time() if now is None else now
    info = RateLimitInfo.from_headers(headers, now=moment)
    if info.reset_at is not None:
        return info
    # A reset without a count makes no window, but it says until when to wait.
    fields = normalize_headers(headers)
    read = (
        read_reset(text, now=moment)
        for name, text in fields.items()
        if "ratelimit" in name and "reset" in name
    )
    first = min((found[1] for found in read if found is not None), default=None)
    return msgspec.structs.replace(info, reset_at=first)
