"""Quotas in runs: what a log holds, what is refused, and what stays reserved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runs.kit import measured
from upshot import (
    Agent,
    Approve,
    Budget,
    Fallback,
    Pacer,
    Quota,
    Retry,
    ToolCall,
    resume,
    run,
    run_with_handoffs,
    start,
    tool,
)
from upshot.contract import AgentError, ErrorCode, ModelResponse, ModelSettings, Status
from upshot.contract.events import RunStarted
from upshot.contract.model_calls import ModelInput, ModelRequest
from upshot.errors import Misuse
from upshot.journal import MemoryJournal, open_journal
from upshot.models import Price
from upshot.runs.limits.quotas import quotas_in

CAP = Quota("desk", max_tokens=1_000_000)
FEW = ModelSettings(max_tokens=50)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    where = {"memory": "memory:", "sqlite": str(tmp_path / "j.db")}.get(request.param)
    if where is None:
        where = request.getfixturevalue("postgres").url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


class Priced:
    """A model with a price that answers, fails or never ends."""

    name = "test:priced"
    price = Price(input_per_mtok=1, output_per_mtok=10)
    settings = None
    priced = True

    def __init__(self, *replies: Any) -> None:
        self.replies = [*replies]
        self.asked: list[ModelRequest] = []
        self.waits = asyncio.Event()

    async def call(self, request: ModelInput) -> ModelResponse:
        self.asked.append(ModelRequest.of(request))
        await asyncio.sleep(0)
        reply: Any = self.replies.pop(0) if self.replies else measured("ok")
        if reply == "wait":
            self.waits.set()
            await asyncio.Event().wait()
        return reply

    async def stream(self, request: ModelInput) -> AsyncIterator[Any]:
        yield await self.call(request)


def agent(model: Any, **fields: Any) -> Agent[Any]:
    more: Any = {"settings": FEW, "retry": None, **fields}
    return Agent("a", model=model, **more)


async def used(journal: Any, name: str = "desk", key: str = "all/") -> tuple[Any, ...]:
    def read(values: Any) -> tuple[Any, ...]:
        body = values.read(f"quota/{name}/{key}/always")
        found = msgspec.json.decode(body or "{}")
        return found.get("cost_usd"), found.get("tokens"), found.get("runs")

    return await journal.change_values(read)


async def test_a_reply_settles_what_was_reserved(journal: Any) -> None:
    result = await run(agent(Priced()), "Hi", journal=journal, quotas=[CAP])
    assert result.success
    assert (await used(journal))[1:] == (15, 1)


async def test_a_call_that_may_pass_the_cap_is_not_sent(journal: Any) -> None:
    model = Priced()
    tight = Quota("desk", max_tokens=40, per="day")
    result = await run(agent(model), "Hi", journal=journal, quotas=[tight])
    assert result.error is not None and result.error.code == ErrorCode.BUDGET_EXCEEDED
    assert result.error.details["dimension"] == "quota"
    assert 0 < (result.error.retry_after_s or 0) <= 86_400
    assert model.asked == []
    kinds = [event.kind async for event in journal.events(result.run_id)]
    assert kinds.index("model_started") + 1 == kinds.index("model_replied")


async def test_of_many_at_once_no_more_begin_than_the_cap_allows(journal: Any) -> None:
    model = Priced(*["wait"] * 20)
    cap = Quota("desk", max_cost_usd="0.004")
    ran = [
        asyncio.ensure_future(run(agent(model), "Hi", journal=journal, quotas=[cap]))
        for _ in range(10)
    ]
    while len(model.asked) + sum(task.done() for task in ran) < len(ran):
        await asyncio.sleep(0.01)
    for task in ran:
        task.cancel()
    await asyncio.gather(*ran, return_exceptions=True)
    assert 0 < len(model.asked) < 10


async def test_what_was_cancelled_counts_whole(journal: Any) -> None:
    model = Priced("wait")
    task = asyncio.ensure_future(run(agent(model), "Hi", journal=journal, quotas=[CAP]))
    await model.waits.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    _, tokens, _ = await used(journal)
    assert tokens > 50


async def test_what_was_certainly_not_sent_counts_nothing(journal: Any) -> None:
    unsent = AgentError(ErrorCode.SERVER_ERROR, "no route", details={"phase": "unsent"})
    await run(agent(Priced(ModelResponse(error=unsent))), "Hi", journal=journal, quotas=[CAP])
    assert (await used(journal))[1:] == (0, 1)


async def test_each_try_is_reserved_anew(journal: Any) -> None:
    cut = ModelResponse(
        error=AgentError(ErrorCode.SERVER_ERROR, "cut", retryable=True, details={"phase": "sent"})
    )
    model = Priced(cut, cut, cut)
    one = agent(model, retry=Retry(max_tries=4, base_s=0))
    tight = Quota("desk", max_tokens=400)
    result = await run(one, "Hi", journal=journal, quotas=[tight])
    assert result.error is not None and result.error.code == ErrorCode.BUDGET_EXCEEDED
    assert 1 < len(model.asked) < 4
    assert (await used(journal))[1] <= 400


async def test_where_the_settings_say_nothing_the_reply_is_limited(journal: Any) -> None:
    model = Priced()
    free = agent(model, settings=ModelSettings(temperature=0))
    await run(free, "Hi", journal=journal, quotas=[Quota("desk", max_tokens=2_000)])
    settings = model.asked[0].settings
    assert settings is not None and settings.temperature == 0
    assert 1_000 < (settings.max_tokens or 0) < 2_000


async def test_the_caps_of_a_fallback_count_each_of_its_models(journal: Any) -> None:
    model: Any = Fallback(Priced(), Priced())
    await run(agent(model), "Hi", journal=journal, quotas=[Quota("desk", max_tokens=10_000)])
    assert (await used(journal))[1] == 15


async def test_quotas_hold_in_later_sessions_that_are_not_told(journal: Any) -> None:
    model = Priced(measured(None, ToolCall("c1", "wait_for_it", {})))

    @tool(approval=True)
    async def wait_for_it() -> str:
        """Wait."""
        return "done"

    one = agent(model, tools=[wait_for_it])
    first = await run(one, "Hi", journal=journal, quotas=[CAP])
    assert first.status == Status.INPUT_REQUIRED
    last = await resume(first.run_id, one, answers=[Approve("c1")], journal=journal)
    assert last.success
    assert (await used(journal))[1:] == (30, 1)


async def test_child_runs_are_in_the_quotas_of_their_parent(journal: Any) -> None:
    inner = agent(Priced())

    async def ask() -> str:
        """Ask."""
        return (await run(inner, "inside")).unwrap()

    model = Priced(measured(None, ToolCall("c1", "ask", {})))
    by_run = Quota("each", scope="run", max_tokens=10_000)
    result = await run(agent(model, tools=[ask]), "Hi", journal=journal, quotas=[CAP, by_run])
    assert result.success
    assert (await used(journal))[1:] == (45, 1)
    assert (await used(journal, "each", f"run/{result.run_id}"))[1:] == (45, 1)


async def test_who_is_handed_over_to_is_in_the_quota_of_the_run(journal: Any) -> None:
    call = ToolCall("c1", "transfer_to_second", {})
    second = Agent("second", model=Priced(), settings=FEW)
    first = Agent("first", model=Priced(measured(None, call)), handoffs=[second], settings=FEW)
    by_run = Quota("each", scope="run", max_tokens=10_000)
    result = await run_with_handoffs(
        [first, second], "Hi", start=first, journal=journal, quotas=[by_run, CAP]
    )
    assert result.success
    runs = [one.run_id for one in await journal.runs()]
    tokens = [(await used(journal, "each", f"run/{one}"))[1] for one in runs]
    assert sorted(tokens, key=str) == [30, None]
    assert (await used(journal))[1:] == (30, 2)


async def test_runs_that_are_watched_are_capped_too(journal: Any) -> None:
    async with start(agent(Priced()), "Hi", journal=journal, quotas=[CAP]) as live:
        async for _ in live:
            pass
        assert (await live.result()).success
    assert (await used(journal))[1:] == (15, 1)


async def test_a_pacer_and_a_quota_hold_together(journal: Any) -> None:
    pacer = Pacer({"test:*": (1, None)}, max_wait_s=0)
    options: Any = {"journal": journal, "quotas": [CAP], "pacer": pacer, "priority": -1}
    results = [await run(agent(Priced()), "Hi", **options) for _ in range(2)]
    assert [result.success for result in results] == [True, False]
    # Who did not get its turn has used nothing.
    assert (await used(journal))[1:] == (15, 2)


async def test_the_log_says_what_a_run_was_given() -> None:
    journal = MemoryJournal()
    result = await run(agent(Priced()), "Hi", journal=journal, quotas=[CAP])
    events = [event async for event in journal.events(result.run_id)]
    started = events[0]
    assert isinstance(started, RunStarted)
    (said,) = quotas_in(started.options)
    assert (said.quota, said.run_id) == (CAP, result.run_id)


async def test_quotas_without_a_journal_are_misuse() -> None:
    with pytest.raises(Misuse, match="quotas are kept in a journal"):
        await run(agent(Priced()), "Hi", quotas=[CAP])


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x"},
        {"name": "x", "max_tokens": -1},
        {"name": "x", "max_tokens": "9"},
        {"name": "x", "max_tokens": 9, "scope": "team"},
        {"name": "x", "max_tokens": 9, "per": "hour"},
    ],
    ids=str,
)
def test_a_quota_that_is_none_is_misuse(fields: Any) -> None:
    with pytest.raises(Misuse):
        Quota(**fields)


def test_money_is_exact() -> None:
    assert Quota("x", max_cost_usd=0.1).max_cost_usd == Decimal("0.1")
    assert Budget(max_cost_usd=Decimal(1))
