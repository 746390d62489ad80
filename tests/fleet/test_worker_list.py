"""Workers are listed with what they hold, and one that is drained finishes that and ends."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.test_worker import Office, at_work, speaker
from tests.places import Place
from tests.processes import start_python
from upshot import Agent, App, Misuse, ScriptedModel, tool
from upshot.fleet.worker import Worker
from upshot.fleet.worker_list import WorkerState, drain_worker, read_workers
from upshot.version import __version__

# Each call writes its process and run into a book, and then waits until the gate is open.
PROGRAM = """
import asyncio, os
from pathlib import Path
import upshot
from upshot import Agent, App, ModelResponse, ToolCall, ToolContext

HERE = Path(__file__).parent

@upshot.tool(effect="write")
async def work(context: ToolContext) -> str:
    with open(HERE / "book", "a") as book:
        book.write(f"{os.getpid()} {context.run_id}\\n")
    while not (HERE / "open").exists():
        await asyncio.sleep(0.01)
    return "worked"

class Once:
    async def call(self, request):
        if request.messages[-1].role == "tool":
            return ModelResponse(content="Done.")
        return ModelResponse(tool_calls=(ToolCall("w", "work"),))

app = App([Agent("a", model=Once(), tools=[work])], journal="WHERE", version="1")
"""
RUNS, AT_ONCE = 14, 4


@pytest.fixture
def begin(tmp_path: Path, place: Place) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts a worker in a process of its own."""
    (tmp_path / "app.py").write_text(PROGRAM.replace("WHERE", place.where))
    begun: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        program = ("-m", "upshot", "work", tmp_path / "app.py", "--concurrency", AT_ONCE)
        begun.append(start_python(*program))
        return begun[-1]

    yield start
    for process in begun:
        with process:
            process.kill()


async def until(journal: Any, holds: Callable[[dict[int, WorkerState]], bool]) -> Any:
    """Wait for something about the workers; returns them by process id."""
    while not holds(found := {one.pid: one for one in await read_workers(journal)}):
        await asyncio.sleep(0.02)
    return found


async def test_one_of_two_workers_is_drained_under_load_and_nothing_is_lost_or_done_twice(
    begin: Callable[[], subprocess.Popen[bytes]], tmp_path: Path, place: Place
) -> None:
    @tool(effect="write")
    async def work() -> str:
        return ""

    agent = Agent("a", model=ScriptedModel([]), tools=[work])
    async with App([agent], journal=place.where, version="1") as app, asyncio.timeout(120):
        journal = await app.open()
        runs = [await app.submit("a", "?") for _ in range(RUNS)]
        first, second = begin(), begin()
        pids = {first.pid, second.pid}

        def are_busy(workers: dict[int, WorkerState]) -> bool:
            return pids <= workers.keys() and all(len(workers[n].runs) == AT_ONCE for n in pids)

        workers = await until(journal, are_busy)
        drained = workers[first.pid]
        assert (drained.version, drained.upshot, drained.concurrency) == ("1", __version__, AT_ONCE)
        assert drained.lease_s is not None and drained.lease_s > 0
        assert drained.since is not None and drained.seen is not None
        asked = await drain_worker(journal, drained.id, by="ann")
        again = await drain_worker(journal, drained.id, by="ben")
        assert asked.drain is not None and asked.drain == again.drain
        assert (asked.drain.by, asked.runs) == ("ann", drained.runs)
        listed = await until(journal, lambda found: found[first.pid].state == "draining")
        assert listed[first.pid].runs == drained.runs
        assert listed[second.pid].state == "working"
        (tmp_path / "open").touch()
        results = [await run.result() for run in runs]
        assert [result and result.output for result in results] == ["Done."] * RUNS
        assert await asyncio.to_thread(first.wait) == 0
        assert [one.pid for one in await read_workers(journal)] == [second.pid]
    lines = [line.split() for line in (tmp_path / "book").read_text().splitlines()]
    assert Counter(run_id for _, run_id in lines) == Counter(run.id for run in runs)
    # It finished what it held, and took nothing after that.
    assert {run_id for pid, run_id in lines if int(pid) == first.pid} == set(drained.runs)
    assert second.poll() is None


async def test_a_killed_worker_is_gone_and_cannot_be_drained(
    begin: Callable[[], subprocess.Popen[bytes]], place: Place
) -> None:
    async with aclosing(await place.open()) as journal, asyncio.timeout(60):
        process = begin()
        worker = (await until(journal, lambda found: process.pid in found))[process.pid]
        assert (worker.state, worker.runs, worker.lease_s) == ("working", (), None)
        process.kill()
        process.wait()
        await until(journal, lambda found: found[process.pid].state == "gone")
        with pytest.raises(Misuse, match=f"'{worker.id}' is gone"):
            await drain_worker(journal, worker.id, by="ann")


async def test_a_drained_worker_finishes_its_run_and_leaves_the_next_one(journal: Any) -> None:
    office = Office()
    async with App([office.agent, speaker("b")], journal=journal) as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        worker = Worker(app)
        task = asyncio.create_task(worker.work())
        await office.begun.wait()
        [entry] = (await until(journal, len)).values()
        with pytest.raises(Misuse, match=f"'none' is not a worker .*: there are {entry.id}"):
            await drain_worker(journal, "none", by="ann")
        await drain_worker(journal, entry.id, by="ann")
        while not worker.is_draining:
            await asyncio.sleep(0.01)
        later = await app.submit("b", "?")
        office.may_end.set()
        assert await task
        result = await run.result()
        assert result is not None and (result.output, office.done) == ("Done.", ["worked"])
        assert [one.run_id for one in await app.due()] == [later.id]
        assert await read_workers(journal) == ()
        async with at_work(app):
            done = await later.result()
        assert done is not None and done.output == "Done."
