"""What is mended in arguments, and what is left alone because it would be a guess."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import Coercion, JsonObject
from upshot.tools.arguments.argument_check import ArgumentCheck, Checked, Refused
from upshot.tools.arguments.coercion import Coercer

POINT: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "on": {"type": "boolean"}},
    "required": ["n"],
    "additionalProperties": False,
}


def read(schema: Any, given: Any, *, required: bool = False, **root: Any) -> Checked | Refused:
    whole: JsonObject = {"type": "object", "properties": {"a": schema}, **root}
    if required:
        whole["required"] = ["a"]
    return ArgumentCheck("t", whole).read({"a": given})


def taken(found: Checked | Refused) -> Checked:
    assert isinstance(found, Checked), found
    return found


def refused(found: Checked | Refused) -> Refused:
    assert isinstance(found, Refused), found
    return found


NULLABLES: dict[str, Any] = {
    "enum": {"type": "string", "enum": ["a"]},
    "numbers": {"type": "integer", "enum": [1, 2]},
    "reference": {"$ref": "#/$defs/E"},
    "all": {"allOf": [{"type": "string"}, {"enum": ["a"]}]},
    "constant": {"type": "string", "const": "a"},
    "union": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "minimum": 3}]},
}
DEFINITIONS: Any = {"E": {"type": "string", "enum": ["a"]}}


@pytest.mark.parametrize("given", [{"a": None}, '{"a": null}'], ids=["mapping", "text"])
@pytest.mark.parametrize("schema", NULLABLES.values(), ids=NULLABLES)
def test_null_on_an_optional_of_many_rules_is_left_out(schema: Any, given: Any):
    root: JsonObject = {"type": "object", "properties": {"a": schema}, "$defs": DEFINITIONS}
    found = taken(ArgumentCheck("t", root).read(given))
    assert found.given == {}
    assert found.coercions == (Coercion(path="/a", rule="absent"),)


@pytest.mark.parametrize("schema", NULLABLES.values(), ids=NULLABLES)
def test_null_on_something_required_is_refused(schema: Any):
    found = refused(read(schema, None, required=True, **{"$defs": DEFINITIONS}))
    assert found.details.startswith("/a: null is not")


def test_null_deep_inside_is_left_out_too():
    schema = {"type": "array", "items": POINT}
    found = taken(read(schema, [{"n": 1, "on": None}, {"n": 2}]))
    assert found.given == {"a": [{"n": 1}, {"n": 2}]}


def test_null_in_a_free_map_is_data_and_not_left_out():
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert "/a/k" in refused(read(schema, {"k": None, "l": "x"})).details


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"type": "array", "items": {"type": "string"}}, "[1,2]"),
        ({"type": "array", "items": {"type": "string"}}, "['a','b']"),
        ({"type": "array", "items": {"type": "string"}}, '["a", 1]'),
        ({"type": "array", "items": {"type": "string"}}, ' {"a": 1'),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, [1, 2]),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, 1),
        ({"type": "array", "items": {"type": "integer"}}, None),
        ({"type": "array", "items": POINT}, '{"m": 1}'),
        ({"type": "integer"}, "null"),
        ({"type": "boolean"}, "1"),
        ({"type": "boolean"}, 0),
        ({"type": "string"}, 5),
        ({"type": "string"}, True),
        ({"type": "integer"}, 1e17),
        ({"type": "integer"}, "1.5"),
    ],
    ids=str,
)
def test_what_would_be_a_guess_is_refused(schema: Any, given: Any):
    assert "/a" in refused(read(schema, given, required=True)).details


@pytest.mark.parametrize(
    ("schema", "given", "used"),
    [
        ({"type": "array", "items": POINT}, '{"n":"5"}', [{"n": 5}]),
        ({"type": "array", "items": {"type": "integer"}}, "7", [7]),
        ({"type": "array", "items": {"enum": ["red"]}}, ["RED", "Red"], ["red", "red"]),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "integer"}, "1e3", 1000),
        ({"type": "number"}, "-2.50", -2.5),
        ({"type": "boolean"}, "True", True),
        (POINT, '{"n": "1", "on": "False"}', {"n": 1, "on": False}),
        ({"anyOf": [POINT, {"type": "null"}]}, '{"n": 1.0}', {"n": 1}),
        ({"oneOf": [{"type": "integer", "enum": [3, 5]}, {"type": "boolean"}]}, "5", 5),
    ],
    ids=str,
)
def test_what_has_one_reading_is_taken(schema: Any, given: Any, used: Any):
    found = taken(read(schema, given))
    assert found.given == {"a": used}
    assert found.coercions


CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "n": {"type": "integer"}},
    "required": ["kind", "n"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"const": "dog"}, "n": {"type": "boolean"}},
    "required": ["kind", "n"],
}


def test_the_right_branch_of_a_union_is_mended():
    found = taken(read({"anyOf": [CAT, DOG]}, {"kind": "dog", "n": "true"}))
    assert found.given == {"a": {"kind": "dog", "n": True}}


def test_two_branches_that_read_a_value_differently_are_not_chosen_between():
    one = {"type": "object", "properties": {"n": {"enum": ["X"]}}, "required": ["n"]}
    other = {"type": "object", "properties": {"n": {"enum": ["x"]}}, "required": ["n"]}
    same = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert taken(read({"anyOf": [same, {"type": "null"}]}, {"n": "5"})).given == {"a": {"n": 5}}
    schema = {"anyOf": [one, {**other, "properties": {"n": {"enum": ["xX", "q"]}}}]}
    assert taken(read(schema, {"n": "x"})).given == {"a": {"n": "X"}}
    schema = {
        "type": "object",
        "properties": {"n": {"anyOf": [{"enum": ["YES"]}, {"enum": ["Yes"]}]}},
    }
    refused(read(schema, {"n": "yes"}))


def test_one_change_is_listed_once_however_many_rules_ask_for_it():
    found = taken(read({"type": "integer", "enum": [1, 2]}, "2"))
    assert found.coercions == (Coercion(path="/a", rule="integer", before="2", after=2),)


def test_many_items_in_text_are_mended_like_few():
    found = taken(read({"type": "array", "items": POINT}, ['{"n":"5"}'] * 60))
    assert found.given == {"a": [{"n": 5}] * 60}


class Counting:
    """A validator that counts how often it is asked."""

    def __init__(self, validator: Any) -> None:
        self.validator = validator
        self.asked = 0

    def iter_errors(self, value: Any) -> Any:
        self.asked += 1
        return self.validator.iter_errors(value)


@pytest.mark.slow("item4", "*x*")
@pytest.mark.parametrize("item", [{"n": "x"}, '{"n":"x"}', {"n": "5"}, '{"n":"5"}', {"n": "0"}, 7])
def test_many_items_are_looked_at_together(item: Any):
    point = {**POINT, "properties": {"n": {"type": "integer", "minimum": 1}}}
    schema: Any = {"type": "object", "properties": {"a": {"items": point}}}
    check = ArgumentCheck("t", schema)
    counting: Any = Counting(check.validator)
    Coercer(counting).mend({"a": [item] * 3000})
    assert counting.asked <= 12


def test_what_is_wrong_after_a_coercion_is_told():
    found = refused(read({"type": "integer", "minimum": 1}, "0"))
    assert found.details == "/a: 0 is less than the minimum of 1"


def test_what_is_wrong_inside_json_text_is_told():
    assert "/a/n" in refused(read(POINT, '{"n":"x"}')).details


def test_a_change_that_breaks_something_else_is_refused():
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    refused(read(schema, ["1", 1]))


INTEGERS: dict[str, tuple[Any, Any]] = {
    "definitions": ({"$ref": "#/definitions/n"}, 2.0),
    "escaped": ({"$ref": "#/$defs/x~1y"}, 2.0),
    "nested pointer": ({"$ref": "#/properties/b/items"}, 2.0),
    "pattern": ({"type": "object", "patternProperties": {"^n": {"type": "integer"}}}, {"n1": 2.0}),
    "conditional": ({"if": {"minimum": 1}, "then": {"type": "integer"}}, 2.0),
    "dependent": (
        {"dependentSchemas": {"k": {"properties": {"n": {"type": "integer"}}}}},
        {"k": 1, "n": 2.0},
    ),
    "enum": ({"enum": [1, 2]}, 2.0),
    "union": ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 2.0),
    "tuple": ({"prefixItems": [{"type": "integer"}]}, [2.0]),
}


def whole(value: Any) -> Any:
    match value:
        case float():
            return int(value)
        case list():
            return [whole(item) for item in cast("list[Any]", value)]
        case dict():
            return {name: whole(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


@pytest.mark.parametrize(("schema", "given"), INTEGERS.values(), ids=INTEGERS)
def test_integral_floats_become_integers_wherever_a_schema_says_so(schema: Any, given: Any):
    root: JsonObject = {
        "type": "object",
        "properties": {"a": schema, "b": {"items": {"type": "integer"}}},
        "definitions": {"n": {"type": "integer"}},
        "$defs": {"x/y": {"type": "integer"}},
    }
    found = taken(ArgumentCheck("t", root).read({"a": given}))
    assert repr(found.given["a"]) == repr(whole(given))
    assert [one.rule for one in found.coercions] == ["integer"]


def test_integral_floats_become_integers_in_an_old_tuple():
    root: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"items": [{"type": "integer"}, {"type": "number"}]}},
    }
    assert repr(taken(ArgumentCheck("t", root).read({"a": [2.0, 3.0]})).given) == "{'a': [2, 3.0]}"


def test_integral_floats_become_integers_in_a_schema_of_itself():
    root: JsonObject = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}},
    }
    found = taken(ArgumentCheck("t", root).read({"n": 1, "next": {"n": 2.0}}))
    assert repr(found.given) == "{'n': 1, 'next': {'n': 2}}"


@pytest.mark.parametrize("schema", [{"type": "number"}, {}, {"type": ["integer", "number"]}])
def test_floats_stay_where_a_schema_takes_them(schema: Any):
    found = taken(read(schema, 2.0))
    assert (repr(found.given), found.coercions) == ("{'a': 2.0}", ())


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["5", "true", "[1]", '{"n":"1"}', "a", "A", "", "1e3"])
)
SCHEMAS: list[Any] = [
    {"type": "integer"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    {"anyOf": [POINT, {"type": "array", "items": POINT}, {"type": "null"}]},
    {"oneOf": [CAT, DOG]},
    {"type": "string", "enum": ["a", "b"]},
    {"allOf": [{"type": "boolean"}, {"const": True}]},
    {"if": {"type": "string"}, "then": {"enum": ["A"]}},
    {"anyOf": [{"type": "object", "additionalProperties": False}, {"type": "array", "items": CAT}]},
    {"properties": {"n": False}, "patternProperties": {"^k": {"type": "integer"}}},
    {"propertyNames": {"enum": ["n"]}, "not": {"required": ["on"]}, "contains": {"const": 5}},
]
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["n", "on", "kind"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(SCHEMAS), VALUES)
def test_whatever_comes_is_taken_valid_or_refused_with_words(schema: Any, value: Any):
    check = ArgumentCheck("t", {"type": "object", "properties": {"a": schema}})
    found = check.read({"a": value})
    if isinstance(found, Refused):
        assert found.details
        return
    assert check.validator.is_valid(found.given)
    again = taken(check.read(found.given))
    assert (again.given, again.coercions) == (found.given, ())
    assert (found.coercions == ()) == (repr(found.given) == repr({"a": value}))
