"""``upshot chat``, line by line, and the list of conversations."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Command, spawn
from tests.processes import start_python

AGENT = """\
import upshot


@upshot.tool(effect="destructive")
def pay(order: int) -> str:
    return "paid"


def reply(messages):
    last = messages[-1]
    if last.role == "tool":
        return f"done: {last.text}"
    if last.text.startswith("pay"):
        return [upshot.ToolCall("p", "pay", {"order": int(last.text.split()[1])})]
    return f"{sum(one.role == 'user' for one in messages)}. {last.text}?"


agent = upshot.Agent("parrot", model=upshot.ScriptedModel([reply] * 9), tools=[pay])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENT)
    return tmp_path


def chat(folder: Path, said: str, *options: str) -> tuple[int, str, str]:
    command = ("chat", "agents.py", "--conversation", "ada", *options)
    process = spawn(*command, folder=folder, stdin=subprocess.PIPE)
    out, err = process.communicate(said.encode())
    return process.returncode, out.decode(), err.decode()


def test_each_line_is_a_turn_and_the_next_chat_goes_on(folder: Path) -> None:
    code, out, err = chat(folder, "Hi\nHow are you\n")
    assert (code, out) == (0, "1. Hi?\n2. How are you?\n")
    assert "conversation ada, 0 turns so far" in err
    code, out, err = chat(folder, "And\n\nNever\n")
    assert (code, out) == (0, "3. And?\n")
    assert "conversation ada, 2 turns so far" in err


def test_what_waits_is_in_the_way_and_told_how_to_answer(folder: Path) -> None:
    code, out, err = chat(folder, "pay 7\nHi\n")
    assert (code, out) == (1, "")
    assert "the turn of conversation 'ada' and waits for answers" in " ".join(err.split())
    assert "continue: upshot approve run-" in err


def test_without_a_name_the_conversation_gets_one(folder: Path) -> None:
    process = spawn("chat", "agents.py", folder=folder, stdin=subprocess.PIPE)
    _, err = process.communicate(b"Hi\n")
    assert b"conversation talk-" in err


def test_a_terminal_is_asked_for_what_waits(folder: Path) -> None:
    main, other = pty.openpty()
    process = start_python(
        *("-m", "upshot", "chat", "agents.py", "--conversation", "ada"),
        cwd=folder,
        stdin=other,
        stdout=other,
        stderr=other,
        env={**os.environ, "COLUMNS": "80"},
    )
    os.close(other)
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        while text not in seen:
            seen += os.read(main, 4096).decode()

    try:
        until("> ")
        os.write(main, b"pay 7\n")
        until("[l]ater")
        os.write(main, b"y\n")
        until("done: ")
        seen = seen.partition("done: ")[2]
        until("> ")
        os.write(main, b"\n")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)


def test_the_list_shows_conversations(command: Command, folder: Path) -> None:
    chat(folder, "Hi\nHow are you\n")
    code, out, _ = command("runs", "--conversations")
    assert code == 0
    heading, row = out.splitlines()
    assert heading.split()[:2] == ["conversation", "turns"]
    assert (row.split()[:2], row.split()[-1]) == (["ada", "2"], "Hi")
    code, out, _ = command("runs", "--conversations", "--json")
    assert [(one["id"], one["revision"]) for one in json.loads(out)] == [("ada", 2)]
    code, _, err = command("runs", "--conversations", "--status", "failed")
    assert (code, "--status filters runs" in err) == (2, True)
