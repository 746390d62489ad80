"""Restate drives runs on PostgreSQL, and nodes, services and clients are killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from examples.fleet.nodes import Cluster, Fleet, answered, find_server, free_port
from examples.fleet.service import STEPS, make_app
from tests.postgres import PostgresServer, started_server
from upshot import (
    Agent,
    App,
    RunHandle,
    ScriptedModel,
    Status,
    ToolCall,
    ToolContext,
    ToolSettled,
    tool,
)
from upshot.contract.base.enums import Effect
from upshot.fleet import restate_service

pytestmark = pytest.mark.skipif(find_server() is None, reason="there is no restate-server")

ROOT = Path(__file__).resolve().parents[2]
END_S = 60
ANSWERS = """
import asyncio, os, signal, sys
from examples.fleet.service import make_app

async def main():
    async with make_app(sys.argv[1]) as app:
        for run_id in sys.argv[2:]:
            run = await app.run(run_id)
            (item,) = (await run.result(0)).pending
            await run.answer(item.approve(by="ann"))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with started_server() as started:
        yield started


@asynccontextmanager
async def fleet_of(
    server: PostgresServer, folder: Path, *, size: int = 1, services: int = 2
) -> AsyncGenerator[tuple[Fleet, App]]:
    """A fleet on a new database, and an App of its journal."""
    name = server.new_database()
    journal = server.url(name)
    try:
        async with (
            make_app(journal) as app,
            Fleet(folder, journal, size=size, services=services) as fleet,
        ):
            yield fleet, app
    finally:
        server.drop(name)


async def submit(app: App, count: int, said: str = "Pay all bills.") -> list[RunHandle]:
    return [await app.submit("clerk", said) for _ in range(count)]


async def ended(runs: Iterable[RunHandle], status: Status = Status.COMPLETED) -> None:
    """Wait until all of them have come to *status*."""
    async with asyncio.timeout(END_S):
        for run in runs:
            while (result := await run.result(1)) is None or result.status != status:
                assert result is None or result.status == Status.INPUT_REQUIRED, result
                await asyncio.sleep(0.05)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(END_S):
        while not is_so():
            await asyncio.sleep(0.02)


async def untold(fleet: Fleet, runs: Iterable[RunHandle]) -> list[tuple[str, int]]:
    """The bills that were not paid, and of which the log does not say that it is unknown."""
    paid = {(one.run_id, one.bill) for one in fleet.effects() if one.what == "paid"}
    missing: list[tuple[str, int]] = []
    for run in runs:
        told = {
            event.call_id
            async for event in run.events()
            if isinstance(event, ToolSettled) and event.record.effect == Effect.UNKNOWN
        }
        missing += [
            (run.id, bill)
            for bill in range(STEPS)
            if (run.id, bill) not in paid and f"p{bill}" not in told
        ]
    return missing


async def test_runs_that_are_submitted_are_worked_on_to_their_end(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        runs = await submit(app, 20)
        await ended(runs)
        assert (fleet.twice(), await untold(fleet, runs)) == ([], [])
        assert len({one.pid for one in fleet.effects()}) == 2
        assert await app.due() == []


async def test_the_runs_of_a_killed_service_go_on_in_another(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        runs = await submit(app, 20)
        await until(lambda: len(fleet.effects()) >= 30)
        killed = fleet.services[0]
        fleet.kill_service(killed)
        await ended(runs)
        assert killed.pid in {one.pid for one in fleet.effects()}
        assert (fleet.twice(), await untold(fleet, runs)) == ([], [])


async def test_an_answer_counts_though_whoever_gave_it_is_killed_and_nobody_serves(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        runs = await submit(app, 5, "Pay all bills and close the books.")
        await ended(runs, Status.INPUT_REQUIRED)
        for service in [*fleet.services]:
            fleet.kill_service(service)
        place = [fleet.journal, *(run.id for run in runs)]
        done = subprocess.run(
            [sys.executable, "-c", ANSWERS, *place], cwd=ROOT, timeout=END_S, check=False
        )
        assert done.returncode == -signal.SIGKILL
        fleet.start_service()
        await ended(runs)
        assert fleet.twice() == []
        assert sum(one.what == "closed" for one in fleet.effects()) == 5


async def test_runs_go_on_where_a_node_of_three_is_killed(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path, size=3) as (fleet, app):
        runs = await submit(app, 10)
        await until(lambda: len(fleet.effects()) >= 10)
        fleet.nodes[0].kill()
        runs += await submit(app, 10)
        await ended(runs)
        assert (fleet.twice(), await untold(fleet, runs)) == ([], [])


async def test_what_is_due_waits_in_the_journal_while_no_node_is_there(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        (node,) = fleet.nodes
        node.kill()
        runs = await submit(app, 3)
        fleet.start(node)
        await ended(runs)
        assert (fleet.twice(), await untold(fleet, runs)) == ([], [])


async def test_a_service_that_is_told_to_end_leaves_its_runs_to_another_one(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path, services=1) as (fleet, app):
        runs = await submit(app, 3)
        await until(lambda: len(fleet.effects()) >= 3)
        (service,) = fleet.services
        os.kill(service.pid, signal.SIGTERM)
        # When all is done, uvicorn raises the signal that it was given.
        assert await asyncio.to_thread(service.wait, END_S) == -signal.SIGTERM
        assert {one.reason for one in await app.due()} == {"drain"}
        fleet.start_service()
        await ended(runs)
        assert fleet.twice() == []
        paid = [one.run_id for one in fleet.effects()]
        assert Counter(paid) == dict.fromkeys((run.id for run in runs), STEPS)


async def test_restate_is_told_nothing_of_a_run_but_its_id(
    server: PostgresServer, tmp_path: Path
) -> None:
    @tool
    def look(ctx: ToolContext) -> str:
        """Look it up."""
        return "planted by a tool"

    model = ScriptedModel([[ToolCall("l", "look", {})], "planted by a model"])
    agent: Agent[Any] = Agent("a", model=model, tools=[look], instructions="planted by us")
    name = server.new_database()
    app, cluster = App([agent], journal=server.url(name)), Cluster(tmp_path, size=1)
    seen: list[str] = []

    def recorded(service: Any) -> Any:
        async def serve(scope: Any, receive: Any, send: Any) -> None:
            async def receive_seen() -> Any:
                event = await receive()
                seen.append(str(event))
                return event

            async def send_seen(event: Any) -> None:
                seen.append(str(event))
                await send(event)

            seen.append(str(scope.get("headers")))
            await service(scope, receive_seen, send_seen)

        return serve

    async with cluster:
        port = free_port()
        service = recorded(restate_service(app, ingress=cluster.ingress))
        config = uvicorn.Config(service, port=port, lifespan="on", log_level="warning")
        serving = uvicorn.Server(config)
        task = asyncio.create_task(serving.serve())
        await answered(f"http://127.0.0.1:{port}/health")
        await cluster.register(f"http://127.0.0.1:{port}")
        run = await app.submit("a", "planted by a user")
        await ended([run])
        serving.should_exit = True
        await task
    server.drop(name)
    assert any(run.id in one for one in seen)
    assert not any("planted" in one for one in seen)
