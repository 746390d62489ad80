import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upshot.contract import RunStarted
from upshot.journal import SqliteJournal
from upshot.journal.sqlite.tables import SCHEMA_VERSION, open_database

OPENERS = 4


def test_a_file_that_others_make_a_journal_meanwhile_is_one(tmp_path: Path):
    def open_at_once(path: Path, barrier: threading.Barrier) -> int:
        barrier.wait()
        connection = open_database(str(path))
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.close()
        return version

    with ThreadPoolExecutor(OPENERS) as pool:
        for number in range(20):
            barrier = threading.Barrier(OPENERS, timeout=60)
            path = tmp_path / f"{number}.db"
            opened = [pool.submit(open_at_once, path, barrier) for _ in range(OPENERS)]
            assert [one.result() for one in opened] == [SCHEMA_VERSION] * OPENERS


def test_what_a_barrier_waits_for_is_forced_to_the_disk(tmp_path: Path):
    with contextlib.closing(open_database(str(tmp_path / "runs.db"))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        # FULL: each commit waits for the disk.
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_journal_from_before_processes_were_noted_is_used_as_any_other(tmp_path: Path):
    path = tmp_path / "runs.db"
    journal = await SqliteJournal.open(path)
    first = await journal.claim("r1")
    await journal.aclose()
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN holder")
    connection.close()
    journal = await SqliteJournal.open(path)
    assert await journal.holders() == {}
    assert await journal.claim_free("r1") == first + 1
    assert (await journal.holders())["r1"].is_this_process
    await journal.aclose()


async def test_who_started_a_run_is_known_of_a_journal_from_before_that_was_noted(tmp_path: Path):
    path = tmp_path / "runs.db"
    journal = await SqliteJournal.open(path)
    journal.append(RunStarted(run_id="out", seq=1))
    journal.append(RunStarted(run_id="in", seq=1, parent_run_id="out"))
    await journal.aclose()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN parent_run_id")
    journal = await SqliteJournal.open(path)
    journal.append(RunStarted(run_id="new", seq=1, parent_run_id="in"))
    told = {run.run_id: run.parent_run_id for run in await journal.runs()}
    assert told == {"out": "", "in": "out", "new": "in"}
    await journal.aclose()


async def test_a_beginning_that_cannot_be_read_keeps_no_run_from_the_list(tmp_path: Path):
    path = tmp_path / "runs.db"
    journal = await SqliteJournal.open(path)
    journal.append(RunStarted(run_id="r", seq=1, parent_run_id="out"))
    await journal.aclose()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET parent_run_id = NULL")
        connection.execute("UPDATE events SET body = x'ff00'")
    journal = await SqliteJournal.open(path)
    assert [(run.run_id, run.parent_run_id) for run in await journal.runs()] == [("r", "")]
    await journal.aclose()
