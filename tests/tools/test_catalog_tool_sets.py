"""Tools that are trusted together."""

import pytest

from upshot.errors import Misuse
from upshot.tools import Toolbox, ToolCall, ToolSet, tool


@tool(effect="read")
async def look() -> str:
    return "found"


@tool(effect="read", trust="untrusted")
async def fetch() -> str:
    return "page"


async def test_all_of_a_set_is_untrusted():
    box = Toolbox([ToolSet([look, fetch], trust="untrusted")])
    await box.dispatch([ToolCall("1", "look"), ToolCall("2", "fetch")])
    assert [record.trust for record in box.records] == ["untrusted"] * 2


async def test_all_of_a_set_is_trusted():
    box = Toolbox([ToolSet([look, fetch], trust="")])
    await box.dispatch([ToolCall("1", "look"), ToolCall("2", "fetch")])
    assert [record.trust for record in box.records] == [""] * 2
    assert not box.tainted


def test_a_set_that_says_nothing_leaves_its_tools_as_they_are():
    assert ToolSet([look, ToolSet([fetch])]).tools == (look, fetch)


def test_another_word_is_misuse():
    with pytest.raises(Misuse, match="trust"):
        ToolSet([look], trust="dubious")  # type: ignore[arg-type]
