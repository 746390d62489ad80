"""Runs that wait for their turn: against the simulator's limits, and in many processes' place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import measured
from upshot import Agent, Pacer, ScriptedModel, ToolCall, resolve, run, start
from upshot.contract import AgentError, ErrorCode, ModelResponse, RateLimitState, RateLimitWindow
from upshot.contract.model_calls import ModelInput, ModelReplied, ModelRequest
from upshot.contract.protocols import StreamItem
from upshot.errors import Misuse
from upshot.journal import MemoryJournal, open_journal
from upshot.models import aclose_transports
from upshot.sim import Simulator

ASK = Agent("a", model=ScriptedModel(lambda _: "ok"), retry=None)


@pytest.fixture(params=["none", "memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    where: Any = {"none": None, "memory": "memory:", "sqlite": str(tmp_path / "j.db")}.get(
        request.param
    )
    if request.param == "postgres":
        where = request.getfixturevalue("postgres").url(request.getfixturevalue("database"))
    if where is None:
        yield None
        return
    async with open_journal(where) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def closed_transports() -> AsyncIterator[None]:
    yield
    await aclose_transports()


class Counted:
    """A model that notes how many of its calls are under way, and answers when it is let."""

    name = "test:counted"
    account = ""

    def __init__(self, **reply: Any) -> None:
        self.under_way = self.most = self.calls = 0
        self.order: list[str] = []
        self._reply = reply

    async def call(self, request: ModelInput) -> ModelResponse:
        self.calls += 1
        self.order.append(ModelRequest.of(request).messages[-1].text)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        return measured("ok", **self._reply)

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        yield await self.call(request)


def windows(limit: int, remaining: int) -> RateLimitState:
    one = RateLimitWindow(
        name="requests", resource="requests", limit=limit, remaining=remaining, resets_in=60
    )
    return RateLimitState(windows=(one,))


async def test_runs_without_a_pacer_wait_for_nothing() -> None:
    model = Counted()
    await asyncio.gather(*(run(ASK, "x", model=model) for _ in range(10)))
    assert model.most == 10


async def test_before_a_window_is_known_one_request_goes_first(journal: Any) -> None:
    model, pacer = Counted(), Pacer()
    await asyncio.gather(*(run(ASK, "x", model=model, pacer=pacer, journal=journal) for _ in "12"))
    assert (model.most, model.calls) == (1, 2)


async def test_two_pacers_on_one_journal_are_one_line(tmp_path: Path) -> None:
    model = Counted()
    path = str(tmp_path / "j.db")
    async with open_journal(path) as one, open_journal(path) as other:
        ran = (run(ASK, "x", model=model, pacer=Pacer(), journal=each) for each in (one, other))
        await asyncio.gather(*ran)
    assert (model.most, model.calls) == (1, 2)


async def test_the_simulator_refuses_nobody_who_waits(journal: Any) -> None:
    async with Simulator(limits={"requests_per_minute": 1200}) as sim:
        model = resolve("openai:gpt-4o-mini", base_url=sim.base_url, api_key="k")
        pacer = Pacer(max_wait_s=5)
        ran = [run(ASK, "x", model=model, pacer=pacer, journal=journal) for _ in range(40)]
        results = await asyncio.gather(*ran)
        assert all(result.success for result in results)
        assert len(sim.requests) == 40


async def test_a_wait_that_is_too_long_is_not_begun(journal: Any) -> None:
    # One in ten seconds, so that a slow machine is not allowed the second meanwhile.
    model = Counted(rate_limit=windows(6, 0))
    pacer = Pacer(max_wait_s=0.1)
    first = await run(ASK, "x", model=model, pacer=pacer, journal=journal)
    second = await run(ASK, "y", model=model, pacer=pacer, journal=journal, priority=-1)
    assert first.success and model.calls == 1
    assert second.error is not None and second.error.code == ErrorCode.RATE_LIMIT
    assert second.error.retryable and 0.1 < (second.error.retry_after_s or 0) < 20
    assert second.error.details["phase"] == "unsent"


async def test_limits_that_are_given_hold_for_the_models_that_fit() -> None:
    model = Counted()
    pacer = Pacer({"other:*": (1, 1), "test:*": (3, None)}, max_wait_s=0)
    ran = [run(ASK, "x", model=model, pacer=pacer, priority=-1) for _ in range(5)]
    results = await asyncio.gather(*ran)
    assert [result.success for result in results].count(True) == 3


async def test_urgent_runs_pass_those_that_may_wait() -> None:
    model, pacer = Counted(), Pacer()
    given = {"batch": -1, "more": -1, "usual": 0, "urgent": 5}
    await asyncio.gather(
        *(run(ASK, text, model=model, pacer=pacer, priority=one) for text, one in given.items())
    )
    assert model.order == ["urgent", "usual", "batch", "more"]


async def test_a_429_closes_the_line_for_all() -> None:
    refusal = AgentError(
        ErrorCode.RATE_LIMIT, "slow down", retryable=True, status_code=429, retry_after_s=30
    )
    model = Counted(error=refusal)
    pacer = Pacer(max_wait_s=5)
    await run(ASK, "x", model=model, pacer=pacer)
    again = await run(ASK, "y", model=model, pacer=pacer)
    assert model.calls == 1
    assert again.error is not None and 25 < (again.error.retry_after_s or 0) <= 30


async def test_a_cancelled_call_gives_its_place_back() -> None:
    model, pacer = Counted(), Pacer()
    ran = [asyncio.ensure_future(run(ASK, "x", model=model, pacer=pacer)) for _ in range(3)]
    await asyncio.sleep(0.005)
    ran[0].cancel()
    ran[1].cancel()
    assert (await ran[2]).success
    await asyncio.gather(*ran, return_exceptions=True)


async def test_a_reply_says_how_long_it_was_paced() -> None:
    model, pacer, journal = Counted(), Pacer(), MemoryJournal()
    ran = (run(ASK, "x", model=model, pacer=pacer, journal=journal) for _ in range(2))
    results = await asyncio.gather(*ran)
    paced_ms = [
        float(str(event.response.provider_data.get("paced_ms", 0)))
        for result in results
        async for event in journal.events(result.run_id)
        if isinstance(event, ModelReplied)
    ]
    assert len(paced_ms) == 2 and max(paced_ms) >= 5


async def test_a_child_run_waits_in_the_line_of_its_parent() -> None:
    inner, pacer = Counted(), Pacer()

    async def ask() -> str:
        """Ask."""
        return (await run(ASK, "inner", model=inner)).unwrap()

    outer = ScriptedModel([ToolCall("c1", "ask", {}), "done"])
    agent = Agent("o", model=outer, tools=[ask])
    await asyncio.gather(run(agent, "x", pacer=pacer), run(ASK, "y", model=inner, pacer=pacer))
    assert (inner.calls, inner.most) == (2, 1)


@pytest.mark.parametrize(
    "limits",
    [{"gpt-5": (1, 1)}, {"openai:*": 5}, {"openai:*": (0, 1)}, {"openai:*": (1, 2, 3)}],
    ids=["no provider", "no pair", "zero", "three"],
)
def test_limits_that_are_none_are_misuse(limits: Any) -> None:
    with pytest.raises(Misuse, match="limits"):
        Pacer(limits)


@pytest.mark.parametrize("wait", [-1, True, "5", float("nan")])
def test_a_wait_that_is_no_time_is_misuse(wait: Any) -> None:
    with pytest.raises(Misuse, match="max_wait_s"):
        Pacer(max_wait_s=wait)


async def test_runs_that_are_watched_wait_too() -> None:
    model, pacer = Counted(), Pacer()

    async def watched() -> str:
        async with start(ASK, "x", model=model, pacer=pacer) as live:
            async for _ in live:
                pass
            return (await live.result()).unwrap()

    assert await asyncio.gather(watched(), watched()) == ["ok", "ok"]
    assert (model.most, model.calls) == (1, 2)


async def test_a_reply_that_broke_off_counts_whole_and_holds_nobody_up() -> None:
    class Broken(Counted):
        async def call(self, request: ModelInput) -> ModelResponse:
            await super().call(request)
            raise ConnectionResetError("gone")

    model, pacer = Broken(), Pacer({"test:*": (2, None)}, max_wait_s=0)
    ran = [run(ASK, "x", model=model, pacer=pacer, priority=-1) for _ in range(3)]
    results = await asyncio.gather(*ran)
    codes = [result.error.code for result in results if result.error is not None]
    assert sorted(codes) == [ErrorCode.RATE_LIMIT, ErrorCode.SERVER_ERROR, ErrorCode.SERVER_ERROR]


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3))
def test_the_journal_holds_no_key(keys: list[str]) -> None:
    async def names() -> str:
        journal, pacer = MemoryJournal(), Pacer()
        for key in keys:
            model = Counted()
            model.account = f"https://x {key * 20}"
            await run(ASK, "x", model=model, pacer=pacer, journal=journal)
        return repr(vars(journal))

    said = asyncio.run(names())
    assert not any(key * 20 in said for key in keys)
