"""``--dependencies FILE.py:NAME``: a value, or a function that makes it, for the tools of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command, spawn
from upshot import Request, run_sync
from upshot.cli.loading import Target, load_agent

DESK = """\
import upshot

RATE = {"rate": 3}


class Db:
    rate = 2


def open_db(info):
    print("opened for", info.agent_id)
    return Db()


def broken(info):
    raise OSError("no disk")


@upshot.tool(effect="destructive")
def pay(ctx: upshot.ToolContext, cents: int) -> str:
    rate = ctx.dependencies
    assert isinstance(rate, (dict, Db))
    return str(cents * (rate["rate"] if isinstance(rate, dict) else rate.rate))


call = upshot.ToolCall("c", "pay", {"cents": 2})
model = upshot.ScriptedModel([call, lambda messages: messages[-1].text])
desk = upshot.Agent("desk", model=model, tools=[pay])
own = desk.but(dependencies=open_db)
"""


@pytest.fixture(autouse=True)
def desk(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("desk.py").write_text(DESK, "utf-8")


@pytest.mark.parametrize(
    ("agent", "given", "paid"),
    [
        ("desk", ["--dependencies", "desk.py:RATE"], "6"),
        ("desk", ["--dependencies", "desk.py:open_db"], "4"),
        ("own", [], "4"),
        ("own", ["--dependencies", "desk.py:RATE"], "6"),
    ],
    ids=["value", "factory", "of the agent", "option over agent"],
)
def test_a_run_and_what_goes_on_with_it_have_them(
    command: Command, agent: str, given: list[str], paid: str
) -> None:
    assert command("run", f"desk.py:{agent}", "?", "--run-id", "r", *given)[0] == 3
    # The log has how the command line named them.
    code, out, err = command("approve", "r", "--all")
    assert (code, out) == (0, f"{paid}\n"), err


def test_a_run_that_was_started_in_python_gets_them_by_the_option(command: Command) -> None:
    Path(".upshot").mkdir()
    begun = run_sync(
        load_agent(Target("desk.py:desk")),
        Request("?", run_id="r"),
        journal=".upshot/runs.db",
        dependencies={"rate": 1},
    )
    assert begun.status == "input_required"
    code, _, err = command("approve", "r", "desk.py:desk", "--all")
    assert (code, "or --dependencies FILE.py:NAME" in err) == (2, True)
    given = ("desk.py:desk", "--dependencies", "desk.py:open_db")
    code, _, err = command("approve", "r", *given, "--all")
    assert (code, err.count("\n")) == (2, 1), err
    given = ("desk.py:desk", "--dependencies", "desk.py:RATE")
    code, out, err = command("approve", "r", *given, "--all", "--json")
    assert (code, json.loads(out).get("warnings")) == (0, None), err


def test_chat_gives_them_to_each_turn(tmp_path: Path) -> None:
    given = ("--dependencies", "desk.py:broken")
    process = spawn("chat", "desk.py:desk", *given, folder=tmp_path, stdin=subprocess.PIPE)
    _, err = process.communicate(b"Hi\n")
    assert (process.returncode, b"no disk" in err) == (1, True)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("desk.py", "desk.py names no value: give FILE.py:NAME, such as desk.py:open_db"),
        ("desk.py:opn_db", "desk.py has no value 'opn_db'"),
        ("dsk.py:open_db", "there is no file dsk.py: did you mean 'desk.py'?"),
    ],
)
def test_what_is_not_there_is_told_in_one_sentence(command: Command, named: str, said: str) -> None:
    code, out, err = command("run", "desk.py:desk", "?", "--dependencies", named)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
