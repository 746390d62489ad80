"""A hand-off chain that is watched: the events of all runs in one iterator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from upshot import (
    Agent,
    Handoff,
    InterruptCause,
    Interrupted,
    Misuse,
    ModelReplied,
    Request,
    RunSettled,
    RunStarted,
    ScriptedModel,
    ScriptEngine,
    Status,
    TextDelta,
    ToolCall,
    run_with_handoffs,
    start_with_handoffs,
)
from upshot.contract import Event
from upshot.journal import MemoryJournal


def handing(id: str, to: str, *before: str) -> Agent[Any]:
    model = ScriptedModel([*before, ToolCall(f"c-{id}", f"transfer_to_{to}", {})])
    return Agent(id, model=model, handoffs=[Handoff(to)])


def three() -> list[Agent[Any]]:
    last = Agent[Any]("c", model=ScriptedModel(["The answer."]))
    return [handing("a", "b"), handing("b", "c"), last]


async def test_the_events_of_all_runs_come_in_order_and_end_with_the_last_result() -> None:
    events: list[Event] = []
    async with start_with_handoffs(three(), "?") as live:
        async for event in live:
            events.append(event)
        result = await live.result()
    began = [one.agent.id for one in events if isinstance(one, RunStarted)]
    assert began == ["a", "b", "c"]
    ends = [one for one in events if isinstance(one, RunSettled)]
    assert [one.result.agent_id for one in ends] == ["a", "b", "c"]
    assert events[-1] is ends[-1]
    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "The answer."
    assert (result.content, result.state["path"]) == ("The answer.", ["a", "b", "c"])
    assert live.done
    assert live.run_id == result.run_id


async def test_it_gives_what_run_with_handoffs_gives() -> None:
    whole = await run_with_handoffs(three(), Request("?", run_id="r"))
    async with start_with_handoffs(three(), Request("?", run_id="r")) as live:
        result = await live.result()
    assert (result.content, result.usage, result.run_id, result.state) == (
        whole.content,
        whole.usage,
        whole.run_id,
        whole.state,
    )
    # Read after the end too, from its beginning.
    read = [event.run_id async for event in live if isinstance(event, RunStarted)]
    assert (read[0], read[-1], len(read)) == ("r", whole.run_id, 3)


async def test_partial_is_that_of_the_agent_that_answers() -> None:
    last = Agent[Any](
        "c", model=ScriptedModel(['{"city": "Oslo", "nights": 3}']), output_type=dict[str, Any]
    )
    seen = list[Any]()
    async with start_with_handoffs([*three()[:2], last], "?") as live:
        seen.append(live.partial())
        async for _ in live:
            seen.append(live.partial())
        result = await live.result()
    assert seen[0] is None
    assert seen[-1] == result.output == {"city": "Oslo", "nights": 3}


async def test_the_text_is_that_of_all_of_them() -> None:
    async with start_with_handoffs(three(), "?") as live:
        assert "".join([piece async for piece in live.text()]) == "The answer."


async def test_an_interrupt_stops_the_one_that_works_and_nobody_follows() -> None:
    async def wait(run: Any, host: Any, board: Any) -> None:
        while (asked := await host.interrupts()) is None:
            await asyncio.sleep(0)
        raise Interrupted(asked.cause, asked.detail)

    agents = [handing("a", "b"), Agent[Any]("b", engine=ScriptEngine(wait))]
    async with start_with_handoffs(agents, "?") as live:
        async for event in live:
            if isinstance(event, RunStarted) and event.agent.id == "b":
                live.interrupt("user_cancel", "enough")
        result = await live.result()
    assert (result.status, result.cause, result.detail) == (
        Status.INTERRUPTED,
        InterruptCause.USER_CANCEL,
        "enough",
    )


async def test_leaving_early_cancels_the_run_under_way() -> None:
    journal = MemoryJournal()

    async def wait(run: Any, host: Any, board: Any) -> None:
        await asyncio.Event().wait()

    agents = [handing("a", "b"), Agent[Any]("b", engine=ScriptEngine(wait))]
    async with start_with_handoffs(agents, "?", journal=journal) as live:
        async for event in live:
            if isinstance(event, RunStarted) and event.agent.id == "b":
                break
    listed = {one.agent_id: one.status for one in await journal.runs()}
    assert listed == {"a": "completed", "b": "canceled"}
    # The block was left, and the result is there as it is of one run.
    result = await live.result()
    assert (live.done, result.status, result.agent_id) == (True, Status.CANCELED, "b")


async def test_cancel_ends_the_chain() -> None:
    async with start_with_handoffs(three(), "?") as live:
        async for event in live:
            if isinstance(event, ModelReplied):
                live.cancel()
        result = await live.result()
    assert (result.status, result.agent_id) == (Status.CANCELED, "a")


async def test_what_is_wrong_is_raised_where_it_is_entered() -> None:
    with pytest.raises(Misuse, match="which is not among the agents"):
        start_with_handoffs([handing("a", "nobody")], "?")
    agent = Agent[Any]("a", model=ScriptedModel(["x"]))
    with pytest.raises(Misuse, match="max_attempts"):
        start_with_handoffs([agent], "?", max_attempts=0)
    with pytest.raises(Misuse, match="there is no folder"):
        async with start_with_handoffs([agent], "?", journal="/proc/none/runs.db"):
            pytest.fail("it was entered")
