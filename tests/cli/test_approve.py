"""`upshot approve`: what a run waits for, answered from the command line."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import pytest

import upshot.cli.approve as approving
from tests.cli.conftest import Command

AGENT = """\
import upshot

@upshot.tool(effect="destructive")
def wipe(disk: str, note: str = "") -> dict:
    with open("done.txt", "a") as file:
        file.write(disk)
    return {"wiped": disk}

agent = upshot.Agent("wiper", tools=[wipe])
"""
WIPES = [
    {"id": "call_one", "name": "wipe", "arguments": {"disk": "a"}},
    {"id": "call_two", "name": "wipe", "arguments": {"disk": "b"}},
]
MODEL = "scripted:" + json.dumps([WIPES, "Wiped."])


@pytest.fixture(autouse=True)
def parked(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for two answers."""
    Path("agent.py").write_text(AGENT, "utf-8")
    Path("done.txt").write_text("", "utf-8")
    code, _, err = command("run", "agent.py", "Wipe.", "--model", MODEL, "--run-id", "run-1")
    assert code == 3
    assert "it waits for an answer: upshot approve run-1" in err
    monkeypatch.setattr("getpass.getuser", lambda: "ann")


def done() -> str:
    return Path("done.txt").read_text("utf-8")


def shown(command: Command) -> Any:
    return json.loads(command("show", "run-1", "--json")[1])


def test_what_is_asked_is_shown_within_the_width_and_nothing_is_done(command: Command) -> None:
    code, out, err = command("approve", "last")
    assert (code, out, done()) == (3, "", "")
    assert "1. wipe  destructive  call_one" in err
    assert '   disk: "a"' in err
    assert max(map(len, err.splitlines())) <= 80


def test_a_parked_run_names_what_it_waits_for_once(command: Command) -> None:
    _, _, err = command("resume", "run-1")
    said = 'waits for approval of wipe {"disk":"a","note":""} (call_one)'
    assert err.count(said) == 1
    assert "input_required" not in err
    _, out, _ = command("show", "run-1")
    assert "The run waits for people" not in out
    assert out.count("input_required") == 1


def test_yes_and_no_go_on_with_the_run(command: Command) -> None:
    code, out, _ = command(
        "approve", "last", "--approve", "call_o", "--deny", "2", "--reason", "no"
    )
    assert (code, out, done()) == (0, "Wiped.\n", "a")
    records = shown(command)["tool_records"]
    assert [one["approval"]["by"] for one in records] == ["ann", "ann"]
    assert records[1]["outcome"]["details"] == "no"


def test_all_and_an_edit(command: Command) -> None:
    code, _, _ = command("approve", "last", "--all", "--edit", "call_two", '{"disk": "z"}')
    assert (code, sorted(done())) == (0, ["a", "z"])


def test_part_of_the_answers_leaves_the_rest_waiting(command: Command) -> None:
    assert command("approve", "run-1", "--approve", "1")[0] == 3
    assert done() == "a"
    assert command("approve", "run-1", "--approve", "call_two")[0] == 0
    assert done() == "ab"


def test_answers_are_kept_for_a_later_session(command: Command) -> None:
    code, _, err = command("approve", "last", "--all", "--no-resume")
    assert (code, done()) == (0, "")
    assert "upshot resume run-1" in err
    assert command("resume", "last")[0] == 0
    assert done() == "ab"


def test_what_is_answered_for_later_does_not_wait_any_more(command: Command) -> None:
    command("approve", "last", "--approve", "1", "--no-resume")
    _, out, _ = command("show", "last")
    assert '\nwaits for   approval of wipe {"disk":"b"' in out
    assert "(call_one): approved by ann\n" in " ".join(out.split("  ")).replace("\n ", " ")
    assert "\ncontinue    upshot approve run-1\n" in out
    assert shown(command)["answered"] == {"call_one": "approved by ann"}
    assert "1 is answered already" in command("approve", "last", "--deny", "1")[2]


def test_a_run_whose_questions_are_all_answered_leads_to_resume(command: Command) -> None:
    command("approve", "last", "--all", "--no-resume")
    assert "\ncontinue    upshot resume run-1\n" in command("show", "last")[1]
    code, _, err = command("approve", "last")
    assert code == 2
    assert err.endswith("waits for is answered: continue it, upshot resume run-1\n")


def test_an_option_without_its_value_leads_to_the_help_of_its_command(command: Command) -> None:
    assert "(see upshot approve --help)" in command("approve", "last", "--edit", "1")[2]


def test_a_yes_for_the_tool_covers_what_is_asked_next(command: Command) -> None:
    assert command("approve", "last", "--approve", "1", "--deny", "2", "--always", "tool")[0] == 0
    assert shown(command)["tool_records"][0]["approval"]["scope"] == "tool"


