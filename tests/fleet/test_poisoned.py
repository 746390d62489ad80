"""A run that kills its worker is set aside, and those beside it complete."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.places import Place
from tests.processes import run_python, start_python
from upshot import Agent, App, ModelResponse, ScriptedModel
from upshot.fleet.worker import (
    ALONE_AFTER,
    ALONE_AT_ONCE,
    count_death,
    forget_deaths,
    note_alone,
    set_aside,
)
from upshot.journal.lease_holder import this_process

NEIGHBOURS = 49 if "UPSHOT_FLEET" in os.environ else 5
# Until it has died twice, all others are at one place when it dies.
PROGRAM = """
import asyncio, os, pathlib, signal
from upshot import Agent, App, ModelResponse, ToolCall, tool

HERE = pathlib.Path(__file__).parent
there = []

def note(name):
    with open(HERE / name, "a") as file:
        file.write("x")
    return len((HERE / name).read_text())

note("processes")

@tool(effect="read")
async def look(step: int) -> str:
    return "seen"

class Model:
    async def call(self, request):
        said = sum(message.role == "assistant" for message in request.messages)
        deaths = HERE / "deaths"
        dies_at_once = deaths.exists() and len(deaths.read_text()) >= 2
        if said == 2 and "poison" in request.messages[0].text:
            while len(there) < NEIGHBOURS and not dies_at_once:
                await asyncio.sleep(0.01)
            note("deaths")
            os.kill(os.getpid(), signal.SIGKILL)
        if said == 2 and not dies_at_once:
            there.append(request)
            await asyncio.Event().wait()
        if said < 4:
            return ModelResponse(tool_calls=(ToolCall(f"c{said}", "look", {"step": said}),))
        return ModelResponse(content="Done.")

app = App([Agent("a", model=Model(), tools=[look])], journal="WHERE", version="1")
"""


class Said:
    async def call(self, request: Any) -> ModelResponse:
        return ModelResponse(content="Done.")


async def test_a_run_that_kills_its_worker_is_set_aside_and_those_beside_it_complete(
    tmp_path: Path, place: Place
) -> None:
    program = PROGRAM.replace("WHERE", place.where).replace("NEIGHBOURS", str(NEIGHBOURS))
    (tmp_path / "app.py").write_text(program)
    deaths = 0
    agent = Agent[Any]("a", model=Said())
    async with App([agent], journal=place.where, version="1") as app, asyncio.timeout(120):
        runs = [
            await app.submit("a", "poison" if n == 3 else "plain") for n in range(NEIGHBOURS + 1)
        ]
        while (ended := await runs[3].result(0)) is None:
            with start_python("-m", "upshot", "work", tmp_path / "app.py") as worker:
                while worker.poll() is None and await runs[3].result(0) is None:
                    await asyncio.sleep(0.02)
                deaths += worker.returncode is not None
                results = [await run.result(40) for run in runs if worker.poll() is None]
                worker.terminate()
    assert ended.error is not None
    assert (ended.status, ended.error.code) == ("failed", "worker_lost")
    # The third death was that of a process of its own, which few have had.
    assert deaths == ALONE_AFTER
    processes = len((tmp_path / "processes").read_text()) - (ALONE_AFTER + 1)
    assert processes <= ALONE_AT_ONCE + 1
    statuses = [result and result.status for result in results]
    assert statuses.pop(3) == "failed"
    assert statuses == ["completed"] * NEIGHBOURS


def test_what_only_a_worker_gives_is_told_to_who_leaves_it_out(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM.replace("WHERE", str(tmp_path / "runs.db")))
    done = run_python("-m", "upshot", "work", tmp_path / "app.py", "--fed", said="", text=True)
    assert done.returncode == 2
    assert "--fed needs a socket as standard input" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_death_is_counted_once_and_only_in_one_place(journal: Any) -> None:
    async with App([Agent("a", model=ScriptedModel(["Done."]))], journal=journal) as app:
        run = await app.submit("a", "?")
        dead = [msgspec.structs.replace(this_process(), pid=pid) for pid in (1, 2, 3)]
        counts = [
            (await count_death(run.id, one, journal)).count for one in (dead[0], dead[0], dead[1])
        ]
        assert counts == [1, 1, 2]
        await note_alone(run.id, journal)
        last = await count_death(run.id, dead[2], journal)
        assert last.is_lost
        await app.activate(run.id)
        after = await count_death(run.id, dead[0], journal)
        assert (after.count, after.is_lost) == (1, False)
        await forget_deaths(run.id, journal)
        assert (await count_death(run.id, dead[0], journal)).count == 1


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_run_is_set_aside_without_its_agent(journal: Any, *, has_begun: bool) -> None:
    async with App([Agent("a", model=Said())], journal=journal) as app:
        run = await app.submit("a", "?")
        if has_begun:
            live: list[Any] = []

            class Slow:
                async def call(self, request: Any) -> ModelResponse:
                    live[0].release("drain")
                    await asyncio.Event().wait()
                    raise AssertionError("it is cancelled")

            async with App([Agent("a", model=Slow())], journal=journal) as other:
                await other.activate(run.id, on_live=live.append)
        ended = await set_aside(run.id, journal)
        assert ended is not None and ended.error is not None
        assert (ended.status, ended.error.code) == ("failed", "worker_lost")
        assert not ended.committed
        assert await app.due() == []
