"""Tokens, money and rate limits of model calls."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import reduce
from math import ceil
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import Resource, ResourceField, word
from upshot.contract.base.structs import CheckedMeta, Value, freeze, set_field, written
from upshot.errors import Misuse

# A reset more than about thirty years away is not a real one.
_MAX_WAIT_S = 1e9


class RateLimitWindow(Value, frozen=True, kw_only=True, gc=False, metaclass=CheckedMeta):
    """One limit that a provider counts against.

    Attributes:
        name: Such as "requests_per_minute", "tokens_per_day" or "requests".
        resource: What is counted: requests, tokens, input_tokens, output_tokens,
            or the provider's own word.
        limit: The maximum that the window allows; None if not reported.
        remaining: What is left of the limit; None if not reported.
        resets_in: Whole seconds until the window is full again, rounded up; None if not reported.
        reset_at: The same moment in unix seconds.
        estimated: Whether the reset was estimated from the window's length.
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
        """Whether nothing is left of the window."""
        return self.remaining is not None and self.remaining <= 0


class RateLimitState(Value, frozen=True, kw_only=True, gc=False, metaclass=CheckedMeta):
    """All rate-limit windows of one reply, and what follows from them.

    Attributes:
        limited: Whether a window is exhausted, or the reply was a rate_limit error.
        retry_after: Whole seconds to wait, rounded up; None if unknown.
        windows: The windows, in the order of the headers.
    """

    limited: bool = written(False)
    retry_after: int | None = None
    windows: tuple[RateLimitWindow, ...] = ()

    def __post_init__(self) -> None:
        if type(self.windows) is not tuple:
            freeze(self, "windows")

    def window(self, name: str) -> RateLimitWindow | None:
        """Return the window called *name*, None if there is none."""
        return next((window for window in self.windows if window.name == name), None)


