"""A journal tells whether it can be written, who works on its runs, and what is due."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.places import Place
from tests.postgres import PostgresServer, started_server
from upshot import Request, open_journal
from upshot.contract import RunStarted
from upshot.journal.postgres.tables import STEPS
from upshot.journal.shared import Submission


async def test_what_is_held_and_due_is_counted(place: Place) -> None:
    journal: Any = await place.open()
    empty = await journal.health()
    assert empty.is_writable and empty.place == journal.path
    assert (empty.processes, empty.held, empty.died, empty.due) == (0, 0, 0, 0)
    assert abs(empty.clock_ahead_s) < 60
    assert (empty.disk_free_bytes is None) == bool(empty.standby)
    for run_id in "rs":
        epoch = await journal.claim(run_id)
        journal.append(RunStarted(run_id=run_id, seq=1), epoch=epoch)
    await journal.submit(Submission(run_id="q", agent_id="a", request=Request("Go.")))
    found = await journal.health()
    assert (found.processes, found.held, found.died, found.due) == (1, 2, 0, 1)
    assert 0 <= found.oldest_due_s < 60
    await journal.aclose()


async def test_a_server_tells_its_tables_and_its_standby(
    postgres: PostgresServer, database: str
) -> None:
    async with open_journal(postgres.url(database)) as opened:
        journal: Any = opened
        found = await journal.health()
        assert (found.schema, found.standby) == (len(STEPS), "none")
    postgres.do(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    async with open_journal(postgres.url(database)) as opened:
        journal: Any = opened
        found = await journal.health()
        assert not found.is_writable and "read-only" in found.why_not


async def test_a_file_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    from upshot.journal import SqliteJournal
    from upshot.journal.sqlite.tables import VERSION

    await (await SqliteJournal.open(tmp_path / "runs.db")).aclose()
    journal = await SqliteJournal.open(tmp_path / "runs.db", read_only=True)
    found = await journal.health()
    assert (found.is_writable, found.standby, found.schema) == (False, "", VERSION)
    await journal.aclose()


@pytest.mark.slow
async def test_a_server_that_waits_for_a_standby_that_is_away_answers() -> None:
    with started_server() as own_postgres:
        if not own_postgres.is_ours:
            pytest.skip("the server is not ours to configure")
        await _without_a_standby(own_postgres)


async def _without_a_standby(own_postgres: PostgresServer) -> None:
    async with open_journal(own_postgres.url(own_postgres.new_database())) as opened:
        journal: Any = opened
        own_postgres.do("ALTER SYSTEM SET synchronous_standby_names = '*'")
        own_postgres.do("SELECT pg_reload_conf()")
        while own_postgres.do("SHOW synchronous_standby_names") != [("*",)]:
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            found = await journal.health()
        assert (found.is_writable, found.standby) == (False, "away")
        assert found.why_not == "commits wait for a standby, and none is connected"
        own_postgres.do("ALTER SYSTEM RESET synchronous_standby_names")
        own_postgres.do("SELECT pg_reload_conf()")
