"""Schemas that somebody else wrote."""

from typing import Any

import pytest

from upshot.tools.definition.body import usable_schema

GOOD: Any = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}


def test_a_schema_that_can_be_used_is_kept():
    assert usable_schema("t", GOOD) == GOOD


@pytest.mark.parametrize("schema", [{"type": "string"}, {"properties": 5}, None, {"$ref": "#/no"}])
def test_one_that_cannot_be_used_is_that_of_any_object(schema: Any):
    assert usable_schema("t", schema) == {"type": "object"}
