"""Intervals: they cover the true mean about as often as they say."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.lab.statistics import interval_of, student_quantile


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (9, 2.262), (29, 2.045), (999, 1.962)],
)
def test_the_quantiles_are_those_of_the_tables(freedom: int, value: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(value, abs=2e-3)


@pytest.mark.slow("20")
@pytest.mark.parametrize("count", [6, 20])
def test_the_interval_covers_the_mean_about_as_often_as_it_says(count: int) -> None:
    draw, covered, rounds = random.Random(7), 0, 200
    for number in range(rounds):
        found = interval_of([draw.gauss(1, 2) for _ in range(count)], seed=number)
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 1 <= found.high
    assert 0.88 <= covered / rounds <= 0.99


VALUES = st.floats(-1e6, 1e6)


@given(values=st.lists(VALUES, max_size=12))
def test_the_mean_is_inside_and_the_same_values_give_the_same(values: list[float]) -> None:
    found = interval_of(values)
    assert found == interval_of(values)
    if found is None:
        assert not values
    elif found.low is not None and found.high is not None:
        slack = 1e-6 * max(1, *map(abs, values))
        assert found.low - slack <= found.mean <= found.high + slack


def test_equal_values_have_no_width_and_one_value_has_no_interval() -> None:
    same, one = interval_of([2.0] * 5), interval_of([2.0])
    assert same is not None and (same.low, same.mean, same.high) == (2, 2, 2)
    assert one is not None and (one.low, one.high, one.is_clear) == (None, None, False)
