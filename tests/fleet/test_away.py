"""A worker whose database is away, or has newer tables."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.test_worker import Office, Steps, at_work
from tests.postgres import NAMED, PostgresServer
from tests.processes import start_python
from upshot import Agent, App, JournalError, Misuse, ScriptedModel
from upshot.fleet.worker import Worker
from upshot.journal.postgres.tables import STEPS
from upshot.journal.postgres.urls import split_url
from upshot.journal.shared import JournalAway

PROGRAM = """
from upshot import Agent, App, ScriptedModel
app = App([Agent("a", model=ScriptedModel(["Done."]))], journal="WHERE", version="1")
"""


@pytest.fixture
def ours(postgres: PostgresServer) -> PostgresServer:
    if not postgres.is_ours:
        pytest.skip(f"the server that {NAMED} names is not stopped")
    return postgres


def begin(folder: Path, where: str) -> subprocess.Popen[str]:
    (folder / "app.py").write_text(PROGRAM.replace("WHERE", where))
    given = ["-m", "upshot", "work", folder / "app.py", "--grace", "0"]
    return start_python(*given, stderr=subprocess.PIPE, text=True)


async def test_a_worker_that_is_begun_before_its_server_waits_and_says_so_once(
    ours: PostgresServer, database: str, tmp_path: Path
) -> None:
    where = ours.url(database)
    app = App([Agent("a", model=Steps())], journal=where, version="1")
    async with app, asyncio.timeout(60):
        run = await app.submit("a", "?")
    ours.stop(signal.SIGINT)
    with begin(tmp_path, where) as process:
        try:
            assert process.stderr is not None
            lines = [await asyncio.to_thread(process.stderr.readline) for _ in range(2)]
            assert process.poll() is None
            ours.start()
            async with app, asyncio.timeout(30):
                result = await (await app.run(run.id)).result()
            process.send_signal(signal.SIGTERM)
            rest = await asyncio.to_thread(process.stderr.read)
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert result is not None and result.content == "Done."
    said = "".join([*lines, rest])
    assert said.count("waits for it") == 1
    assert "cannot be opened" in said and "Traceback" not in said


async def test_a_worker_whose_server_is_away_for_long_goes_on_with_its_runs(
    ours: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    office = Office()
    where = f"{ours.url(database)}?patience=0.05"
    async with App([office.agent], journal=where) as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
    async with asyncio.timeout(60), at_work(App([office.agent], journal=where), grace_s=0):
        await office.begun.wait()
        ours.stop()
        while "waits for it" not in caplog.text:
            await asyncio.sleep(0.01)
        office.may_end.set()
        ours.start()
        async with App([office.agent], journal=where) as app:
            result = await (await app.run(run.id)).result()
    assert result is not None and result.output == "Done."
    # What it did is known, or told as unknown; it is not done again.
    effect = result.tool_outcomes[0].effect
    assert (len(office.done), effect) in [(0, "unknown"), (1, "unknown"), (1, "applied")]
    assert caplog.text.count("waits for it") == 1


async def test_an_app_that_only_submits_writes_again_after_its_server_was_away_for_long(
    ours: PostgresServer, database: str
) -> None:
    where = f"{ours.url(database)}?patience=0.05"
    async with (
        App([Agent("a", model=ScriptedModel([]))], journal=where) as app,
        asyncio.timeout(60),
    ):
        before = await app.submit("a", "?")
        ours.stop()
        for _ in range(2):
            with pytest.raises(JournalAway):
                await app.submit("a", "While it is away.")
        ours.start()
        after = await app.submit("a", "!")
        assert {one.run_id for one in await app.due()} == {before.id, after.id}


@pytest.mark.parametrize("place", ["nowhere", "role"])
async def test_a_place_that_is_wrong_ends_a_worker_at_once(
    ours: PostgresServer, database: str, place: str
) -> None:
    where = ours.url("nowhere") if place == "nowhere" else ours.url(database, user="nobody-here")
    with pytest.raises(JournalError, match=r"cannot be opened: .* does not exist; "):
        await Worker(App([Agent("a", model=Steps())], journal=where)).work()


async def test_a_worker_stops_once_the_tables_are_newer_and_leaves_its_runs_to_others(
    postgres: PostgresServer, database: str
) -> None:
    office, where = Office(), postgres.url(database)
    async with App([office.agent], journal=where) as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        working = App([office.agent], journal=where)
        task = asyncio.create_task(Worker(working, grace_s=0).work())
        await office.begun.wait()
        postgres.do(f"UPDATE journal SET version = {len(STEPS) + 1}", database)
        # It is seen when the lease is renewed, which is every 3 s.
        journal: Any = await working.open()
        await journal.write(journal.lease.renew)
        with pytest.raises(JournalError, match=r"this upshot knows version .*: use a newer upshot"):
            await task
        await working.aclose()
        assert [(one.run_id, one.reason) for one in await app.due()] == [(run.id, "drain")]


@pytest.mark.parametrize("said", ["long", "-1", "nan", ""])
def test_a_patience_that_is_none_is_misuse(said: str) -> None:
    with pytest.raises(Misuse, match=f"patience={said} of a journal's URL: give seconds"):
        split_url(f"postgresql:///desk?patience={said}")
