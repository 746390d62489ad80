"""The cost that a provider reports."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire.accumulator import to_reported_cost


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({"cost": 0.25}, "0.25"),
        ({"cost": {"total_cost": 0.25}}, "0.25"),
        ({"cost_in_usd_ticks": 25}, "0.0000000025"),
        ({"cost": 0}, "0"),
    ],
)
def test_a_cost_is_exact_and_reported(usage, total):
    cost = to_reported_cost(usage)
    assert (cost.total, cost.source, cost.estimated) == (Decimal(total), "reported", False)


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"cost": -1},
        {"cost": True},
        {"cost": "1"},
        {"cost": 1e308},
        {"cost": 1e-300},
        {"cost": float("nan")},
        {"cost_in_usd_ticks": 10**60},
    ],
)
def test_what_nobody_can_have_meant_is_no_cost(usage):
    assert to_reported_cost(usage) is None


@given(st.floats() | st.integers() | st.none() | st.text())
def test_any_cost_is_taken_or_left(value):
    for usage in ({"cost": value}, {"cost_in_usd_ticks": value}, {"cost": {"total_cost": value}}):
        cost = to_reported_cost(usage)
        assert cost is None or cost.total >= 0
