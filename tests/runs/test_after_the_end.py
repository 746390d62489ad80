"""What an engine's tasks may still do when the run has ended: nothing that no log would show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, Misuse, ToolCall, run, start, tool
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel

Done = list[str]


def paying(done: Done) -> Any:
    @tool(effect="write")
    def pay(cents: int) -> str:
        """Pay."""
        done.append("tool")
        return "paid"

    return pay


async def try_all(run: Any, host: Any, done: Done) -> list[str]:
    """Touch the world in every way; how the tools' call ended."""
    for begin in (
        lambda: host.once("late", "write", lambda: done.append("step")),
        lambda: host.step("later", "write", lambda: done.append("step")),
        lambda: run.call_model("Are you there?"),
    ):
        with pytest.raises(Misuse, match="has ended: nothing more can be done in it"):
            await begin()
    outcomes = await run.tools.dispatch([ToolCall("c", "pay", {"cents": 5})])
    return [f"{one.kind}: {one.details}" for one in outcomes]


async def test_a_task_that_was_left_behind_touches_nothing_after_the_end() -> None:
    done, left, journal = Done(), list[asyncio.Task[Any]](), MemoryJournal()
    over = asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> str:
        async def late() -> list[str]:
            await over.wait()
            return await try_all(run, host, done)

        left.append(asyncio.create_task(late()))
        return "fine"

    model = ScriptedModel(["Nobody should ask."])
    agent = Agent("a", model=model, tools=[paying(done)], engine=Do(work))
    result = await run(agent, "?", journal=journal)
    over.set()
    (told,) = await left[0]
    assert (told, done, model.calls) == ("tool_denied: the run has ended", [], [])
    assert result.tool_outcomes == ()
    kinds = [event.kind async for event in journal.events(result.run_id)]
    assert kinds[-1] == "run_settled"


async def test_an_engine_that_ignores_its_cancel_touches_nothing_after_the_end() -> None:
    done, told = Done(), list[str]()
    begun, over, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(run: Any, host: Any, board: Any) -> None:
        begun.set()
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        try:
            told.extend(await try_all(run, host, done))
        finally:
            is_over.set()

    agent = Agent("a", model=ScriptedModel(["no"]), tools=[paying(done)], engine=Do(stubborn))
    async with start(agent, "?") as live:
        await begun.wait()
        live.cancel()
        result = await live.result()
    over.set()
    await is_over.wait()
    assert (result.status, [one.code for one in result.warnings]) == ("canceled", ["abandoned"])
    assert (told, done) == (["tool_denied: the run has ended"], [])
