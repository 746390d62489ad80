"""Schema and typed values from a signature."""

import datetime
import enum
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

from upshot.errors import Misuse
from upshot.tools import ToolContext, tool
from upshot.tools.arguments.argument_check import Checked
from upshot.tools.definition.annotations import BuildError


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Box:
    corner: Point


class Model(pydantic.BaseModel):
    day: datetime.date
    count: int = pydantic.Field(ge=1)


class Shade(enum.Enum):
    DARK = "dark"


class Filter(TypedDict, total=False):
    name: str


def schema_of(function: Any) -> Any:
    return tool(function).parameters


def test_required_defaults_and_closed_properties():
    def f(a: int, b: str = "x", c: float | None = None) -> None: ...

    assert schema_of(f) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string", "default": "x"},
            "c": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_no_parameters_is_an_empty_closed_object():
    def f() -> None: ...

    assert schema_of(f) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_unannotated_takes_any_json():
    def f(a, b=1): ...

    assert schema_of(f)["properties"] == {"a": {}, "b": {"default": 1}}


def test_a_context_is_not_shown():
    def f(context: ToolContext, a: int) -> None: ...
    def g(context: ToolContext[dict[str, int]], a: int) -> None: ...
    def h(context: "ToolContext", a: int) -> None: ...

    for function in (f, g, h):
        assert list(schema_of(function)["properties"]) == ["a"]
        assert tool(function).body.wants_context


def test_descriptions_come_from_docstring_meta_and_annotated_text():
    def f(
        a: int,
        b: Annotated[int, msgspec.Meta(description="the b", ge=1)],
        c: Annotated[str, "the c"],
    ) -> None:
        """Do it.

        Args:
            a: The a
                in two lines.
        """

    properties = schema_of(f)["properties"]
    assert properties["a"]["description"] == "The a in two lines."
    assert properties["b"] == {"type": "integer", "minimum": 1, "description": "the b"}
    assert properties["c"]["description"] == "the c"


def test_implicit_none_default_is_optional_without_a_null():
    def f(a: int = None) -> None: ...  # noqa: RUF013  # people write this

    assert schema_of(f)["properties"]["a"] == {"type": "integer"}
    assert "required" not in schema_of(f)


def test_a_default_that_is_no_json_is_left_to_python():
    marker = object()

    def f(a: Any = marker) -> bool:
        return a is marker

    one = tool(f)
    assert one.parameters["properties"] == {"a": {}}
    assert f(**one.body.build({}))


@pytest.mark.parametrize(
    ("annotation", "given", "built"),
    [
        (int, 1, 1),
        (float, 1, 1.0),
        (Literal["a", "b"], "a", "a"),
        (Shade, "dark", Shade.DARK),
        (Path, "a/b", Path("a/b")),
        (datetime.date, "2020-02-29", datetime.date(2020, 2, 29)),
        (list[Point], [{"x": 1}], [Point(1)]),
        (Box, {"corner": {"x": 1, "y": 2}}, Box(Point(1, 2))),
        (Filter, {"name": "n"}, {"name": "n"}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[int], [1, 2], {1, 2}),
        (Point | None, None, None),
        (Model, {"day": "2020-01-01", "count": 2}, Model(day=datetime.date(2020, 1, 1), count=2)),
    ],
    ids=str,
)
def test_typed_values_are_built(annotation: Any, given: Any, built: Any):
    def f(a): ...

    f.__annotations__ = {"a": annotation}
    one = tool(f)
    assert one.check.read({"a": given}).given == {"a": given}
    assert one.body.build({"a": given}) == {"a": built}


def test_pydantic_and_msgspec_stand_in_one_signature():
    def f(m: Model, p: Point, n: int = pydantic.Field(3, le=9, description="enn")) -> None: ...

    one = tool(f)
    schema: Any = one.parameters
    assert schema["required"] == ["m", "p"]
    assert schema["properties"]["n"] == {
        "type": "integer",
        "maximum": 9,
        "default": 3,
        "description": "enn",
    }
    assert set(schema["$defs"]) == {"Model", "Point"}
    values = one.body.build({"m": {"day": "2020-01-01", "count": 1}, "p": {"x": 1}})
    assert values["n"] == 3


def test_pydantic_is_strict_about_what_the_schema_let_pass():
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd")
            return n

    def f(a: Even) -> None: ...

    f.__annotations__ = {"a": Even}
    with pytest.raises(BuildError, match=r"/a: /n: .*odd"):
        tool(f).body.build({"a": {"n": 1}})


def test_every_refusal_of_a_type_is_named():
    def f(a: datetime.datetime, b: datetime.datetime) -> None: ...

    with pytest.raises(BuildError) as refusal:
        tool(f).body.build({"a": "x", "b": "y"})
    assert "/a" in str(refusal.value)
    assert "/b" in str(refusal.value)


