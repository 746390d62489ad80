"""A wish to stop ends a wait before the next try at once: nothing is under way in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import (
    Agent,
    AgentError,
    Graph,
    GraphEngine,
    Interrupted,
    LiveRun,
    MachineEngine,
    Node,
    ScriptedModel,
    Status,
    ToolCall,
    ToolError,
    ToolFailure,
    load_machine,
    start,
    tool,
)
from upshot.clock import SYSTEM_CLOCK
from upshot.runs.task_supervisor import TaskSupervisor
from upshot.testing import FakeClock

BUSY = AgentError("rate_limit", "busy", retryable=True)
MACHINE = """
spec: upshot.machine/1
states:
  work:
    type: initial
    function: fail
    retry: {max_attempts: 3, backoff_s: 5}
    transitions: [{to: done}]
  done: {type: final}
"""


class Endless(FakeClock):
    """Waits that nobody ends but who interrupts: it does so as soon as somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: list[LiveRun[Any]] = []

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        asyncio.get_running_loop().call_soon(self.lives[0].interrupt, "user_cancel", "enough")
        await asyncio.Event().wait()


async def interrupted_in_wait(agent: Agent[Any]) -> tuple[Any, Endless]:
    clock = Endless()
    async with start(agent, "?", clock=clock) as live:
        clock.lives.append(live)
        result = await live.result()
    assert (result.status, result.detail) == (Status.INTERRUPTED, "enough")
    return result, clock


def asking() -> Agent[Any]:
    return Agent("a", model=ScriptedModel([BUSY, "Late."]))


def unshown() -> Agent[Any]:
    model = ScriptedModel([BUSY, "Late."])
    model.stream = None  # type: ignore[assignment, method-assign]
    return Agent("a", model=model)


def fail(*_: Any) -> None:
    raise OSError("busy")


def graph() -> Agent[Any]:
    return Agent("a", engine=GraphEngine(Graph({"n": Node(fail, attempts=3, backoff_s=5)})))


def machine() -> Agent[Any]:
    return Agent("a", engine=MachineEngine(load_machine(MACHINE), functions={"fail": fail}))


def around() -> Agent[Any]:
    """The wait is in a run inside."""
    return Agent("a", engine=GraphEngine(Graph({"n": asking()})))


@pytest.mark.parametrize("made", [asking, unshown, graph, machine, around])
async def test_a_run_that_waits_to_try_again_ends_at_once(made: Callable[[], Agent[Any]]) -> None:
    result, clock = await interrupted_in_wait(made())
    # The grace would have cut the engine off, which raises a cancel.
    assert isinstance(result.raw, Interrupted)
    assert len(clock.sleeps) == 1


async def test_a_tool_that_waits_to_be_tried_again_keeps_its_failure() -> None:
    calls: list[int] = []

    @tool(effect="read", retries=3)
    async def look() -> None:
        calls.append(1)
        raise ToolError("busy", retry_after_s=5)

    agent = Agent("a", model=ScriptedModel([ToolCall("c", "look"), "Never."]), tools=[look])
    result, _ = await interrupted_in_wait(agent)
    (outcome,) = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert (outcome.error, calls) == ("busy", [1])


async def test_nothing_is_waited_for_once_the_wish_is_there() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        clock.lives[0].interrupt("user_cancel", "enough")
        await run.call_model("?")

    clock = Endless()
    async with start(
        Agent("a", engine=Do(work)), "?", model=ScriptedModel([BUSY, "Late."]), clock=clock
    ) as live:
        clock.lives.append(live)
        result = await live.result()
    assert (result.status, clock.sleeps) == (Status.INTERRUPTED, [])


async def test_a_wish_ends_the_wait_and_not_the_work() -> None:
    scope = TaskSupervisor(SYSTEM_CLOCK, None)

    async def work() -> str:
        asyncio.get_running_loop().call_soon(scope.end_soon, "interrupt")
        await scope.interruptible_clock.sleep(60)
        return "done"

    assert await scope.drive(work()) == ("done", None)
    assert scope.stop == ""
    scope.close()


async def test_a_wait_that_is_cancelled_is_cancelled() -> None:
    scope = TaskSupervisor(SYSTEM_CLOCK, None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await scope.pause(60)


async def test_what_a_clock_raises_is_raised() -> None:
    class Broken(FakeClock):
        async def sleep(self, delay_s: float) -> None:
            raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await TaskSupervisor(SYSTEM_CLOCK, None).pause(60, Broken())
