"""DBOS drives runs on PostgreSQL, and services and the database are killed meanwhile."""

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

import psycopg
import pytest

from examples.fleet.nodes import Effect as Done
from examples.fleet.service import STEPS, make_app
from tests.postgres import PostgresServer, started_server
from upshot import App, RunHandle, Status, ToolSettled
from upshot.contract.base.enums import Effect

ROOT = Path(__file__).resolve().parents[2]
END_S = 90
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


class Fleet:
    """Services in which DBOS works on the runs of a journal.

    Args:
        folder: Where they write what they have done.
        journal: The database of the runs; that of DBOS is the same.
    """

    def __init__(self, folder: Path, journal: str) -> None:
        self.journal = journal
        self.services: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._done = folder / "done"

    def start_service(self) -> None:
        """Start one service more, and wait until it works."""
        with open(self._folder / "services", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.dbos_real.service", self.journal, self.journal],
                cwd=ROOT,
                env={**os.environ, "FLEET_DONE": str(self._done)},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.services.append(process)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline(), (self._folder / "services").read_text()

    def kill_service(self, service: subprocess.Popen[bytes]) -> None:
        """End a service at once."""
        self.services.remove(service)
        service.kill()
        service.wait()

    def effects(self) -> list[Done]:
        """All that was done so far."""
        if not self._done.exists():
            return []
        rows = (line.split() for line in self._done.read_text().splitlines())
        return [
            Done(what, run_id, int(bill), int(pid), float(at))
            for what, run_id, bill, pid, at in rows
        ]

    def twice(self) -> list[tuple[str, str, int]]:
        """What was done more than once."""
        counts = Counter((one.what, one.run_id, one.bill) for one in self.effects())
        return [done for done, count in counts.items() if count > 1]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with started_server() as started:
        yield started


@asynccontextmanager
async def fleet_of(
    server: PostgresServer, folder: Path, *, services: int = 2
) -> AsyncGenerator[tuple[Fleet, App]]:
    """A fleet on a new database, and an App of its journal."""
    name = server.new_database()
    fleet = Fleet(folder, server.url(name))
    try:
        async with make_app(fleet.journal) as app:
            for _ in range(services):
                fleet.start_service()
            yield fleet, app
    finally:
        for service in [*fleet.services]:
            fleet.kill_service(service)
        server.drop(name)


async def submit(app: App, count: int, text: str = "Pay all bills.") -> list[RunHandle]:
    return [await app.submit("clerk", text) for _ in range(count)]


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


async def test_submitted_runs_are_worked_on_to_their_end(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        runs = await submit(app, 20)
        await ended(runs)
        assert (fleet.twice(), await untold(fleet, runs)) == ([], [])
        assert len({one.pid for one in fleet.effects()}) == 2
        assert await app.due() == []


async def test_the_runs_of_a_killed_service_continue_in_another(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        for _ in range(3):
            before = len(fleet.effects())
            runs = await submit(app, 10)
            await until(lambda: len(fleet.effects()) >= before + 15)  # noqa: B023  # awaited here
            killed = fleet.services[0]
            fleet.kill_service(killed)
            fleet.start_service()
            await ended(runs)
            assert killed.pid in {one.pid for one in fleet.effects()}
            assert (fleet.twice(), await untold(fleet, runs)) == ([], [])


async def test_runs_continue_after_the_database_has_crashed(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        for _ in range(3):
            before = len(fleet.effects())
            runs = await submit(app, 10)
            await until(lambda: len(fleet.effects()) >= before + 15)  # noqa: B023  # awaited here
            server.stop()
            server.start()
            await ended(runs)
            assert (fleet.twice(), await untold(fleet, runs)) == ([], [])


async def test_an_answer_counts_if_its_sender_is_killed_and_no_service_runs(
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


async def test_a_service_that_ends_leaves_its_runs_to_another(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path, services=1) as (fleet, app):
        runs = await submit(app, 3)
        await until(lambda: len(fleet.effects()) >= 3)
        (service,) = fleet.services
        os.kill(service.pid, signal.SIGTERM)
        assert await asyncio.to_thread(service.wait, END_S) == 0
        assert {one.reason for one in await app.due()} == {"drain"}
        fleet.start_service()
        await ended(runs)
        assert fleet.twice() == []
        paid = [one.run_id for one in fleet.effects()]
        assert Counter(paid) == dict.fromkeys((run.id for run in runs), STEPS)


async def test_the_tables_of_dbos_have_nothing_of_a_run_but_its_id(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with fleet_of(server, tmp_path) as (fleet, app):
        (run,) = await submit(app, 1, "planted by a user")
        await ended([run])
        with psycopg.connect(fleet.journal) as database:
            tables = database.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'dbos'"
            ).fetchall()
            rows = "".join(
                str(database.execute(f'SELECT * FROM dbos."{table}"').fetchall())
                for (table,) in tables
            )
        assert run.id in rows
        assert "planted" not in rows and "bill" not in rows
