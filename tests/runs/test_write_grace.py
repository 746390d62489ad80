"""A run that is asked to stop: a write in hand has longer than the rest, in child runs too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.leaping import leap, run_leaping
from tests.runs.kit import Do
from upshot import (
    Agent,
    AgentResult,
    Graph,
    GraphEngine,
    LiveRun,
    Misuse,
    ScriptedModel,
    ToolCall,
    run_sync,
    start,
    tool,
)
from upshot.runs.task_supervisor import GRACE_S, WRITE_GRACE_S


class Shop:
    """An agent with a refund that ends when it is told to, or with a look that does."""

    def __init__(self, effect: Any = "write") -> None:
        self.begun, self.paid = asyncio.Event(), asyncio.Event()

        @tool(effect=effect, name="refund")
        async def refund(order: int) -> str:
            self.begun.set()
            await self.paid.wait()
            return "paid"

        model = ScriptedModel([ToolCall("c1", "refund", {"order": 7}), "Done."])
        self.agent = Agent("shop", model=model, tools=[refund])


def in_graph(agent: Agent) -> Agent:
    return Agent("o", engine=GraphEngine(Graph(nodes={"a": agent}, edges=[], start="a")))


def in_script(agent: Agent) -> Agent:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return await run.child(agent, "Refund it.")

    return Agent("o", engine=Do(work))


def in_tool(agent: Agent) -> Agent:
    import upshot

    @tool(effect="write")
    async def ask() -> str:
        return str((await upshot.run(agent, "Refund it.")).content)

    return Agent("o", model=ScriptedModel([ToolCall("c0", "ask"), "Done."]), tools=[ask])


def alone(agent: Agent) -> Agent:
    return agent


NESTINGS = [alone, in_graph, in_script, in_tool]
nested = pytest.mark.parametrize("nest", NESTINGS, ids=["alone", "graph", "script", "tool"])

Then = Callable[[LiveRun[Any], Shop], Coroutine[Any, Any, None]]


def stopped(shop: Shop, agent: Agent, then: Then, **options: Any) -> AgentResult[Any]:
    """The result of a run that was asked to stop while its refund ran."""

    async def main() -> AgentResult[Any]:
        async with start(agent, "Refund it.", **options) as live:
            await shop.begun.wait()
            live.interrupt("user_cancel")
            await then(live, shop)
            return await live.result()

    return run_leaping(main())


async def rounds(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@nested
def test_a_write_in_hand_comes_to_its_end(nest: Callable[[Agent], Agent]) -> None:
    async def then(live: LiveRun[Any], shop: Shop) -> None:
        stopping = live.stopping
        assert stopping is not None
        assert stopping.writes == ("refund(order 7)",)
        assert GRACE_S < stopping.left_s <= WRITE_GRACE_S
        leap(WRITE_GRACE_S - 1)
        await rounds()
        assert not live.done
        shop.paid.set()

    result = stopped(shop := Shop(), nest(shop.agent), then)
    assert result.status == "interrupted"
    # Nested, the outcome is in the log of the child run.
    assert {one.effect for one in result.tool_outcomes if one.tool_name == "refund"} <= {"applied"}


@nested
def test_a_write_that_takes_longer_is_cut_off_and_unknown(nest: Callable[[Agent], Agent]) -> None:
    async def then(live: LiveRun[Any], shop: Shop) -> None:
        leap(WRITE_GRACE_S)

    shop = Shop()
    result = stopped(shop, nest(shop.agent), then)
    assert result.status == "interrupted"
    assert {one.effect for one in result.tool_outcomes if one.tool_name == "refund"} <= {"unknown"}


@nested
def test_a_read_in_hand_has_the_short_grace(nest: Callable[[Agent], Agent]) -> None:
    async def then(live: LiveRun[Any], shop: Shop) -> None:
        stopping = live.stopping
        assert stopping is not None
        assert stopping.writes == ()
        assert stopping.left_s <= GRACE_S
        leap(GRACE_S)

    shop = Shop("read")
    assert stopped(shop, nest(shop.agent), then).status == "interrupted"


def test_the_grace_of_writes_is_an_option_and_child_runs_have_it_too() -> None:
    async def then(live: LiveRun[Any], shop: Shop) -> None:
        stopping = live.stopping
        assert stopping is not None
        assert WRITE_GRACE_S < stopping.left_s <= 30
        leap(20)
        await rounds()
        assert not live.done
        shop.paid.set()

    shop = Shop()
    assert stopped(shop, in_graph(shop.agent), then, write_grace_s=30).status == "interrupted"


def test_without_a_grace_of_its_own_a_write_has_that_of_the_rest() -> None:
    async def then(live: LiveRun[Any], shop: Shop) -> None:
        stopping = live.stopping
        assert stopping is not None
        assert stopping.left_s <= GRACE_S
        leap(GRACE_S)

    shop = Shop()
    result = stopped(shop, shop.agent, then, write_grace_s=0)
    assert result.tool_outcomes[0].effect == "unknown"


@pytest.mark.parametrize("wrong", [-1, True, "10", float("inf"), float("nan")])
def test_a_grace_that_is_no_number_of_seconds_is_misuse(wrong: Any) -> None:
    with pytest.raises(Misuse, match="write_grace_s"):
        run_sync(Shop().agent, "Refund it.", write_grace_s=wrong)


def test_a_step_that_writes_is_named_and_has_the_long_grace() -> None:
    shop = Shop()

    async def pay() -> str:
        shop.begun.set()
        await shop.paid.wait()
        return "paid"

    async def work(run: Any, host: Any, board: Any) -> Any:
        return await host.once("pay order 7", "write", pay)

    async def then(live: LiveRun[Any], shop: Shop) -> None:
        stopping = live.stopping
        assert stopping is not None
        assert stopping.writes == ("the step pay order 7",)
        leap(GRACE_S + 1)
        await rounds()
        assert not live.done
        shop.paid.set()

    stopped(shop, Agent("o", engine=Do(work)), then)


def test_a_secret_in_the_arguments_of_a_write_is_masked() -> None:
    async def then(live: LiveRun[Any], shop: Shop) -> None:
        stopping = live.stopping
        assert stopping is not None
        assert "hunter2" not in str(stopping.writes)
        shop.paid.set()

    shop = Shop()

    @tool(effect="write")
    async def send(word: str) -> str:
        shop.begun.set()
        await shop.paid.wait()
        return "sent"

    model = ScriptedModel([ToolCall("c1", "send", {"word": "hunter2"}), "Done."])
    stopped(shop, Agent("a", model=model, tools=[send]), then, secrets=["hunter2"])


def test_nothing_is_left_of_a_run_that_was_not_asked_to_stop() -> None:
    async def main() -> None:
        shop = Shop()
        async with start(shop.agent, "Refund it.") as live:
            await shop.begun.wait()
            assert live.stopping is None
            shop.paid.set()
            await live.result()
            assert live.stopping is None

    asyncio.run(main())
