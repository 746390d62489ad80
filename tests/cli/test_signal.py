"""A signal from the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command

DESK = """\
from upshot import Agent, ScriptEngine


async def work(run, host, board):
    return await host.wait_signal("paid")


agent = Agent("desk", engine=ScriptEngine(work))
"""


def test_a_signal_is_sent_once_and_a_late_one_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    journal = ("--journal", "runs.db")
    command("run", "desk.py", "Wait.", *journal)
    code, out, _ = command("signal", "last", "paid", '{"euros": 5}', "--key", "k", *journal)
    assert (code, "paid is delivered" in out) == (0, True)
    code, out, _ = command("signal", "last", "paid", '{"euros": 5}', "--key", "k", *journal)
    assert (code, "was delivered before with this key" in out) == (0, True)
    code, out, _ = command("resume", "last", *journal)
    assert (code, "euros" in out) == (0, True)
    code, out, _ = command("signal", "last", "paid", "late", *journal)
    assert (code, "came too late: the run has ended" in out) == (1, True)


def test_a_name_that_cannot_be_one_is_misuse(command: Command, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    command("run", "desk.py", "Wait.", "--journal", "runs.db")
    code, _, err = command("signal", "last", "a#b", "--journal", "runs.db")
    assert (code, "a signal's name is a line of text" in err) == (2, True)
