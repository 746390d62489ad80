"""A run that is stopped leaves no call open, whatever waited and whoever stopped it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.leaping import leap, run_leaping
from tests.runs.kit import Do, log_of
from upshot import (
    Agent,
    AgentResult,
    Approve,
    Budget,
    Failed,
    Message,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolStarted,
    reopen,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.testing.doubles import FakeClock


class Shop:
    """An agent whose one reply asks for two calls that people have to approve."""

    hangs = False

    def __init__(self) -> None:
        self.done: list[int] = []
        self.live: Any = None
        self.clock = FakeClock()

    def agent(self, **facts: Any) -> Agent[Any]:
        @tool(effect="destructive")
        async def wipe(number: int) -> int:
            self.done.append(number)
            if self.live is not None:
                self.live.interrupt("user_cancel")
            return number

        @tool(effect="destructive")
        async def hang(number: int) -> int:
            leap(60)
            self.clock.advance(60)
            await asyncio.sleep(60)
            return number

        calls = [ToolCall("1", "wipe", {"number": 1}), ToolCall("2", "wipe", {"number": 2})]
        hanging = [ToolCall("1", "hang", {"number": 1}), ToolCall("2", "hang", {"number": 2})]
        replies = [hanging if self.hangs else calls, "Done."]
        return Agent("shop", model=ScriptedModel(replies), tools=(wipe, hang), **facts)


async def parked(shop: Shop) -> MemoryJournal:
    journal = MemoryJournal()
    await run(shop.agent(), Request("go", run_id="run-1"), journal=journal)
    return journal


def shown(result: AgentResult[Any]) -> list[str | None]:
    return [message.tool_call_id for message in result.messages]


def reasons(result: AgentResult[Any]) -> list[str]:
    return [str(getattr(one, "reason", one.kind)) for one in result.tool_outcomes]


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_a_parked_run_that_is_cancelled_at_once_settles_its_calls(answered: int) -> None:
    shop = Shop()
    journal = await parked(shop)
    answers = [Approve("1"), Approve("2")][:answered]
    async with reopen("run-1", shop.agent(), journal=journal, answers=answers) as live:
        live.cancel()
        result = await live.result()
    assert (result.status, shop.done) == ("canceled", [])
    assert reasons(result) == ["cancelled", "cancelled"]
    assert shown(result) == [None, "1", "2"]


def test_calls_without_an_answer_are_settled_when_the_time_is_over() -> None:
    shop = Shop()
    shop.hangs = True

    async def gone_on_with() -> AgentResult[Any]:
        journal, limits = await parked(shop), Budget(deadline_s=50)
        more = {"answers": [Approve("1")], "budget": limits, "clock": shop.clock}
        return await resume("run-1", shop.agent(), journal=journal, **more)

    result = run_leaping(gone_on_with())
    assert (result.status, reasons(result)) == ("failed", ["tool_timeout", "deadline"])
    assert shown(result) == [None, "1", "2"]


async def test_a_wish_to_stop_while_one_call_runs_asks_nobody_about_the_other() -> None:
    shop = Shop()
    journal = await parked(shop)
    async with reopen("run-1", shop.agent(), journal=journal, answers=[Approve("1")]) as live:
        shop.live = live
        result = await live.result()
    assert (result.status, shop.done, result.pending) == ("interrupted", [1], ())
    assert reasons(result) == ["tool_execution_result", "cancelled"]
    assert shown(result) == [None, "1", "2"]


async def test_a_run_that_cannot_go_on_settles_its_calls() -> None:
    shop = Shop()
    journal = await parked(shop)

    def broken(_: Any) -> str:
        raise ValueError("no instructions")

    agent = shop.agent(instructions=broken)
    result = await resume("run-1", agent, journal=journal)
    assert (result.status, reasons(result)) == ("failed", ["cancelled", "cancelled"])
    assert shown(result) == [None, "1", "2"]


async def test_what_had_started_in_an_earlier_process_stays_in_doubt() -> None:
    journal, shop = MemoryJournal(), Shop()
    await parked_while_running(journal, shop)
    async with reopen("run-1", shop.agent(), journal=journal) as live:
        live.cancel()
        result = await live.result()
    started, other = result.tool_outcomes
    assert (started.kind, started.effect) == ("tool_failure", "unknown")
    assert (other.kind, other.effect) == ("tool_denied", "none")
    assert shown(result) == [None, "1", "2"]


async def parked_while_running(journal: MemoryJournal, shop: Shop) -> None:
    """A log that ends when the first of two calls had just started."""
    whole = await parked(shop)
    await resume("run-1", shop.agent(), journal=whole, answers=[Approve("1"), Approve("2")])
    epoch = await journal.claim("run-1")
    for event in await log_of(whole, "run-1"):
        journal.append(event, epoch=epoch)
        if isinstance(event, ToolStarted):
            return


async def test_a_script_that_ends_with_an_outcome_in_hand_shows_it() -> None:
    shop = Shop()

    async def script(run: Any, host: Any, board: Any) -> None:
        reply = await run.call_model("go")
        board.append(reply.to_message())
        await run.tools.dispatch([ToolCall("1", "nobody")])
        raise Failed("sold_out", "nothing is left")

    result = await run(shop.agent(), "go", engine=ScriptEngine(script))
    assert reasons(result) == ["unknown_tool", "cancelled"]
    assert shown(result) == [None, "1", "2"]


async def test_calls_of_a_foreign_engine_are_left_to_it() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(Message("assistant", tool_calls=(ToolCall("1", "theirs"),)))
        raise Failed("sold_out", "nothing is left")

    result = await run(Agent("a"), "go", engine=Do(work))
    assert (len(result.messages), result.tool_outcomes) == (1, ())
