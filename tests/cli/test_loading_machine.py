"""Machines from the command line: run, resume, approve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command

MACHINE = """\
spec: upshot.machine/1
name: letter
agents: {writer: {model: 'openai:gpt-5', instructions: Be brief., tools: [count]}}
states:
  draft:
    type: initial
    agent: writer
    output_to_context: {draft: output.content}
    transitions: [{to: ask}]
  ask:
    wait: approval
    input: {question: '"Send this? " + context.draft'}
    transitions: [{when: 'output == "yes"', to: send}, {to: dropped}]
  send: {function: send, input: {text: context.draft}, transitions: [{to: done}]}
  done: {type: final, output: {sent: output}}
  dropped: {type: final, output: {sent: 'false'}}
"""
HELPERS = """\
import upshot

@upshot.tool(effect="read")
def count(text: str) -> int:
    return len(text)

def send(text):
    with open("sent.txt", "a") as file:
        file.write(text + "\\n")
    return True
"""
MODEL = 'scripted:["Dear Sir."]'


@pytest.fixture(autouse=True)
def files(command: Command) -> None:
    """What the commands are about, in the folder that `command` works in."""
    Path("letter.yml").write_text(MACHINE, "utf-8")
    Path("helpers.py").write_text(HELPERS, "utf-8")
    Path("scenario.json").write_text(json.dumps({"replies": [{"text": "Dear Madam."}]}))


def run(command: Command, *more: str, model: str = MODEL) -> tuple[int, str, str]:
    return command("run", "letter.yml", "Write.", "--tools", "helpers.py", "--model", model, *more)


def pending(command: Command) -> list[str]:
    """What the last run asks."""
    _, out, _ = command("show", "last", "--json")
    return [wait["question"] for wait in json.loads(out)["pending"]]


def test_a_machine_runs_parks_and_goes_on_by_an_answer(command: Command) -> None:
    code, _, _ = run(command)
    assert code == 3
    assert pending(command) == ["Send this? Dear Sir."]
    code, out, err = command("approve", "last", "--answer", "1", "yes", "--json")
    result: Any = json.loads(out)
    assert (code, result["status"], result["output"]) == (0, "completed", {"sent": True}), err
    assert Path("sent.txt").read_text() == "Dear Sir.\n"


def test_a_machine_is_shown_by_its_states_and_the_runs_inside_by_their_agents(
    command: Command,
) -> None:
    run(command, "--run-id", "q1")
    command("approve", "q1", "--answer", "1", "yes")
    _, out, _ = command("show", "q1")
    for internal in ("machine-1", "child:", "wait:", "#1", "none was asked"):
        assert internal not in out
    assert "model       asked by child runs" in out
    steps = [line.split()[4] for line in out.splitlines() if " ms " in line and "█" in line]
    assert steps == ["draft", "writer", "ask", "send", "done"]
    inner = json.loads(command("runs", "--json")[1])[0]["run_id"]
    rows = command("runs")[1].splitlines()
    assert [row.partition(" completed")[0].rstrip() for row in rows[1:]] == ["q1", f"└ {inner}"]


def test_the_model_may_be_a_scenario(command: Command) -> None:
    assert run(command, model="sim:scenario.json")[0] == 3


def test_a_parked_machine_is_resumed_without_doing_anything_again(command: Command) -> None:
    run(command)
    assert command("resume", "last")[0] == 3
    command("approve", "last", "--answer", "1", "no", "--no-resume")
    code, out, _ = command("resume", "last", "--json")
    assert (code, json.loads(out)["output"]) == (0, {"sent": False})
    assert not Path("sent.txt").exists()


def test_a_missing_function_says_where_it_can_be_named(command: Command) -> None:
    code, out, err = command("run", "letter.yml", "Write.", "--model", MODEL)
    assert (code, out) == (2, "")
    assert "there is no function 'send'" in err
    assert "--tools FILE.py" in err


def test_a_missing_key_is_told_before_the_start(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = command("run", "letter.yml", "Write.", "--tools", "helpers.py")
    assert code == 2
    assert "OPENAI_API_KEY" in err


def test_an_agent_without_a_model_is_told_before_the_start(command: Command) -> None:
    Path("letter.yml").write_text(MACHINE.replace("model: 'openai:gpt-5', ", ""), "utf-8")
    code, _, err = command("run", "letter.yml", "Write.", "--tools", "helpers.py")
    assert code == 2
    assert "agent 'writer' of the machine names no model" in err


def test_a_broken_machine_is_told_before_the_start(command: Command) -> None:
    Path("letter.yml").write_text(MACHINE.replace("to: ask", "to: ark"), "utf-8")
    code, _, err = run(command)
    assert code == 2
    assert "letter.yml:9:24: the state 'ark'" in err


def test_an_agent_may_stand_in_a_python_file(command: Command) -> None:
    machine = MACHINE.replace("agents:", "context:")
    Path("letter.yml").write_text(machine, "utf-8")
    agent = "\nmodel = upshot.ScriptedModel(['Mine.'])\nwriter = upshot.Agent('w', model=model)\n"
    Path("helpers.py").write_text(HELPERS + agent, "utf-8")
    command("run", "letter.yml", "Write.", "--tools", "helpers.py")
    assert pending(command) == ["Send this? Mine."]


def test_a_machine_in_json_is_one_too(command: Command) -> None:
    states = {"a": {"type": "initial", "transitions": [{"to": "b"}]},
              "b": {"type": "final", "output": {"said": "input.message"}}}  # fmt: skip
    Path("small.json").write_text(json.dumps({"spec": "upshot.machine/1", "states": states}))
    code, out, _ = command("run", "small.json", "Hello.", "--json")
    assert (code, json.loads(out)["output"]) == (0, {"said": "Hello."})


def test_a_machine_may_run_without_a_request(command: Command) -> None:
    states = {"a": {"type": "initial", "transitions": [{"to": "b"}]},
              "b": {"type": "final", "output": {"said": "input.message"}}}  # fmt: skip
    Path("small.json").write_text(json.dumps({"spec": "upshot.machine/1", "states": states}))
    code, out, _ = command("run", "small.json", "--json")
    assert (code, json.loads(out)["output"]) == (0, {"said": ""})


def test_a_run_may_start_with_variables(command: Command) -> None:
    states = {"a": {"type": "initial", "transitions": [{"to": "b"}]},
              "b": {"type": "final", "output": "context"}}  # fmt: skip
    Path("small.json").write_text(json.dumps({"spec": "upshot.machine/1", "states": states}))
    given = ("--input", "n=3", "--input", "name=Ann", "--input", 'l=[1, {"a": "="}]')
    code, out, _ = command("run", "small.json", "Hello.", *given, "--json")
    assert (code, json.loads(out)["output"]) == (0, {"n": 3, "name": "Ann", "l": [1, {"a": "="}]})


@pytest.mark.parametrize("given", ["n", "=3", ""])
def test_a_variable_without_a_name_or_value_is_misuse(command: Command, given: str) -> None:
    code, _, err = command("run", "letter.yml", "Write.", "--input", given)
    assert code == 2
    assert "such as n=3" in err
