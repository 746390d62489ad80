"""From what a model wrote to arguments that fit."""

import datetime
import json
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import Coercion, JsonObject
from upshot.errors import Misuse
from upshot.tools import tool
from upshot.tools.arguments.argument_check import ArgumentCheck, Checked, Refused


class Inner(msgspec.Struct):
    n: int
    tags: list[int] = []


def check(**annotations: Any) -> ArgumentCheck:
    """A check of required parameters with these annotations."""

    def f() -> None: ...

    names = ", ".join(annotations)
    namespace: dict[str, Any] = {}
    exec(f"def f({names}): ...", namespace)
    namespace["f"].__annotations__ = annotations
    return tool(namespace["f"]).check


def read(annotation: Any, value: Any) -> Checked | Refused:
    return check(a=annotation).read({"a": value})


def schema_check(schema: JsonObject) -> ArgumentCheck:
    return ArgumentCheck("t", {"type": "object", "properties": {"a": schema}})


@pytest.mark.parametrize(
    ("annotation", "given", "used", "rule"),
    [
        (int, "5", 5, "integer"),
        (int, "-5", -5, "integer"),
        (int, 5.0, 5, "integer"),
        (int | None, "5", 5, "integer"),
        (float, "0.5", 0.5, "number"),
        (float, "5", 5, "number"),
        (bool, "true", True, "boolean"),
        (bool, "False", False, "boolean"),
        (Inner, '{"n":1}', {"n": 1}, "object"),
        (dict[str, int], '{"n":1}', {"n": 1}, "object"),
        (list[int], "[1,2]", [1, 2], "array"),
        (list[int], 7, [7], "array"),
        (list[str], "one", ["one"], "array"),
        (list[int] | None, 7, [7], "array"),
        (Literal["Red", "Green"], "red", "Red", "enum"),
        (Literal["Red", "Green"] | None, "GREEN", "Green", "enum"),
        (Literal[1, 2], "2", 2, "enum"),
        (Inner | None, '{"n":1}', {"n": 1}, "object"),
    ],
    ids=str,
)
def test_safe_coercions(annotation: Any, given: Any, used: Any, rule: str):
    found = read(annotation, given)
    assert isinstance(found, Checked)
    assert found.given == {"a": used}
    assert type(found.given["a"]) is type(used)
    assert found.coercions == (Coercion(path="/a", rule=rule, before=given, after=used),)


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (int, True),
        (int, 5.5),
        (int, "5.5"),
        (int, "five"),
        (int, " 5"),
        (int, "0x5"),
        (int, ""),
        (int, None),
        (float, "1e999"),
        (float, "0.10000000000000000000000000001"),
        (float, "nan"),
        (bool, 1),
        (bool, "yes"),
        (str, 5),
        (list[int], "x"),
        (list[int], "[1"),
        (Inner, "[1]"),
        (Inner, '{"n":"x"}'),
        (Literal["a", "A"], "á"),
    ],
    ids=str,
)
def test_nothing_is_guessed(annotation: Any, given: Any):
    assert isinstance(read(annotation, given), Refused)


def test_two_choices_that_differ_in_case_only_are_not_chosen_between():
    check = schema_check({"enum": ["Red", "RED"]})
    assert isinstance(check.read({"a": "red"}), Refused)


def test_what_the_schema_takes_is_left_alone():
    found = check(a=int | str, b=float).read({"a": "5", "b": 2.0})
    assert isinstance(found, Checked)
    assert (found.given, found.coercions) == ({"a": "5", "b": 2.0}, ())


def test_null_on_an_optional_is_left_out():
    found = schema_check({"type": "integer"}).read({"a": None})
    assert isinstance(found, Checked)
    assert found.given == {}
    assert found.coercions == (Coercion(path="/a", rule="absent"),)


def test_coercions_reach_into_nested_values():
    found = check(a=list[Inner]).read('{"a": "[{\\"n\\": \\"1\\", \\"tags\\": \\"3\\"}]"}')
    assert isinstance(found, Checked)
    assert found.given == {"a": [{"n": 1, "tags": [3]}]}


