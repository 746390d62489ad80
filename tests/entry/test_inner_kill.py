"""A process that is killed while a run inside its run works or waits: nothing is done twice."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.places import Place
from tests.processes import run_to_its_kill
from upshot import AgentResult, Approve, Misuse, Status, open_journal, resume

PROGRAM = '''
import os, signal, sys
from upshot import (
    Agent, Graph, GraphEngine, MachineEngine, Parked, Request, ScriptEngine, ScriptedModel,
    ToolCall, load_machine, run_sync, tool,
)

MACHINE = """
spec: upshot.machine/1
states:
  work: {type: initial, agent: payer, input: "'Pay.'", transitions: [{to: done}]}
  done: {type: final}
"""

def make(around, effects, death):
    """The agent; its process dies once at the place that *death* names, "" for never."""

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

    @tool(effect="destructive")
    def pay(cents: int):
        do("pay")
        return "paid"

    class Watcher:
        def on_run_start(self, info, request):
            die(f"at the start of {info.agent_id}")

        def on_run_end(self, info, result):
            die(f"when {info.agent_id} is {result.status}")

    def last(messages):
        do("asked")
        return "Paid."

    calls = [ToolCall("l", "look"), ToolCall("p", "pay", {"cents": 5})]
    payer = Agent(
        "payer", model=ScriptedModel([calls, last]), tools=[look, pay], observers=[Watcher()]
    )

    async def script(run, host, board):
        child = await run.child(payer, "Pay.", key="pay")
        die("after it")
        if child.pending:
            raise Parked(*child.pending)
        return child.content

    return Agent("outer", observers=[Watcher()], engine={
        "script": lambda: ScriptEngine(script),
        "graph": lambda: GraphEngine(Graph({"work": payer}, start="work")),
        "machine": lambda: MachineEngine(load_machine(MACHINE), agents={"payer": payer}),
    }[around]())

if __name__ == "__main__":
    around, journal, effects, death = sys.argv[1:]
    run_sync(make(around, effects, death), Request("Go.", run_id="run-1"), journal=journal)
'''


class Killed:
    """A program that was killed while it ran an agent inside another."""

    def __init__(self, folder: Path, place: Place, around: str, death: str) -> None:
        self.around = around
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        self.journal = place.where
        self.effects = folder / "effects"
        self.effects.write_text("")
        run_to_its_kill(self.program, around, self.journal, self.effects, death)

    async def resume(self, *answers: Approve, death: str = "") -> AgentResult[Any]:
        make = runpy.run_path(str(self.program))["make"]
        agent = make(self.around, self.effects, death)
        return await resume("run-1", agent, journal=self.journal, answers=answers)

    def done(self) -> list[str]:
        return self.effects.read_text().split()


# What an engine makes of its log is the same in every journal.
ENGINES = pytest.mark.parametrize(
    ("around", "place"),
    [(around, "sqlite") for around in ("script", "graph", "machine")] + [("script", "postgres")],
    indirect=["place"],
)


@pytest.mark.slow(
    "at the start*-graph-*",
    "at the start*-machine-*",
    "in a read*-script-*",
    "in a read*-machine-*",
    "when payer*-script-*",
    "when payer*-graph-*",
    "when outer*-graph-*",
    "when outer*-machine-*",
)
@ENGINES
@pytest.mark.parametrize(
    ("death", "looks"),
    [
        ("at the start of payer", (1,)),
        ("in a read", (2,)),
        # What is not on disk yet is done again if it reads; a busy writer may have been in time.
        ("when payer is input_required", (1, 2)),
        ("when outer is input_required", (1,)),
    ],
)
async def test_a_run_inside_that_was_killed_goes_on_to_its_question(
    tmp_path: Path, place: Place, around: str, death: str, looks: tuple[int, ...]
) -> None:
    killed = Killed(tmp_path, place, around, death)
    parked = await killed.resume()
    assert (parked.status, [one.id for one in parked.pending]) == (Status.INPUT_REQUIRED, ["p"])
    done = await killed.resume(Approve("p"))
    assert (done.status, done.content or done.output) == (Status.COMPLETED, "Paid.")
    effects = killed.done()
    assert effects in [["look"] * count + ["pay", "asked"] for count in looks]
    assert (await killed.resume()).status is Status.COMPLETED
    assert killed.done() == effects


@pytest.mark.slow("script-*", "machine-*")
@ENGINES
async def test_what_asked_before_the_kill_can_be_answered_at_once(
    tmp_path: Path, place: Place, around: str
) -> None:
    killed = Killed(tmp_path, place, around, "when outer is input_required")
    done = await killed.resume(Approve("p"))
    assert (done.status, killed.done()) == (Status.COMPLETED, ["look", "pay", "asked"])


async def test_what_asked_is_named_by_its_run_where_the_outer_one_could_not_tell(
    tmp_path: Path,
    place: Place,
) -> None:
    killed = Killed(tmp_path, place, "script", "after it")
    async with open_journal(killed.journal) as journal:
        (inner,) = [one.run_id for one in await journal.runs() if one.run_id != "run-1"]
    with pytest.raises(Misuse, match="waits for p"):
        await killed.resume(Approve("nobody"))
    done = await killed.resume(Approve(f"{inner}/p"))
    assert (done.status, killed.done()) == (Status.COMPLETED, ["look", "pay", "asked"])
