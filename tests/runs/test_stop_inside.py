"""A wish to stop reaches the runs inside, and what hooks start is inside a run too."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.kit import Do, Witness, measured
from upshot import (
    Agent,
    Graph,
    GraphEngine,
    Interrupt,
    InterruptCause,
    MachineEngine,
    ScriptedModel,
    Status,
    ToolCall,
    load_machine,
    run,
    run_sync,
    start,
    tool,
)
from upshot.journal import MemoryJournal

STEPS = 50


class Walker:
    """An agent that makes steps without an end, and says how many it has made."""

    def __init__(self) -> None:
        self.steps = 0
        self.began = asyncio.Event()

        @tool(effect="read", repeatable=True)
        async def step(number: int) -> int:
            """Go on."""
            self.steps += 1
            self.began.set()
            await asyncio.sleep(0)
            return number

        calls = [[ToolCall(str(n), "step", {"number": n})] for n in range(STEPS)]
        self.agent = Agent("walker", model=ScriptedModel([*calls, "There."]), tools=[step])


def in_graph(agent: Agent) -> Any:
    return GraphEngine(Graph(nodes={"walk": agent}, edges=[], start="walk"))


def in_machine(agent: Agent) -> Any:
    states = {"walk": {"type": "initial", "agent": "walker", "transitions": [{"to": "end"}]}}
    form = {"spec": "upshot.machine/1", "name": "m", "states": {**states, "end": {"type": "final"}}}
    return MachineEngine(load_machine(form), agents={"walker": agent})


def in_script(agent: Agent) -> Any:
    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(agent, "Walk.")
        await run.child(agent, "Walk.")
        return result

    return Do(work)


@pytest.mark.parametrize("inside", [in_graph, in_machine])
async def test_a_wish_stops_the_agent_inside_at_its_next_safe_point(inside: Any) -> None:
    walker, journal = Walker(), MemoryJournal()
    async with start(Agent("o", engine=inside(walker.agent)), "Go.", journal=journal) as live:
        await walker.began.wait()
        made = walker.steps
        live.interrupt("user_input", "enough")
        result = await live.result()
    assert (result.status, result.cause, result.detail) == ("interrupted", "user_input", "enough")
    assert walker.steps <= made + 1
    (inner,) = [one for one in await journal.runs() if one.run_id != result.run_id]
    assert inner.status == Status.INTERRUPTED


async def test_a_run_that_begins_after_the_wish_stops_at_its_first_safe_point() -> None:
    seen: list[Any] = []

    async def work(run: Any, host: Any, board: Any) -> None:
        while not host.interrupts:
            await asyncio.sleep(0)
        seen.append(await run.child(Walker().agent, "Walk."))

    async with start(Agent("o", engine=Do(work)), "Go.") as live:
        await asyncio.sleep(0)
        live.interrupt("host_shutdown")
        await live.result()
    assert (seen[0].status, seen[0].cause) == ("interrupted", "host_shutdown")
    assert not seen[0].tool_outcomes


async def test_what_a_host_wishes_reaches_the_runs_inside() -> None:
    class Host:
        interrupts = Interrupt(InterruptCause.USER_CANCEL)

    async def work(run: Any, host: Any, board: Any) -> str:
        return (await run.child(Walker().agent, "Walk.")).status

    result = await run(Agent("o", engine=Do(work)), "Go.", host=Host())
    assert result.output == "interrupted"


async def test_what_a_host_wishes_while_a_run_inside_is_at_work_is_seen_there() -> None:
    given, seen = SimpleNamespace(interrupts=None), list[bool]()

    def look(run: Any, host: Any, board: Any) -> None:
        seen.append(bool(host.interrupts))
        given.interrupts = "user_cancel"
        seen.append(bool(host.interrupts))

    async def work(run: Any, host: Any, board: Any) -> None:
        await run.child(Agent("i", engine=Do(look)), "Look.")

    await run(Agent("o", engine=Do(work)), "Go.", host=given)
    assert seen == [False, True]


async def test_a_wish_reaches_a_run_in_the_loop_of_another_thread() -> None:
    began, seen = asyncio.Event(), list[Any]()
    loop = asyncio.get_running_loop()

    async def wait(run: Any, host: Any, board: Any) -> None:
        loop.call_soon_threadsafe(began.set)
        while not host.interrupts:
            await asyncio.sleep(0.001)
        raise TimeoutError

    async def work(run: Any, host: Any, board: Any) -> None:
        seen.append(await asyncio.to_thread(run_sync, Agent("i", engine=Do(wait)), "Go."))

    async with start(Agent("o", engine=Do(work)), "Go.") as live:
        await began.wait()
        live.interrupt("user_cancel")
        await live.result()
    assert isinstance(seen[0].raw, TimeoutError)


@pytest.mark.parametrize("hook", ["on_run_start", "on_attempt_start", "before_finalize"])
async def test_what_a_hook_runs_is_inside_the_run_and_counts(hook: str) -> None:
    seen: list[Any] = []
    judge = Agent("judge", model=ScriptedModel([measured("Good.")]))

    class Judge:
        pass

    async def ask(self: Any, info: Any, *facts: Any) -> None:
        seen.append((info.run_id, await run(judge, "Is it?")))

    setattr(Judge, hook, ask)
    hooks: Any = {"deciders" if hook == "before_finalize" else "observers": [Judge()]}
    watcher = Witness()
    author = Agent("author", model=ScriptedModel([measured("Text.")]), observers=[watcher])
    result = await run(author, "Write.", **hooks)
    ((outer, inner),) = seen
    assert (inner.parent_run_id, result.usage.input_tokens) == (outer, 20)
    assert watcher.facts("on_run_end") == [(result,)]
