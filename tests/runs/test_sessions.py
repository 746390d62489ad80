"""What holds over all sessions of a run, and what a caller gives that JSON cannot hold."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from tests.runs.kit import Do, measured
from upshot import (
    Agent,
    Answer,
    Approve,
    Budget,
    ErrorCode,
    Message,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.runs.budget import RunBudget
from upshot.state.run_state import RunState
from upshot.state.stored_events import states
from upshot.testing.doubles import FakeClock


@tool(effect="write", approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


async def parked_after(used_s: float, then_s: float, journal: MemoryJournal) -> Any:
    """A run that took *used_s*, was parked for a day, and takes *then_s* more."""
    clock = FakeClock()

    async def work(messages: Any) -> Any:
        await clock.sleep(used_s if len(messages) == 1 else then_s)
        return ToolCall("p", "pay") if len(messages) == 1 else "Done."

    agent: Agent[str] = Agent("a", tools=[pay], budget=Budget(deadline_s=100))
    options: dict[str, Any] = {"clock": clock, "journal": journal}
    parked = await run(agent, "Go.", model=ScriptedModel([work, work]), **options)
    assert parked.status is Status.INPUT_REQUIRED
    await clock.sleep(86_400)
    return await resume(
        parked.run_id,
        agent,
        answers=[Approve("p")],
        model=ScriptedModel([work, work, "Late."]),
        **options,
    )


async def test_time_spent_parked_does_not_count() -> None:
    result = await parked_after(60, 10, MemoryJournal())
    assert result.status is Status.COMPLETED, result.error


async def test_the_deadline_counts_what_earlier_sessions_took() -> None:
    past, journal = RunState(), MemoryJournal()
    result = await parked_after(60, 10, journal)
    async for event, _ in states(journal.events(result.run_id)):
        past.add(event)
    assert past.time.spent_s == 70
    ledger = RunBudget(Budget(deadline_s=100), clock=FakeClock(), spent_s=100)
    spent = ledger.spent()
    assert spent is not None
    assert spent.code is ErrorCode.TIMEOUT


async def test_what_json_cannot_hold_is_told() -> None:
    def work(run: Any, host: Any, board: Any) -> str:
        return "Done."

    agent: Agent[str] = Agent("a", engine=Do(work))
    request = Request("Go.", inputs={"a": math.nan}, metadata={"b": [math.inf]})
    result = await run(agent, request, attributes={"c": math.nan})
    told = [warning.message for warning in result.warnings if warning.code == "lossy_value"]
    assert [text.split()[0] for text in told] == ["attributes/c", "inputs/a", "metadata/b/0"]
    assert result.metadata == {"b": [None]}


@tool(approval=True)
async def pay_again() -> str:
    """Pay."""
    return "paid"


def asking_thrice() -> ScriptedModel:
    return ScriptedModel([ToolCall("1", "pay_again"), ToolCall("2", "look"), "Done."])


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


PAYER: Agent[str] = Agent("a", tools=[pay_again, look])


async def parked_with(journal: MemoryJournal, **options: Any) -> str:
    parked = await run(PAYER, "Go.", model=asking_thrice(), journal=journal, **options)
    assert parked.status is Status.INPUT_REQUIRED
    return parked.run_id


async def test_a_budget_of_the_call_holds_in_later_sessions() -> None:
    journal = MemoryJournal()
    run_id = await parked_with(
        journal, budget=Budget(max_turns=2, max_cost_usd=Decimal("0.5"), unpriced="allow")
    )
    result = await resume(
        run_id, PAYER, model=asking_thrice(), journal=journal, answers=[Approve("1")]
    )
    assert result.error is not None
    assert result.error.code == "max_turns"


async def test_a_budget_that_a_resume_gives_wins_and_holds_from_then_on() -> None:
    journal = MemoryJournal()
    run_id = await parked_with(journal, budget=Budget(max_turns=2))
    options: dict[str, Any] = {"model": asking_thrice(), "journal": journal}
    again = await resume(run_id, PAYER, budget=Budget(max_turns=9), **options)
    assert again.status is Status.INPUT_REQUIRED
    result = await resume(run_id, PAYER, answers=[Approve("1")], **options)
    assert result.unwrap() == "Done."


async def test_calls_that_were_denied_use_up_no_limit_of_later_sessions() -> None:
    journal, limits = MemoryJournal(), Budget(max_tool_calls=2)
    calls = [ToolCall("x", "nowhere"), ToolCall("y", "look"), ToolCall("1", "pay_again")]
    script = [measured(None, *calls), "Done."]
    options: dict[str, Any] = {"journal": journal, "budget": limits}
    parked = await run(PAYER, "Go.", model=ScriptedModel(script), **options)
    options["model"] = ScriptedModel(script)
    result = await resume(parked.run_id, PAYER, answers=[Approve("1")], **options)
    kinds = [outcome.kind for outcome in result.tool_outcomes]
    assert kinds == ["tool_denied", "tool_execution_result", "tool_execution_result"]


async def test_channels_that_become_artifacts_are_known_in_later_sessions() -> None:
    journal = MemoryJournal()

    async def work(run: Any, host: Any, board: Any) -> None:
        board.append(Message("assistant", "For you."), "report")
        await host.ask_user("Well?", key="well")

    agent: Agent[str] = Agent("a", engine=Do(work))
    parked = await run(agent, "Go.", journal=journal, artifacts=["report"])
    result = await resume(parked.run_id, agent, journal=journal, answers=[Answer("well", "Yes.")])
    assert [one.name for one in result.artifacts] == ["report"]