def test_an_object_in_a_union_is_mended_inside():
    found = check(a=Inner | None).read({"a": {"n": "1", "tags": ["2", 3.0]}})
    assert isinstance(found, Checked)
    assert found.given == {"a": {"n": 1, "tags": [2, 3]}}


def test_a_long_list_is_mended_as_a_whole():
    found = read(list[int], [str(n) for n in range(500)])
    assert isinstance(found, Checked)
    assert len(found.coercions) == 500


def test_defaults_are_filled_for_the_record_and_left_out_for_the_body():
    def f(a: int, b: str = "x") -> None: ...

    found = tool(f).check.read({"a": 1})
    assert isinstance(found, Checked)
    assert (found.given, found.filled) == ({"a": 1}, {"a": 1, "b": "x"})


@pytest.mark.parametrize("text", ["", "  ", "{}", "null"])
def test_no_arguments_are_an_empty_object(text: str):
    def f() -> None: ...

    assert tool(f).check.read(text) == Checked({}, {})


def test_an_object_in_a_string_is_read():
    found = check(a=int).read(json.dumps('{"a": 1}'))
    assert isinstance(found, Checked)
    assert found.coercions[0].rule == "json"


@pytest.mark.parametrize("text", ["[1]", "7", '"x"', "{", "{'a': 1}", "{" * 5000])
def test_what_is_no_object_is_refused(text: str):
    assert isinstance(check(a=int).read(text), Refused)


def test_a_line_break_inside_a_string_is_taken():
    found = check(a=str).read('{"a": "one\ntwo"}')
    assert isinstance(found, Checked)
    assert found.given == {"a": "one\ntwo"}


def test_all_faults_are_named_with_their_paths():
    found = check(a=int, b=list[Inner], c=str).read({"a": "x", "b": [{"n": 1}, {}], "cc": "z"})
    assert isinstance(found, Refused)
    for path in ("/a:", "/b/1/n: is required", "/c: is required", "/cc: is not expected"):
        assert path in found.details
    assert "did you mean c?" in found.details
    assert "a: integer" in found.hint


def test_formats_are_checked():
    check = schema_check({"type": "string", "format": "email"})
    assert isinstance(check.read({"a": "x@example.org"}), Checked)
    assert isinstance(check.read({"a": "nowhere"}), Refused)


@pytest.mark.parametrize(
    ("annotation", "given", "told"),
    [
        (datetime.date | None, "tomorrow", '"tomorrow" is not a "date"'),
        (Literal["a", "b"] | None, "c", "is not one of"),
        (int | bool | None, "x", '"x" is not of type'),
    ],
    ids=str,
)
def test_the_fault_of_a_union_is_that_of_its_nearest_branch(annotation: Any, given: Any, told: str):
    found = read(annotation, given)
    assert isinstance(found, Refused)
    assert told in found.details


def test_a_schema_that_is_none_is_named():
    with pytest.raises(Misuse, match="not valid"):
        schema_check({"type": "objekt"}).read({})


def test_a_schema_never_makes_the_validator_fetch():
    with pytest.raises(Misuse, match="disabled"):
        schema_check({"$ref": "http://127.0.0.1:9/x.json"}).read({})


def test_many_faults_are_cut_to_a_readable_text():
    found = read(list[int], [{} for _ in range(1000)])
    assert isinstance(found, Refused)
    assert "and 980 more" in found.details
    assert len(found.details) < 8_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EVERY = check(a=int, b=float, c=bool, d=list[Inner], e=Inner | None, f=Literal["X", "y"], g=Any)


@given(st.dictionaries(st.sampled_from("abcdefgh"), JSON) | JSON.map(str) | JSON.map(json.dumps))
def test_any_arguments_are_taken_or_refused(arguments: Any):
    found = EVERY.read(arguments)
    if isinstance(found, Checked):
        assert EVERY.validator.is_valid(found.filled)
    else:
        assert found.details


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_in_text_keeps_its_value(number: float):
    found = read(float, repr(number))
    if isinstance(found, Checked):
        assert found.given["a"] == number
