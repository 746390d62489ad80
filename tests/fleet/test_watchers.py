"""Many watch runs that other processes stream: each sees what is written, as it is written.

``UPSHOT_FLEET=1`` has 50 runs and 200 watchers, and prints how soon they see it and what a commit
of another process costs meanwhile, beside one while the same runs are streamed to nobody.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.places import Place
from tests.processes import start_python
from upshot import RunHandle, Status, attach, open_journal
from upshot.contract import ModelReplied, TextDelta
from upshot.journal.postgres.urls import is_url
from upshot.journal.sqlite.sqlite_journal import LiveFile

IS_LARGE = bool(os.environ.get("UPSHOT_FLEET"))
RUNS, WATCHERS, WORDS = (50, 200, 40) if IS_LARGE else (4, 12, 5)
PROCESSES = 2

PROGRAM = """
import asyncio, sys, time
from upshot import Agent, ModelResponse, Request, Text, ToolCall, open_journal, run, start, tool
from upshot.contract import TextDelta

where, first, end, words = sys.argv[1], *map(int, sys.argv[2:5])
name, is_shown = sys.argv[5], sys.argv[5] == "run"
may, waiting = asyncio.Event(), []

@tool(effect="read")
async def wait() -> str:
    waiting.append(1)
    await may.wait()
    return "Go on."

class Speaker:
    name = "test:speaker"
    def __init__(self):
        self.calls = 0
    async def call(self, request):
        self.calls += 1
        call = ToolCall("w", "wait")
        return ModelResponse(parts=(call if self.calls == 1 else Text("nothing was streamed"),))
    async def stream(self, request):
        if not self.calls:
            yield await self.call(request)
            return
        said = ""
        for _ in range(words):
            said += (word := f"{time.time()} ")
            yield TextDelta(text=word)
            await asyncio.sleep(0.05)
        yield ModelResponse(parts=(Text(said),))

async def do(journal, n):
    agent, request = Agent("a", model=Speaker(), tools=[wait]), Request("?", run_id=f"{name}-{n}")
    if is_shown:
        await run(agent, request, journal=journal)
        return
    async with start(agent, request, journal=journal) as live:
        async for event in live:
            pass

async def main():
    async with open_journal(where) as journal:
        work = [asyncio.ensure_future(do(journal, n)) for n in range(first, end)]
        while len(waiting) < end - first:
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        may.set()
        await asyncio.gather(*work)

asyncio.run(main())
"""

COMMITS = """
import asyncio, statistics, sys, threading, time
from upshot import open_journal
from upshot.contract import RunStarted, StepStarted

async def main():
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
    took, run_id = [], sys.argv[5]
    async with open_journal(sys.argv[1]) as journal:
        epoch = await journal.claim(run_id)
        journal.append(RunStarted(run_id=run_id, seq=(seq := 1)), epoch=epoch)
        print("ready", flush=True)
        while not over.is_set():
            seq += 1
            began = time.perf_counter()
            journal.append(StepStarted(run_id=run_id, seq=seq, key=f"{seq}"), epoch=epoch)
            await journal.durable(run_id, seq)
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)
    print(statistics.median(took))

asyncio.run(main())
"""


def started(program: Path, place: Place, first: int, end: int, name: str) -> Any:
    given = [place.where, first, end, WORDS, name]
    return start_python(program, *given, stdin=PIPE, stdout=PIPE, text=True)


async def watch_run(handle: RunHandle, *, deltas: bool) -> tuple[float, str, str]:
    """How late the first piece came, the text of the pieces, and that of the reply."""
    late_s, text, reply = -1.0, "", ""
    async for event in handle.events(deltas=deltas):
        if isinstance(event, TextDelta):
            if late_s < 0:
                late_s = time.time() - float(event.text.split()[0])
            text += event.text
        elif isinstance(event, ModelReplied):
            reply = event.response.content or ""
    return late_s, text, reply


async def play(
    place: Place, program: Path, name: str, *, deltas: bool
) -> tuple[list[tuple[float, str, str]], float]:
    """Watch runs of other processes; what was seen, and seconds that another's commit took."""
    program.write_text(PROGRAM)
    share = RUNS // PROCESSES
    processes = [
        started(program, place, n * share, (n + 1) * share, name) for n in range(PROCESSES)
    ]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(open_journal(place.where))
        for process in processes:
            assert (await asyncio.to_thread(process.stdout.readline)) == "ready\n"
        handles = [
            await stack.enter_async_context(attach(f"{name}-{n % RUNS}", journal=place.where))
            for n in range(WATCHERS)
        ]
        watching = [asyncio.ensure_future(watch_run(one, deltas=deltas)) for one in handles]
        if deltas:
            await wanted(place)
        (other := program.with_name("commits.py")).write_text(COMMITS)
        committing = started(other, place, 0, 0, f"{name}-other")
        assert (await asyncio.to_thread(committing.stdout.readline)) == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        found = await asyncio.gather(*watching)
        took, _ = await asyncio.to_thread(committing.communicate, "over\n")
        for handle in handles[:RUNS]:
            result = await handle.result(timeout_s=0)
            assert result is not None and result.status is Status.COMPLETED
    for process in processes:
        await asyncio.to_thread(process.communicate)
        assert process.returncode == 0
    return found, float(took)


async def test_many_see_what_other_processes_stream(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = None
    if IS_LARGE:
        # The same runs, streamed in their own processes only.
        _, before = await play(place, tmp_path / "program.py", "own", deltas=False)
    found, took = await play(place, tmp_path / "program.py", "run", deltas=True)
    for late_s, text, reply in found:
        # What was shown is how the reply begins: the rest came with the reply itself.
        assert late_s >= 0 and text and reply.startswith(text), (text, reply)
    if before is not None:
        late = sorted(late_s for late_s, _, _ in found)
        with capsys.disabled():
            print(
                f"\nfirst piece p50 {1e3 * statistics.median(late):.0f} ms, "
                f"p95 {1e3 * late[int(0.95 * len(late))]:.0f} ms, last {1e3 * late[-1]:.0f} ms; "
                f"a commit of another process {1e3 * took:.2f} ms, without {1e3 * before:.2f} ms"
            )


async def wanted(place: Place) -> None:
    """Wait until the word of every watcher has come to where the processes find it."""

    def count() -> int:
        if is_url(place.where):
            return len(place.do("SELECT 1 FROM runs WHERE shown_until > now()"))
        live = LiveFile(place.where)
        try:
            return len(live.requested_runs())
        finally:
            live.close()

    while await asyncio.to_thread(count) < RUNS:
        await asyncio.sleep(0.02)
