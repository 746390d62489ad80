"""Limits of a run and of the runs that it starts; and how failed calls are tried again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from tests.leaping import Leaping, leap, run_leaping
from tests.runs.kit import ADD, Do, add, log_of, measured
from upshot import (
    Agent,
    AgentError,
    Budget,
    Cost,
    Message,
    RateLimitState,
    Retry,
    Status,
    ToolCall,
    Usage,
    run,
    run_sync,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.testing.doubles import FakeClock


def adding(*, cost: Cost | None = None) -> Agent:
    """An agent that calls a tool for ever, each call for 15 tokens."""
    model = ScriptedModel(lambda _: measured(None, ADD, cost=cost))
    return Agent("a", model=model, tools=[tool(effect="read")(add)])


# -- limits


async def test_the_turns_are_limited() -> None:
    result = await run(adding(), "?", budget=Budget(max_turns=3))
    assert result.error is not None
    assert (result.status, result.error.code, result.error.origin) == (
        "failed",
        "max_turns",
        "limit",
    )
    assert result.error.details == {"dimension": "turns", "limit": 3, "used": 3}
    assert (result.usage.api_calls, len(result.tool_outcomes)) == (3, 3)


async def test_the_agents_budget_holds_where_the_call_names_none() -> None:
    result = await run(adding().but(budget=Budget(max_turns=2)), "?")
    assert result.usage.api_calls == 2


async def test_the_tokens_are_limited() -> None:
    result = await run(adding(), "?", budget=Budget(max_tokens=40))
    assert result.error is not None
    assert result.error.code == "budget_exceeded"
    assert result.error.details == {"dimension": "tokens", "limit": 40, "used": 45}


async def test_the_money_is_limited() -> None:
    agent = adding(cost=Cost(total=Decimal("0.4")))
    budget = Budget(max_cost_usd=Decimal(1), unpriced="allow")
    result = await run(agent, "?", budget=budget)
    assert result.error is not None
    assert (result.error.details["dimension"], result.usage.api_calls) == ("cost_usd", 3)


async def test_tool_calls_over_their_limit_are_denied() -> None:
    calls = [ToolCall(f"c{n}", "add", {"a": n, "b": n}) for n in range(3)]
    agent = Agent("a", model=ScriptedModel([calls, "Done."]), tools=[add])
    result = await run(agent, "?", budget=Budget(max_tool_calls=2))
    assert [outcome.kind for outcome in result.tool_outcomes][2] == "tool_denied"
    assert result.success


async def test_a_deadline_ends_a_run_that_waits_for_its_model() -> None:
    async def never(messages: Any) -> str:
        await asyncio.sleep(60)
        return "never"

    agent = Agent("a", model=ScriptedModel([never]))
    result = await run(agent, "?", budget=Budget(deadline_s=0.1))
    assert result.error is not None
    assert result.error.code == "timeout"
    assert result.usage.unmeasured_calls == 1


async def test_a_deadline_that_the_clock_has_passed_stops_the_next_call() -> None:
    clock = FakeClock()

    def late(messages: Any) -> ToolCall:
        clock.advance(20)
        return ADD

    agent = adding().but(model=ScriptedModel([late, "never"]))
    result = await run(agent, "?", budget=Budget(deadline_s=10), clock=clock)
    assert result.error is not None
    assert (result.error.code, result.usage.api_calls) == ("timeout", 1)
    assert result.tool_outcomes[0].reason == "deadline"  # type: ignore[union-attr]


# -- runs inside runs


def parent(work: Any) -> Agent:
    return Agent("parent", engine=Do(work))


async def test_a_child_gets_its_parents_id_and_adds_to_its_usage() -> None:
    child = Agent("child", model=ScriptedModel([measured("Hi.", cost=Cost(total=Decimal(1)))]))

    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(child, "?")
        return [result.parent_run_id, result.content]

    journal = MemoryJournal()
    result = await run(parent(work), "?", journal=journal)
    assert result.output == [result.run_id, "Hi."]
    assert result.usage == Usage(input_tokens=10, output_tokens=5, api_calls=1)
    assert result.cost == Cost(total=Decimal(1))
    runs = await journal.runs()
    assert {one.agent_id for one in runs} == {"parent", "child"}
    (inner,) = [one.run_id for one in runs if one.agent_id == "child"]
    started = (await log_of(journal, inner))[0]
    assert (started.depth, started.parent_run_id) == (1, result.run_id)  # type: ignore[union-attr]


async def test_a_run_started_in_a_tool_is_a_child_too() -> None:
    inner = Agent("inner", model=ScriptedModel([measured("Deep.")]))

    @tool(effect="read")
    async def ask() -> str:
        result = await run(inner, "?")
        return f"{result.content} {result.parent_run_id}"

    agent = Agent("outer", model=ScriptedModel([ToolCall("c", "ask"), "Done."]), tools=[ask])
    result = await run(agent, "?")
    assert result.run_id in result.messages[1].text
    assert result.usage.total_tokens == 15


async def test_a_run_started_in_a_plain_tool_is_a_child_too(tmp_path: Any) -> None:
    inner = Agent("inner", model=ScriptedModel(["Deep."]))

    @tool(effect="read")
    def ask() -> str:
        return run_sync(inner, "?").parent_run_id

    agent = Agent("outer", model=ScriptedModel([ToolCall("c", "ask"), "Done."]), tools=[ask])
    result = await run(agent, "?", journal=tmp_path / "runs.db")
    assert result.run_id in result.messages[1].text


async def test_an_explicit_parent_wins() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        child = Agent("child", model=ScriptedModel(["Hi."]))
        return (await run.child(child, "?", parent_run_id="other")).parent_run_id

    assert (await run(parent(work), "?")).output == "other"


@pytest.mark.parametrize(("limit", "deepest"), [(0, 0), (2, 2), (None, 5)])
async def test_the_depth_is_limited_by_the_root(limit: int | None, deepest: int) -> None:
    reached: list[int] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        reached.append(run.depth)
        if run.depth == 5:
            return None
        return encode_error(await run.child(parent(work), "?"))

    def encode_error(result: Any) -> Any:
        return result.output if result.error is None else dict(result.error.details)

    result = await run(parent(work), "?", budget=Budget(max_depth=limit))
    assert max(reached) == deepest
    if limit is not None:
        assert result.output == {"dimension": "depth", "limit": limit, "used": limit + 1}


async def test_a_parents_tokens_limit_its_children() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(adding(), "?")
        return [result.error.code, result.usage.api_calls]

    result = await run(parent(work), "?", budget=Budget(max_tokens=20))
    assert result.output == ["budget_exceeded", 2]


async def test_a_parents_deadline_ends_its_children() -> None:
    ended: list[str] = []

    class Look:
        def on_run_end(self, info: Any, result: Any) -> None:
            ended.append(f"{info.agent_id} {result.status}")

    async def work(run: Any, host: Any, board: Any) -> None:
        child = Agent("child", engine=Do(lambda *_: asyncio.sleep(60)), observers=[Look()])
        await run.child(child, "?")

    result = await run(parent(work), "?", budget=Budget(deadline_s=0.1), observers=[Look()])
    assert result.error is not None
    assert result.error.code == "timeout"
    assert [line.split()[0] for line in ended] == ["child", "parent"]


async def test_a_child_uses_its_parents_clock() -> None:
    clock = FakeClock()

    async def work(run: Any, host: Any, board: Any) -> Any:
        child = Agent("child", engine=Do(lambda *_: clock.advance(3)))
        return (await run.child(child, "?")).duration_ms

    budget = Budget(deadline_s=60)
    assert (await run(parent(work), "?", clock=clock, budget=budget)).output == 3000


# -- retry


def failing(times: int, **facts: Any) -> ScriptedModel:
    error = AgentError("rate_limit", "busy", retryable=True, **facts)
    return ScriptedModel([*[error] * times, "Hi."])


async def test_retry_after_is_a_floor() -> None:
    clock = FakeClock()
    result = await run(Agent("a", model=failing(2, retry_after_s=9)), "?", clock=clock)
    assert result.success
    assert len(clock.sleeps) == 2
    assert all(wait_s >= 9 for wait_s in clock.sleeps)
    assert (result.usage.api_calls, result.duration_ms) == (3, round(sum(clock.sleeps) * 1000))


async def test_a_longer_wait_than_the_longest_is_not_begun() -> None:
    clock = FakeClock()
    model = failing(1, retry_after_s=61)
    result = await run(Agent("a", model=model), "?", clock=clock)
    assert result.error is not None
    assert (result.error.code, result.error.retry_after_s) == ("rate_limit", 61)
    assert clock.sleeps == []
    assert result.rate_limit == RateLimitState(limited=True, retry_after=61)


async def test_a_wait_past_the_deadline_is_not_begun() -> None:
    clock = FakeClock()
    agent = Agent("a", model=failing(1, retry_after_s=30))
    result = await run(agent, "?", clock=clock, budget=Budget(deadline_s=20))
    assert result.error is not None
    assert (result.error.code, clock.sleeps) == ("rate_limit", [])


@pytest.mark.parametrize(
    ("own", "over", "calls"),
    [
        (Retry(max_tries=2), {}, 2),
        (None, {}, 1),
        (Retry(max_tries=2), {"retry": Retry(max_tries=3)}, 3),
        (Retry(max_tries=2), {"retry": None}, 1),
    ],
)
async def test_the_retry_of_the_call_wins_over_the_agents(
    own: Retry | None, over: dict[str, Any], calls: int
) -> None:
    model = failing(5)
    agent = Agent("a", model=model, retry=own)
    result = await run(agent, "?", clock=FakeClock(), **over)
    assert (result.status, len(model.calls)) == (Status.FAILED, calls)


async def test_an_error_that_no_try_would_mend_is_not_tried_again() -> None:
    model = ScriptedModel([AgentError("auth_error", "no key"), "Hi."])
    result = await run(Agent("a", model=model), "?")
    assert (result.success, len(model.calls)) == (False, 1)


async def test_calls_of_a_reply_that_spent_the_tokens_do_not_run() -> None:
    result = await run(adding(), "?", budget=Budget(max_tokens=30))
    assert result.error is not None
    assert result.error.code == "budget_exceeded"
    kinds = [outcome.kind for outcome in result.tool_outcomes]
    assert kinds == ["tool_execution_result", "tool_denied"]


def at_work_when_the_deadline_comes(*calls: ToolCall) -> Any:
    """The result of a run that asks for *calls* of `hang` and has 30 s."""
    clock = FakeClock()

    @tool(effect="write")
    async def hang(a: int = 0) -> None:
        clock.advance(60)
        leap(60)
        await asyncio.Event().wait()

    agent = Agent("a", model=ScriptedModel([calls, "done"]), tools=[hang])
    return run_leaping(run(agent, "?", budget=Budget(deadline_s=30), clock=clock))


def test_a_call_that_runs_at_the_deadline_ran_past_it() -> None:
    result = at_work_when_the_deadline_comes(ToolCall("1", "hang"))
    assert result.error.code == "timeout"
    (outcome,) = result.tool_outcomes
    assert (outcome.kind, outcome.effect) == ("tool_timeout", "unknown")


def test_calls_in_line_at_the_deadline_say_so() -> None:
    calls = [ToolCall(str(n), "hang", {"a": n}) for n in range(3)]
    result = at_work_when_the_deadline_comes(*calls)
    told = [getattr(outcome, "reason", outcome.kind) for outcome in result.tool_outcomes]
    assert told == ["tool_timeout", "deadline", "deadline"]


async def test_reading_a_stored_output_is_no_call_of_the_budget() -> None:
    @tool(effect="read")
    async def tell() -> str:
        return "x" * 20_000

    def answer(messages: Sequence[Message]) -> ToolCall | str:
        told = [message.text for message in messages if message.role == "tool"]
        replies = len(told)
        if replies == 0:
            return ToolCall("1", "tell")
        if replies > 2:
            return "done"
        id = json.loads(told[0])["artifact_reference"]
        return ToolCall(str(replies + 1), "read_artifact", {"id": id})

    agent = Agent("a", model=ScriptedModel(answer), tools=[tell])
    result = await run(agent, "?", budget=Budget(max_tool_calls=1))
    assert [outcome.kind for outcome in result.tool_outcomes] == [
        "tool_artifact_reference",
        "tool_execution_result",
        "tool_execution_result",
    ]


def test_what_is_reported_while_a_run_is_concluded_cuts_none_of_its_hooks_short() -> None:
    loop, hosts = Leaping(), list[Any]()

    async def commit(*_: Any) -> None:
        for _ in range(3):
            hosts[0].report_usage(measured())
        loop.leap(60)
        for _ in range(5):
            await asyncio.sleep(0)

    agent = Agent("a", engine=Do(lambda run, host, board: hosts.append(host)))
    limits = Budget(max_tokens=1)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(run(agent, "?", budget=limits, committers=[commit]))
    assert (result.status, result.committed, result.warnings) == ("completed", True, ())
