"""A process that is really killed: what was done is not done again, and the run ends."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.places import Place
from tests.processes import run_to_its_kill
from upshot import AgentResult, Status, resume, run

PROGRAM = '''
import asyncio, os, signal, sys
from pathlib import Path
from upshot import Agent, Request, ScriptedModel, ToolCall, run_sync, tool

def make(effects, death):
    """The agent; it dies once at the place that *death* names, "" for never."""

    def do(what):
        with open(effects, "a") as file:
            file.write(what + "\\n")

    def die(place):
        if place == death:
            os.kill(os.getpid(), signal.SIGKILL)

    @tool(effect="read")
    async def look():
        do("look")
        die("in a read")
        return "seen"

    @tool(effect="write")
    def change():
        do("change")
        die("in a write")
        return "changed"

    def last(messages):
        do("asked")
        die("in a model call")
        return "Done."

    class Host:
        def publish(self, event):
            die(f"at {event.kind} of {getattr(event, 'call_id', '')}")

    calls = [ToolCall("l", "look"), ToolCall("c", "change")]
    return Agent("a", model=ScriptedModel([calls, last]), tools=[look, change]), Host()

if __name__ == "__main__":
    journal, effects, death = sys.argv[1:]
    agent, host = make(effects, death)
    run_sync(agent, Request("Go.", run_id="run-1"), journal=journal, host=host)
'''


class Killed:
    """A program that was killed while it ran an agent."""

    def __init__(self, folder: Path, place: Place, death: str) -> None:
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        self.journal = place.where
        self.effects = folder / "effects"
        run_to_its_kill(self.program, self.journal, self.effects, death)

    def agent(self) -> Any:
        make = runpy.run_path(str(self.program))["make"]
        return make(self.effects, "")[0]

    async def resume(self) -> AgentResult[Any]:
        return await resume("run-1", self.agent(), journal=self.journal)

    def done(self) -> list[str]:
        return self.effects.read_text().split()


DONE = {
    "in a read": ["look", "look", "change", "asked"],
    "in a write": ["look", "change", "asked"],
    "in a model call": ["look", "change", "asked", "asked"],
}


@pytest.mark.parametrize("death", DONE)
async def test_a_killed_run_is_gone_on_with_and_ends(
    tmp_path: Path, place: Place, death: str
) -> None:
    killed = Killed(tmp_path, place, death)
    result = await killed.resume()
    assert (result.status, result.content) == (Status.COMPLETED, "Done.")
    assert [outcome.call_id for outcome in result.tool_outcomes] == ["l", "c"]
    assert killed.done() == DONE[death]
    assert await killed.resume() == result
    assert killed.done() == DONE[death]


@pytest.mark.parametrize("death", ["at tool_settled of c", "at attempt_ended of "])
async def test_what_was_not_yet_on_disk_is_never_written_twice(
    tmp_path: Path, place: Place, death: str
) -> None:
    killed = Killed(tmp_path, place, death)
    result = await killed.resume()
    assert (result.status, killed.done().count("change")) == (Status.COMPLETED, 1)


async def test_a_killed_run_ends_as_one_that_was_not(tmp_path: Path, place: Place) -> None:
    killed = Killed(tmp_path, place, "in a model call")
    result = await killed.resume()
    whole = await run(killed.agent(), "Go.")
    assert result.messages == whole.messages
    outcomes = [outcome.kind for outcome in result.tool_outcomes]
    assert outcomes == [outcome.kind for outcome in whole.tool_outcomes]


async def test_a_write_that_the_kill_cut_is_told_as_unknown(tmp_path: Path, place: Place) -> None:
    result = await Killed(tmp_path, place, "in a write").resume()
    look, change = result.tool_outcomes
    assert look.kind == "tool_execution_result"
    assert (change.kind, change.code, change.effect) == ("tool_failure", "interrupted", "unknown")
