"""Why a run ended as it did, in one sentence."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from upshot import (
    Agent,
    AgentError,
    Cost,
    ErrorCode,
    Failed,
    ModelResponse,
    Request,
    ScriptedModel,
    ToolCall,
    Usage,
    run,
    states,
    tool,
)
from upshot.contract import Text
from upshot.engines import ScriptEngine
from upshot.journal import MemoryJournal
from upshot.state.cause import Cause
from upshot.state.run_view import RunViewer

FILTERED = AgentError(ErrorCode.CONTENT_FILTER, "the provider refused")


@tool(effect="read")
def look(order: int) -> str:
    """Look an order up."""
    if order == 2:
        raise ValueError("there is none")
    return "Paid."


@tool(effect="write", approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return "refunded"


async def cause_after(agent: Agent[Any], upto: str = "") -> Cause:
    """The cause of a run of *agent* by its log, or by its log up to an event of that kind."""
    journal, viewer = MemoryJournal(), RunViewer()
    await run(agent, Request("My money?", run_id="r"), journal=journal)
    async for event, _ in states(journal.events("r")):
        viewer.add(event)
        if event.kind == upto:
            break
    return viewer.view().head.cause


async def test_a_completed_run_counts_its_calls_and_those_that_failed() -> None:
    model = ScriptedModel([[ToolCall("a", "look", {"order": n}) for n in (1, 2)], "Done."])
    found = await cause_after(Agent("desk", model=model, tools=[look]))
    assert found.says.startswith("It completed after 2 model calls, 2 tool calls; 1 of the tool")


async def test_a_failed_run_names_the_step_that_its_error_came_from() -> None:
    model = ScriptedModel([ToolCall("a", "look", {"order": 1}), FILTERED])
    found = await cause_after(Agent("desk", model=model, tools=[look]))
    assert found == Cause(says="It failed at step 3, model 2: the provider refused.", step=2)


async def test_a_run_that_failed_in_a_child_run_names_the_child() -> None:
    inner = Agent[Any]("inner", model=ScriptedModel([FILTERED]))

    async def plan(flow: Any, host: Any, board: Any) -> str:
        part = await flow.child(inner, "Try it.")
        raise Failed(part.error)

    found = await cause_after(Agent("outer", engine=ScriptEngine(plan)))
    assert found.step == 0 and found.child and "the provider refused" in found.says


async def test_a_waiting_run_says_what_it_waits_for() -> None:
    model = ScriptedModel([ToolCall("a", "refund", {"order": 1}), "Done."])
    found = await cause_after(Agent("desk", model=model, tools=[refund]))
    assert found == Cause(says="It waits for an approval of refund.")


async def test_a_run_under_way_says_what_runs() -> None:
    agent = Agent[Any]("desk", model=ScriptedModel(["Done."]))
    assert (await cause_after(agent, upto="model_started")).says == "It is running: model 1."
    assert "no worker" in RunViewer().view().head.cause.says


def said(text: str, cost: str, **usage: Any) -> ModelResponse:
    """A reply with its cost."""
    return ModelResponse(
        parts=(Text(text),),
        usage=Usage(api_calls=1, **usage),
        cost=Cost(total=Decimal(cost)) if cost else None,
    )


async def test_the_steps_that_cost_most_are_named_with_their_tokens() -> None:
    dear = said("Long.", "0.5", input_tokens=9_000, cache_read_tokens=8_000, output_tokens=70)
    leaf = Agent[Any]("leaf", model=ScriptedModel([dear]))
    calls = [ToolCall("a", "leaf", {"request": "Go."}), *(look_up(order) for order in (1, 3, 4))]
    costs = zip((*calls, Text("Done.")), ("0.01", "0.25", "0.03", "0.01", "0.01"), strict=True)
    replies = [replace(said("", cost, input_tokens=10), parts=(part,)) for part, cost in costs]
    lead = Agent("lead", model=ScriptedModel(replies), tools=[look, leaf.as_tool()])
    found = await cause_after(lead)
    assert found.spent == (
        "Of $0.8100, $0.5000 to step 3, a child run (tokens: 9,000 in, 8,000 of them cached, "
        "70 out), $0.2500 to step 4, model 2 (tokens: 10 in), $0.0300 to step 6, model 3 "
        "(tokens: 10 in), $0.0300 to 3 others."
    )


def look_up(order: int) -> ToolCall:
    return ToolCall(f"c{order}", "look", {"order": order})


async def test_without_a_price_tokens_say_where_they_went() -> None:
    reply = said("Done.", "", input_tokens=40, output_tokens=2)
    found = await cause_after(Agent("desk", model=ScriptedModel([reply])))
    assert found.spent == "Of 42 tokens, 42 tokens to step 1, model 1 (tokens: 40 in, 2 out)."
    free = await cause_after(Agent("desk", model=ScriptedModel([FILTERED])))
    assert free.spent == ""
