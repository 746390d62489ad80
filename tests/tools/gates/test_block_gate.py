"""Tools that may not be called again in the turn."""

from typing import Any

import pytest

from upshot.contract import ToolCall, ToolDenied
from upshot.errors import Misuse
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


@tool(effect="read", block_scope="key")
async def fetch(a: int, b: int = 0) -> int:
    if a == 0:
        raise ToolError("gone for good", retryable=False)
    return a


async def test_with_the_scope_key_a_final_failure_blocks_only_the_same_arguments():
    box = Toolbox([fetch])
    assert await reason(box, "fetch", '{"a": 0}') == "tool_failure"
    assert await reason(box, "fetch", '{"a": "0", "b": 0}') == "blocked"
    assert await reason(box, "fetch", '{"a": 1}') == "tool_execution_result"
    assert await reason(box, "fetch", '{"a": 0, "b": 1}') == "tool_failure"
    assert not box.blocked_tool_names
    box.new_turn()
    assert await reason(box, "fetch", '{"a": 0}') == "tool_failure"


async def test_what_is_blocked_for_its_arguments_stays_so_where_a_log_goes_on():
    first, second = Toolbox([fetch]), Toolbox([fetch])
    await reason(first, "fetch", '{"a": 0}')
    second.restore(first.records)
    assert await reason(second, "fetch", '{"a": 0}') == "blocked"
    assert await reason(second, "fetch", '{"a": 1}') == "tool_execution_result"


@pytest.mark.parametrize("scope", ["turn", None, True, ""])
def test_another_scope_is_misuse(scope: Any):
    with pytest.raises(Misuse, match='block_scope must be "tool" or "key"'):
        tool(block_scope=scope, name="f")(lambda: None)
