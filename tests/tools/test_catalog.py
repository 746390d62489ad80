"""The tools of a Toolbox and how lists of them are read."""

from typing import Any

import pytest

from tests.naming import name_of
from upshot.errors import Misuse
from upshot.tools import Toolbox, resolve_tools, tool


@tool
def one(a: int) -> int:
    return a


@tool
def two(a: int) -> int:
    return a


def plain(a: int) -> int:
    return a


class Kit:
    @tool
    def method(self, a: int) -> int:
        return a


def of_nowhere(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_items_are_tools_functions_sets_and_names():
    found = resolve_tools([one, plain, [two], "named"], named=[one.but(name="named")])
    assert [item.name for item in found] == ["one", "plain", "two", "named"]


def test_one_tool_listed_twice_is_one():
    assert resolve_tools([one, [one], "one"], named=[one]) == (one,)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["onne"], "did you mean 'one'"),
        (["zzz"], "known are: one"),
        ([one, two.but(name="one")], "two tools"),
        ([7], "is no tool"),
        ("one", "give a list"),
        (one, "give a list"),
        (7, "give a list"),
        ([Kit.method], "method without its object"),
        ([lambda a: a], "no name"),
        ([of_nowhere], "'Nowhere', which cannot be found"),
    ],
    ids=name_of,
)
def test_what_cannot_be_resolved_is_named(items: Any, message: str):
    with pytest.raises(Misuse, match=message):
        resolve_tools(items, named=[one])


def test_a_method_of_an_object_can_be_listed():
    assert resolve_tools([Kit().method])[0].name == "method"


def test_schemas_are_the_same_object_while_nothing_changes():
    box = Toolbox([one, two])
    assert [spec.name for spec in box.schemas()] == ["one", "two"]
    assert box.schemas() is box.schemas()


def test_only_what_is_offered_is_shown():
    offered = {"two"}
    box = Toolbox([one, two], offered=lambda: offered)
    assert [spec.name for spec in box.schemas()] == ["two"]
    offered.add("one")
    assert [spec.name for spec in box.schemas()] == ["one", "two"]


def test_the_name_of_the_reader_is_taken():
    with pytest.raises(Misuse, match="read_artifact"):
        Toolbox([one.but(name="read_artifact")])


def test_find_knows_what_is_not_offered():
    box = Toolbox([one], offered=set)
    assert box.find("one") is one
    assert box.find("two") is None
    assert box.find("read_artifact") is not None
