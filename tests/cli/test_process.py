"""The command as a real process: signals, pipes, terminals, and a sudden end."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.cli.conftest import spawn
from tests.processes import run_python, start_python
from upshot.journal import open_journal

AGENT = """\
import asyncio
from pathlib import Path

import upshot


@upshot.tool(effect="read")
def note(word: str) -> str:
    with Path("notes.txt").open("a") as file:
        file.write(word + "\\n")
    return word


@upshot.tool(effect="read", timeout_s=60)
async def wait() -> str:
    for _ in range(600):
        if Path("go.txt").exists():
            return "went"
        await asyncio.sleep(0.05)
    return "never"


agent = upshot.Agent("waiter", tools=[note, wait])
"""
ASKING = """\
import upshot

async def ask(run, host, board):
    return await host.ask_user("Who is it for?")

agent = upshot.Agent("asker", engine=upshot.ScriptEngine(ask))
"""
# A terminal turns Ctrl-C into a signal for the session that it belongs to.
AT_A_TERMINAL = """\
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from upshot.cli import main
sys.exit(main())
"""
SCENARIO = {
    "replies": [
        {"tool_calls": [{"name": "note", "arguments": {"word": "one"}}]},
        {"tool_calls": [{"name": "note", "arguments": {"word": "two"}}, {"name": "wait"}]},
        {"text": "Noted {{ all.note[0] }} and {{ all.note[1] }}."},
    ]
}
RUN = ("run", "agent.py:agent", "Note it.", "--model", "sim:scenario.json", "--run-id", "run-1")
JOURNAL = ("--journal", "runs.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO), "utf-8")
    return tmp_path


def until(process: subprocess.Popen[bytes], said: bytes) -> None:
    """Read the process's progress up to a line with *said*."""
    assert process.stderr is not None
    lines: list[bytes] = []
    for line in process.stderr:
        lines.append(line)
        if said in line:
            return
    pytest.fail(f"it never said {said!r} but {b''.join(lines).decode()}")


