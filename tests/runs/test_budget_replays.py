"""What a budget counts in a replay and after a resume: what it counted in the run itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import upshot
from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    Answer,
    Budget,
    Compaction,
    Message,
    ModelRequest,
    ModelResponse,
    ScriptedModel,
    ScriptEngine,
    Text,
    ToolCall,
    replay,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal

Way = Callable[[Any, Any, Agent[Any]], Awaitable[Any]]
LOOK = ToolCall("l", "look", {})
UNMEASURED = ModelResponse(parts=(Text("Seen."),))


class Priced(ScriptedModel):
    """A model with a price."""

    @property
    def priced(self) -> bool:
        return True


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


def agent_of(replies: list[Any], way: Way, *, asks: bool = False) -> Agent[Any]:
    """An agent that works by *way*, with another agent, and then asks its model."""
    inner = Agent("inner", model=Priced(replies), tools=[look])

    async def work(run: Any, host: Any, board: Any) -> Any:
        await way(run, host, inner)
        if asks:
            await host.ask_user("Who?", key="who")
        return (await run.call_model(ModelRequest(board.messages()))).content

    @tool(effect="read")
    async def ask() -> str:
        """Ask the other agent."""
        return (await upshot.run(inner, "?")).content or ""

    own = replies if way is by_model_in_step else []
    model = Priced([*own, measured("Done.")])
    return Agent("a", engine=ScriptEngine(work), model=model, tools=[look, ask])


async def by_child(run: Any, host: Any, inner: Agent[Any]) -> None:
    await run.child(inner, "?", key="k")


async def by_tool(run: Any, host: Any, inner: Agent[Any]) -> None:
    await run.tools.dispatch([ToolCall("t", "ask", {})])


async def by_child_in_step(run: Any, host: Any, inner: Agent[Any]) -> None:
    async def body() -> str:
        return (await run.child(inner, "?")).content

    await host.once("step", "read", body)


async def by_model_in_step(run: Any, host: Any, inner: Agent[Any]) -> None:
    async def body() -> str:
        await run.tools.dispatch([LOOK])
        return (await run.call_model(ModelRequest((Message("user", "?"),)))).content

    await host.once("step", "read", body)


WAYS = {
    "a child run": by_child,
    "a tool that runs an agent": by_tool,
    "a child run in a step": by_child_in_step,
    "a step": by_model_in_step,
}
LIMITS: dict[str, tuple[Any, Any, Any]] = {
    "tokens": (measured("Seen."), Budget(max_tokens=15), "budget_exceeded"),
    "a reply without usage": (UNMEASURED, Budget(max_cost_usd=1), "budget_exceeded"),  # pyright: ignore[reportArgumentType]
    "none": (measured("Seen."), None, None),
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_replay_counts_what_the_run_counted(way: str, limit: str) -> None:
    reply, budget, code = LIMITS[limit]
    journal, agent = Ordered(), agent_of([reply], WAYS[way])
    result = await run(agent, "?", journal=journal, budget=budget)
    assert (None if result.error is None else result.error.code) == code
    told = await replay(result.run_id, agent, journal=journal, budget=budget)
    assert told.difference is None
    assert (told.result.usage, told.result.cost) == (result.usage, result.cost)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_resumed_run_counts_what_earlier_sessions_counted(way: str, limit: str) -> None:
    reply, budget, code = LIMITS[limit]
    journal, agent = Ordered(), agent_of([reply], WAYS[way], asks=True)
    parked = await run(agent, "?", journal=journal, budget=budget)
    answers = [Answer(parked.pending[0].id, "Ada")]
    result = await resume(parked.run_id, agent, journal=journal, answers=answers, budget=budget)
    assert (None if result.error is None else result.error.code) == code


async def test_a_filtered_answer_without_usage_counts_in_a_replay_as_in_the_run() -> None:
    filtered = ModelResponse(parts=(Text("Se"),), finish_reason="content_filter")
    budget = Budget(max_cost_usd=1)  # pyright: ignore[reportArgumentType]
    journal, agent = Ordered(), agent_of([filtered], by_child, asks=True)
    parked = await run(agent, "?", journal=journal, budget=budget)
    answers = [Answer(parked.pending[0].id, "Ada")]
    result = await resume(parked.run_id, agent, journal=journal, answers=answers, budget=budget)
    told = await replay(parked.run_id, agent, journal=journal, budget=budget)
    assert told.difference is None
    assert result.success


async def test_a_replay_counts_the_tries_that_failed() -> None:
    journal = MemoryJournal()
    # 15 tokens each: with the empty reply the limit is passed.
    model = ScriptedModel([measured(), measured(None, LOOK), "Never."])
    agent, budget = Agent("a", model=model, tools=[look]), Budget(max_tokens=30)
    result = await run(agent, "?", journal=journal, budget=budget)
    assert result.error is not None and result.error.code == "budget_exceeded"
    played = await replay(result.run_id, agent, journal=journal, budget=budget)
    assert played.difference is None and played.result.error == result.error


async def test_a_replay_counts_the_model_calls_that_sum_up() -> None:
    journal, budget = MemoryJournal(), Budget(max_turns=3)
    model = ScriptedModel(
        [measured(None, LOOK), measured(None, ToolCall("l2", "look", {})), "Never."]
    )
    summing = ScriptedModel([measured("In short."), measured("Shorter.")])
    agent = Agent(
        "a",
        model=model,
        tools=[look],
        compaction=Compaction(at_tokens=1, keep_last=1, summarise=summing),
    )
    result = await run(agent, "?", journal=journal, budget=budget)
    assert result.error is not None and result.error.code == "max_turns"
    played = await replay(result.run_id, agent, journal=journal, budget=budget)
    assert played.difference is None and played.result.error == result.error


async def test_a_replay_counts_the_model_calls_that_correct_arguments() -> None:
    @tool(effect="read", repair=True)
    async def find(number: int) -> str:
        return "found"

    journal, budget = MemoryJournal(), Budget(max_turns=2)
    wrong = ToolCall("f", "find", {"number": "seven"})
    model = ScriptedModel([measured(None, wrong), measured('{"number": 7}'), "Never."])
    agent = Agent("a", model=model, tools=[find])
    result = await run(agent, "?", journal=journal, budget=budget)
    assert result.error is not None and result.error.code == "max_turns"
    played = await replay(result.run_id, agent, journal=journal, budget=budget)
    assert played.difference is None and played.result.error == result.error
