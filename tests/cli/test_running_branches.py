"""upshot fork and upshot replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

AGENT = """
from upshot import Agent, ScriptedModel, ToolCall, tool

@tool(effect="read")
def add(a: int, b: int) -> int:
    return a + b

call = ToolCall("c", "add", {"a": 1, "b": 2})
agent = Agent("adding", model=ScriptedModel([call, "3."]), tools=[add])
"""
OTHER = """
from upshot import Agent, ScriptEngine

async def script(run, host, board):
    return "Something else."

agent = Agent("adding", engine=ScriptEngine(script))
"""


@pytest.fixture(autouse=True)
def run_id(command: Command, tmp_path: Path) -> str:
    """A run that has ended."""
    (tmp_path / "adding.py").write_text(AGENT)
    (tmp_path / "other.py").write_text(OTHER)
    code, out, _ = command("run", "adding.py", "What is 1 + 2?", "--json")
    assert code == 0
    return str(json.loads(out)["run_id"])


def test_a_fork_has_an_id_and_goes_on(command: Command, run_id: str) -> None:
    code, out, err = command("fork", run_id, "--at", "3")
    assert code == 0
    new_id = out.strip()
    assert f"upshot resume {new_id}" in err
    code, out, _ = command("resume", new_id, "--json")
    result = json.loads(out)
    assert (code, result["run_id"], result["content"]) == (0, new_id, "3.")


def test_a_fork_names_its_journal_where_that_is_not_the_usual_one(command: Command) -> None:
    where = ("--journal", "other.db")
    assert command("run", "adding.py", "?", "--run-id", "run-1", *where)[0] == 0
    _, out, err = command("fork", "run-1", "--at", "3", *where)
    assert f"upshot resume {out.strip()} --journal other.db\n" in err


def test_a_fork_in_json_says_where_it_is_from(command: Command, run_id: str) -> None:
    _, out, _ = command("fork", "last", "--at", "2", "--json")
    said = json.loads(out)
    assert (said["forked_from"], said["at"]) == (run_id, 2)


@pytest.mark.parametrize("at", ["0", "99"])
def test_a_point_that_is_not_there_is_misuse(command: Command, run_id: str, at: str) -> None:
    code, _, err = command("fork", run_id, "--at", at)
    assert code == 2
    assert "has no event" in err


def test_a_replay_of_the_same_agent_is_the_same(command: Command, run_id: str) -> None:
    code, out, _ = command("replay", run_id)
    assert code == 0
    assert out.startswith(f"{run_id}: the same")


def test_a_replay_tells_the_first_difference(command: Command, run_id: str) -> None:
    code, out, _ = command("replay", run_id, "other.py")
    assert code == 1
    assert "another model_started at event 4" in out
    code, out, _ = command("replay", run_id, "other.py", "--json")
    said = json.loads(out)
    assert (code, said["same"], said["difference"]["kind"]) == (1, False, "model_started")


NAMED = """
from upshot import Agent, tool

@tool(effect="read")
def add(a: int, b: int) -> int:
    return a + b

agent = Agent("adding", model="openai:gpt-5", tools=[add])
simulated = Agent("simulated", model="sim:scenario.json", tools=[add])
"""
CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents whose models are names, and no key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "named.py").write_text(NAMED)
    scenario = {"replies": [{"tool_calls": [CALL]}, {"text": "3."}]}
    (tmp_path / "scenario.json").write_text(json.dumps(scenario))


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("named.py:agent", ("--model", f"scripted:{json.dumps([CALL, '3.'])}")),
        ("named.py:agent", ("--model", "sim:scenario.json")),
        ("named.py:simulated", ()),
    ],
    ids=["scripted", "simulated", "the agent's own"],
)
def test_a_replay_takes_the_model_of_the_run(
    command: Command, target: str, model: tuple[str, ...]
) -> None:
    assert command("run", target, "1 + 2?", *model, "--run-id", "r1")[0] == 0
    code, out, err = command("replay", "r1")
    assert (code, err) == (0, "")
    assert out.startswith("r1: the same")


@pytest.mark.usefixtures("named")
def test_a_replay_with_another_model_says_so_in_one_form(command: Command) -> None:
    script = f"scripted:{json.dumps([CALL, '3.'])}"
    assert command("run", "named.py:agent", "?", "--model", script, "--run-id", "r1")[0] == 0
    code, out, _ = command("replay", "r1", "--model", "openai:gpt-5", "--json")
    difference = json.loads(out)["difference"]
    assert (code, difference["kind"]) == (1, "model_started")
    assert difference["recorded"].keys() == difference["replayed"].keys()
    assert difference["replayed"]["model"] == "openai:gpt-5"
