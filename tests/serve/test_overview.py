"""The overview sums what the user may see, for each period."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.journal.test_run_counts import Ended, Written
from tests.serve.kit import Client, served
from upshot import Agent, App, ScriptedModel
from upshot.contract.base.enums import Status
from upshot.contract.call_counts import CallCount
from upshot.contract.usage import RateLimitWindow

CALLS = (
    CallCount(
        type="tool",
        name="look",
        calls=4,
        failed=1,
        timed_out=1,
        denied=2,
        repeated=1,
        took=(0, 0, 4),
        slowest_ms=900,
        slowest="c1",
        waits=(0,) * 13 + (3,),
    ),
    CallCount(
        type="model",
        name="openai:gpt",
        calls=1,
        limited=1,
        windows=(RateLimitWindow(name="requests", limit=500, remaining=7),),
        at=datetime(2026, 3, 4, tzinfo=UTC),
    ),
)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[Client]:
    app = App([Agent("desk", model=ScriptedModel([]))], journal=tmp_path / "runs.db")
    async with served(app) as client:
        journal: Any = await app.open()
        now = datetime.now(UTC)
        for n, (owner, hours) in enumerate([("ann", 0), ("ann", 0), ("ben", 0), ("ben", 30)]):
            one = Written(journal, f"run-{n}").start(
                now - timedelta(hours=hours), attributes={"user": owner}
            )
            status = Status.FAILED if n % 3 == 0 else Status.COMPLETED
            one.end(Ended(status, cost="0.5", took_s=3, calls=CALLS))
        await journal.durable("run-3", 2)
        yield client


async def test_a_period_is_summed_beside_the_one_before(client: Client) -> None:
    status, day = await client.by("oz").get("/api/overview")
    assert (status, day["period"], day["step_s"], len(day["parts"])) == (200, "day", 3600, 24)
    assert day["now"]["statuses"] == {"failed": 1, "completed": 2}
    assert day["now"]["costs"] == {"USD": 1.5} and 2 < day["now"]["p50_s"] <= 5
    told = [part["statuses"] for part in day["parts"] if part["statuses"]]
    assert told == [{"failed": 1, "completed": 2}]
    assert day["before"]["statuses"] == {"failed": 1}
    assert [(one["code"], one["runs"], one["before"]) for one in day["errors"]] == [
        ("timeout", 1, 1)
    ]
    [agent] = day["agents"]
    assert (agent["agent_id"], agent["runs"], agent["failed"], agent["before"]) == ("desk", 3, 1, 1)
    [tool] = day["tools"]
    assert (tool["name"], tool["calls"], tool["failed"]) == ("look", 12, 3)
    assert 0.02 < tool["p50_s"] < tool["p95_s"] <= 0.05
    assert day["work"]["waiting"] == [0] * len(day["ages_s"])


@pytest.mark.parametrize(("period", "parts", "runs"), [("hour", 12, 3), ("week", 7, 4)])
async def test_each_period_has_its_parts(
    client: Client, period: str, parts: int, runs: int
) -> None:
    _, found = await client.by("oz").get(f"/api/overview?period={period}")
    assert len(found["parts"]) == parts
    assert sum(found["now"]["statuses"].values()) == runs
    status, error = await client.by("oz").get("/api/overview?period=year")
    assert status == 400 and "period" in error["error"]


async def test_tools_are_summed_with_their_slowest_calls_and_approvals(client: Client) -> None:
    status, day = await client.by("oz").get("/api/tools")
    assert (status, day["period"]) == (200, "day")
    [tool] = day["tools"]
    counts = ("calls", "failed", "timed_out", "unknown", "denied", "repeated", "approvals")
    assert [tool[name] for name in counts] == [12, 3, 3, 0, 6, 3, 9]
    assert 60 < tool["approval_p50_s"] < tool["approval_p95_s"] <= 200
    assert tool["p95_before_s"] is not None
    [slowest] = tool["slowest"]
    assert (slowest["took_ms"], slowest["call_id"]) == (900, "c1")
    assert slowest["run_id"] in ("run-0", "run-1", "run-2")
    _, own = await client.by("ann").get("/api/tools")
    assert own["tools"][0]["calls"] == 8


async def test_limits_of_providers_are_for_who_may_see_all_runs(client: Client) -> None:
    _, day = await client.by("oz").get("/api/overview")
    [limit] = day["limits"]
    assert (limit["model"], limit["refused"]) == ("openai:gpt", 3)
    [window] = limit["windows"]
    assert (window["name"], window["limit"], window["remaining"]) == ("requests", 500, 7)
    assert [one["run_id"] for one in limit["runs"]] == ["run-2"]
    _, own = await client.by("ann").get("/api/overview")
    assert own["limits"] == []


async def test_a_user_gets_figures_of_the_own_runs_alone(client: Client) -> None:
    _, found = await client.by("ann").get("/api/overview")
    assert found["now"]["statuses"] == {"failed": 1, "completed": 1}
    assert found["workers"] == []
