"""What a run leaves to the garbage collector once nobody has its result: nothing."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.kit import ADD, Do, Witness, add, measured
from upshot import Agent, Decider, ScriptEngine, run, start
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.runs.recorder import listen

AGENT = Agent("a")


async def garbage_of(work: Callable[[], Awaitable[Any]]) -> Counter[str]:
    """Which objects of ours *work* leaves behind in cycles, by class, its first time apart."""
    await work()
    gc.collect()
    # What is there now is not looked through again.
    gc.freeze()
    gc.disable()
    try:
        await work()
        await asyncio.sleep(0)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(one) for one in gc.garbage]
        return Counter(kind.__name__ for kind in kinds if kind.__module__.startswith("upshot"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def script(run: Any, host: Any, board: Any) -> str:
    return "fine"


async def with_a_child(run: Any, host: Any, board: Any) -> Any:
    return (await run.child(Agent("b", engine=ScriptEngine(script)), "?")).output


async def with_a_step(run: Any, host: Any, board: Any) -> Any:
    return await host.once("one", "write", lambda: 1)


async def with_a_step_that_fails(run: Any, host: Any, board: Any) -> Any:
    try:
        await host.once("one", "write", lambda: {}["k"])
    except KeyError:
        return "fine"


async def asking(run: Any, host: Any, board: Any) -> Any:
    return await host.ask_user("Who?")


def reply(messages: Any) -> Any:
    return measured(None, ADD) if len(messages) == 1 else measured("Three.")


# An agent keeps what is known of it, and goes with that; a run is what is looked at here.
LOOP = Agent("a", model=ScriptedModel(reply), tools=[add])


def nothing(*_: Any) -> None: ...


async def nothing_later(*_: Any) -> None:
    await asyncio.sleep(0)


def broken(*_: Any) -> Any:
    return {}["k"]


ASYNC_HOST = SimpleNamespace(publish=nothing_later, report_usage=nothing_later)
HOST = SimpleNamespace(publish=nothing, interrupts=nothing, report_usage=nothing)
CASES: dict[str, Callable[[], Awaitable[Any]]] = {
    "a script": lambda: run(AGENT, "?", engine=ScriptEngine(script)),
    "a script with a log": lambda: run(
        AGENT, "?", engine=ScriptEngine(script), journal=MemoryJournal()
    ),
    "a loop with tools": lambda: run(LOOP, "?"),
    "a run inside": lambda: run(AGENT, "?", engine=ScriptEngine(with_a_child)),
    "a step": lambda: run(AGENT, "?", engine=ScriptEngine(with_a_step)),
    "a step that fails": lambda: run(AGENT, "?", engine=Do(with_a_step_that_fails)),
    "hooks": lambda: run(LOOP, "?", observers=[Witness()], deciders=[Decider()]),
    "an async host": lambda: run(LOOP, "?", host=ASYNC_HOST),
    "a seeder that raises": lambda: run(LOOP, "?", prepare=broken),
    "a decider that raises": lambda: run(
        LOOP, "?", deciders=[SimpleNamespace(before_finalize=broken)]
    ),
    "a host": lambda: run(LOOP, "?", host=HOST),
    "an engine": lambda: run(AGENT, "?", engine=Do(script)),
    "a bug": lambda: run(AGENT, "?", engine=Do(lambda *_: {}["k"])),
    "a run that was parked": lambda: run(AGENT, "?", engine=Do(asking)),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_run_leaves_nothing_to_the_garbage_collector(case: str) -> None:
    assert await garbage_of(CASES[case]) == {}


async def test_a_run_that_was_watched_leaves_nothing() -> None:
    async def watch() -> None:
        async with start(LOOP, "?") as live:
            async for _ in live:
                pass

    assert await garbage_of(watch) == {}


async def test_a_run_that_all_runs_listeners_heard_leaves_nothing() -> None:
    end = listen(lambda plan: nothing)
    try:
        assert await garbage_of(CASES["a loop with tools"]) == {}
    finally:
        end()