def complete_rate_limit(state: RateLimitState, *, now: float | None = None) -> RateLimitState:
    """Return *state* with the fields that follow from the others filled in.

    The state is limited if a window is exhausted. Without ``retry_after`` the wait is the longest
    of the exhausted windows. If *now* (unix seconds) is known, each reset gets both of its forms.
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


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "input_audio_tokens",
    "output_audio_tokens",
)
# The counts of a usage without any known count.
_UNKNOWN = (None,) * len(_COUNTS)
_counts_of = attrgetter(*_COUNTS)
_PARTS = ("input", "output", "cache_read", "cache_write", "other")
_MAX_MAGNITUDE = 30
_MIN_EXPONENT = -60
# Wide enough for the sum of any such amounts, so that nothing is ever rounded.
_EXACT = Context(prec=200, Emin=MIN_EMIN, Emax=MAX_EMAX)


class Cost(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """Money for one or more model calls.

    ``float(cost)`` is the total. ``a + b`` adds two costs of one currency.

    Attributes:
        input: For the uncached part of the prompt; None if unknown.
        output: For the output, reasoning included.
        cache_read: For prompt tokens that were read from a cache.
        cache_write: For prompt tokens that were written to a cache.
        other: Any other charge, such as a fee per request.
        total: The exact sum of the parts, if parts are known.
        currency: ISO 4217.
        estimated: False if the provider itself reported the amount.
        source: The source of the price, such as "genai-prices" or "reported".
        priced_on: The date of the price table, None if unknown.
        unpriced_calls: The number of calls that are not included because they had no price, or one
            in another currency.
    """

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    other: Decimal | None = None
    total: Decimal | None = None
    currency: str = written("USD")
    estimated: bool = written(True)
    source: str = ""
    priced_on: date | None = None
    unpriced_calls: int = 0

    def __post_init__(self) -> None:
        for name in (*_PARTS, "total"):
            amount = getattr(self, name)
            if amount is not None:
                set_field(self, name, to_money(amount))
        if self.total is None:
            known = [part for name in _PARTS if (part := getattr(self, name)) is not None]
            if known:
                set_field(self, "total", reduce(_EXACT.add, known))

    def __float__(self) -> float:
        return float(self.total or 0)

    def __add__(self, other: Cost) -> Cost:
        if self.currency != other.currency:
            raise Misuse(f"cannot add {other.currency} to {self.currency}: convert one first")
        merged: dict[str, Decimal | None] = {
            name: _add_money(getattr(self, name), getattr(other, name))
            for name in (*_PARTS, "total")
        }
        return Cost(
            **merged,
            currency=self.currency,
            estimated=self.estimated or other.estimated,
            source=self.source if self.source == other.source else "mixed",
            priced_on=self.priced_on if self.priced_on == other.priced_on else None,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
        )

    @staticmethod
    def of_calls(costs: Iterable[Cost | None]) -> Cost | None:
        """Add up the costs of several calls.

        Args:
            costs: One per call; None for a call without a price.

        Returns:
            The sum of the calls that were priced in the currency of the first one, with the number
            of other calls in ``unpriced_calls``; None if no call was priced.
        """
        total: Cost | None = None
        unpriced = 0
        for cost in costs:
            if cost is None or (total is not None and cost.currency != total.currency):
                unpriced += 1
            else:
                total = cost if total is None else total + cost
        if total is None or not unpriced:
            return total
        return msgspec.structs.replace(total, unpriced_calls=total.unpriced_calls + unpriced)


class Usage(Value, frozen=True, kw_only=True, dict=True):
    """Tokens of one or more model calls, in one convention for all providers.

    Falsy while no count is known. ``a + b`` adds; a count stays unknown only if it is unknown on
    both sides.

    Attributes:
        input_tokens: ALL prompt tokens, cache reads and writes included; None if unknown.
        output_tokens: All generated tokens, reasoning included.
        total_tokens: Their sum if both are known; for several calls it may be more, since some
            may have reported their total only.
        cache_read_tokens: The part of the input that was read from a cache.
        cache_write_tokens: The part of the input that was written to a cache.
        reasoning_tokens: The part of the output that was reasoning.
        input_audio_tokens: The part of the input that was audio.
        output_audio_tokens: The part of the output that was audio.
        api_calls: How many model calls these figures cover.
        unmeasured_calls: How many of these reported no usage.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None
    api_calls: int = 0
    unmeasured_calls: int = 0

    def __post_init__(self) -> None:
        if self.input_tokens is not None and self.output_tokens is not None:
            parts = self.input_tokens + self.output_tokens
            if self.api_calls <= 1 or self.total_tokens is None or self.total_tokens < parts:
                set_field(self, "total_tokens", parts)

    def __bool__(self) -> bool:
        # For most calls the first count is known.
        return self.input_tokens is not None or _counts_of(self) != _UNKNOWN

    @property
    def is_measured(self) -> bool:
        """Whether the prompt, the reply or the total has tokens; every real call uses some."""
        return bool(self.input_tokens or self.output_tokens or self.total_tokens)

    def __add__(self, other: Usage) -> Usage:
        # Written out: this runs for every model call, and a loop takes three times as long.
        return Usage(
            input_tokens=_add_counts(self.input_tokens, other.input_tokens),
            output_tokens=_add_counts(self.output_tokens, other.output_tokens),
            total_tokens=_add_counts(self.total_tokens, other.total_tokens),
            cache_read_tokens=_add_counts(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_add_counts(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens=_add_counts(self.reasoning_tokens, other.reasoning_tokens),
            input_audio_tokens=_add_counts(self.input_audio_tokens, other.input_audio_tokens),
            output_audio_tokens=_add_counts(self.output_audio_tokens, other.output_audio_tokens),
            api_calls=self.api_calls + other.api_calls,
            unmeasured_calls=self.unmeasured_calls + other.unmeasured_calls,
        )

    @property
    def cost(self) -> Cost | None:
        """The cost of these tokens, if the result or reply that this usage belongs to has one."""
        return vars(self).get("cost_seen")

    @property
    def estimated_cost(self) -> float | None:
        """The total cost as a float, None if it is unknown."""
        cost = self.cost
        return None if cost is None or cost.total is None else float(cost.total)

    def with_cost(self, cost: Cost | None) -> Usage:
        """Return a copy of this usage whose ``cost`` is *cost*."""
        if self.cost is cost:
            return self
        usage = msgspec.structs.replace(self)
        if cost is not None:
            # Not a field, so that it is neither written nor compared.
            vars(usage)["cost_seen"] = cost
        return usage


def measured(usage: Usage | None) -> Usage:
    """Return the usage of one call; unknown if it was not reported, or is all zeros."""
    if usage is not None and usage.is_measured:
        return usage
    calls = 1 if usage is None else max(1, usage.api_calls)
    return Usage(api_calls=calls, unmeasured_calls=calls)


# Shared by all runs that used nothing; it is frozen.
NO_USAGE = Usage()


def to_money(amount: Decimal | float | str) -> Decimal:
    """Convert *amount* to an exact Decimal; a float is rounded to 15 digits to drop its noise.

    Raises:
        Misuse: It is not a finite number, or it is absurdly large or finely divided.
    """
    try:
        # A float keeps any 15 digits; later digits are rounding noise of sums, which no one billed.
        money = Decimal(f"{amount:.15g}") if isinstance(amount, float) else Decimal(str(amount))
    except ArithmeticError:
        raise Misuse(f"{amount!r} is not an amount of money: give a number") from None
    if not money.is_finite():
        raise Misuse(f"{amount!r} is not an amount of money: give a finite number")
    exponent = money.as_tuple().exponent
    if money.adjusted() > _MAX_MAGNITUDE or int(exponent) < _MIN_EXPONENT:
        raise Misuse(
            f"{amount!r} is not an amount of money: it is too large, or too finely divided"
        )
    return money


def _add_counts(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


def _add_money(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    if one is None:
        return other
    return one if other is None else _EXACT.add(one, other)