def test_questions_are_json_where_that_is_asked_for(command: Command) -> None:
    code, out, _ = command("approve", "last", "--json")
    assert code == 3
    assert [one["call_id"] for one in json.loads(out)] == ["call_one", "call_two"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--approve", "nope"), "nothing that waits is called nope"),
        (("--edit", "1", "[]"), "not a JSON object"),
        (("--edit", "1", "{"), "not JSON"),
        (("--approve", "1", "--deny", "call_one"), "answered twice"),
        (("--answer", "1", "yes"), "1 (wipe, call_one) is a call: give --approve 1, --deny 1 or"),
        (("--approve", "call_"), "begin with call_: 1 (wipe, call_one), 2 (wipe, call_two)"),
        (("--approve", "3"), "nothing that waits is called 3"),
        (("--edit", "1", '{"dsk": "z"}'), "the new arguments do not fit wipe: "),
        (("--edit", "1", '{"disk": [1]}', "--no-resume"), "/disk"),
        (("--always", "tool"), "it needs --approve ID or --all"),
        (("--approve", "1", "--reason", "no"), "it needs --deny ID"),
    ],
)
def test_what_cannot_be_an_answer_is_misuse(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = command("approve", "last", *arguments)
    assert (code, done()) == (2, "")
    assert said in err


def test_numbers_stay_what_they_are_after_an_answer(command: Command) -> None:
    assert command("approve", "run-1", "--approve", "1")[0] == 3
    code, _, err = command("approve", "run-1", "--approve", "1")
    assert (code, done()) == (2, "a")
    assert "1 is answered already: what waits is 2 (wipe, call_two)" in err
    assert "2. wipe  destructive  call_two" in command("approve", "run-1")[2]
    assert command("approve", "run-1", "--deny", "2")[0] == 0
    assert done() == "a"


def test_without_answers_it_is_said_how_to_give_them(command: Command) -> None:
    _, _, err = command("approve", "run-1")
    assert "answer: upshot approve run-1 --approve 1\n" in err
    assert "or: --deny 1, --edit 1 JSON, --all\n" in err


def test_what_can_be_typed_is_never_broken(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    _, _, err = command("approve", "run-1")
    assert "answer: upshot approve run-1 --approve 1\n" in err
    assert "an answer: upshot approve run-1\n" in command("resume", "run-1")[2]


def test_arguments_are_told_where_nothing_can_check_them(command: Command) -> None:
    Path("agent.py").unlink()
    code, _, err = command("approve", "run-1", "--edit", "1", '{"dsk": 1}', "--no-resume")
    assert code == 0
    assert "there is no file agent.py" in err
    assert "not checked" in err


def test_a_run_that_has_ended_waits_for_nobody(command: Command) -> None:
    command("approve", "last", "--all")
    code, _, err = command("approve", "last")
    assert code == 2
    assert "waits for no answer: it has completed" in err


def test_on_a_terminal_each_is_asked_for(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def yes(terminal: Any) -> bool:
        return True

    def reply(text: str) -> str:
        return next(said)

    answers = ["x", "e", "{", "e", "", "e", '{"disk": 1, "x": 2}', "e", '{"disk": "z"}']
    said = iter([*answers, "n", "not this one"])
    monkeypatch.setattr(approving, "is_attended", yes)
    monkeypatch.setattr(approving, "_prompt", reply)
    code, _, err = command("approve", "last")
    assert (code, done()) == (0, "z")
    assert 'now: {"disk":"a","note":""}' in err
    assert "the new arguments do not fit wipe" in err
    assert shown(command)["tool_outcomes"][1]["details"] == "not this one"


def test_the_request_and_the_agent_stand_above_what_is_asked(command: Command) -> None:
    _, _, err = command("approve", "last")
    assert "wiper" in err
    assert "Wipe." in err


def test_what_was_typed_before_the_question_is_no_answer(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, terminal = os.openpty()
    os.write(controller, b"y\ny\n")
    with open(terminal, closefd=False) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(approving, "is_attended", lambda terminal: True)
        asked: list[str] = []

        def ask(*words: object, **options: object) -> str:
            asked.append(stream.readline() if select.select([terminal], [], [], 0)[0] else "")
            return "l"

        monkeypatch.setattr("click.prompt", ask)
        command("approve", "last")
    assert asked == ["", ""]


AGAIN = """
import upshot
from upshot import Agent, ScriptedModel, ToolCall

@upshot.tool(effect="destructive")
async def wipe(disk: str) -> str:
    "Wipe a disk."
    with open("done.txt", "a") as file:
        file.write(disk)
    return "wiped"

calls = [ToolCall("c", "wipe", {"disk": one}) for one in "ab"]
agent = Agent("wiper", model=ScriptedModel([*calls, "Wiped."], per_conversation=True), tools=[wipe])
"""


def test_a_number_names_the_question_that_was_shown_and_no_later_one(command: Command) -> None:
    Path("again.py").write_text(AGAIN)
    command("run", "again.py", "Wipe.", "--run-id", "run-9")
    assert command("approve", "run-9", "--deny", "1")[0] == 3
    for late in ("1", "c"):
        code, _, err = command("approve", "run-9", "--approve", late)
        assert (code, done()) == (2, ""), err
        assert f"{late} is answered already: what waits is 2 (wipe, c_2)" in err
    assert command("approve", "run-9", "--approve", "2")[0] == 0
    assert done() == "b"


SEVERAL = """\
import upshot

@upshot.tool(effect="write", approvals=2)
def send(cents: int) -> str:
    with open("done.txt", "a") as file:
        file.write(str(cents))
    return "sent"

agent = upshot.Agent("bank", tools=[send])
"""
SENDS = "scripted:" + json.dumps(
    [[{"id": "call_send", "name": "send", "arguments": {"cents": 5}}], "Sent."]
)


def test_two_users_approve(command: Command) -> None:
    Path("bank.py").write_text(SEVERAL, "utf-8")
    command("run", "bank.py", "Send.", "--model", SENDS, "--run-id", "several")
    words = ("approve", "several", "--no-resume", "--all", "--by")
    code, _, err = command(*words, "ann")
    assert (code, "1 more user must approve it" in err) == (0, True)
    code, _, err = command(*words, "ann")
    assert code == 2
    assert "ann has approved call call_send already: another user must approve it" in err
    _, _, err = command("approve", "several")
    assert "needs: 2 different users, ann approved it" in err
    assert Path("done.txt").read_text("utf-8") == ""
    code, out, _ = command(
        "approve", "several", "bank.py", "--model", SENDS, "--all", "--by", "bob"
    )
    assert (code, Path("done.txt").read_text("utf-8"), "Sent." in out) == (0, "5", True)
