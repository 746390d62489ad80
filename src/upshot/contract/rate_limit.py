"""Rate limits as a provider reported them with a reply."""

from __future__ import annotations

from math import ceil

from msgspec.structs import replace

from .value import Value, freeze, set_field, written
from .word_field import ResourceField, word
from .words import Resource

__all__ = ["RateLimitState", "RateLimitWindow", "complete_rate_limit"]

# A reset that is further away, some thirty years, was no moment.
_MAX_WAIT_S = 1e9


class RateLimitWindow(Value, frozen=True, kw_only=True, gc=False):
    """One limit that a provider counts against.

    Attributes:
        name: Such as "requests_per_minute", "tokens_per_day" or "requests".
        resource: What is counted: requests, tokens, input_tokens, output_tokens,
            or as the provider names it.
        limit: The most that the window allows; None where not told.
        remaining: What is left of it; None where not told.
        resets_in: Whole seconds until it is full again, rounded up; None where not told.
        reset_at: The same as a moment, unix seconds.
        estimated: True where the reset was concluded from the window's length.
    """

    name: str = ""
    resource: ResourceField = word(written(Resource.REQUESTS))
    limit: int | None = None
    remaining: int | None = None
    resets_in: int | None = None
    reset_at: float | None = None
    estimated: bool = False

    def __post_init__(self) -> None:
        if type(self.resource) is str:
            set_field(self, "resource", Resource(self.resource))

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left of it."""
        return self.remaining is not None and self.remaining <= 0


class RateLimitState(Value, frozen=True, kw_only=True, gc=False):
    """All windows of one reply, and what they mean together.

    Attributes:
        limited: True if a window is exhausted, or the reply was a rate_limit error.
        retry_after: Whole seconds to wait, rounded up; None where nothing says so.
        windows: In the order in which the headers named them.
    """

    limited: bool = written(False)
    retry_after: int | None = None
    windows: tuple[RateLimitWindow, ...] = ()

    def __post_init__(self) -> None:
        if type(self.windows) is not tuple:
            freeze(self, "windows")

    def window(self, name: str) -> RateLimitWindow | None:
        """The window called *name*, None where there is none."""
        return next((window for window in self.windows if window.name == name), None)


def complete_rate_limit(state: RateLimitState, *, now: float | None = None) -> RateLimitState:
    """Fill in what follows from the rest of *state*.

    Args:
        state: As somebody wrote it down.
        now: When it was received, in unix seconds; None makes no reset's moment or wait known
            that is not.

    Returns:
        The state: limited where a window is exhausted, both forms of each reset, and without
        ``retry_after`` the longest wait among exhausted windows.
    """
    windows = state.windows
    if now is not None:
        windows = tuple(_with_both_resets(window, now) for window in windows)
    exhausted = [window for window in windows if window.exhausted]
    wait = state.retry_after
    if wait is None:
        waits = [window.resets_in for window in exhausted if window.resets_in is not None]
        wait = max(waits, default=None)
    limited = state.limited or bool(exhausted)
    return RateLimitState(limited=limited, retry_after=wait, windows=windows)


def _with_both_resets(window: RateLimitWindow, now: float) -> RateLimitWindow:
    wait, moment = window.resets_in, window.reset_at
    if moment is None and wait is not None and 0 <= wait <= _MAX_WAIT_S:
        return replace(window, reset_at=now + wait)
    if wait is None and moment is not None and moment - now <= _MAX_WAIT_S:
        return replace(window, resets_in=max(0, ceil(moment - now)))
    return window
