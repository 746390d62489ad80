"""What a denial of arguments says, and how much of it."""

from typing import Any

import pytest

from upshot.contract.base.checks import nearest
from upshot.tools.arguments.argument_check import ArgumentCheck, Refused

CLOSED: Any = {"type": "object", "additionalProperties": False}
MANY = [f"k{n}" * 40 for n in range(2000)]


def refused(schema: Any, given: Any) -> Refused:
    found = ArgumentCheck("t", {"type": "object", **schema}).read(given)
    assert isinstance(found, Refused)
    return found


@pytest.mark.parametrize(
    ("schema", "given", "told"),
    [
        ({"additionalProperties": False}, {"x": 1, "y": 2}, "/x: is not expected; /y: is not"),
        ({"properties": {"o": {"additionalProperties": False}}}, {"o": {"x": 1}}, "/o/x: is not"),
        ({"properties": {"x": False}}, {"x": 1}, "/x: is not expected"),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": None}, "/a: null is"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, {"a": [None]},
         "/a: [null] is not of type string or integer"),
        ({"properties": {"a": {"enum": ["rain", None]}}}, {"a": "rian"},
         '/a: "rian" is not one of "rain", null; did you mean rain?'),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"properties": {"n": CLOSED}}]}}},
         {"a": {"n": {"x": 1}}}, "/a/n/x: is not expected"),
        ({"properties": {"rd": {}}, "additionalProperties": False}, {"RD": 1}, "did you mean rd?"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_fault_is_told_with_its_path_in_words_of_json(schema: Any, given: Any, told: str):
    assert told in refused(schema, given).details


def test_what_a_tool_takes_is_told_in_words_of_json():
    found = refused({"properties": {"a": {"enum": ["x", None, True]}}}, {"a": 5})
    assert found.hint == 't takes a: one of "x", null, true (optional).'


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"properties": {"a": {}}, "additionalProperties": False}, dict.fromkeys(MANY)),
        ({"properties": {"a": {"enum": [f"v{n}" for n in range(5000)]}}}, {"a": "z" * 50_000}),
        ({"properties": {key: {"type": "integer"} for key in MANY}, "required": ["b"]}, {}),
        ({"properties": {}, "additionalProperties": False}, {"k" * 90_000: 1}),
        ({"properties": {"a": {"items": {"anyOf": [{"type": "integer"}, {"required": ["b"]}]}}}},
         {"a": [{"c" * 900: n} for n in range(900)]}),
    ],
    ids=["keys", "enum", "names", "long key", "union"],
)  # fmt: skip
def test_a_denial_is_never_long(schema: Any, given: Any):
    found = refused(schema, given)
    assert len(found.details) < 5_000
    assert len(found.hint) < 3_000


def test_names_that_differ_in_case_are_near():
    assert nearest("RD", ["rd", "wr"]) == ["rd"]
    assert nearest("zzz", ["rd", "wr"]) == []


def test_the_fault_inside_of_the_only_near_branch_is_told_once():
    near: Any = {"type": "object", "properties": {"n": {"type": "integer"}}}
    found = refused({"properties": {"a": {"anyOf": [{"type": "null"}, near]}}}, {"a": {"n": "x"}})
    assert found.details == '/a/n: "x" is not of type "integer"'
