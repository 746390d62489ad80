"""A question of a run, answered from the command line in another session."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import upshot.cli.approve as approving
from tests.cli.conftest import Command

AGENT = """\
import upshot

async def script(run, host, board):
    print("asked")
    name = await host.ask_user("Who is it for?")
    size = await host.ask_user("How large?", choices=("S", "M"))
    return f"{name}: {size}"

agent = upshot.Agent("asker", engine=upshot.ScriptEngine(script))
"""


@pytest.fixture(autouse=True)
def parked(command: Command) -> None:
    """A run that waits for an answer."""
    Path("agent.py").write_text(AGENT, "utf-8")
    code, _, err = command("run", "agent.py", "A shirt.", "--run-id", "run-1")
    assert code == 3, err


def shown(command: Command) -> Any:
    return json.loads(command("show", "run-1", "--json")[1])


PAYER = """\
import upshot

@upshot.tool(effect="write", once="order_id", on_unknown="ask")
def pay(order_id: str) -> str:
    raise TimeoutError("the bank did not answer")

call = upshot.ToolCall("c", "pay", {"order_id": "7"})
agent = upshot.Agent("payer", model=upshot.ScriptedModel([call, "It is paid."]), tools=[pay])
"""


def test_what_nobody_knows_is_shown_whole_and_settled_by_the_answer(command: Command) -> None:
    Path("payer.py").write_text(PAYER, "utf-8")
    code, _, err = command("run", "payer.py", "Pay.", "--run-id", "run-2")
    assert code == 3, err
    _, out, _ = command("inbox")
    assert "Did this happen? pay(order_id 7)" in out
    _, _, err = command("approve", "run-2")
    for told in (
        "Did this happen?",
        'order_id: "7"',
        "the bank did not answer",
        "key:",
        "began:",
    ):
        assert told in err, err
    assert "choices: yes, no" in err
    code, _, err = command("approve", "run-2", "--answer", "1", "perhaps")
    assert (code, "choose one of 'yes', 'no'" in err) == (2, True)
    code, out, _ = command("approve", "run-2", "--answer", "1", "yes", "--by", "ann")
    assert (code, out) == (0, "It is paid.\n")
    (entry,) = json.loads(command("effects", "--json")[1])
    assert (entry["state"], entry["settled"]["by"]) == ("applied", "ann")


def test_one_question_after_the_other_is_answered(command: Command) -> None:
    code, out, err = command("resume", "run-1", "--answer", "1", "Ann")
    assert (code, out) == (3, "")
    assert "upshot approve run-1" in err
    (pending,) = shown(command)["pending"]
    assert (pending["question"], pending["choices"]) == ("How large?", ["S", "M"])
    code, out, _ = command("resume", "last", "--answer", pending["id"], "M")
    assert (code, out) == (0, "Ann: M\n")
    assert shown(command)["status"] == "completed"


def test_an_answer_is_kept_for_a_later_session(command: Command) -> None:
    assert command("approve", "last", "--answer", "1", "Ann", "--no-resume")[0] == 0
    assert re.search(r"^answered +.+\? \(.+\): Ann$", command("show", "last")[1], re.MULTILINE)
    assert command("resume", "last")[0] == 3
    assert shown(command)["pending"][0]["question"] == "How large?"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--answer", "nope", "x"), "nothing that waits is called nope"),
        (("--answer", "1", "x", "--answer", "1", "y"), "answered twice"),
    ],
)
def test_what_cannot_be_an_answer_is_misuse(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = command("resume", "last", *arguments)
    assert code == 2
    assert said in err


def test_a_run_that_has_ended_takes_no_answer(command: Command) -> None:
    command("resume", "last", "--answer", "1", "Ann")
    command("resume", "last", "--answer", "2", "M")
    code, _, err = command("resume", "last", "--answer", "1", "L")
    assert code == 2
    assert "waits for no answer" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--approve", "1"), "is a question: give --answer 1 TEXT"),
        (("--deny", "1"), "is a question: give --answer 1 TEXT"),
        (("--all",), "no call waits: give --answer 1 TEXT"),
    ],
)
def test_a_yes_to_a_question_says_how_it_is_answered(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = command("approve", "run-1", *arguments)
    assert code == 2
    assert said in err


def test_what_is_said_to_type_answers_the_question(command: Command) -> None:
    _, _, err = command("approve", "run-1")
    (line,) = (line for line in err.splitlines() if line.startswith("answer: upshot "))
    assert command(*line.split()[2:])[0] == 3
    assert "2. question" in command("approve", "run-1")[2]


def test_an_answer_is_one_of_the_choices(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(text: str) -> str:
        return next(said)

    def yes(terminal: Any) -> bool:
        return True

    command("resume", "run-1", "--answer", "1", "Ann")
    said = iter(["XL", "M"])
    monkeypatch.setattr(approving, "is_attended", yes)
    monkeypatch.setattr(approving, "_prompt", reply)
    code, out, err = command("approve", "run-1")
    assert (code, out) == (0, "Ann: M\n")
    assert "choose one of S, M" in err
