"""A run inside that waits for people, answered from the command line by the run round it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command

AGENT = """\
import upshot
from upshot.engines import Parallel

@upshot.tool(effect="destructive")
def wipe(disk: str) -> str:
    with open("done.txt", "a") as file:
        file.write(disk)
    return f"wiped {disk}"

def wiper(disk):
    calls = [upshot.ToolCall("c1", "wipe", {"disk": disk}), f"Wiped {disk}."]
    return upshot.Agent(f"wiper-{disk}", model=upshot.ScriptedModel(calls), tools=[wipe])

one = upshot.Agent("one", engine=upshot.GraphEngine(upshot.Graph({"w": wiper("a")}, start="w")))

both = Parallel({"a": wiper("a"), "b": wiper("b")})
two = upshot.Agent("two", engine=upshot.GraphEngine(upshot.Graph({"w": both}, start="w")))

async def ask(run, host, board):
    return await host.ask_user("Who is it for?")

async def around(run, host, board):
    child = await run.child(upshot.Agent("asker", engine=upshot.ScriptEngine(ask)), "?", key="q")
    if child.pending:
        raise upshot.Parked(*child.pending)
    return child.output

asking = upshot.Agent("asking", engine=upshot.ScriptEngine(around))
"""


@pytest.fixture(autouse=True)
def files(command: Command) -> None:
    Path("agent.py").write_text(AGENT, "utf-8")
    Path("done.txt").write_text("", "utf-8")


def park(command: Command, name: str) -> None:
    code, _, err = command("run", f"agent.py:{name}", "Go.", "--run-id", "run-1")
    assert code == 3, err
    assert "it waits for an answer: upshot approve run-1" in err


def done() -> list[str]:
    return sorted(Path("done.txt").read_text("utf-8"))


def shown(command: Command) -> Any:
    return json.loads(command("show", "run-1", "--json")[1])


def test_what_a_run_inside_waits_for_is_shown_with_the_run_that_asks(command: Command) -> None:
    park(command, "one")
    (pending,) = shown(command)["pending"]
    code, _, err = command("approve", "run-1")
    assert code == 3
    assert "1. wipe  destructive  c1" in err
    assert f"asked by: {pending['run_id']}" in err


def test_a_yes_to_the_outer_run_lets_the_call_inside_run(command: Command) -> None:
    park(command, "one")
    code, _, err = command("approve", "last", "--approve", "c1")
    assert (code, done()) == (0, ["a"]), err
    assert shown(command)["status"] == "completed"


def test_answers_are_kept_for_the_run_inside(command: Command) -> None:
    park(command, "one")
    assert command("approve", "run-1", "--all", "--no-resume")[0] == 0
    assert done() == []
    assert command("resume", "run-1")[0] == 0
    assert done() == ["a"]


def test_several_runs_inside_are_answered_one_after_the_other(command: Command) -> None:
    park(command, "two")
    first, second = (one["call_id"] for one in shown(command)["pending"])
    assert first.endswith("/c1")
    code, _, err = command("approve", "run-1", "--approve", second)
    assert (code, done()) == (3, ["b"]), err
    assert command("approve", "run-1", "--approve", "1")[0] == 0
    assert done() == ["a", "b"]


def test_all_runs_inside_are_answered_at_once(command: Command) -> None:
    park(command, "two")
    assert command("approve", "run-1", "--all")[0] == 0
    assert done() == ["a", "b"]


def test_a_question_of_a_run_inside_is_answered(command: Command) -> None:
    park(command, "asking")
    code, out, err = command("resume", "run-1", "--answer", "1", "Ann")
    assert (code, out) == (0, "Ann\n"), err


def test_a_run_inside_of_one_that_has_ended_is_shown_as_left_behind(command: Command) -> None:
    Path("agent.py").write_text(AGENT.replace("raise upshot.Parked(*child.pending)", "pass"))
    code, _, err = command("run", "agent.py:asking", "Go.", "--run-id", "run-1")
    assert code == 0, err
    _, listed, _ = command("runs", "--status", "input_required")
    assert "left behind" in listed
    inner = next(word for word in listed.split() if word.startswith("run-"))
    _, shown, _ = command("show", inner)
    assert "started by  run-1, and left behind" in shown
    assert f"upshot approve {inner}" in shown


def test_a_run_inside_goes_on_with_the_outermost_one(command: Command) -> None:
    park(command, "one")
    (pending,) = shown(command)["pending"]
    _, told, _ = command("show", pending["run_id"])
    assert "upshot approve run-1" in told
    assert f"approve {pending['run_id']}" not in told
    command("approve", "run-1", "--all", "--no-resume")
    assert "upshot resume run-1" in command("show", pending["run_id"])[1]
