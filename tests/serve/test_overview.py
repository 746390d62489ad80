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

CALLS = (CallCount(type="tool", name="look", calls=4, failed=1, took=(0, 0, 4)),)


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


async def test_a_user_gets_figures_of_the_own_runs_alone(client: Client) -> None:
    _, found = await client.by("ann").get("/api/overview")
    assert found["now"]["statuses"] == {"failed": 1, "completed": 1}
    assert found["workers"] == []
