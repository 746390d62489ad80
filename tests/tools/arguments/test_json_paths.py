"""Places inside a JSON value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.tools.arguments.schema_faults import ABSENT, above, changed, floats_in, found_at

VALUE: Any = {"a": [{"b": 1.5}, 2.0], "c": "x"}


@pytest.mark.parametrize(
    ("place", "found"),
    [((), VALUE), (("c",), "x"), (("a", 0, "b"), 1.5), (("a", 2), ABSENT), (("c", 0), ABSENT)],
    ids=str,
)
def test_what_is_at_a_place(place: Any, found: Any):
    assert found_at(VALUE, place) == found


def test_a_change_is_made_in_a_copy():
    copy = changed(VALUE, [(("a", 0, "b"), 2), (("c",), ABSENT), (("d",), [])])
    assert copy == {"a": [{"b": 2}, 2.0], "d": []}
    assert VALUE == {"a": [{"b": 1.5}, 2.0], "c": "x"}


def test_the_root_itself_can_be_changed_and_what_cannot_be_reached_is_passed_over():
    assert changed(VALUE, [((), 5)]) == 5
    assert changed(VALUE, [(("x", "y"), 5)]) == VALUE


def test_the_place_nearest_to_the_root_stands_above():
    assert above(["a", 0, "b"], {("a",), ("a", 0)}) == ("a",)
    assert above(["a"], {("a", 0)}) is None


def test_floats_are_found_with_their_places():
    assert dict(floats_in(VALUE)) == {("a", 0, "b"): 1.5, ("a", 1): 2.0}


@given(
    st.recursive(st.integers() | st.floats(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_every_place_of_a_float_leads_to_it(value: Any):
    for place, number in floats_in(value):
        assert found_at(value, place) is number
