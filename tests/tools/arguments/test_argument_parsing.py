"""From what a model wrote to an object of arguments."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import Coercion
from upshot.tools.arguments.argument_check import read_object

LOST = "is a number that JSON cannot hold"


@pytest.mark.parametrize("given", ["", " \n", "null", "{}", None, {}], ids=repr)
def test_nothing_is_no_arguments(given: Any):
    assert read_object(given, []) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[1]", "an array"),
        ("5", "a single value"),
        ('"x"', "a single value"),
        ([1], "an array"),
        (5, "a single value"),
        ({"a": object()}, "/a: is not JSON"),
        ("{", "not JSON: {"),
        ("{" * 5000, "not JSON"),
        (f'{{"a":{"[" * 300}{"]" * 300}}}', "nested deeper than 200 levels"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_object_is_told_in_words(given: Any, said: str):
    assert said in str(read_object(given, []))


@pytest.mark.parametrize(
    "given",
    [
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": -Infinity}',
        '"{\\"a\\": NaN}"',
        {"a": float("nan")},
        {"a": float("-inf")},
    ],
    ids=repr,
)
def test_a_number_that_is_none_never_counts_as_absent(given: Any):
    assert read_object(given, []) == f"/a: {LOST}"


@pytest.mark.parametrize("given", ['{"b": [1, {"c": NaN}]}', {"b": [1, {"c": float("nan")}]}])
def test_a_lost_number_is_named_by_its_path(given: Any):
    assert read_object(given, []) == f"/b/1/c: {LOST}"


@pytest.mark.parametrize("given", ['{"a": "\\ud800"}', {"a": "\ud800"}], ids=["text", "mapping"])
def test_half_a_character_is_replaced(given: Any):
    assert read_object(given, []) == {"a": "\N{REPLACEMENT CHARACTER}"}


def test_half_a_character_in_a_name_is_replaced():
    assert read_object({"\ud800": 1}, []) == {"\N{REPLACEMENT CHARACTER}": 1}


def test_line_breaks_in_a_text_and_a_byte_order_mark_are_taken():
    assert read_object('\ufeff{"a": "one\ntwo"}', []) == {"a": "one\ntwo"}


def test_an_object_in_a_text_is_listed_as_changed():
    changes: list[Coercion] = []
    assert read_object(json.dumps('{"a": 1}'), changes) == {"a": 1}
    assert changes == [Coercion(path="", rule="json", before='{"a": 1}', after={"a": 1})]


@given(st.text() | st.from_regex(r'\{("[ab/~]":(NaN|1e999|"x"|\[\d?\]),?)*\}', fullmatch=True))
def test_any_text_is_an_object_or_words(text: str):
    found = read_object(text, [])
    assert found or found == {}
