"""Figures of runs: the twelve metrics, and those of the conventions."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import ADD, Do, add, measured
from tests.telemetry.kit import Sight
from upshot import (
    Agent,
    AgentError,
    App,
    Approve,
    Cost,
    Failed,
    Graph,
    GraphEngine,
    Interrupted,
    LoopEngine,
    MachineEngine,
    ModelRequest,
    ModelResponse,
    Parked,
    RateLimitState,
    RateLimitWindow,
    Retry,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    UnknownEffect,
    Usage,
    load_machine,
    resolve,
    resume,
    run,
    start,
    tool,
)
from upshot.engines import AgentTask
from upshot.fleet.verifier import Verifier
from upshot.sim import Simulator
from upshot.testing import FakeClock

LABELS = {"agent_id": "a", "provider": "openai", "model": "gpt-5"}
COUNTS = ("input_tokens", "output_tokens", "tokens", "cache_read_tokens", "cache_write_tokens")


def agent(*replies: Any, **fields: Any) -> Agent[Any]:
    return Agent("a", model=ScriptedModel(replies, name="openai:gpt-5"), **fields)


def counts(sight: Sight) -> list[Any]:
    return [sight.total(f"flatagents.agent.{name}") for name in COUNTS]


async def test_tokens_and_money_of_every_call_are_added_up(sight: Sight) -> None:
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=4, cache_write_tokens=1)
    reply = {"usage": usage, "cost": Cost(total=Decimal("0.25"))}
    await run(agent(measured(None, ADD, **reply), measured("3", **reply), tools=[add]), "?")
    assert counts(sight) == [20, 10, 30, 8, 2]
    assert sight.points("flatagents.agent.cost") == [(0.5, LABELS)]
    assert sight.points("flatagents.agent.tokens") == [(30, LABELS)]


async def test_what_is_unknown_is_not_recorded(sight: Sight) -> None:
    await run(agent("Hi"), "?")
    assert counts(sight) == [None] * 5
    assert sight.total("flatagents.agent.cost") is None
    assert sight.total("gen_ai.client.token.usage") is None


async def test_a_count_of_nothing_that_is_known_is_recorded(sight: Sight) -> None:
    await run(agent(measured("Hi", usage=Usage(input_tokens=3, output_tokens=0))), "?")
    assert sight.total("flatagents.agent.output_tokens") == 0


async def raise_interrupt(run: Any, host: Any, board: Any) -> None:
    raise Interrupted("user_cancel")


async def raise_parked(run: Any, host: Any, board: Any) -> None:
    raise Parked


async def raise_failed(run: Any, host: Any, board: Any) -> None:
    raise Failed("conflict", "It is taken.")


async def answer(run: Any, host: Any, board: Any) -> str:
    return "Hi"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (answer, {"status": "completed"}),
        (raise_failed, {"status": "failed", "error_code": "conflict"}),
        (raise_interrupt, {"status": "interrupted", "error_code": "interrupted"}),
        (raise_parked, {"status": "input_required", "error_code": "input_required"}),
    ],
)
async def test_executions_and_their_time_say_how_a_run_ended(
    sight: Sight, script: Any, told: dict[str, str]
) -> None:
    clock = FakeClock()

    async def slow(*parts: Any) -> Any:
        clock.advance(1.5)
        return await script(*parts)

    await run(agent(), "?", engine=ScriptEngine(slow), clock=clock)
    assert sight.points("flatagents.agent.executions") == [(1, {**LABELS, **told})]
    assert sight.points("flatagents.agent.duration") == [(1500, {**LABELS, **told})]


async def test_a_canceled_run_is_an_execution_too(sight: Sight) -> None:
    async with start(agent(), "?", engine=Do(lambda *parts: asyncio.Event().wait())) as live:
        live.cancel()
        await live.result()
    ((_, told),) = sight.points("flatagents.agent.executions")
    assert (told["status"], told["error_code"]) == ("canceled", "canceled")


async def test_a_failed_run_is_a_failure_whose_tokens_count(sight: Sight) -> None:
    down = AgentError("server_error", "Down.")
    await run(agent(measured(error=down, finish_reason="error"), retry=None), "?")
    ((_, told),) = sight.points("flatagents.agent.executions")
    assert told == {**LABELS, "status": "failed", "error_code": "server_error"}
    assert sight.total("flatagents.agent.tokens") == 15


async def test_a_run_names_the_model_that_its_engine_chose(sight: Sight) -> None:
    other = ScriptedModel(["Hi"], name="anthropic:claude")

    async def choose(run: Any, host: Any, board: Any) -> None:
        await run.call_model(ModelRequest.of("?"), model=other)

    await run(agent(), "?", engine=ScriptEngine(choose))
    ((_, told),) = sight.points("flatagents.agent.executions")
    assert (told["provider"], told["model"]) == ("anthropic", "claude")


async def test_a_run_without_a_model_names_none(sight: Sight) -> None:
    await run(Agent("a"), "?", engine=ScriptEngine(answer))
    (point,) = sight.points("flatagents.agent.executions")
    assert point == (1, {"agent_id": "a", "status": "completed"})


def limited() -> ModelResponse:
    windows = (
        RateLimitWindow(name="requests_per_minute", resource="requests", limit=60, remaining=0),
        RateLimitWindow(name="tokens_per_minute", resource="tokens", limit=1000, remaining=250),
        RateLimitWindow(name="tokens_per_day", resource="tokens", limit=5000),
    )
    return ModelResponse(
        error=AgentError("rate_limit", "Too many.", status_code=429, retryable=True),
        finish_reason="error",
        rate_limit=RateLimitState(limited=True, windows=windows),
    )


def by_window(points: list[Any]) -> dict[str, Any]:
    return {attributes["window"]: value for value, attributes in points}


async def test_windows_of_a_429_are_gauges(sight: Sight) -> None:
    await run(agent(limited(), retry=None), "?")
    (remaining,) = sight.points("flatagents.ratelimit.remaining_requests")
    assert remaining == (
        0,
        {
            "provider": "openai",
            "model": "gpt-5",
            "window": "requests_per_minute",
            "resource": "requests",
        },
    )
    assert sight.total("flatagents.ratelimit.limit_requests") == 60
    tokens = sight.points("flatagents.ratelimit.remaining_tokens")
    assert by_window(tokens) == {"tokens_per_minute": 250}
    limits = by_window(sight.points("flatagents.ratelimit.limit_tokens"))
    assert limits == {"tokens_per_minute": 1000, "tokens_per_day": 5000}


async def test_windows_of_a_try_that_was_repeated_are_gauges_too(sight: Sight) -> None:
    result = await run(agent(limited(), "Hi", retry=Retry()), "?", clock=FakeClock())
    assert result.success
    assert sight.total("flatagents.ratelimit.remaining_requests") == 0


async def test_a_real_429_over_http_leaves_its_windows(sight: Sight) -> None:
    async with Simulator(limits={"requests_per_minute": 1}) as server:
        model = resolve("openai:gpt-5", base_url=server.base_url, api_key="any")
        first = await run(Agent("a", model=model), "?")
        second = await run(Agent("a", model=model, retry=None), "?")
    assert (first.success, second.error and second.error.status_code) == (True, 429)
    assert sight.total("flatagents.ratelimit.remaining_requests") == 0
    assert sight.total("flatagents.ratelimit.limit_requests") == 1
    told = [labels.get("error_code") for _, labels in sight.points("flatagents.agent.executions")]
    assert told == [None, "rate_limit"]


async def test_the_conventional_metrics_are_recorded_a_call(sight: Sight) -> None:
    clock = FakeClock()

    class Slow(ScriptedModel):
        async def call(self, request: Any) -> ModelResponse:
            clock.advance(2)
            return await super().call(request)

    model = Slow([measured("Hi")], name="xai:grok")
    await run(Agent("a", model=model), "?", clock=clock)
    who = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "x_ai",
        "gen_ai.request.model": "grok",
    }
    assert sight.points("gen_ai.client.operation.duration") == [(2, who)]
    assert sight.points("gen_ai.client.token.usage") == [
        (10, {**who, "gen_ai.token.type": "input"}),
        (5, {**who, "gen_ai.token.type": "output"}),
    ]


async def test_a_failed_call_says_its_error(sight: Sight) -> None:
    await run(agent(limited(), retry=None), "?")
    ((_, told),) = sight.points("gen_ai.client.operation.duration")
    assert told["error.type"] == "rate_limit"


async def call_model(run: Any, host: Any, board: Any) -> None:
    board.append((await run.call_model(ModelRequest.of("?"))).to_message())


def inner() -> Agent[Any]:
    return Agent("inner", model=ScriptedModel([measured("Hi")]))


MACHINE: Any = {
    "spec": "upshot.machine/1",
    "name": "one",
    "states": {
        "begin": {"type": "initial", "transitions": [{"to": "ask"}]},
        "ask": {"type": "final", "agent": "inner"},
    },
}


@pytest.mark.parametrize(
    "engine",
    [
        LoopEngine(),
        ScriptEngine(call_model),
        GraphEngine(Graph(nodes={"n": AgentTask(inner(), "?")}, edges=[], start="n")),
        MachineEngine(load_machine(MACHINE), agents={"inner": inner()}),
        Do(lambda run, host, board: host.report_usage(measured("Hi"))),
    ],
    ids=["loop", "script", "graph", "machine", "reported"],
)
async def test_every_engine_is_measured_and_nothing_is_counted_twice(
    sight: Sight, engine: Any
) -> None:
    result = await run(agent(measured("Hi")), "?", engine=engine)
    assert result.success, result.error
    assert result.usage.total_tokens == 15
    assert sight.total("flatagents.agent.tokens") == 15


async def test_what_was_used_before_a_run_was_parked_is_not_counted_again(
    sight: Sight, tmp_path: Path
) -> None:
    @tool(effect="write", approval=True)
    async def pay() -> str:
        return "paid"

    payer = agent(measured(None, ToolCall("c", "pay")), measured("Paid."), tools=[pay])
    journal = tmp_path / "runs.db"
    parked = await run(payer, "Pay.", journal=journal)
    done = await resume(parked.run_id, payer, journal=journal, answers=[Approve("c")])
    assert done.usage.total_tokens == sight.total("flatagents.agent.tokens") == 30
    told = [labels["status"] for _, labels in sight.points("flatagents.agent.executions")]
    assert sorted(told) == ["completed", "input_required"]


async def test_all_twelve_have_the_prefix_asked_for() -> None:
    usage = Usage(input_tokens=1, output_tokens=1, cache_read_tokens=1, cache_write_tokens=1)
    windows = limited().rate_limit
    reply = measured("Hi", usage=usage, cost=Cost(total=Decimal(1)), rate_limit=windows)
    with Sight().instrumented(prefix="mine") as sight:
        await run(agent(reply), "?")
    expected = {f"mine.agent.{name}" for name in (*COUNTS, "cost", "executions", "duration")}
    for noun in ("requests", "tokens"):
        expected |= {f"mine.ratelimit.remaining_{noun}", f"mine.ratelimit.limit_{noun}"}
    assert len(expected) == 12
    assert {name for name in sight.names() if name.startswith("mine.")} == expected


async def test_money_in_another_currency_is_not_added_to_dollars(sight: Sight) -> None:
    await run(agent(measured("Hi", cost=Cost(total=Decimal(1), currency="EUR"))), "?")
    assert sight.total("flatagents.agent.cost") is None


async def test_a_window_of_images_is_not_recorded_as_tokens(sight: Sight) -> None:
    windows = tuple(
        RateLimitWindow(name=name, resource=name, limit=5, remaining=1)
        for name in ("input_images", "input_tokens")
    )
    reply = ModelResponse(content="Hi", rate_limit=RateLimitState(windows=windows))
    await run(agent(reply), "?")
    tokens = sight.points("flatagents.ratelimit.remaining_tokens")
    assert by_window(tokens) == {"input_tokens": 1}


async def test_unknown_effects_are_counted_by_tool_and_settlements_by_way(sight: Sight) -> None:
    known = dict[Any, bool]()

    def was_paid(asked: UnknownEffect) -> bool | None:
        return known.get(asked.arguments["order"])

    @tool(effect="write", once="order", verify=was_paid)
    async def pay(order: str) -> str:
        raise TimeoutError("the bank did not answer")

    calls = [ToolCall(f"c{order}", "pay", {"order": order}) for order in "789"]
    desk = Agent("desk", model=ScriptedModel([calls, "Done."]), tools=[pay])
    with sight.instrumented():
        async with App([desk], journal="memory:") as app:
            journal = await app.open()
            await run(desk, "Pay them.", journal=journal)
            ids = {one.key: one.id for one in await app.effects()}
            seven, eight, nine = (ids[f'{{"order":"{order}"}}'] for order in "789")

            async def counted() -> Any:
                working = asyncio.create_task(Verifier(app).work())
                before = sight.points("upshot.effects.unknown")
                while sight.points("upshot.effects.unknown") == before:
                    await asyncio.sleep(0)
                working.cancel()
                return sight.points("upshot.effects.unknown")

            assert await counted() == [(3, {"tool": "pay"})]
            await app.settle(seven, applied=True, by="ann")
            # A late answer settles nothing.
            await app.settle(seven, applied=False, by="bob")
            await app.settle(eight, applied=False, by="webhook:bank")
            known["9"] = True
            await app.check(nine)
            assert await counted() == [(0, {"tool": "pay"})]
    found = sight.points("upshot.effects.settlements")
    ways = {(labels["way"], labels["effect"]): value for value, labels in found}
    assert ways == {("person", "applied"): 1, ("webhook", "none"): 1, ("verify", "applied"): 1}
