"""What a model asks to be done, and what its arguments may be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import ToolCall, decode, encode
from upshot.errors import Misuse

NAN = float("nan")


def again(call: ToolCall) -> ToolCall:
    return decode(encode(call), ToolCall)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1', '{"a": 1'),
        (None, {}),
        (5, "5"),
        ([1, "x"], '[1,"x"]'),
        (True, "true"),
        (NAN, "NaN"),
        ({"a": {1}, "b": (2,)}, {"a": [1], "b": [2]}),
        ({"a": b"x"}, {"a": "eA=="}),
        ({"a": "\ud800"}, {"a": "\N{REPLACEMENT CHARACTER}"}),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
        (b'{"a": 1}', '{"a": 1}'),
        ({1: 2}, {"1": 2}),
    ],
    ids=repr,
)
def test_whatever_arguments_are_given_can_be_written_and_read(arguments: Any, kept: Any):
    call = ToolCall("1", "f", arguments)
    assert call.arguments == kept
    assert again(call) == call


@pytest.mark.parametrize("number", [NAN, float("inf"), float("-inf")])
def test_a_number_that_json_cannot_hold_is_kept_as_text_and_not_as_null(number: float):
    call = ToolCall("1", "f", {"a": [{"b~/": number}], "c": None})
    assert call.arguments == '{"a":[{"b~/":NaN}],"c":null}'
    assert again(call) == call


def test_arguments_of_any_depth_are_a_value():
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    call = ToolCall("1", "f", {"a": deep})
    assert isinstance(call.arguments, str)
    assert again(call) == call


@pytest.mark.parametrize(
    "fields",
    [
        ("1", "f", print),
        ("1", "f", {"a": print}),
        (1, "f"),
        (None, "f"),
        ("1", None),
        ("1", "f", {}, 5),
        ("1", "f", {}, None, None),
    ],
    ids=repr,
)
def test_what_no_model_can_have_sent_is_misuse(fields: Any):
    with pytest.raises(Misuse, match=r"ToolCall\("):
        ToolCall(*fields)


def test_a_call_does_not_change_with_what_it_was_made_of():
    arguments: Any = {"a": [1]}
    call = ToolCall("1", "f", arguments)
    arguments["a"].append(2)
    assert call.arguments == {"a": [1]}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=9,
)


@given(st.text(st.characters(codec=None)), ANYTHING | st.text(st.characters(codec=None)))
def test_any_call_reads_back_as_it_was_written(name: str, arguments: Any):
    call = ToolCall("1", name, arguments)
    assert again(call) == call
