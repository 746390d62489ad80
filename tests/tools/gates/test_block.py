"""Tools that may not be called again in the turn."""

import pytest

from upshot.contract import ToolCall, ToolDenied
from upshot.tools import Toolbox, ToolError, tool


@tool(effect="read")
async def broken() -> None:
    raise ToolError("gone for good", retryable=False)


@tool(effect="read")
async def flaky() -> None:
    raise ToolError("try again")


@tool(effect="read")
async def typed(a: int) -> int:
    return a


async def reason(box: Toolbox, name: str, arguments: str = "") -> str:
    outcome = (await box.dispatch([ToolCall("1", name, arguments)]))[0]
    return str(outcome.reason) if isinstance(outcome, ToolDenied) else outcome.kind


async def test_a_final_failure_blocks_the_tool_for_the_turn():
    box = Toolbox([broken])
    assert await reason(box, "broken") == "tool_failure"
    assert box.blocked_tool_names == {"broken"}
    assert await reason(box, "broken") == "blocked"
    box.new_turn()
    assert await reason(box, "broken") == "tool_failure"


async def test_a_failure_that_may_be_repeated_blocks_nothing():
    box = Toolbox([flaky])
    await reason(box, "flaky")
    assert await reason(box, "flaky") == "tool_failure"


async def test_three_refusals_of_arguments_in_a_row_block_the_tool():
    box = Toolbox([typed, flaky])
    for _ in range(3):
        assert await reason(box, "typed", '{"a":"x"}') == "validation"
    assert await reason(box, "typed", '{"a":1}') == "blocked"
    assert await reason(box, "flaky") == "tool_failure"


async def test_valid_arguments_begin_the_count_anew():
    box = Toolbox([typed])
    for arguments in ('{"a":"x"}', '{"a":"y"}', '{"a":1}', "{}", "[]"):
        await reason(box, "typed", arguments)
    assert await reason(box, "typed", '{"a":2}') == "tool_execution_result"


@pytest.mark.parametrize("turns", [1, 2])
async def test_the_count_ends_with_the_turn(turns: int):
    box = Toolbox([typed])
    for _ in range(turns):
        for _ in range(2):
            await reason(box, "typed", "{}")
        box.new_turn()
    assert box.blocked_tool_names == frozenset()
