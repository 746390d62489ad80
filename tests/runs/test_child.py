"""Runs inside a run: named by a key they outlive its sessions, and what they use counts once."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.kit import ADD, Do, Ordered, add, kinds, log_of, measured
from upshot import (
    Agent,
    Answer,
    Board,
    Budget,
    Cost,
    Misuse,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    Usage,
    resume,
    run,
    run_sync,
    tool,
)

PRICE = Cost(total=Decimal(1))
TWICE = Usage(input_tokens=20, output_tokens=10, api_calls=2)


def writer() -> Agent:
    """Calls a tool, then answers: two model calls, at 1 each."""
    replies = [measured(None, ADD, cost=PRICE), measured("Written.", cost=PRICE)]
    return Agent("writer", model=ScriptedModel(replies, per_conversation=True), tools=[add])


def outer(work: Any) -> Agent:
    return Agent("outer", engine=Do(work))


async def ask_writer(run: Any, host: Any, board: Any) -> Any:
    result = await run.child(writer(), "Write.", key="draft")
    return [result.run_id, result.content]


async def test_a_child_that_ended_hands_its_result_back() -> None:
    journal = Ordered()
    first = await run(outer(ask_writer), Request("?", run_id="o"), journal=journal)
    inner = first.output[0]
    ended = next(n for n, event in enumerate(journal.order) if event.kind == "step_settled")
    before = journal.cut(ended + 1)
    second = await resume("o", outer(ask_writer), journal=before)
    assert second.output == first.output
    assert kinds(await log_of(before, inner)) == kinds(await log_of(journal, inner))
    assert (second.usage, second.cost) == (TWICE, Cost(total=Decimal(2)))


async def test_the_log_tells_of_a_child_that_lived_in_a_thread() -> None:
    @tool(effect="read")
    def write() -> str:
        return run_sync(writer(), "Write.").run_id

    journal = Ordered()
    model = ScriptedModel([ToolCall("1", "write"), "Done."])
    agent: Agent[str] = Agent("outer", model=model, tools=[write])
    result = await run(agent, Request("?", run_id="o"), journal=journal)
    inner = str(result.tool_outcomes[0].output["result"])  # type: ignore[union-attr]
    log = await log_of(journal, "o")
    steps = {event.kind: event for event in log if inner in getattr(event, "key", "")}
    assert [*steps] == ["step_started", "step_settled"]
    assert steps["step_settled"].value["usage"]["input_tokens"] == 20  # type: ignore[union-attr]


async def test_a_run_in_a_thread_asks_nobody_who_lives_in_another_loop() -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Well?")

    @tool(effect="read")
    def inquire() -> str:
        return str(run_sync(outer(ask), "?").status)

    asked: list[str] = []
    host = SimpleNamespace(ask_user=lambda question: asked.append(question) or "yes")
    model = ScriptedModel([ToolCall("1", "inquire"), "Done."])
    agent: Agent[str] = Agent("outer", model=model, tools=[inquire])
    result = await run(agent, "?", host=host)
    assert result.tool_outcomes[0].output == {"result": "input_required"}  # type: ignore[union-attr]
    assert asked == []


@pytest.mark.parametrize("key", ["draft", None])
async def test_a_run_that_was_cut_anywhere_counts_its_children_once(key: str | None) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(writer(), "Write.", key=key)).content

    journal = Ordered()
    await run(outer(work), Request("?", run_id="o"), journal=journal)
    for length in range(1, len(journal.order)):
        before = journal.cut(length)
        second = await resume("o", outer(work), journal=before)
        assert second.output == "Written."
        asked = [event.run_id for event in before.order if event.kind == "model_started"]
        assert second.usage.api_calls == len(asked), length
        answered = len(asked) - second.usage.unmeasured_calls
        assert answered == sum(event.kind == "model_replied" for event in before.order)
        assert second.cost is not None
        assert second.cost.total == answered
        if key is not None:
            assert (answered, len(set(asked))) == (2, 1), length


async def test_what_a_child_used_in_a_session_before_is_counted_after_it_was_parked() -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        (reply,) = [await run.call_model(_asked())]
        return [reply.content, await host.ask_user("Well?")]

    def _asked() -> Any:
        from upshot import Message, ModelRequest

        return ModelRequest((Message("user", "?"),))

    model = ScriptedModel([measured("Hm.", cost=PRICE)], per_conversation=True)
    inner = Agent("inner", engine=Do(ask), model=model)

    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(inner, "?", key="ask")
        return [str(result.status), result.run_id, await host.ask_user("And you?")]

    journal = Ordered()
    parked = await run(outer(work), Request("?", run_id="o"), journal=journal)
    assert parked.usage.api_calls == 1
    child = next(event.run_id for event in journal.order if event.run_id != "o")
    await resume(child, inner, journal=journal, answers=[Answer("question-1-1", "Yes.")])
    second = await resume("o", outer(work), journal=journal, answers=[Answer("question-1-1", "I.")])
    assert second.output == ["completed", child, "I."]
    asked = sum(event.kind == "model_started" for event in journal.order)
    assert second.usage.api_calls == asked


async def test_a_child_that_is_asked_for_twice_runs_once() -> None:
    seen: list[str] = []

    async def inner(run: Any, host: Any, board: Any) -> None:
        seen.append(run.id)
        await asyncio.sleep(0)

    async def work(run: Any, host: Any, board: Any) -> None:
        children = [run.child(Agent("inner", engine=Do(inner)), "?", key="k") for _ in range(2)]
        await asyncio.gather(*children)
        await run.child(Agent("inner", engine=Do(inner)), "?", key="k")
        await run.child(Agent("inner", engine=Do(inner)), "?", key="other")

    assert (await run(outer(work), "?")).success
    assert len(seen) == len(set(seen)) == 2


async def test_the_key_gives_the_child_its_id() -> None:
    async def work(run: Any, host: Any, board: Board) -> None:
        await run.child(writer(), Request("?", run_id="mine"), key="k")

    result = await run(outer(work), "?")
    assert result.error is not None
    assert result.error.type == Misuse.__name__


@pytest.mark.parametrize(
    "budget", [Budget(max_tool_calls=2), Budget(max_calls_per_tool=2)], ids=["in all", "per tool"]
)
async def test_limits_of_tool_calls_hold_for_runs_inside_too(budget: Budget) -> None:
    def adding(count: int) -> Agent:
        calls = [ToolCall(f"c{n}", "add", {"a": n, "b": count}) for n in range(count)]
        return Agent("adding", model=ScriptedModel([calls, "Done."]), tools=[add])

    async def work(run: Any, host: Any, board: Any) -> Any:
        results = [await run.child(adding(count), "?") for count in (1, 3)]
        return [[outcome.kind for outcome in result.tool_outcomes] for result in results]

    result = await run(outer(work), "?", budget=budget)
    assert result.output == [
        ["tool_execution_result"],
        ["tool_execution_result", "tool_denied", "tool_denied"],
    ]


async def test_a_child_that_fails_is_no_failure_of_the_outer_run() -> None:
    async def inner(run: Any, host: Any, board: Any) -> None:
        raise ValueError("odd")

    async def work(run: Any, host: Any, board: Any) -> Any:
        return str((await run.child(Agent("inner", engine=Do(inner)), "?", key="k")).status)

    journal = Ordered()
    result = await run(outer(work), "?", journal=journal)
    assert (result.status, result.output) == (Status.COMPLETED, "failed")
    (step,) = [event for event in journal.order if event.kind == "step_settled"]
    assert step.error is not None  # type: ignore[union-attr]


async def test_the_budget_that_a_run_inside_sees_is_what_it_has() -> None:
    async def inner(run: Any, host: Any, board: Any) -> list[Any]:
        budget = run.budget
        return [budget.max_tokens, budget.max_turns, budget.deadline_s is not None]

    async def outer(run: Any, host: Any, board: Any) -> list[Any]:
        host.report_usage(Usage(input_tokens=30, output_tokens=5))
        agent = Agent[Any]("inner", engine=Do(inner))
        free = await run.child(agent, "?")
        bound = await run.child(agent, "?", budget=Budget(max_tokens=9, max_turns=3))
        return [free.output, bound.output, run.budget == budget]

    budget = Budget(max_tokens=100, deadline_s=60)
    result = await run(Agent("outer", engine=Do(outer)), "?", budget=budget)
    assert result.output == [[65, 50, True], [9, 3, True], True]
