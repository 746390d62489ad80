"""Which tools a Toolbox offers."""

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
