"""The command line and runs that another process works on."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.cli import test_process
from tests.cli.test_process import (
    JOURNAL,
    finished,
    logged_calls,
    started_and_waiting,
    user_sayings,
)
from upshot.cli.report import status_words
from upshot.journal import LeaseHolder
from upshot.journal.lease_holder import this_process

folder = test_process.folder


def test_a_run_in_another_living_process_is_shown_and_left_to_it(folder: Path) -> None:
    process = started_and_waiting(folder)
    _, listed, _ = user_sayings(folder, "runs", *JOURNAL)
    assert f"running (process {process.pid})" in listed
    _, shown, _ = user_sayings(folder, "show", "last", *JOURNAL)
    assert shown.splitlines()[0].endswith(f"running (process {process.pid})")
    code, out, err = user_sayings(folder, "resume", "last", *JOURNAL)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"is being worked on by process {process.pid} on this machine" in err
    assert "--take-over" in err
    code, _, err = user_sayings(folder, "approve", "last", "--all", *JOURNAL)
    assert (code, err) == (
        2,
        f"upshot: run run-1 waits for no answer: it is running (process {process.pid})\n",
    )
    (folder / "go.txt").touch()
    code, out, _ = finished(process)
    assert (code, out) == (0, "Noted one and two.\n")
    assert user_sayings(folder, "show", "last", *JOURNAL)[1].splitlines()[0].endswith("  completed")


def test_a_run_is_taken_over_where_that_is_asked_for(folder: Path) -> None:
    process = started_and_waiting(folder)
    # What is stopped while it writes keeps the file locked.
    asyncio.run(logged_calls(folder / "runs.db", at_least=2))
    process.send_signal(signal.SIGSTOP)
    (folder / "go.txt").touch()
    code, out, _ = user_sayings(folder, "resume", "last", "--take-over", *JOURNAL)
    assert (code, out) == (0, "Noted one and two.\n")
    process.send_signal(signal.SIGCONT)
    code, _, err = finished(process)
    assert code == 1
    assert "no longer held with epoch 1" in err


@pytest.mark.parametrize("command", ["runs", "show", "resume", "approve", "stop", "fork", "replay"])
def test_an_empty_file_is_no_journal_and_stays_empty(tmp_path: Path, command: str) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    more = {"runs": [], "fork": ["last", "--at", "1"]}.get(command, ["last"])
    code, out, err = user_sayings(tmp_path, command, *more, "--journal", "empty.txt")
    assert (code, out) == (2, "")
    assert "empty.txt is not a journal: it is empty" in err
    assert empty.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [empty]


def test_a_status_says_no_more_than_is_known() -> None:
    here = this_process()
    assert status_words("running", here) == f"running (process {here.pid})"
    assert status_words("running", LeaseHolder(pid=0)) == "died"
    assert status_words("running", LeaseHolder(pid=here.pid, boot="another")) == "running or died"
    assert status_words("running") == "running or died"
    assert status_words("completed", here) == "completed"