def finished(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def started_and_waiting(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """A run whose second `note` is done and whose `wait` goes on."""
    process = spawn(*RUN, *JOURNAL, "--progress", "lines", *more, folder=folder)
    for _ in range(2):
        until(process, b"note")
    return process


async def logged_calls(path: Path, *, at_least: int) -> None:
    """Wait until so many outcomes are on the disk; they get there a moment after they are told."""
    async with open_journal(path) as journal:
        for _ in range(5000):
            events = [event async for event in journal.events("run-1")]
            if sum(isinstance(event, upshot.ToolSettled) for event in events) >= at_least:
                return
            await asyncio.sleep(0.01)
    pytest.fail("the outcomes were never written")


def user_sayings(folder: Path, *arguments: str) -> tuple[int, str, str]:
    return finished(spawn(*arguments, folder=folder))


def test_a_killed_run_is_resumed_and_no_finished_call_is_made_again(folder: Path) -> None:
    process = started_and_waiting(folder)
    asyncio.run(logged_calls(folder / "runs.db", at_least=2))
    process.send_signal(signal.SIGKILL)
    finished(process)
    code, out, _ = user_sayings(folder, "show", "run-1", *JOURNAL)
    assert code == 0
    assert out.splitlines()[0].endswith("  died")
    # From another folder: the tools' relative paths still count from where it was started.
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (folder / "go.txt").touch()
    where = ("--journal", str(folder / "runs.db"))
    assert user_sayings(elsewhere, "resume", "last", *where) == (0, "Noted one and two.\n", "")
    assert (folder / "notes.txt").read_text("utf-8") == "one\ntwo\n"
    _, out, _ = user_sayings(folder, "show", "run-1", *JOURNAL)
    assert out.splitlines()[0] == "run-1  waiter  completed"
    assert "in 2 sessions" in out


def test_ctrl_c_interrupts_and_the_result_is_printed(folder: Path) -> None:
    process = started_and_waiting(folder, "--json")
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    result = upshot.decode(out, upshot.AgentResult)
    assert (code, result.status, result.cause) == (4, "interrupted", "user_cancel")
    assert "\nThe run was interrupted (user_cancel: Ctrl-C).\n" in err
    assert "upshot show run-1 --journal runs.db" in err
    assert "Traceback" not in err


def test_after_ctrl_c_it_is_said_how_to_go_on_and_that_works(folder: Path) -> None:
    process = started_and_waiting(folder)
    process.send_signal(signal.SIGINT)
    finished(process)
    code, _, err = user_sayings(folder, "resume", "run-1", *JOURNAL)
    assert code == 4
    (resume,) = re.findall(r"continue from there: upshot (.*)\n", err)
    assert resume.split()[:2] == ["resume", "run-1"]
    assert user_sayings(folder, *resume.split())[:2] == (0, "Noted one and two.\n")
    # What was done before the stop is not done again.
    assert (folder / "notes.txt").read_text("utf-8") == "one\ntwo\n"


def test_ctrl_c_twice_cancels_at_once(folder: Path) -> None:
    silent = {**SCENARIO, "faults": [{"kind": "hang", "at": 0}]}
    (folder / "scenario.json").write_text(json.dumps(silent), "utf-8")
    process = spawn(*RUN, *JOURNAL, "--progress", "lines", "--json", folder=folder)
    until(process, b"run-1")
    process.send_signal(signal.SIGINT)
    until(process, b"Ctrl-C again stops at once")
    process.send_signal(signal.SIGINT)
    code, out, _ = finished(process)
    assert (code, json.loads(out)["status"]) == (5, "canceled")


def test_a_reader_who_leaves_is_no_error(folder: Path) -> None:
    (folder / "go.txt").touch()
    assert user_sayings(folder, *RUN, *JOURNAL)[0] == 0
    with spawn("show", "run-1", *JOURNAL, folder=folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_an_output_that_cannot_be_written_is_told_in_one_sentence(folder: Path) -> None:
    (folder / "go.txt").touch()
    assert user_sayings(folder, *RUN, *JOURNAL)[0] == 0
    with open("/dev/full", "wb") as full:
        done = run_python("-m", "upshot", "show", "run-1", *JOURNAL, cwd=folder, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"upshot: the output cannot be written: No space left on device\n"


def on_a_terminal(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run the command on a terminal of 80 columns; gives all that it wrote."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40", **environment}
    streams: Any = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = start_python("-m", "upshot", *arguments, cwd=folder, env=env, **streams)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    return process.wait(60), said.decode()


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_a_picture_and_colours_unless_they_are_unwanted(
    environment: dict[str, Any], coloured: bool, folder: Path
) -> None:
    (folder / "go.txt").touch()
    code, said = on_a_terminal(folder, *RUN, *JOURNAL, **environment)
    assert code == 0
    assert "\x1b[1A" in said, "nothing moved"
    assert bool(re.search(r"\x1b\[\d*;?3\dm", said)) == coloured
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    assert "Noted one and two." in plain
    assert max(map(len, re.split(r"[\r\n]+", plain))) <= 80


def test_streamed_text_and_progress_stand_on_lines_of_their_own(folder: Path) -> None:
    (folder / "go.txt").touch()
    code, said = on_a_terminal(folder, *RUN, *JOURNAL, "--stream", NO_COLOR="1")
    assert code == 0
    lines = said.replace("\r\n", "\n").split("\n")
    at = lines.index("Noted one and two.")
    assert lines[at + 1].split()[:3] == ["✓", "model", "3"]
    assert lines[at + 2] == ""
    assert lines[at + 3].startswith("completed")


def test_the_simulator_is_served_until_it_is_told_to_stop(folder: Path) -> None:
    process = spawn("sim", "--scenario", "scenario.json", "--json", folder=folder)
    assert process.stdout is not None
    url = json.loads(process.stdout.readline())["base_url"]
    (folder / "go.txt").touch()
    asked = ("run", "agent.py", "hi", "--model", "openai:any", "--base-url", url)
    code, out, _ = user_sayings(folder, *asked, "--journal", "memory:", "--json")
    assert (code, json.loads(out)["content"]) == (0, "Noted one and two.")
    process.send_signal(signal.SIGINT)
    assert finished(process) == (0, "", "")


def test_ctrl_c_at_a_prompt_leaves_and_nothing_is_answered(folder: Path) -> None:
    (folder / "ask.py").write_text(ASKING, "utf-8")
    asked = ("run", "ask.py", "Hi.", "--run-id", "run-1", *JOURNAL)
    assert user_sayings(folder, *asked)[0] == 3
    ours, theirs = pty.openpty()
    process = start_python(
        *("-c", AT_A_TERMINAL, "approve", "run-1", *JOURNAL),
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    while b"(empty: later)" not in said:
        said += os.read(ours, 65536)
    for _ in range(5):
        os.write(ours, b"\x03")
        # A key pressed at the very moment at which a prompt begins to wait is lost; one pressed
        # while the process ends would break that off.
        with suppress(subprocess.TimeoutExpired):
            process.wait(8)
            break
    assert process.poll() == 4
    os.close(ours)
    assert b"Traceback" not in said
    _, out, _ = user_sayings(folder, "show", "run-1", *JOURNAL, "--json")
    assert json.loads(out)["status"] == "input_required"


@pytest.mark.slow("<&-", "2>&-")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_crash(closed: str, folder: Path) -> None:
    command = f'exec "$0" -m upshot run agent.py - --model scripted:[] {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        cwd=folder,
        input=b"Hi.",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == (2 if closed == "<&-" else 1)
    assert b"Traceback" not in done.stderr
    if closed == "<&-":
        assert b"stdin, which is closed" in done.stderr
