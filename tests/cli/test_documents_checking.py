"""``upshot check``: all that is wrong with a machine, shown where it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

GOOD = """\
spec: upshot.machine/1
name: letter
agents: {writer: {model: 'openai:gpt-5', instructions: Be brief.}}
states:
  draft:
    type: initial
    agent: writer
    output_to_context: {draft: output.content}
    transitions: [{to: look}]
  look: {function: look, input: {text: context.draft}, transitions: [{to: done}]}
  done: {type: final, output: {draft: context.draft, seen: output}}
"""
BROKEN = """\
spec: upshot.machine/1
states:
  start:
    type: initial
    agent: writer
    transitions: [{when: context.tries <, to: don}]
  done: {type: final}
  lost: {agent: writer}
"""
HELPERS = "def look(text):\n    return len(text)\n"


@pytest.fixture(autouse=True)
def files(command: Command) -> None:
    """What the commands are about, in the folder that `command` works in."""
    for name, text in (("good.yml", GOOD), ("broken.yml", BROKEN), ("helpers.py", HELPERS)):
        Path(name).write_text(text, "utf-8")


def test_a_sound_machine_is_told_in_one_line(command: Command) -> None:
    assert command("check", "good.yml") == (
        0,
        "good.yml: sound: 3 states, 1 agent, 1 function\n",
        "",
    )


def test_every_fault_is_shown_where_it_stands(command: Command) -> None:
    code, out, err = command("check", "broken.yml")
    assert (code, err) == (2, "")
    assert (
        out
        == """\
broken.yml:6:41 fault
  found    the broken expression 'context.tries <' (it ends too soon)
     6 |     transitions: [{when: context.tries <, to: don}]
       |                                         ^
  expected an expression in CEL, such as context.count < 3

broken.yml:6:47 fault
  found    the state 'don'
     6 |     transitions: [{when: context.tries <, to: don}]
       |                                               ^
  expected the name of a state; did you mean 'done'?

broken.yml:7:3 warning
  found    the state 'done', which cannot be reached
     7 |   done: {type: final}
       |   ^
  expected a way to it from 'start', or a hook that names it

broken.yml:8:3 fault
  found    the state 'lost', which is not final, without transitions
     8 |   lost: {agent: writer}
       |   ^
  expected transitions; or [] where a hook says what comes next

broken.yml:8:3 warning
  found    the state 'lost', which cannot be reached
     8 |   lost: {agent: writer}
       |   ^
  expected a way to it from 'start', or a hook that names it

broken.yml: 3 faults, 2 warnings
"""
    )


def test_no_line_is_wider_than_the_terminal(command: Command) -> None:
    long = "x" * 300
    Path("wide.yml").write_text(f"states: {{a: {{type: initial, {long}: 1, output: {long}}}}}\n")
    _, out, _ = command("check", "wide.yml")
    assert max(map(len, out.splitlines())) <= 80


def test_a_terminal_does_not_obey_what_stands_in_a_file(command: Command) -> None:
    Path("evil.yml").write_text("states: {a: {type: initial, \x1b[2J: 1}}\n")
    code, out, _ = command("check", "evil.yml")
    assert code == 2
    assert "\x1b" not in out


def test_a_huge_file_is_told_and_not_shown(command: Command) -> None:
    with Path("huge.yml").open("wb") as file:
        file.write(b"states: 1\n")
        file.truncate(5_000_000_000)
    code, out, _ = command("check", "huge.yml")
    assert code == 2
    assert "more than 1,000,000 bytes" in out


def test_faults_are_printed_as_json(command: Command) -> None:
    code, out, _ = command("check", "broken.yml", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["file"]) == (2, False, "broken.yml")
    assert told["faults"][1] == {
        "severity": "fault",
        "kind": "unknown_state",
        "file": "broken.yml",
        "line": 6,
        "column": 47,
        "path": "states.start.transitions[0].to",
        "found": "the state 'don'",
        "expected": "the name of a state; did you mean 'done'?",
    }


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("bad.yml", "a: [1\n", "this is not YAML"), ("none.yml", "", "nothing where an agent")],
)
def test_a_file_that_cannot_be_read_is_a_fault_in_json(
    command: Command, name: str, text: str, said: str
) -> None:
    Path(name).write_text(text)
    code, out, err = command("check", name, "--json")
    told = json.loads(out)
    assert (code, err, told["ok"]) == (2, "", False)
    assert said in told["faults"][0]["found"]


def test_a_sound_machine_as_json_has_no_faults(command: Command) -> None:
    code, out, _ = command("check", "good.yml", "--json")
    assert (code, json.loads(out)) == (0, {"file": "good.yml", "ok": True, "faults": []})


def test_a_warning_alone_is_no_failure(command: Command) -> None:
    Path("warned.yml").write_text(GOOD.replace("spec: upshot.machine/1\n", ""))
    code, out, _ = command("check", "warned.yml")
    assert code == 0
    assert out.endswith(": sound: 3 states, 1 agent, 1 function; 1 warning\n")


def test_with_the_files_that_have_them_missing_functions_are_told(command: Command) -> None:
    Path("empty.py").write_text("")
    assert command("check", "good.yml", "--tools", "helpers.py")[0] == 0
    code, out, _ = command("check", "good.yml", "--tools", "empty.py")
    assert code == 2
    assert "there is no function 'look'" in " ".join(out.split())


def test_an_agents_file_is_loaded(command: Command) -> None:
    Path("bot.json").write_text('{"id": "bot"}')
    assert command("check", "bot.json") == (0, "bot.json: the agent 'bot' can be loaded\n", "")
    Path("bad.json").write_text('{"id": "bot", "modl": "x"}')
    assert command("check", "bad.json")[0] == 2


def test_a_file_that_is_nowhere_is_misuse(command: Command) -> None:
    code, out, err = command("check", "god.yml")
    assert (code, out) == (2, "")
    assert "did you mean 'good.yml'?" in err


TOOLS = """
import upshot

@upshot.tool(arguments={"to": "recipient"})
def send(to: str, file: int, urgent: bool = False) -> str:
    return to

@upshot.tool(effect="read")
def look(what: str) -> str:
    return what

@upshot.tool(effect="read", network=True)
def fetch(url: str) -> str:
    return url

agent = upshot.Agent("clerk", tools=[send, upshot.ToolSet([look, fetch])])
"""


def test_undeclared_arguments_are_told_with_the_questions_that_each_costs(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "clerk.py").write_text(TOOLS)
    code, out, _ = command("check", "clerk.py", "--json")
    told = json.loads(out)
    assert (code, told["ok"]) == (0, True)
    assert [(one["severity"], one["kind"]) for one in told["faults"]] == [
        ("warning", "undeclared_argument")
    ] * 3
    costs = {one["found"]: one["expected"] for one in told["faults"]}
    asks = 'with Policy(taint="values") it costs a question at'
    said = "after untrusted words, except for what the user said word for word"
    assert costs == {
        "send: the argument 'file' is not declared": (
            f'arguments={{"file": ...}}; {asks} each call {said}'
        ),
        "send: the argument 'urgent' is not declared": (
            f'arguments={{"urgent": ...}}; {asks} each call that gives it '
            "after untrusted words, users do not write true or false"
        ),
        "fetch: the argument 'url' is not declared": (
            f'arguments={{"url": ...}}; {asks} each call {said}'
        ),
    }
    assert command("check", "clerk.py")[1].endswith(
        "clerk.py: the agent 'clerk' can be loaded; 3 warnings\n"
    )
