"""Which tools a Toolbox offers."""

from upshot.contract import ToolCall, ToolDenied
from upshot.tools import Toolbox, tool


@tool
def one(a: int) -> int:
    return a


@tool
def two(a: int) -> int:
    return a


def test_only_what_is_offered_is_shown():
    offered = {"two"}
    box = Toolbox([one, two], offered=lambda: offered)
    assert [spec.name for spec in box.schemas()] == ["two"]
    offered.add("one")
    assert [spec.name for spec in box.schemas()] == ["one", "two"]


def test_find_knows_what_is_not_offered():
    box = Toolbox([one], offered=set)
    assert box.find("one") is one
    assert box.find("two") is None
    assert box.find("read_artifact") is not None


async def test_a_name_in_another_case_is_near():
    outcome = (await Toolbox([one]).dispatch([ToolCall("1", "ONE", {"a": 1})]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.hint == "Did you mean one?"
