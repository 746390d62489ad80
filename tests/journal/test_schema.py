import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upshot.journal.schema import SCHEMA_VERSION, open_database

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
