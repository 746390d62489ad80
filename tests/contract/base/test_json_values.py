"""Free JSON: what comes from outside is made JSON, and what was lost is listed."""

import dataclasses
import inspect
import json
import math
import pickle
import sys
from collections import OrderedDict, UserDict, deque, namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import json_values, money, structs, texts
from upshot.contract import (
    AgentResult,
    Cost,
    ErrorCode,
    Json,
    Local,
    Text,
    UnserializableError,
    clean_text,
    encode,
    to_free_json,
)
from upshot.contract.base.json_values import MAX_DEPTH, to_json

Point = namedtuple("Point", "x y")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclasses.dataclass
class Leaf:
    size: int
    worth: Decimal = Decimal("0.5")


class Tree(msgspec.Struct):
    leaves: list[Leaf]
    found: date | None = None


class Person(pydantic.BaseModel):
    name: str
    born: date | None = None


class Broken(pydantic.BaseModel):
    name: str

    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("no")


def nested(levels: int, wrap: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


# Anything that may come out of a tool: JSON, what is nearly JSON, and what is not.
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        json_values(max_leaves=2),
        st.floats(),
        st.text(max_size=5),
        st.decimals(),
        st.datetimes(),
        st.binary(max_size=5),
        st.sampled_from([Colour.RED, Level.LOW, ErrorCode("odd"), Local(raw=1)]),
        structs(Cost),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(
            st.one_of(st.text(max_size=3), st.integers(0, 9), st.booleans(), st.none()),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=6,
)


@given(json_values())
def test_json_stays_as_it_is(value: Json) -> None:
    assert to_free_json(value) == (value, ())


@given(ANYTHING)
def test_what_comes_out_is_json(value: Any) -> None:
    form, _ = to_free_json(value)
    assert json.loads(encode(form)) == form


@given(ANYTHING)
def test_what_comes_out_stays_as_it_is(value: Any) -> None:
    form, _ = to_free_json(value)
    assert to_free_json(form) == (form, ())


def is_kept(value: Any, form: Any) -> bool:
    """Whether *form* says all that *value* did, told another way than the code does it."""
    match value:
        case dict():
            names = list(form)
            return len(names) == len(value) and all(map(is_kept, value.values(), form.values()))
        case list() | tuple():
            return len(value) == len(form) and all(map(is_kept, value, form))
        case str():
            return str.__str__(value) == form
        case float() | Decimal():
            return form is not None and Decimal(repr(form)) == Decimal(str(value))
        case _:
            return True


@given(ANYTHING)
def test_nothing_is_lost_that_is_not_listed(value: Any) -> None:
    form, lossy = to_free_json(value)
    assert lossy or is_kept(value, form)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (frozenset([3]), [3]),
        (deque([1]), [1]),
        (range(3), [0, 1, 2]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": {"b": 1}}), {"a": {"b": 1}}),
        (UserDict({"a": 1}), {"a": 1}),
        ({"a": 1}.keys(), ["a"]),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (ErrorCode.TIMEOUT, "timeout"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(1, 2), "01:02:00"),
        (timedelta(seconds=90), "PT90S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (b"ab", "YWI="),
        (bytearray(b"ab"), "YWI="),
        (memoryview(b"ab"), "YWI="),
        (Decimal("1.50"), 1.5),
        (Decimal("2E+3"), 2000),
        (Decimal(10**40 + 1), 10**40 + 1),
        (Leaf(3), {"size": 3, "worth": 0.5}),
        (Tree([Leaf(1)], date(2026, 1, 2)), None),
        (Person(name="Ada", born=date(1815, 12, 10)), {"name": "Ada", "born": "1815-12-10"}),
        (Text("x"), {"kind": "text", "text": "x"}),
        (Cost(total="0.5"), {"total": 0.5, "currency": "USD", "estimated": True}),
        ({1: "a", None: "b", 1.5: "d"}, {"1": "a", "null": "b", "1.5": "d"}),
        ({True: 1, False: 0}, {"true": 1, "false": 0}),
        ({Colour.RED.value: 1, UUID(int=0): 2}, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_converted(value: object, form: Json) -> None:
    made, lossy = to_free_json(value)
    assert lossy == ()
    assert form is None or made == form
    assert type(made) in (dict, list, str, int, float)


def test_a_local_value_is_null_wherever_it_stands() -> None:
    form, lossy = to_free_json(AgentResult(content="x", local=Local(raw=object())))
    assert isinstance(form, dict)
    assert (form["local"], lossy) == (None, ())


@pytest.mark.parametrize(
    ("value", "form", "lossy"),
    [
        (math.nan, None, ("/",)),
        ({"a": [1, math.inf]}, {"a": [1, None]}, ("/a/1",)),
        (Decimal("NaN"), None, ("/",)),
        (Decimal("sNaN"), None, ("/",)),
        (Decimal("-Infinity"), None, ("/",)),
        (Decimal("1E+400"), None, ("/",)),
        (Decimal("1E+999999999"), None, ("/",)),
        (Decimal("1E-999999999"), 0.0, ("/",)),
        (Decimal("0.12345678901234567890"), 0.12345678901234568, ("/",)),
        ("\ud800", "\ufffd", ("/",)),
        ({"\ud800": 1}, {"\ufffd": 1}, ("/",)),
        ({"a/b~c": math.nan}, {"a/b~c": None}, ("/a~1b~0c",)),
        ({1: "one", "1": "text"}, {"1": "text"}, ("/1",)),
        ([Tree([Leaf(1, Decimal("NaN"))])], None, ("/0/leaves/0/worth",)),
    ],
    ids=repr,
)
def test_what_was_replaced_is_listed(value: object, form: Json, lossy: tuple[str, ...]) -> None:
    made, listed = to_free_json(value)
    assert listed == lossy
    assert form is None or made == form


def test_a_lone_key_of_two_that_clash_after_cleaning_is_listed() -> None:
    _, lossy = to_free_json({f"{half}": place for place, half in enumerate("\ud800\ud801")})
    assert "/\ufffd" in lossy


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"deep": [object()]},
        {("a", "b"): 1},
        {Colour.RED: 1},
        (number for number in [1]),
        Exception("x"),
        Person,
        Leaf,
        len,
        1 + 2j,
        10**1_000,
        Tree([object()]),
        Broken(name="x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_form_is_refused(value: object) -> None:
    with pytest.raises(UnserializableError):
        to_free_json(value)


def test_the_refusal_says_where_and_what() -> None:
    with pytest.raises(UnserializableError, match="/rows/1") as caught:
        to_free_json({"rows": [1, object()]})
    assert caught.value.path == "/rows/1"


def test_a_list_that_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(UnserializableError, match="contains itself") as caught:
        to_free_json(ring)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("holder", [Leaf, lambda inner: Tree([inner])], ids=["dataclass", "struct"])
def test_an_object_that_holds_itself_is_refused(holder: Callable[[Any], Any]) -> None:
    ring: dict[str, Any] = {}
    ring["me"] = holder(ring)
    with pytest.raises(UnserializableError):
        to_free_json(ring)


def test_depth_is_taken_up_to_its_limit() -> None:
    deep = nested(MAX_DEPTH)
    assert to_free_json(deep) == (deep, ())
    with pytest.raises(UnserializableError):
        to_free_json(nested(MAX_DEPTH + 1))


def test_depth_is_refused_also_where_the_stack_is_nearly_used_up() -> None:
    def descend(frames: int) -> None:
        if frames:
            descend(frames - 1)
        else:
            with pytest.raises(UnserializableError, match="too deeply"):
                to_free_json(nested(MAX_DEPTH))

    descend(sys.getrecursionlimit() - len(inspect.stack()) - MAX_DEPTH)


def test_a_refusal_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(UnserializableError("/a", "no")))
    assert (error.path, error.reason) == ("/a", "no")


@given(texts())
def test_a_clean_text_is_the_same_object(text: str) -> None:
    assert clean_text(text) is text


@given(st.text(st.characters(categories=("Cs", "L"))))
def test_a_cleaned_text_can_be_sent(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode("utf-8")
    assert not any("\ud800" <= letter <= "\udfff" for letter in cleaned)


@given(money())
def test_money_is_written_with_all_its_digits(amount: Decimal) -> None:
    assert Decimal(to_json(amount).decode()) == amount
