"""A budget that holds over all turns of a conversation, and what a conversation has cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Budget,
    Cost,
    Misuse,
    ModelResponse,
    Request,
    ScriptedModel,
    ToolCall,
    Usage,
    run,
    tool,
)


class Priced(ScriptedModel):
    """A model of which a price is known."""

    priced = True


def dear(content: Any = "Yes.", cents: int = 1) -> ModelResponse:
    calls = {"tool_calls": content} if isinstance(content, list) else {"content": content}
    return ModelResponse(
        usage=Usage(input_tokens=10, output_tokens=5, api_calls=1),
        cost=Cost(total=Decimal(cents) / 100),
        **calls,
    )


LIMIT = Budget(max_cost_usd="0.03", scope="conversation")  # pyright: ignore


async def say(*replies: Any, journal: Any, tools: Any = (), **options: Any) -> AgentResult[Any]:
    agent = Agent[Any]("a", model=Priced([*replies]), tools=tools)
    return await run(agent, "?", journal=journal, conversation="ada", retry=None, **options)


async def test_a_conversation_costs_what_all_its_runs_cost(journal: Any) -> None:
    inner = Agent[Any]("inner", model=Priced([dear("Inside.", 4)]))

    @tool(effect="read")
    async def ask() -> str:
        """Ask."""
        return str((await run(inner, "Inner?")).content)

    await say(dear(), journal=journal)
    await say(dear([ToolCall("a", "ask", {})]), dear(), tools=[ask], journal=journal)
    failed = await say(dear([ToolCall("b", "ask", {})], 2), tools=[], journal=journal)
    assert failed.status == "failed"
    talk = await journal.conversation("ada")
    assert talk.cost.total == Decimal("0.09")
    assert (talk.usage.input_tokens, talk.usage.output_tokens) == (50, 25)
    (line,) = await journal.conversations()
    assert line.cost.total == Decimal("0.09")


async def test_a_budget_holds_over_all_turns(journal: Any) -> None:
    for _ in range(3):
        assert (await say(dear(), journal=journal, budget=LIMIT)).success
    over = await say(dear(), journal=journal, budget=LIMIT)
    assert over.error is not None
    assert (over.error.code, over.error.details["dimension"]) == ("budget_exceeded", "cost_usd")
    assert (over.usage.api_calls, over.error.details["used"]) == (0, 0.03)


async def test_it_cannot_be_kept_if_another_run_has_a_reply_without_its_usage(journal: Any) -> None:
    unknown = ModelResponse(usage=Usage(api_calls=1, unmeasured_calls=1), content="Yes.")
    assert (await say(unknown, journal=journal)).success
    unsure = await say(dear(), journal=journal, budget=LIMIT)
    assert unsure.error is not None
    assert (unsure.error.code, unsure.error.details["used"]) == ("budget_exceeded", None)
    assert "a reply in another run of the conversation came without its usage" in (
        unsure.error.message
    )
    uncounted = Budget(max_cost_usd="0.03", scope="conversation", unpriced="allow")  # pyright: ignore
    assert (await say(dear(), journal=journal, budget=uncounted)).success


async def test_a_child_run_of_another_run_may_be_the_one_without_usage(journal: Any) -> None:
    unknown = ModelResponse(usage=Usage(api_calls=1, unmeasured_calls=1), content="Yes.")
    inner = Agent[Any]("inner", model=Priced([unknown]))

    @tool(effect="read")
    async def ask() -> str:
        """Ask."""
        return str((await run(inner, "Inner?")).content)

    await say(dear([ToolCall("a", "ask", {})]), dear(), tools=[ask], journal=journal)
    unsure = await say(dear(), journal=journal, budget=LIMIT)
    assert unsure.error is not None and unsure.error.details["used"] is None


async def test_a_call_that_failed_is_no_reply_without_usage(journal: Any) -> None:
    broken = AgentError("server_error", "away", retryable=False)
    assert not (await say(ModelResponse(error=broken), journal=journal)).success
    assert (await say(dear(), journal=journal, budget=LIMIT)).success


async def test_it_is_looked_at_before_each_model_call(journal: Any) -> None:
    @tool(effect="read")
    async def spend() -> str:
        """Spend."""
        await say(dear(cents=5), journal=journal, remember=False)
        return "spent"

    replies = (dear([ToolCall("s", "spend", {})]), dear())
    over = await say(*replies, journal=journal, tools=[spend], budget=LIMIT)
    assert over.error is not None
    assert (over.error.code, over.error.details["used"]) == ("budget_exceeded", 0.06)


async def test_tokens_are_counted_alike(journal: Any) -> None:
    budget = Budget(max_tokens=30, scope="conversation")
    assert (await say(dear(), journal=journal, budget=budget)).success
    assert (await say(dear(), journal=journal, budget=budget)).success
    over = await say(dear(), journal=journal, budget=budget)
    assert over.error is not None
    assert over.error.details["dimension"] == "tokens"


async def test_a_child_run_keeps_it_too(journal: Any) -> None:
    inner = Agent[Any]("inner", model=Priced([dear(), dear()]))
    found: list[Any] = []

    @tool(effect="read")
    async def ask() -> str:
        """Ask."""
        await say(dear(cents=5), journal=journal, remember=False)
        found.append(await run(inner, "Inner?"))
        return "asked"

    await say(dear([ToolCall("a", "ask", {})]), dear(), journal=journal, tools=[ask], budget=LIMIT)
    assert found[0].error.code == "budget_exceeded"


async def test_another_conversation_is_not_counted(journal: Any) -> None:
    agent = Agent[Any]("a", model=Priced([dear(cents=9)]))
    await run(agent, "?", journal=journal, conversation="bob")
    assert (await say(dear(), journal=journal, budget=LIMIT)).success


async def test_a_run_in_no_conversation_has_no_such_budget(journal: Any) -> None:
    agent = Agent[Any]("a", model=Priced([dear()]))
    with pytest.raises(Misuse, match='scope="conversation", and the run is in none'):
        await run(agent, "?", journal=journal, budget=LIMIT)
    with pytest.raises(Misuse, match=r'scope is .all.: give "run" or "conversation"'):
        Budget(scope="all")  # pyright: ignore


async def test_a_request_in_a_conversation_lets_no_text_outside_of_one_pass(journal: Any) -> None:
    agent = Agent[Any]("a", model=Priced([dear()] * 2), budget=LIMIT)
    inside = Request("?", context_id="ada")
    assert (await run(agent, inside, journal=journal)).success
    with pytest.raises(Misuse, match='scope="conversation", and the run is in none'):
        await run(agent, "?", journal=journal)
