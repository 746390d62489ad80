"""Ctrl-C while a payment is made: what a real process says, in a pipe and on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import spawn
from tests.processes import start_python

AGENT = """\
import asyncio
from pathlib import Path

import upshot


async def go():
    Path("begun.txt").touch()
    while not Path("go.txt").exists():
        await asyncio.sleep(0.02)


@upshot.tool(effect="write")
async def refund(order: int) -> str:
    await go()
    return "paid"


@upshot.tool(effect="read")
async def look(order: int) -> str:
    await go()
    return "open"


agent = upshot.Agent("desk", tools=[refund, look])
"""
JOURNAL = ("--journal", "runs.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    for name in ("refund", "look"):
        replies = [{"name": name, "arguments": {"order": 7}}, "Done."]
        (tmp_path / f"{name}.json").write_text(json.dumps(replies), "utf-8")
    return tmp_path


def run_of(tool: str, *more: str) -> tuple[str, ...]:
    model = ("--model", f"scripted:{tool}.json")
    return ("run", "agent.py", "Refund it.", *model, "--run-id", "run-1", *JOURNAL, *more)


def in_a_pipe(folder: Path, tool: str, *more: str) -> subprocess.Popen[bytes]:
    """A run in whose call the process is now."""
    process = spawn(*run_of(tool, "--progress", "lines", *more), folder=folder)
    read_to(process, b"run-1")
    wait_for_the_call(process, folder)
    return process


def wait_for_the_call(process: subprocess.Popen[bytes], folder: Path) -> None:
    while not (folder / "begun.txt").exists():
        assert process.poll() is None
        time.sleep(0.02)


def read_to(process: subprocess.Popen[bytes], said: bytes) -> str:
    """What stands on stderr up to a line with *said*."""
    assert process.stderr is not None
    lines: list[bytes] = []
    for line in process.stderr:
        lines.append(line)
        if said in line:
            return b"".join(lines).decode()
    pytest.fail(f"it never said {said!r} but {b''.join(lines).decode()}")


def finished(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


def test_a_write_in_hand_is_named_and_comes_to_its_end(folder: Path) -> None:
    process = in_a_pipe(folder, "refund")
    process.send_signal(signal.SIGINT)
    said = read_to(process, b"stopping")
    assert "stopping: refund(order 7) has 10 s to finish; Ctrl-C again stops at once" in said
    # The short grace is over.
    read_to(process, b"stopping: refund(order 7) has 5 s to finish")
    (folder / "go.txt").touch()
    code, err = finished(process)
    assert code == 4
    assert "may have happened" not in err
    shown = spawn("show", "run-1", *JOURNAL, "--json", folder=folder).communicate(timeout=60)[0]
    assert json.loads(shown)["tool_outcomes"][0]["effect"] == "applied"


def test_the_grace_is_an_option_and_its_end_leaves_the_effect_unknown(folder: Path) -> None:
    process = in_a_pipe(folder, "refund", "--write-grace", "3")
    process.send_signal(signal.SIGTERM)
    assert "refund(order 7) has 3 s to finish" in read_to(process, b"stopping")
    code, err = finished(process)
    assert code == 4
    assert "stopping: refund(order 7) has 1 s to finish" in err
    told = [line for line in err.splitlines() if line and not line.startswith((" ", "stopping"))]
    assert told[0] == "refund(order 7) may have happened: it was stopped while it ran"
    assert any(line.startswith("continue from there: ") for line in told[1:])


def test_a_second_ctrl_c_stops_at_once_and_says_what_is_unknown(folder: Path) -> None:
    process = in_a_pipe(folder, "refund", "--write-grace", "600")
    process.send_signal(signal.SIGINT)
    read_to(process, b"stopping: refund(order 7) has 600 s to finish")
    process.send_signal(signal.SIGINT)
    code, err = finished(process)
    assert code == 5
    assert "refund(order 7) may have happened: it was stopped while it ran" in err


def test_a_read_needs_no_grace_of_its_own(folder: Path) -> None:
    process = in_a_pipe(folder, "look", "--write-grace", "600")
    process.send_signal(signal.SIGINT)
    assert "stopping: 2 s for what is under way" in read_to(process, b"stopping")
    code, err = finished(process)
    assert code == 4
    assert "may have happened" not in err


def on_a_terminal(
    folder: Path, columns: int, *arguments: str
) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment: dict[str, Any] = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment |= {"COLUMNS": str(columns), "LINES": "40"}
    streams: Any = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = start_python("-m", "upshot", *arguments, cwd=folder, env=environment, **streams)
    os.close(theirs)
    return process, ours


def plain(said: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode(errors="replace"))


def read_screen(ours: int, until: str = "") -> str:
    """What a terminal was sent, up to a text or to the end."""
    said = b""
    while not until or until not in plain(said):
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    text = plain(said)
    assert until in text
    return text


@pytest.mark.parametrize("columns", [80, 40])
def test_a_terminal_counts_down_and_then_names_what_is_unknown(folder: Path, columns: int) -> None:
    process, ours = on_a_terminal(folder, columns, *run_of("refund", "--write-grace", "3"))
    wait_for_the_call(process, folder)
    process.send_signal(signal.SIGINT)
    said = read_screen(ours, "stopping: refund(order 7) has 2 s")
    assert "3 s" in said
    said += read_screen(ours)
    os.close(ours)
    assert process.wait(60) == 4
    flat = " ".join(said.split())
    assert "refund(order 7) may have happened: it was stopped while it ran" in flat
    assert flat.index("may have happened") < flat.index("continue from there")
    assert "Traceback" not in said


def test_a_call_of_a_process_that_was_killed_is_named(folder: Path) -> None:
    process = in_a_pipe(folder, "refund")
    process.send_signal(signal.SIGKILL)
    finished(process)
    out, _ = spawn("show", "run-1", *JOURNAL, folder=folder).communicate(timeout=60)
    line = "unknown     refund(order 7) may have happened: the process ended while it ran"
    assert out.decode().splitlines()[1] == line
    out, _ = spawn("runs", *JOURNAL, folder=folder).communicate(timeout=60)
    assert b"died !" in out
