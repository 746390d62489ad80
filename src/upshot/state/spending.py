"""What model calls used: how one call counts, and the sum over a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from upshot.contract.model_calls import ModelResponse
from upshot.contract.usage import NO_USAGE, Cost, Usage


class CountedCall(NamedTuple):
    """One model call, or all those of a child run, as far as they count.

    Attributes:
        usage: Their tokens.
        cost: Their money, None where none had a price.
        unpriced: How many prices are missing; those of refused calls are not.
    """

    usage: Usage
    cost: Cost | None
    unpriced: int

    @property
    def costs(self) -> list[Cost | None]:
        """Its money as that of single calls."""
        return [None] * self.unpriced if self.cost is None else [self.cost]


UNFINISHED = CountedCall(Usage(api_calls=1, unmeasured_calls=1), None, 1)
"""A model call that was cut off before it answered."""


def counted(response: ModelResponse) -> CountedCall:
    """How a model call counts, well or not."""
    usage, error = response.usage, response.error
    if error is None and usage.api_calls and usage:
        # Most calls come to this.
        return CountedCall(usage, response.cost, 1)
    unpriced = 0 if _is_refused(response) else 1
    return CountedCall(counted_usage(response), response.cost, unpriced)


def sum_of(calls: Iterable[CountedCall]) -> tuple[Usage, Cost | None]:
    """Tokens and money of *calls*; None where none had a price."""
    usage, costs = NO_USAGE, list[Cost | None]()
    for call in calls:
        usage = usage + call.usage
        costs += call.costs
    return usage, Cost.of_calls(costs)


def counted_usage(response: ModelResponse) -> Usage:
    """What counts as used where *response* came of a model call, which is at least one call."""
    usage = response.usage
    if _is_refused(response):
        # Turned away, it used nothing: the sums are whole without it.
        return Usage(api_calls=max(1, usage.api_calls))
    if usage.api_calls and (usage or usage.unmeasured_calls):
        return usage
    missing = 0 if usage or usage.unmeasured_calls else 1
    return usage + Usage(api_calls=max(0, 1 - usage.api_calls), unmeasured_calls=missing)


def _is_refused(response: ModelResponse) -> bool:
    """Whether the call was not sent or turned away, so that nothing was used or charged."""
    error = response.error
    if error is None or response.usage:
        return False
    return (error.status_code or 0) >= 400 or error.was_unsent
