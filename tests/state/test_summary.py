"""The worst that a run has done, as the list of runs says it."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    run,
    tool,
)
from upshot.journal import MemoryJournal


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(effect="write")
def pay() -> str:
    """Pay."""
    return "paid"


@tool(effect="write")
def lose() -> str:
    """Pay, and lose the answer."""
    raise ConnectionError("cut off")


def caller(*names: str) -> Agent[Any]:
    calls = [ToolCall(f"c{n}", name, {}) for n, name in enumerate(names)]
    return Agent("caller", model=ScriptedModel([calls, "Done."]), tools=[look, pay, lose])


def around(inner: Agent[Any]) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> str:
        return str((await run.child(inner, "?", key="in")).content)

    return Agent("around", engine=ScriptEngine(work))


def stepper() -> Agent[Any]:
    async def step(run: Any, host: Any, board: Any) -> Any:
        def cut() -> Any:
            raise ConnectionError("cut off")

        return await host.step("a", "write", cut)

    return Agent("stepper", engine=ScriptEngine(step))


@pytest.mark.parametrize(
    ("agent", "effect"),
    [
        (caller("look"), "none"),
        (caller("look", "pay"), "applied"),
        (caller("pay", "lose", "look"), "unknown"),
        (around(caller("pay")), "applied"),
        (around(around(caller("lose"))), "unknown"),
        (stepper(), "unknown"),
    ],
    ids=["read", "write", "cut write", "child", "child of a child", "step"],
)
async def test_the_list_of_runs_has_the_worst_that_each_did(agent: Any, effect: str) -> None:
    journal = MemoryJournal()
    await run(agent, Request("Go.", run_id="r"), journal=journal)
    (found,) = await journal.runs(run_id="r")
    assert found.effect == effect
    assert found.error_code == ("" if found.status == "completed" else "server_error")
