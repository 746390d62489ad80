"""Ten questions about 500 mixed runs, each answered by the console in a few clicks."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.browser_real.shop import make_shop
from tests.serve.kit import Client, served
from upshot import App

RUNS = 500
# What a person opens to find an answer: lists, runs, comparisons.
FEW = 3


class Reader:
    """Opens parts of the console, and counts them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.clicks = 0

    async def open(self, path: str) -> Any:
        self.clicks += 1
        assert self.clicks <= FEW, path
        status, said = await self._client.get(f"/api{path}")
        assert status == 200, said
        return said


@pytest.fixture(scope="module")
async def read(
    filled: Any, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[tuple[App, Client]]:
    """500 mixed runs, served to the tests that only read."""
    app = make_shop(await filled(RUNS, tmp_path_factory.mktemp("read")))
    async with served(app, rate=100_000) as client:
        yield app, client.by("oz")


@pytest.fixture
async def shop(filled: Any, tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    """The same runs for one test; runs are worked on."""
    app = make_shop(await filled(RUNS, tmp_path))
    async with served(app, rate=100_000) as client:
        yield app, client.by("oz")


async def waiting(shop: tuple[App, Client], run_id: str, tool: str) -> dict[str, Any]:
    """What a run asks about a call of a tool, once it does."""
    app, client = shop
    await ended(app, run_id)
    (item,) = (await client.get(f"/api/inbox?run_id={run_id}"))[1]["items"]
    assert item["pending"]["tool_name"] == tool
    return item["pending"]


async def answer(shop: tuple[App, Client], run_id: str, tool: str, kind: str) -> dict[str, Any]:
    """Answer what a run asks about a call of a tool; gives what was asked."""
    asked = await waiting(shop, run_id, tool)
    given = {"kind": kind, "call_id": asked["call_id"], "digest": asked["digest"]}
    status, said = await shop[1].post(f"/api/runs/{run_id}/answer", {"answers": [given]})
    assert status == 200, said
    return asked


async def begun(client: Client, text: str) -> str:
    _, said = await client.post("/api/runs", {"agent": "clerk", "text": text})
    return said["run_id"]


async def ended(app: App, run_id: str) -> None:
    """Wait until a run has ended, or asks."""
    await (await app.run(run_id)).result()


def money(amount: Any) -> Decimal:
    """An amount in JSON, as it was before."""
    return Decimal(str(amount))


def length(row: dict[str, Any]) -> float:
    """The seconds that a step took."""
    return row["end_s"] - row.get("start_s", 0)


async def test_which_run_cost_most_and_why(read: tuple[App, Client]) -> None:
    app, client = read
    reader = Reader(client)
    top = (await reader.open("/runs?sort=cost"))["runs"][0]
    run = await reader.open(f"/runs/{top['run_id']}")
    most = max(one.cost.total or 0 for one in await app.runs(limit=None) if one.cost)
    assert money(top["cost"]["total"]) == money(run["head"]["cost"]["total"]) == most
    child = await reader.open(f"/runs/{run['head']['children'][0]}")
    replies = [row for row in child["rows"] if row["kind"] == "model"]
    assert len(replies) == 15
    spent = sum(money(row["cost"]["total"]) for row in replies)
    assert spent == money(child["head"]["cost"]["total"]) > most / 2


async def test_what_a_person_approved_when_and_seeing_what(shop: tuple[App, Client]) -> None:
    app, client = shop
    run_id = await begun(client, "Refund the night light of order 7, it never came.")
    asked = await answer(shop, run_id, "refund", "approve")
    await ended(app, run_id)
    reader = Reader(client)
    listed = (await reader.open("/runs?tool=refund&status=completed"))["runs"]
    run = await reader.open(f"/runs/{listed[0]['run_id']}")
    (answered,) = run["head"]["answered"]
    assert (listed[0]["run_id"], answered["answer"]["by"]) == (run_id, "oz")
    assert answered["at"] > asked["asked_at"]
    assert answered["asked"]["arguments"] == asked["arguments"]
    assert answered["asked"]["digest"] == asked["digest"]


async def test_what_was_called_twice(read: tuple[App, Client]) -> None:
    _, client = read
    reader = Reader(client)
    listed = (await reader.open("/runs?text=write to all"))["runs"]
    run = await reader.open(f"/runs/{listed[0]['run_id']}")
    calls = [call for said in run["messages"] for call in said.get("calls", ())]
    made = Counter((call["name"], str(call["arguments"])) for call in calls)
    assert [key[0] for key, count in made.items() if count == 2] == ["broadcast"]


async def test_which_tool_is_slowest_and_in_which_run(read: tuple[App, Client]) -> None:
    app, client = read
    reader = Reader(client)
    tools = (await reader.open("/tools?period=week"))["tools"]
    assert tools[0]["p95_s"] == max(tool["p95_s"] or 0 for tool in tools)
    slow = max((call for tool in tools for call in tool["slowest"]), key=lambda one: one["took_ms"])
    run = await reader.open(f"/runs/{slow['run_id']}")
    [row] = [row for row in run["rows"] if row.get("call_id") == slow["call_id"]]
    assert row["name"] == slow["tool"]
    every = [
        record.run_ms
        for run in await app.runs(limit=None)
        for record in (await (await app.run(run.run_id)).state()).records
    ]
    assert slow["took_ms"] == max(every)


async def test_which_runs_met_limits(read: tuple[App, Client]) -> None:
    app, client = read
    reader = Reader(client)
    limits = (await reader.open("/overview?period=week"))["limits"]
    met = [one["run_id"] for limit in limits for one in limit["runs"]]
    assert met and sum(limit["refused"] for limit in limits) >= len(met)
    refused = {
        run.run_id
        for run in await app.runs(limit=None)
        for reply in (await (await app.run(run.run_id)).state()).responses
        if reply.error is not None and reply.error.code == "rate_limit"
    }
    assert set(met) <= refused


async def test_which_calls_effect_is_unknown(read: tuple[App, Client]) -> None:
    _, client = read
    reader = Reader(client)
    top = (await reader.open("/runs?sort=effect"))["runs"][0]
    assert top["effect"] == "unknown"
    run = await reader.open(f"/runs/{top['run_id']}")
    unknown = [row for row in run["rows"] if row.get("effect") == "unknown"]
    assert [(row["name"], bool(row["call_id"])) for row in unknown] == [("send_mail", True)]


async def test_where_two_runs_parted(shop: tuple[App, Client]) -> None:
    app, client = shop
    made = [await begun(client, "Refund the night light of order 8.") for _ in range(2)]
    for run_id, kind in zip(made, ("approve", "deny"), strict=True):
        await answer(shop, run_id, "refund", kind)
        await ended(app, run_id)
    reader = Reader(client)
    found = (await reader.open(f"/runs/{made[0]}/compare/{made[1]}"))["difference"]
    assert "refund" in str(found)


async def test_what_failed_with_429_and_how_often(read: tuple[App, Client]) -> None:
    app, client = read
    reader = Reader(client)
    counts = await reader.open("/counts")
    failed = await app.runs(error_code="rate_limit", limit=None)
    assert counts["errors"]["rate_limit"] == len(failed) > 0
    listed = (await reader.open("/runs?error_code=rate_limit"))["runs"]
    assert listed[0]["run_id"] == failed[0].run_id
    run = await reader.open(f"/runs/{listed[0]['run_id']}")
    assert run["head"]["error"]["code"] == "rate_limit"
    assert "rate limit" in run["head"]["error"]["message"]


async def test_who_waits_the_longest(read: tuple[App, Client]) -> None:
    app, client = read
    page = await Reader(client).open("/inbox")
    waiting = await app.inbox(limit=None)
    assert page["total"] == len(waiting)
    assert page["items"][0]["run_id"] == min(waiting, key=lambda one: one.pending.asked_at).run_id


async def test_what_a_conversation_cost(read: tuple[App, Client]) -> None:
    app, client = read
    counts = await Reader(client).open("/counts?conversation=talk-1")
    days = sum(money(day["costs"]["USD"]) for day in counts["cost_by_day"])
    runs = await app.runs(conversation="talk-1")
    assert days == sum(one.cost.total or 0 for one in runs if one.cost) > 0


async def test_which_tool_of_a_run_is_the_slowest(
    shop: tuple[App, Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, client = shop
    gate = tmp_path / "gate"
    monkeypatch.setenv("SHOP_GATE", str(gate))
    run_id = await begun(client, "Find order 5 and ask the carrier.")
    found, seen = 0.0, 0.0
    # The carrier answers once he has taken longer than the look into the orders.
    while not seen or monotonic() - seen <= found:
        status, run = await client.get(f"/api/runs/{run_id}")
        rows = {row["name"]: row for row in (run.get("rows", ()) if status == 200 else ())}
        if "ask_carrier" in rows and not seen:
            found, seen = length(rows["find_order"]), monotonic()
    gate.touch()
    await ended(app, run_id)
    reader = Reader(client)
    listed = (await reader.open("/runs?tool=ask_carrier"))["runs"]
    run = await reader.open(f"/runs/{listed[0]['run_id']}")
    tools = [row for row in run["rows"] if row["kind"] == "tool"]
    assert [row["name"] for row in tools] == ["find_order", "ask_carrier"]
    assert max(tools, key=length)["name"] == "ask_carrier"


async def test_which_run_wrote_and_then_was_canceled(shop: tuple[App, Client]) -> None:
    app, client = shop
    run_id = await begun(client, "Pay Ada back for order 9, and forget her.")
    await answer(shop, run_id, "refund", "approve")
    await waiting(shop, run_id, "delete_customer")
    status, _ = await client.post(f"/api/runs/{run_id}/cancel")
    assert status == 200
    await ended(app, run_id)
    reader = Reader(client)
    listed = (await reader.open("/runs?status=canceled&effect=applied"))["runs"]
    assert [one["run_id"] for one in listed] == [run_id]
    run = await reader.open(f"/runs/{run_id}")
    wrote = [row["name"] for row in run["rows"] if row.get("effect") == "applied"]
    assert wrote == ["refund"]
