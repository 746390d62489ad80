"""Who writes to one file takes turns."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.processes import watched
from upshot.journal.sqlite.tables import FileLock

fcntl = pytest.importorskip("fcntl")

HOLDER = """
import sys, fcntl
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_turn_waits_for_that_of_another_process_also_when_it_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    holder = watched(
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        entered = threading.Event()

        def take() -> None:
            with FileLock(path):
                entered.set()

        waiting = threading.Thread(target=take)
        waiting.start()
        assert not entered.wait(0.05)
        holder.kill()
        assert entered.wait(20)
        waiting.join(20)


def test_a_turn_ends_with_the_block(tmp_path: Path) -> None:
    first, second = FileLock(str(tmp_path / "lock")), FileLock(str(tmp_path / "lock"))
    for lock in (first, second, first):
        with lock:
            pass
    assert not any(thread.name == "upshot-journal-turn" for thread in threading.enumerate())
    first.close()
    second.close()


def test_where_no_lock_can_be_made_nobody_waits(tmp_path: Path) -> None:
    with FileLock(str(tmp_path / "missing" / "lock")):
        assert os.listdir(tmp_path) == []
