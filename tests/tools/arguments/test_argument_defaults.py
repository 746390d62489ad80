"""What a schema says of what is absent."""

from typing import Any

import pytest

from upshot.tools.arguments.argument_check import ArgumentCheck, Checked

POINT: Any = {"type": "object", "properties": {"x": {}, "y": {"default": 3}}, "required": ["x"]}


def filled(schema: Any, given: Any) -> Any:
    found = ArgumentCheck("t", {"type": "object", **schema}).read(given)
    assert isinstance(found, Checked), found
    assert found.given == given
    return found.filled


def test_a_default_at_the_root_is_filled():
    assert filled({"properties": {"a": {"default": 1}}}, {}) == {"a": 1}


@pytest.mark.parametrize(
    "schema",
    [
        POINT,
        {"$ref": "#/$defs/x~1y"},
        {"anyOf": [{"type": "null"}, POINT]},
        {"allOf": [{"required": ["x"]}, POINT]},
        {"if": {"required": ["x"]}, "then": POINT},
    ],
    ids=str,
)
def test_defaults_inside_are_filled_wherever_the_schema_has_them(schema: Any):
    root = {"properties": {"a": schema}, "$defs": {"x/y": POINT}}
    assert filled(root, {"a": {"x": 1}}) == {"a": {"x": 1, "y": 3}}
    assert filled(root, {"a": {"x": 1, "y": 2}}) == {"a": {"x": 1, "y": 2}}


def test_defaults_are_filled_in_every_item():
    root = {"properties": {"a": {"items": POINT}}}
    given = {"a": [{"x": 1}, {"x": 2, "y": None}]}
    assert filled(root, given) == {"a": [{"x": 1, "y": 3}, {"x": 2, "y": None}]}


def test_only_the_branch_that_holds_has_a_say():
    other: Any = {"properties": {"x": {"const": 2}, "z": {"default": 9}}}
    one: Any = {**POINT, "properties": {**POINT["properties"], "x": {"const": 1}}}
    root = {"properties": {"a": {"anyOf": [one, other]}}}
    assert filled(root, {"a": {"x": 1}}) == {"a": {"x": 1, "y": 3}}
    assert filled(root, {"a": {"x": 2}}) == {"a": {"x": 2, "z": 9}}


def test_an_object_that_is_absent_is_not_made_up():
    assert filled({"properties": {"a": POINT}}, {}) == {}


def test_a_schema_of_itself_is_filled_to_its_depth():
    root = {"properties": {"n": {"default": 0}, "next": {"$ref": "#"}}}
    assert filled(root, {"next": {"next": {}}}) == {"n": 0, "next": {"n": 0, "next": {"n": 0}}}


def test_the_default_in_place_wins_over_one_behind_a_reference():
    inner: Any = {"properties": {"k": {"default": "far"}}}
    schema: Any = {"$ref": "#/$defs/i", "properties": {"k": {"default": "near"}}}
    root = {"properties": {"a": schema}, "$defs": {"i": inner}}
    assert filled(root, {"a": {}}) == {"a": {"k": "near"}}
