"""Numbers that people give: what is one is told of any value, without raising."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract.base.checks import check_amount, check_whole, is_amount, is_whole
from upshot.errors import Misuse

ANYTHING = st.one_of(
    st.integers(),
    st.sampled_from([10**400, -(10**400), math.nan, math.inf, -math.inf]),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(),
    st.complex_numbers(),
    st.decimals(),
    st.lists(st.integers()),
)


@given(ANYTHING, st.integers())
def test_a_whole_number_is_an_int_in_its_range(value: Any, least: int) -> None:
    assert is_whole(value, least) is (type(value) is int and value >= least)


@given(ANYTHING)
def test_an_amount_is_a_number_that_can_be_measured(value: Any) -> None:
    if type(value) in (int, float) and -math.inf < value < 10**300:
        assert is_amount(value) is (value >= 0)
    elif type(value) not in (int, float):
        assert not is_amount(value)
    assert is_amount(value, above=0) <= is_amount(value)
    assert is_amount(value, is_endless=False) <= is_amount(value)
    assert not is_amount(math.inf, is_endless=False)


@given(ANYTHING)
def test_what_is_refused_is_told_in_one_line(value: Any) -> None:
    for check in (check_whole, check_amount):
        try:
            check("it", value)
        except Misuse as error:
            assert str(error).startswith("it must be ")
            assert len(str(error)) < 150


def test_none_is_taken_only_where_it_means_something() -> None:
    check_whole("it", None, none="all")
    check_amount("it", None, none="no limit")
    with pytest.raises(Misuse, match=r"^it must be a whole number of at least 0, got None$"):
        check_whole("it", None)
    with pytest.raises(
        Misuse, match=r"^it must be a number of seconds at least 0, or None for no limit, got -1$"
    ):
        check_amount("it", -1, none="no limit")


class Index:
    """A whole number of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_whole_numbers_of_other_libraries_count_by_what_they_are() -> None:
    assert is_whole(Index(3), 3)
    assert not is_whole(Index(2), 3)
    assert not is_whole(int, 0)


def test_real_numbers_of_other_libraries_are_amounts() -> None:
    assert is_amount(Fraction(1, 2))
    assert not is_amount(Fraction(-1, 2))
    assert not is_amount(Fraction(10**400))
