"""upshot show --events, and where the other pages tell what it lists."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.made_up import BEGAN
from upshot import Agent, Request, ScriptedModel, run_sync
from upshot.cli.listing import event_lines
from upshot.contract import AgentError, AgentResult, RunResumed, RunSettled, RunStarted, Status
from upshot.state.stored_events import states

OFFICE = """
import upshot

@upshot.tool(effect="destructive")
def cancel_order(order_id: str) -> str:
    return f"{order_id} is canceled"

calls = [upshot.ToolCall(f"call_{n}", "cancel_order", {"order_id": str(n)}) for n in (7, 8)]
office = upshot.Agent("office", model=upshot.ScriptedModel([calls, "Done."]), tools=[cancel_order])
"""


@pytest.fixture
def answered(command: Command, tmp_path: Path) -> Command:
    (tmp_path / "office.py").write_text(OFFICE)
    assert command("run", "office.py", "Cancel 7 and 8.", "--run-id", "cancel")[0] == 3
    answers = ("--approve", "1", "--deny", "2", "--reason", "It has left.", "--by", "mia")
    assert command("approve", "cancel", *answers)[0] == 0
    return command


def words_of(command: Command, *options: str) -> str:
    return " ".join(command("show", "cancel", *options)[1].split())


def test_it_tells_arguments_and_results_of_calls(answered: Command) -> None:
    words = words_of(answered, "--events")
    assert 'tool_started cancel_order {"order_id":"7"} (call_7)' in words
    assert 'cancel_order (call_7) result: {"result":"7 is canceled"}' in words
    assert 'denied: write_denied: {"error":"Blocked: It has left.","blocked":true}' in words


def test_it_tells_of_a_later_turn_of_a_conversation(command: Command, tmp_path: Path) -> None:
    """What was said before stands in the logs of the turns before."""
    agent = Agent("a", model=ScriptedModel(["One.", "Two."]))
    for text in ("first", "second"):
        request = Request(text, run_id=text)
        result = run_sync(agent, request, journal=tmp_path / "runs.db", conversation="c")
        assert result.success
    for how in ("--events", "--events --json"):
        code, out, err = command("show", "second", *how.split(), "--journal", "runs.db")
        assert (code, err) == (0, "") and "Two." in out


def test_it_tells_who_answered_what(answered: Command) -> None:
    words = words_of(answered, "--events").replace(" ", "")
    assert '"kind":"approve","call_id":"call_7"' in words and '"by":"mia"' in words
    assert '"reason":"Ithasleft."' in words
    assert "cancel_order approved by mia" in words_of(answered)


def test_its_numbers_are_those_that_fork_takes(answered: Command) -> None:
    lines = answered("show", "cancel", "--events")[1].splitlines()
    (number,) = (line.split()[0] for line in lines if "run_resumed" in line)
    _, fork_id, _ = answered("fork", "cancel", "--at", number)
    _, out, _ = answered("show", fork_id.strip(), "--no-answer")
    assert f"forked from cancel at event {number}" in out
    assert f"continue    upshot resume {fork_id.strip()}" in out


def test_a_fork_that_nobody_went_on_with_is_called_forked(answered: Command) -> None:
    _, fork_id, _ = answered("fork", "cancel", "--at", "5")
    assert answered("show", fork_id.strip())[1].split("\n")[0].endswith("office  forked")
    for options in ((), ("--status", "forked")):
        rows = answered("runs", *options)[1].splitlines()
        assert [row.split()[1] for row in rows if row.startswith(fork_id.strip())] == ["forked"]
    assert "forked" not in answered("runs", "--status", "died")[1]


def test_last_is_the_run_that_was_worked_on_last(answered: Command) -> None:
    answered("run", "office.py", "Cancel more.", "--run-id", "newer")
    assert answered("show", "last")[1].startswith("newer ")
    answered("fork", "cancel", "--at", "2")
    assert answered("show", "last")[1].startswith("newer ")
    _, old_fork, _ = answered("fork", "cancel", "--at", "9")
    answered("resume", old_fork.strip())
    assert answered("show", "last")[1].startswith(f"{old_fork.strip()} ")


async def test_it_tells_how_long_nobody_worked_on_a_run() -> None:
    def at(hours: int) -> datetime:
        return BEGAN + timedelta(hours=hours)

    async def log():
        yield RunStarted(run_id="r", seq=1, time=at(0))
        error = AgentError("input_required", "It waits.")
        parked = AgentResult(run_id="r", status=Status.INPUT_REQUIRED, error=error)
        yield RunSettled(run_id="r", seq=2, time=at(0), result=parked)
        yield RunResumed(run_id="r", seq=3, time=at(3))

    lines = [line.plain.split() async for line in event_lines(states(log()))]
    assert [line[:1] for line in lines] == [["1"], ["2"], ["no"], ["3"]]
    assert " ".join(lines[2]) == "no process worked on it for 3 h 00 min"
