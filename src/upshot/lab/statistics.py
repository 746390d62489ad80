"""Means and intervals of paired differences, by resampling cases.

The interval is the percentile bootstrap, widened for small samples as by Hesterberg ("What Teachers
Should Know About the Bootstrap", 2015, section 5.3): plain percentiles of a few cases are too
narrow. Fewer than ten cases resample to too few means, so their interval is Student's. Both cover
the true mean at about the rate that they state; of scores that are almost always the same, such as
a failure in one of twenty cases, any interval of a few cases covers it less often.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from functools import lru_cache
from math import fsum, sqrt
from statistics import NormalDist, fmean, stdev
from typing import Final

from upshot.contract.base.structs import Value

CONFIDENCE: Final = 0.95
ENOUGH_CASES: Final = 10
"""With fewer cases a report says that they are too few to tell."""

_DRAWS = 2_000
_NORMAL = NormalDist()


class Interval(Value, frozen=True, kw_only=True):
    """A mean and where the true one is likely to be.

    Attributes:
        mean: The mean.
        low: The lower end of the interval, with 95 % confidence; None for fewer than two cases.
        high: The upper end.
        cases: How many cases it is the mean of.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    cases: int = 0

    @property
    def is_clear(self) -> bool:
        """Whether there are enough cases, and the interval is on one side of zero."""
        if self.low is None or self.high is None or self.cases < ENOUGH_CASES:
            return False
        return self.low > 0 or self.high < 0


def interval_of(values: Sequence[float], *, seed: int = 0) -> Interval | None:
    """Return the mean of *values*, one for each case, with its interval; None for no values."""
    if not values:
        return None
    mean, count = fmean(values), len(values)
    if count < 2:
        return Interval(mean=mean, cases=count)
    if not any(one != values[0] for one in values):
        return Interval(mean=mean, low=mean, high=mean, cases=count)
    if count < ENOUGH_CASES:
        half = _t_of(count) * stdev(values) / sqrt(count)
        return Interval(mean=mean, low=mean - half, high=mean + half, cases=count)
    pick = values.__getitem__
    means = sorted(fsum(map(pick, draw)) / count for draw in _draws_of(count, seed))
    tail = _tail_of(count)
    low, high = _quantile(means, tail), _quantile(means, 1 - tail)
    return Interval(mean=mean, low=low, high=high, cases=count)


@lru_cache(maxsize=2)
def _draws_of(count: int, seed: int) -> Sequence[Sequence[int]]:
    """Return the places of each resampling: all scorers of a report use the same ones.

    Drawing takes four fifths of the time of an interval.
    """
    choose, places = random.Random(seed).choices, range(count)
    return [array("L", choose(places, k=count)) for _ in range(_DRAWS)]


def spread_of(values: Sequence[float]) -> float | None:
    """Return the standard deviation; None for fewer than two values."""
    return stdev(values) if len(values) > 1 else None


def _tail_of(count: int) -> float:
    """Return the share of means to leave out at each end, for so many cases."""
    return _NORMAL.cdf(-sqrt(count / (count - 1)) * _t_of(count))


def _t_of(count: int) -> float:
    return student_quantile((1 + CONFIDENCE) / 2, count - 1)


def student_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution.

    Args:
        share: Between 0.5 and 1.
        freedom: The degrees of freedom, from 1.

    Source:
        Hill, "Algorithm 396: Student's t-quantiles", CACM 13 (1970); exact for 1 and 2.
    """
    tail = 2 * (1 - share)
    if freedom == 1:
        from math import pi, tan

        return 1 / tan(tail * pi / 2)
    if freedom == 2:
        return sqrt(2 / (tail * (2 - tail)) - 2)
    a = 1 / (freedom - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * 1.5707963267948966) * freedom
    y = (d * tail) ** (2 / freedom)
    if y > 0.05 + a:
        x = _NORMAL.inv_cdf(1 - tail / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = a * y * y
        y = y + y * y / 2 if y <= 0.002 else 2.718281828459045**y - 1
    else:
        y = (
            (
                1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3)
                + 0.5 / (freedom + 4)
            )
            * y
            - 1
        ) * (freedom + 1) / (freedom + 2) + 1 / y
    return sqrt(freedom * y)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
