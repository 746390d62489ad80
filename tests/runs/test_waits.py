"""Waits that leave a run, and what is counted when it goes on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import add, kinds, log_of, measured
from tests.searching import examples
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Budget,
    ErrorCode,
    Failed,
    Graph,
    GraphEngine,
    ModelResponse,
    Node,
    Parallel,
    Request,
    Retry,
    RunReleased,
    ScriptEngine,
    ToolCall,
    reopen,
    resume,
    run,
    start,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.testing import FakeClock

BEGAN = datetime(2026, 5, 4, 12, tzinfo=UTC)


def until(clock: FakeClock, moment_s: float) -> None:
    clock.advance(moment_s - clock.monotonic())


def busy(retry_after_s: float | None = 60) -> ModelResponse:
    return ModelResponse(
        error=AgentError(ErrorCode.RATE_LIMIT, "busy", retryable=True, retry_after_s=retry_after_s)
    )


class Replies:
    """A model that gives these replies, one after another, whoever asks."""

    def __init__(self, *replies: ModelResponse | str) -> None:
        self.replies = [ModelResponse(content=r) if isinstance(r, str) else r for r in replies]
        self.calls = 0

    async def call(self, request: Any) -> ModelResponse:
        self.calls += 1
        return self.replies[self.calls - 1]


async def go_on(
    agent: Agent[Any], journal: Any, clock: FakeClock, **options: Any
) -> AgentResult[Any]:
    """Work on run r as a worker does, until it ends or is left."""
    began = await journal.last_seq("r") > 0
    way: Any = (
        reopen("r", agent, journal=journal, clock=clock, **options)
        if began
        else start(agent, Request("?", run_id="r"), journal=journal, clock=clock, **options)
    )
    async with way as live:
        live.park_waits(5)
        return await live.result()


async def left_at(journal: Any) -> datetime | None:
    last = (await log_of(journal, "r"))[-1]
    assert isinstance(last, RunReleased) and last.reason == "due"
    return last.at


async def test_a_long_wait_leaves_the_run_and_its_tries_count_when_it_goes_on() -> None:
    journal, clock, model = MemoryJournal(), FakeClock(BEGAN), Replies(*[busy()] * 9)
    agent = Agent("a", model=model, retry=Retry(max_tries=3, base_s=0))
    left = await go_on(agent, journal, clock)
    assert (left.cause, model.calls, clock.monotonic()) == ("released", 1, 0)
    assert await left_at(journal) == BEGAN + timedelta(seconds=60)
    assert kinds(await log_of(journal, "r"))[-3:] == [
        "model_started",
        "model_retried",
        "run_released",
    ]
    until(clock, 61)
    assert (await go_on(agent, journal, clock)).cause == "released"
    until(clock, 122)
    result = await go_on(agent, journal, clock)
    assert result.error is not None and result.error.code == ErrorCode.RATE_LIMIT
    assert model.calls == 3
    # The wait was over, so that nothing was waited twice.
    assert clock.monotonic() == 122


async def test_a_run_that_is_taken_up_early_waits_for_the_rest() -> None:
    journal, clock, model = MemoryJournal(), FakeClock(BEGAN), Replies(busy(), "Done.")
    agent = Agent("a", model=model, retry=Retry(base_s=0))
    await go_on(agent, journal, clock)
    until(clock, 40)
    assert (await go_on(agent, journal, clock)).cause == "released"
    assert await left_at(journal) == BEGAN + timedelta(seconds=60)
    # Who works on one run only sleeps.
    result = await resume("r", agent, journal=journal, clock=clock)
    assert (result.content, model.calls, clock.monotonic()) == ("Done.", 2, 60)


async def test_an_explicit_max_wait_holds_and_else_an_hour_is_waited_for() -> None:
    table = [(Retry(), 3600, True), (Retry(), 3601, False), (Retry(max_wait_s=60), 61, False)]
    for retry, wait_s, is_left in [*table, (None, 60, False)]:
        agent = Agent("a", model=Replies(busy(wait_s)), retry=retry)
        result = await go_on(agent, MemoryJournal(), FakeClock(BEGAN))
        assert (result.cause == "released") is is_left, (retry, wait_s)


async def test_a_wait_counts_against_the_deadline_and_what_comes_after_it_does_not() -> None:
    for passed_s in (61, 1000):
        journal, clock, model = MemoryJournal(), FakeClock(BEGAN), Replies(busy(), busy(), "Done.")
        agent = Agent("a", model=model, retry=Retry(base_s=0), budget=Budget(deadline_s=90))
        assert (await go_on(agent, journal, clock)).cause == "released"
        until(clock, passed_s)
        result = await go_on(agent, journal, clock)
        # 60 s are over, and another 60 would pass the deadline.
        assert result.error is not None and model.calls == 2, result
        assert result.error.retry_after_s == 60


async def test_a_call_that_was_left_in_a_wait_is_not_one_that_nobody_knows_the_use_of() -> None:
    usages = []
    for at_once in (True, False):
        journal, clock, model = (
            MemoryJournal(),
            FakeClock(BEGAN),
            Replies(busy(), measured("Done.")),
        )
        agent = Agent("a", model=model, retry=Retry(base_s=0))
        if at_once:
            result = await run(agent, "?", clock=clock)
        else:
            await go_on(agent, journal, clock)
            until(clock, 60)
            result = await go_on(agent, journal, clock)
        usages.append((result.content, result.usage, result.cost, result.warnings))
    assert usages[0] == usages[1]


def of_shape(shape: str, agent: Agent[Any]) -> Agent[Any]:
    """*agent*, alone or in something that runs it."""
    if shape == "loop":
        return agent
    if shape == "graph":
        return Agent("o", engine=GraphEngine(Graph({"one": Node(agent)})))
    if shape == "side by side":
        both = Parallel({"one": Node(agent), "two": Node(agent)})
        return Agent("o", engine=GraphEngine(Graph({"both": both})))

    async def work(run: Any, host: Any, board: Any) -> str:
        return (await run.child(agent, "Go.", key="inner")).content

    return Agent("o", engine=ScriptEngine(work))


@pytest.mark.parametrize("shape", ["graph", "side by side", "script"])
async def test_what_waits_in_child_runs_leaves_the_run(shape: str) -> None:
    journal, clock, model = (
        MemoryJournal(),
        FakeClock(BEGAN),
        Replies(busy(), busy(), "Yes.", "Yes."),
    )
    inner = Agent("a", model=model, retry=Retry(base_s=0))
    agent = of_shape(shape, inner)
    left = await go_on(agent, journal, clock)
    assert (left.cause, await left_at(journal)) == ("released", BEGAN + timedelta(seconds=60))
    children = [one.run_id for one in await journal.runs() if one.parent_run_id]
    for child in children:
        last = (await log_of(journal, child))[-1]
        assert isinstance(last, RunReleased) and last.reason == "outer"
    assert [due.run_id for due in await journal.due_runs()] == ["r"]
    until(clock, 61)
    if shape != "side by side":
        assert (await go_on(agent, journal, clock)).cause == "released"
        until(clock, 122)
    result = await go_on(agent, journal, clock)
    assert result.status == "completed", result
    assert model.calls == 3 if shape != "side by side" else 4
    assert len([one for one in await journal.runs() if one.parent_run_id]) == len(children)


def failing(times: int, told: list[str]) -> Any:
    """A function that fails so often, and asks for a minute each time."""

    def work(board: Any) -> None:
        told.append("tried")
        if len(told) <= times:
            raise Failed(AgentError(ErrorCode.RATE_LIMIT, "no", retryable=True, retry_after_s=60))

    return work


@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_tries_of_a_node_count_when_the_run_goes_on(failures: int) -> None:
    told = list[str]()
    node = Node(failing(failures, told), attempts=3, backoff_s=0, idempotent=True)
    agent = Agent("o", engine=GraphEngine(Graph({"one": node})))
    journal, clock = MemoryJournal(), FakeClock(BEGAN)
    for passed_s in range(1, min(failures, 2) + 1):
        assert (await go_on(agent, journal, clock)).cause == "released"
        assert len(told) == passed_s
        # It is taken up early, and left again.
        assert (await go_on(agent, journal, clock)).cause == "released"
        until(clock, 60 * passed_s)
    result = await go_on(agent, journal, clock)
    assert result.success is (failures < 3)
    assert (len(told), clock.sleeps) == (min(failures + 1, 3), [])


def facts(result: AgentResult[Any]) -> tuple[object, ...]:
    """What a result says, but for ids, times, and what only the outermost run of a shape has."""
    error = result.error and (result.error.code, result.error.retry_after_s)
    calls = [(one.call_id, one.outcome.kind, one.effect) for one in result.tool_records]
    return result.status, result.content, error, calls, result.usage, result.cost


SAID = st.one_of(
    st.sampled_from([4.0, 6.0, 60.0, 3600.0, 3601.0]).map(busy),
    st.just(busy(None)),
    st.just(measured("", ToolCall("c", "add", {"a": 1, "b": 2}))),
    st.just(ModelResponse(content="")),
)


@given(
    shape=st.sampled_from(["loop", "graph", "script"]),
    said=st.lists(SAID, max_size=8),
    taken_up=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), max_size=6),
    max_tries=st.integers(1, 4),
)
@examples(60)
def test_wherever_waits_cut_a_run_it_comes_to_the_same_with_as_many_calls(
    shape: str, said: list[ModelResponse], taken_up: list[float], max_tries: int
) -> None:
    async def live() -> None:
        made = [Replies(*said, *[measured("Done.")] * 9) for _ in range(2)]
        whole, cut = (
            of_shape(
                shape,
                Agent(
                    "a",
                    model=model,
                    tools=[add],
                    retry=Retry(max_tries=max_tries, base_s=0, max_wait_s=3600),
                ),
            )
            for model in made
        )
        expected = await run(whole, "?", clock=FakeClock(BEGAN))
        journal, clock, shares = MemoryJournal(), FakeClock(BEGAN), iter(taken_up)
        result = await go_on(cut, journal, clock)
        while result.cause == "released":
            at = await left_at(journal)
            assert at is not None and (at - clock.now()).total_seconds() > 5
            # Taken up before its moment, at it, or long after it.
            clock.advance(next(shares, 1.0) * (at - clock.now()).total_seconds())
            result = await go_on(cut, journal, clock)
        assert facts(result) == facts(expected)
        assert made[0].calls == made[1].calls

    asyncio.run(live())


def beside_what_may_not_be_cut_off(what: str, inner: Agent[Any], done: list[str]) -> Agent[Any]:
    """A run in which *inner* waits, while something else is under way that has no wait."""

    @tool(effect="write")
    async def work() -> str:
        done.append("worked")
        if what == "in a tool":
            return (await run(inner, Request("Go.", run_id="inner"))).content or ""
        await begun.wait()
        return "worked"

    begun = asyncio.Event()
    call = ToolCall("w", "work")

    async def script(run: Any, host: Any, board: Any) -> str:
        async def child() -> str:
            done.append("asked")
            return (await run.child(inner, "Go.", key="inner")).content

        async def ask() -> str:
            said = await child()
            begun.set()
            return said

        if what == "in a tool":
            return (await run.tools.dispatch([call]))[0].output["result"]
        if what == "beside a tool":
            said, _ = await asyncio.gather(ask(), run.tools.dispatch([call]))
        elif what == "in a step that is not repeated":
            said = await host.once("s", "write", child)
        else:
            said, _ = await asyncio.gather(ask(), host.once("s", "write", begun.wait))
        return said

    return Agent("o", engine=ScriptEngine(script), tools=[work])


@pytest.mark.parametrize(
    "what",
    ["in a tool", "beside a tool", "in a step that is not repeated", "beside a step"],
)
async def test_nothing_is_cut_off_for_a_wait(what: str) -> None:
    done, model = list[str](), Replies(busy(), "Yes.")
    journal, clock = MemoryJournal(), FakeClock(BEGAN)
    inner = Agent("a", model=model, retry=Retry(base_s=0))
    result = await go_on(beside_what_may_not_be_cut_off(what, inner, done), journal, clock)
    assert (result.output, result.error, model.calls) == ("Yes.", None, 2)
    assert len(done) == len(set(done))
    assert "run_released" not in kinds(await log_of(journal, "r"))
