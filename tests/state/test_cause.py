"""Why a run ended as it did, in one sentence."""

from __future__ import annotations

from typing import Any

from upshot import (
    Agent,
    AgentError,
    ErrorCode,
    Failed,
    Request,
    ScriptedModel,
    ToolCall,
    run,
    states,
    tool,
)
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
