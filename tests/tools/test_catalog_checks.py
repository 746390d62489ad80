"""The tools of Toolboxes and how lists of them are read."""

import re
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


class Shop:
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
        ([7], "is not a tool"),
        ("one", "must be a list of tools"),
        (one, "must be a list of tools"),
        (7, "must be a list of tools"),
        ([Shop.method], "method without its object"),
        ([lambda a: a], "no name"),
        ([of_nowhere], "'Nowhere', which is not defined"),
    ],
    ids=name_of,
)
def test_what_cannot_be_resolved_is_named(items: Any, message: str):
    with pytest.raises(Misuse, match=message):
        resolve_tools(items, named=[one])


def test_a_method_of_an_object_can_be_listed():
    assert resolve_tools([Shop().method])[0].name == "method"


def test_schemas_are_the_same_object_while_nothing_changes():
    box = Toolbox([one, two])
    assert [spec.name for spec in box.schemas()] == ["one", "two"]
    assert box.schemas() is box.schemas()


def test_the_name_of_the_reader_is_taken():
    with pytest.raises(Misuse, match="read_artifact"):
        Toolbox([one.but(name="read_artifact")])


def test_toolboxes_of_the_same_tools_share_what_never_changes():
    assert Toolbox([one, two]).schemas() is Toolbox([one, two]).schemas()
    assert Toolbox([one, two]).schemas() is not Toolbox([two, one]).schemas()


def test_a_function_is_the_same_tool_each_time():
    assert resolve_tools([plain, plain]) == resolve_tools([plain])


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ({"type": "function", "function": {"name": "look", "parameters": {}}}, "'look'"),
        ({"type": "function", "name": "look", "parameters": {}}, "'look'"),
        ({"parameters": {}}, "{'parameters': {}}"),
    ],
    ids=str,
)
def test_a_description_without_a_function_is_misuse_that_says_what_to_give(item: Any, shown: str):
    with pytest.raises(Misuse, match=re.escape(shown)) as caught:
        resolve_tools([item])
    assert "Tool.from_schema" in str(caught.value)


def test_tools_by_name_are_no_list():
    by_name: Any = {"one": one}
    with pytest.raises(Misuse, match="must be a list of tools"):
        resolve_tools(by_name)
