"""Runs that wait leave their worker, and go on with any other when the wait is over."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.test_worker import at_work
from tests.places import Place
from tests.processes import start_python
from tests.runs.kit import kinds, log_of
from upshot import Agent, AgentError, App, ErrorCode, ModelResponse, Retry, RunReleased


class Busy:
    """A model that is busy so often, and then answers."""

    def __init__(self, times: int, wait_s: float = 0.2) -> None:
        self.times, self.calls = times, 0
        self.error = AgentError(ErrorCode.RATE_LIMIT, "", retryable=True, retry_after_s=wait_s)

    async def call(self, request: Any) -> ModelResponse:
        self.calls += 1
        if self.calls <= self.times:
            return ModelResponse(error=self.error)
        return ModelResponse(content="Done.")


async def released(journal: Any, run_id: str) -> RunReleased:
    """The word that a run is left, once it is in the log."""
    while True:
        for event in await log_of(journal, run_id):
            if isinstance(event, RunReleased):
                return event
        await asyncio.sleep(0.005)


async def test_a_run_that_waits_keeps_no_slot_and_goes_on_when_it_is_due(journal: Any) -> None:
    busy = Busy(2)
    agents = [
        Agent("slow", model=busy, retry=Retry(base_s=0)),
        Agent("quick", model=Busy(0)),
    ]
    async with App(agents, journal=journal) as app, asyncio.timeout(60):
        run = await app.submit("slow", "?")
        seen = asyncio.create_task(
            anext(one async for one in run.events() if one.kind == "run_settled")
        )
        async with at_work(app, concurrency=1, park_over_s=0.01):
            await released(journal, run.id)
            assert await (await app.submit("quick", "?")).result() is not None
            result = await run.result()
        # Who watches is told all of it.
        assert (await seen).result.content == "Done."
    assert result is not None and (result.content, busy.calls) == ("Done.", 3)
    logged = await log_of(journal, run.id)
    assert kinds(logged).count("run_released") == 2


async def test_what_waits_for_long_is_parked_and_is_taken_up_for_a_wish(journal: Any) -> None:
    busy = Busy(1, wait_s=3000)
    agent = Agent("a", model=busy, retry=Retry(base_s=0))
    async with App([agent], journal=journal) as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        async with at_work(app):
            event = await released(journal, run.id)
            assert event.reason == "due" and event.at is not None and event.time is not None
            assert 2990 < (event.at - event.time).total_seconds() <= 3000
            while [one.run_id for one in await app.runs("parked")] != [run.id]:
                await asyncio.sleep(0.005)
            assert await app.due() == []
            await run.interrupt("enough")
            result = await run.result()
    assert result is not None and (result.status, busy.calls) == ("interrupted", 1)


PROGRAM = """
import os, pathlib
from upshot import Agent, AgentError, App, ErrorCode, ModelResponse, Retry

HERE = pathlib.Path(__file__).parent

class Busy:
    async def call(self, request):
        with open(HERE / "calls", "a") as file:
            file.write(f"{os.getpid()}\\n")
        if len((HERE / "calls").read_text().splitlines()) <= 2:
            error = AgentError(ErrorCode.RATE_LIMIT, "busy", retryable=True, retry_after_s=0.6)
            return ModelResponse(error=error)
        return ModelResponse(content="Done.")

agent = Agent("a", model=Busy(), retry=Retry(base_s=0, max_tries=3))
app = App([agent], journal="WHERE", version="1")
"""


@pytest.fixture
def begin(tmp_path: Path, place: Place) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Begins a worker in a process of its own."""
    (tmp_path / "app.py").write_text(PROGRAM.replace("WHERE", place.where))
    given = ["-m", "upshot", "work", tmp_path / "app.py", "--grace", "0", "--park-over", "0.1"]
    begun: list[subprocess.Popen[bytes]] = []

    def work() -> subprocess.Popen[bytes]:
        begun.append(start_python(*given))
        return begun[-1]

    yield work
    for process in begun:
        with process:
            process.kill()


async def test_a_worker_that_is_killed_while_its_run_is_parked_leaves_it_to_one_of_two(
    tmp_path: Path, place: Place, begin: Callable[[], subprocess.Popen[bytes]]
) -> None:
    agent = Agent("a", model=Busy(0))
    async with App([agent], journal=place.where, version="1") as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        first = begin()
        await released(await app.open(), run.id)
        first.send_signal(signal.SIGKILL)
        first.wait(20)
        others = [begin(), begin()]
        result = await run.result()
        assert [other.poll() for other in others] == [None, None]
        logged = await log_of(await app.open(), run.id)
    assert result is not None and result.content == "Done."
    calls = (tmp_path / "calls").read_text().splitlines()
    # As many as the policy allows, in the order of the log, each by one process.
    assert len(calls) == 3 and calls[0] == str(first.pid)
    told = kinds(logged)
    assert (told.count("model_retried"), told.count("model_replied")) == (2, 1)
    # Who found it due and comes second leaves it again, for what is left of the next wait.
    assert told.count("run_resumed") == told.count("run_released") >= 2