def test_values_share_no_container_with_the_arguments():
    def f(a: Any, b: list[Any]) -> None: ...

    arguments: Any = {"a": {"x": [1]}, "b": [[1]]}
    values: Any = tool(f).body.build(arguments)
    values["a"]["x"].append(2)
    values["b"][0].append(2)
    assert arguments == {"a": {"x": [1]}, "b": [[1]]}


def test_a_name_that_comes_later_in_the_file_is_found_at_first_use():
    @tool
    def f(a: "Later") -> None: ...  # noqa: F821

    f.body.function.__globals__["Later"] = Point  # type: ignore[attr-defined]
    try:
        assert "Point" in f.parameters["$defs"]
    finally:
        del f.body.function.__globals__["Later"]  # type: ignore[attr-defined]


POSITIVE: Any = {"type": "integer", "exclusiveMinimum": 0}


class Even(msgspec.Struct):
    n: Annotated[int, annotated_types.Gt(0)]


@dataclass
class Odd:
    n: Annotated[int, annotated_types.Gt(0)]


@dataclass
class Holder:
    model: Model


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, annotated_types.Gt(0)], POSITIVE),
        (pydantic.PositiveInt, POSITIVE),
        (pydantic.conint(ge=5), {"type": "integer", "minimum": 5}),
        (
            Annotated[int, annotated_types.Interval(ge=1, lt=9)],
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
        ),
        (
            Annotated[list[int], annotated_types.Len(2, 3)],
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
        ),
        (list[pydantic.PositiveInt], {"type": "array", "items": POSITIVE}),
        (dict[str, pydantic.PositiveInt], {"type": "object", "additionalProperties": POSITIVE}),
        (pydantic.PositiveInt | None, {"anyOf": [POSITIVE, {"type": "null"}]}),
        (
            Annotated[int | None, annotated_types.Gt(0)],
            {"anyOf": [POSITIVE, {"type": "null"}]},
        ),
        (
            Annotated[float, annotated_types.MultipleOf(2), annotated_types.Unit("m")],
            {"type": "number", "multipleOf": 2},
        ),
        (
            pydantic.conlist(int, min_length=2),
            {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        ),
    ],
    ids=str,
)
def test_constraints_are_told_to_the_model(annotation: Any, schema: Any):
    def f(a: Any) -> None: ...

    f.__annotations__["a"] = annotation
    assert schema_of(f)["properties"]["a"] == schema


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (list[pydantic.PositiveInt], [0]),
        (Annotated[list[int], annotated_types.Len(2, 3)], [1]),
        (Odd, {"n": 0}),
        (list[Odd], [{"n": 0}]),
        (Holder, {"model": {"day": "2020-01-01", "count": 0}}),
        (list[Annotated[int, msgspec.Meta(gt=0)]] | Model, [0]),
        (Annotated[int, annotated_types.Predicate(lambda n: n > 0)], 0),
    ],
    ids=["items", "length", "field", "fields", "two fields", "union", "predicate"],
)
def test_constraints_hold_however_deep_they_stand(annotation: Any, given: Any):
    def f(a: Any) -> None: ...

    f.__annotations__["a"] = annotation
    one = tool(f)
    found = one.check.read({"a": given})
    if isinstance(found, Checked):
        with pytest.raises(BuildError):
            one.body.build(found.given)


def with_event(a: int, b: list[threading.Event]) -> None: ...


def with_unread(a: Even) -> None: ...


def with_lists(a: list[int] | set[int]) -> None: ...


def with_wrong(a: Annotated[str, annotated_types.Gt(0)]) -> None: ...


def with_both(a: Annotated[int, annotated_types.Gt(0), annotated_types.Ge(0)]) -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (with_event, "the parameter 'b' has no JSON Schema: Event has no JSON form; use plain"),
        (with_unread, "the parameter 'a' has no JSON Schema: Even.n has an annotation"),
        (with_lists, "the parameter 'a' has no JSON Schema: Type unions may not contain"),
        (with_wrong, "the parameter 'a'"),
        (with_both, "the parameter 'a'"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_parameter_that_cannot_be_read_is_named(function: Any, said: str):
    with pytest.raises(Misuse) as caught:
        tool(function)
    assert said in str(caught.value)
    assert "hook" not in str(caught.value)


@pytest.mark.parametrize("annotation", ["int |", "1 +* 2", "Missing.inner[", "msgspec.nothing"])
def test_an_annotation_that_is_no_code_is_misuse(annotation: str):
    def f(a: Any) -> None: ...

    f.__annotations__["a"] = annotation
    with pytest.raises(Misuse, match="annotation"):
        tool(f)


def test_a_type_whose_own_code_fails_refuses_the_value():
    class Fussy(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def look_up(cls, n: int) -> int:
            return {1: 1}[n]

    def f(a: Fussy) -> None: ...

    f.__annotations__["a"] = Fussy
    with pytest.raises(BuildError, match="KeyError"):
        tool(f).body.build({"a": {"n": 2}})
