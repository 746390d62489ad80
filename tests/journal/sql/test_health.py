"""A journal tells whether it can be written, who works on its runs, and what is due."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.places import Place
from tests.postgres import PostgresServer, find_postgres, started_server
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


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    with started_server() as server:
        if not server.is_ours:
            pytest.skip("the server is not ours to configure")
        yield server


async def wait_for(server: PostgresServer, names: str) -> None:
    """Let the commits of a server wait for standbys."""
    server.do(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    server.do("SELECT pg_reload_conf()")
    while server.do("SHOW synchronous_standby_names") != [(names,)]:
        await asyncio.sleep(0)


@contextmanager
def receiver(server: PostgresServer, name: str, folder: Path, *options: str) -> Generator[None]:
    """Receive the log of a server for the duration of the block."""
    (folder / name).mkdir()
    where = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "upshot", "-D", str(folder / name))
    process = subprocess.Popen(
        [f"{find_postgres()}/pg_receivewal", *where, *options],
        env={**os.environ, "PGAPPNAME": name},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def connected(server: PostgresServer, name: str, state: str) -> None:
    """Wait for a receiver, and for its part in commits."""
    query = f"SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}'"
    async with asyncio.timeout(20):
        while server.do(query) != [(state,)]:
            await asyncio.sleep(0)


async def health(server: PostgresServer, database: str, user: str = "upshot") -> tuple[bool, str]:
    async with open_journal(server.url(database, user=user)) as opened:
        journal: Any = opened
        try:
            async with asyncio.timeout(5):
                found = await journal.health()
        except TimeoutError:
            # Lets the commit end, for which the journal waits to close.
            await wait_for(server, "")
            raise
    wanted = "" if found.is_writable else "commits wait for a standby that is not connected"
    assert found.why_not == wanted
    return found.is_writable, found.standby


@pytest.mark.slow
@pytest.mark.parametrize("commit", ["on", "local"])
async def test_a_server_that_waits_for_a_standby_that_is_away_answers(
    own_postgres: PostgresServer, tmp_path: Path, commit: str
) -> None:
    database = own_postgres.new_journal()
    # The commits of a journal wait all the same.
    own_postgres.do(f"ALTER SYSTEM SET synchronous_commit = '{commit}'")
    await wait_for(own_postgres, "s1")
    assert await health(own_postgres, database) == (False, "away")
    with receiver(own_postgres, "backup", tmp_path):
        await connected(own_postgres, "backup", "async")
        assert await health(own_postgres, database) == (False, "away")
    await wait_for(own_postgres, "")
    assert await health(own_postgres, database) == (True, "none")


@pytest.mark.slow
async def test_a_server_says_whether_enough_standbys_confirm(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    database = own_postgres.new_journal()
    own_postgres.do("CREATE ROLE plain LOGIN")
    own_postgres.do("GRANT USAGE ON SCHEMA upshot TO plain", database)
    own_postgres.do("GRANT ALL ON ALL TABLES IN SCHEMA upshot TO plain", database)
    own_postgres.do("GRANT ALL ON ALL SEQUENCES IN SCHEMA upshot TO plain", database)
    with receiver(own_postgres, "s1", tmp_path, "--synchronous"):
        for names, state in (("s1", "sync"), ("ANY 1 (s1, s2)", "quorum")):
            await wait_for(own_postgres, names)
            await connected(own_postgres, "s1", state)
            assert await health(own_postgres, database) == (True, "synchronous")
            # This user does not see the state of a standby.
            assert await health(own_postgres, database, "plain") == (True, "synchronous")
        for names in ("2 (s1, s2)", "FIRST 2 (s1, s2)", "any 2(s1, s2)"):
            await wait_for(own_postgres, names)
            assert await health(own_postgres, database) == (False, "away")
            assert await health(own_postgres, database, "plain") == (False, "away")
        await wait_for(own_postgres, "")
