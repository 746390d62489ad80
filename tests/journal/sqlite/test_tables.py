import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from upshot.errors import JournalError
from upshot.journal.event_codec import FORMAT
from upshot.journal.sqlite.tables import open_database

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
            assert [one.result() for one in opened] == [FORMAT] * OPENERS


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
