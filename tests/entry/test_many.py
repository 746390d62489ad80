"""Many runs of one agent in one process: all right, nothing left behind, nothing kept."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.runs.kit import add
from upshot import (
    Agent,
    AgentResult,
    Message,
    ModelRequest,
    ModelResponse,
    ScriptEngine,
    ToolCall,
    run,
    tool,
)

RUNS = 100
# Far less than one a run: what caches of the interpreter and the loop may still take.
KEPT = RUNS // 2


class Adding:
    """A model without a memory of its own: asks for a sum and says it."""

    name = "test:adding"

    async def call(self, request: ModelRequest) -> ModelResponse:
        await asyncio.sleep(0)
        last = request.messages[-1]
        if len(request.messages) == 1:
            call = ToolCall("c", "add", {"a": int(last.text), "b": 1})
            return ModelResponse(tool_calls=(call,))
        return ModelResponse(content=last.text)


async def story(run: Any, host: Any, board: Any) -> Any:
    """The same by a script, with a child and a step."""
    number = int(board.messages()[0].text)
    child = Agent("inner", engine=ScriptEngine(one_more))
    await host.once("step", "read", lambda: number)
    result = await run.child(child, str(number), key="child")
    board.append(Message("assistant", f'{{"result":{result.output}}}'))


async def one_more(run: Any, host: Any, board: Any) -> int:
    await asyncio.sleep(0)
    return int(board.messages()[0].text) + 1


AGENTS: dict[str, Callable[[], Agent[Any]]] = {
    "loop": lambda: Agent("a", model=Adding(), tools=[tool(effect="read")(add)]),
    "script": lambda: Agent("a", engine=ScriptEngine(story)),
}


async def hundreds(agent: Agent[Any]) -> list[AgentResult[Any]]:
    return await asyncio.gather(*(run(agent, str(number)) for number in range(RUNS)))


@pytest.mark.parametrize("name", AGENTS)
async def test_hundreds_of_runs_of_one_agent_are_right_and_leave_no_task(name: str) -> None:
    before = asyncio.all_tasks()
    results = await hundreds(AGENTS[name]())
    assert [result.content for result in results] == [
        f'{{"result":{number + 1}}}' for number in range(RUNS)
    ]
    assert len({result.run_id for result in results}) == RUNS
    assert asyncio.all_tasks() == before


@pytest.mark.slow("script")
@pytest.mark.parametrize("name", AGENTS)
async def test_hundreds_of_runs_leave_nothing_in_memory(name: str) -> None:
    agent = AGENTS[name]()
    await hundreds(agent)
    left = [await _left_after(agent) for _ in range(3)]
    # What leaks does so each time; other tests in this process may have something to end once.
    for counts in zip(*left, strict=True):
        assert min(after - before for before, after in pairwise(counts)) < KEPT


async def _left_after(agent: Agent[Any]) -> tuple[int, int]:
    """How many objects and blocks of memory are there once all runs are over."""
    await hundreds(agent)
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()
