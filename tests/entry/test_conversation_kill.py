"""Processes that are killed in a turn, and processes that want a turn at the same moment."""

from __future__ import annotations

import runpy
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.places import Place
from tests.processes import start_python
from upshot import AgentResult, open_journal, resume, run

PROGRAM = '''
import os, signal, sys
from upshot import Agent, ScriptedModel, ToolCall, run_sync, tool

def make(effects, death=""):
    """The agent; its process dies once at the place that *death* names, "" for never."""

    def die(place):
        if place == death:
            os.kill(os.getpid(), signal.SIGKILL)

    def do(what):
        with open(effects, "a") as file:
            file.write(what + "\\n")

    @tool(effect="write")
    async def pay(order: int):
        die("before the write")
        do(f"begin {order}")
        do(f"end {order}")
        die("in the write")
        return "paid"

    class Watcher:
        def on_run_start(self, info, request):
            die("at the start")

        def on_run_end(self, info, result):
            die("at the end")

    def first(messages):
        die("when asked")
        order = int(messages[-1].text)
        return [ToolCall(f"c{order}", "pay", {"order": order})]

    def last(messages):
        die("after the write")
        return "Paid."

    model = ScriptedModel([first, last])
    return Agent("payer", model=model, tools=[pay], observers=[Watcher()])

if __name__ == "__main__":
    journal, effects, death, first, count = sys.argv[1:]
    done = 0
    print("ready", flush=True)
    sys.stdin.readline()
    while done < int(count):
        result = run_sync(
            make(effects, death), str(int(first) + done), journal=journal, conversation="ada"
        )
        if result.success:
            done += 1
        elif result.error.code != "conflict":
            print(result.error, flush=True)
            break
    print("done", done, flush=True)
'''
PLACES = [
    "at the start", "when asked", "before the write", "in the write", "after the write",
    "at the end",
]  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def begin(program: Path, place: Place, *, death: str = "", first: int = 0, count: int = 1) -> Any:
    """Start a process that takes turns once it is told to."""
    folder = program.parent
    arguments = [place.where, folder / "effects", death, str(first), str(count)]
    return start_python(program, *arguments, stdin=PIPE, stdout=PIPE, text=True)


def effects_in(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


async def say(program: Path, place: Place, text: str) -> AgentResult[Any]:
    made = runpy.run_path(str(program))["make"](program.parent / "effects")
    return await run(made, text, journal=place.where, conversation="ada")


@pytest.mark.parametrize("death", PLACES)
async def test_a_turn_whose_process_died_is_in_the_way_until_it_goes_on(
    program: Path, place: Place, death: str
) -> None:
    process = begin(program, place, death=death, first=7)
    process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL
    hasty, folder = await say(program, place, "8"), program.parent
    async with open_journal(place.where) as journal:
        if hasty.success:
            # Nothing of the other one had reached the disk.
            assert (death, effects_in(folder)) == ("at the start", ["begin 8", "end 8"])
            return
        error = hasty.error
        assert error is not None
        assert (error.code, error.details["status"]) == ("conflict", "died")
        assert "8" not in "".join(effects_in(folder))
        run_id = str(error.details["run_id"])
        made = runpy.run_path(str(program))["make"](folder / "effects")
        done = await resume(run_id, made, journal=journal)
        assert done.run_id == run_id
        # Of a call that was cut off in the write nobody knows, so it is not made again.
        begun = 0 if death == "before the write" else 1
        assert effects_in(folder).count("begin 7") == begun
        if done.success:
            assert (await say(program, place, "8")).success
            talk = await journal.conversation("ada")
            asked = [one.text for one in talk.messages if one.role == "user"]
            assert (asked, talk.revision) == (["7", "8"], 2)


async def test_of_processes_that_begin_at_once_one_has_the_turn(
    program: Path, place: Place
) -> None:
    processes = [begin(program, place, first=100 * n, count=4) for n in range(1, 4)]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0] for process in processes]
    assert told == ["done 4\n"] * 3
    effects = effects_in(program.parent)
    # Never did one begin while another was under way, and each was done once.
    assert [one.replace("begin", "end") for one in effects[::2]] == effects[1::2]
    assert len(set(effects)) == len(effects) == 24
    async with open_journal(place.where) as journal:
        talk = await journal.conversation("ada")
    asked = [one.text for one in talk.messages if one.role == "user"]
    assert asked == [one.removeprefix("begin ") for one in effects[::2]]
    assert talk.revision == len(talk.runs) == 12


async def test_of_two_processes_of_which_one_is_killed_nothing_is_lost(
    program: Path, place: Place
) -> None:
    dying = begin(program, place, death="after the write", first=100, count=1)
    other = begin(program, place, first=200, count=3)
    for process in (dying, other):
        process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
    dying.communicate()
    async with open_journal(place.where) as journal:
        open_runs = [one.run_id for one in await journal.runs("died")]
        for run_id in open_runs:
            holder = (await journal.holders()).get(run_id)
            if holder is not None and holder.state == "gone":
                made = runpy.run_path(str(program))["make"](program.parent / "effects")
                await resume(run_id, made, journal=journal)
        assert other.communicate()[0] == "done 3\n"
        talk = await journal.conversation("ada")
    effects = effects_in(program.parent)
    assert sorted(effects) == sorted(
        f"{what} {order}" for order in (100, 200, 201, 202) for what in ("begin", "end")
    )
    assert (talk.revision, len(talk.runs)) == (4, 4)
