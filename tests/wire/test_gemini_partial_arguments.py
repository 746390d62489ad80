"""Arguments that come value by value are put together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire.gemini import PartialArguments


def collect(*pieces):
    arguments = PartialArguments()
    for piece in pieces:
        arguments.add(piece)
    return arguments.value


def at(path, value, **more):
    return {"jsonPath": path, "stringValue": value, **more}


def test_a_text_grows_while_it_goes_on():
    assert collect(
        at("$.a", "Bos", willContinue=True), at("$.a", "ton", willContinue=True), at("$.a", "")
    ) == {"a": "Boston"}


def test_a_text_that_was_over_is_replaced():
    assert collect(at("$.a", "x"), at("$.a", "y")) == {"a": "y"}


@pytest.mark.parametrize(
    ("piece", "value"),
    [
        ({"numberValue": 0.5}, 0.5),
        ({"boolValue": False}, False),
        ({"nullValue": "NULL_VALUE"}, None),
        ({}, None),
    ],
)
def test_values_have_their_types(piece, value):
    assert collect({"jsonPath": "$.a", **piece}) == {"a": value}


def test_objects_and_arrays_are_made_on_the_way():
    assert collect(
        at("$.list[0].name", "a"),
        at("$.list[0]['b c']", "b"),
        at('$.list[1]["it\\"s"]', "c"),
        at("$.deep[0][0]", "d"),
    ) == {"list": [{"name": "a", "b c": "b"}, {'it"s': "c"}], "deep": [["d"]]}


def test_an_index_that_leaves_a_gap_goes_on_where_the_list_ends():
    assert collect(at("$.a[999999999]", "x"), at("$.a[7]", "y")) == {"a": ["x", "y"]}


@pytest.mark.parametrize("path", ["", "$", "a", "$a", "$.", "$[", "$['a", "$.a[x]", None, 7])
def test_a_path_that_names_no_place_is_passed_over(path):
    assert collect({"jsonPath": path, "stringValue": "x"}) == {}


steps = st.sampled_from([".a", ".b", "[0]", "[3]", "['a']", '["b"]', ".", "[", "x"])
pieces = st.fixed_dictionaries(
    {"jsonPath": st.lists(steps, max_size=5).map(lambda steps: "$" + "".join(steps))},
    optional={
        "stringValue": st.text(max_size=2) | st.integers(),
        "numberValue": st.floats(),
        "willContinue": st.booleans(),
    },
)


@given(st.lists(pieces, max_size=10))
def test_any_pieces_make_an_object(pieces):
    assert isinstance(json.loads(json.dumps(collect(*pieces))), dict)
