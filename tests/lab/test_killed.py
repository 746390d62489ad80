"""An experiment whose process is killed again and again makes the same report."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.processes import start_python

PROGRAM = """
import asyncio, os, random, signal, sys
from upshot import Agent, Request, ScriptedModel, ToolCall, lab, run, tool
from upshot.journal import MemoryJournal

FOLDER, SEED, SIMULATES = sys.argv[1], int(sys.argv[2]), sys.argv[4] == "simulated"

@tool(effect="read")
def find(id: int) -> str:
    "Find."
    return f"order {id}"

@tool(effect="write")
def refund(id: int) -> str:
    "Refund."
    if os.path.exists(FOLDER + "/data.jsonl"):
        open(FOLDER + "/paid.txt", "a").write("x")
    return "refunded"

draw = random.Random(SEED)

def reply(messages):
    if SEED and draw.random() < 0.12:
        os.kill(os.getpid(), signal.SIGKILL)
    done = [one for one in messages if one.tool_call_id]
    id = int(messages[0].text)
    if not done:
        return ToolCall("f", "find", {"id": id})
    if len(done) == 1:
        return ToolCall("r", "refund", {"id": id + (id % 3 == 0 and VARIANT == "new")})
    return "Done."

VARIANT = ""

def agent(name):
    def made(messages):
        global VARIANT
        VARIANT = name
        return reply(messages)
    return Agent("desk", model=ScriptedModel(made), tools=[find, refund])

def stand_in(messages):
    if SEED and draw.random() < 0.12:
        os.kill(os.getpid(), signal.SIGKILL)
    return "simulated " + messages[-1].text[-20:]

SIMULATOR = Agent("simulator", model=ScriptedModel(stand_in))

async def main():
    path = FOLDER + "/data.jsonl"
    if not os.path.exists(path):
        journal = MemoryJournal()
        for number in range(3):
            await run(agent("old"), Request(str(number), run_id=f"r{number}"), journal=journal)
        (await lab.Dataset.from_journal(journal)).write(path)
    data = lab.Dataset.read(path)
    # A model call that was cut off is made again, so the number of steps may differ.
    scorers = [lab.same_effects(), lab.trajectory(), lab.completed()]
    more = {"unseen": "simulated", "simulator": SIMULATOR} if SIMULATES else {}
    report = await lab.run(
        data, {"old": agent("old"), "new": agent("new")}, scorers=scorers,
        journal=FOLDER + "/" + sys.argv[3], concurrency=2, **more,
    )
    report.write(FOLDER + "/report.json")

asyncio.run(main())
"""


def attempt(folder: Path, seed: int, journal: str, unseen: str) -> int:
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    process = start_python("program.py", str(folder), str(seed), journal, unseen, cwd=folder)
    return process.wait(timeout=60)


def facts_in(folder: Path) -> list[object]:
    report = json.loads((folder / "report.json").read_text("utf-8"))
    return [
        [
            row.get(name)
            for name in ("case", "variant", "status", "scores", "new_effects", "simulated")
        ]
        for row in report["rows"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("unseen", ["deny", "simulated"])
def test_killed_again_and_again_it_makes_the_same_report_and_pays_nobody(
    tmp_path: Path, unseen: str
) -> None:
    assert attempt(tmp_path, 0, "whole.db", unseen) == 0
    whole, kills = facts_in(tmp_path), 0
    for seed in range(1, 60):
        code = attempt(tmp_path, seed, "cut.db", unseen)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    assert kills >= 3
    for found, expected in zip(facts_in(tmp_path), whole, strict=True):
        assert found == expected
    assert not (tmp_path / "paid.txt").exists()
