import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from upshot import Agent, Request, ScriptedModel, run_sync
from upshot.errors import JournalError
from upshot.journal.event_codec import FORMAT
from upshot.journal.sqlite.tables import USER_VERSION, begin_writing, open_database

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
            assert [one.result() for one in opened] == [USER_VERSION] * OPENERS


def test_what_a_barrier_waits_for_is_forced_to_the_disk(tmp_path: Path):
    with contextlib.closing(open_database(str(tmp_path / "runs.db"))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        # FULL: each commit waits for the disk.
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize("version", [0, 1, FORMAT + 1])
def test_a_file_of_another_format_is_refused_and_stays_as_it_was(tmp_path: Path, version: int):
    path = tmp_path / "runs.db"
    open_database(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(JournalError, match=f"is of format {version}, .* reads format {FORMAT}"):
        open_database(str(path))
    assert path.read_bytes() == before


def _damage(path: Path, index: str, *, empty: bool) -> None:
    """Hide an entry of an index, or all of them; the index is one page."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (page,) = connection.execute(found, (index,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    start = (page - 1) * size
    if empty:
        # How many cells the page has; see "B-tree Pages" of SQLite's file format.
        data[start + 3 : start + 5] = bytes(2)
    else:
        place = data.index(b"run-3", start, start + size)
        data[place + 4] ^= 8
    path.write_bytes(data)


@pytest.mark.parametrize("empty", [False, True])
def test_a_run_that_a_damaged_index_hides_is_not_begun_again(tmp_path: Path, empty: bool):
    path = tmp_path / "runs.db"
    agent = Agent("a", model=ScriptedModel(["Done."] * 9))
    for number in range(5):
        run_sync(agent, Request("?", run_id=f"run-{number}"), journal=path)
    _damage(path, "sqlite_autoindex_runs_1", empty=empty)
    with pytest.raises(JournalError, match="index of runs is damaged: run run-3 exists"):
        run_sync(agent, Request("?", run_id="run-3"), journal=path)
    assert run_sync(agent, Request("?", run_id="other"), journal=path).content == "Done."
    with contextlib.closing(sqlite3.connect(path)) as connection:
        ids = connection.execute("SELECT run_id FROM runs NOT INDEXED ORDER BY run_no").fetchall()
    assert [*sum(ids, ())] == ["run-0", "run-1", "run-2", "run-3", "run-4", "other"]


def test_a_file_that_another_process_keeps_locked_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_database(str(path)).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    connection = open_database(str(path))
    connection.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(JournalError, match=r"another process has kept it locked.*suspended"):
        begin_writing(connection, str(path))
    holder.execute("ROLLBACK")
    begin_writing(connection, str(path))
    connection.close()
    holder.close()
