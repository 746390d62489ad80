"""Work that several wait for: done once, and ended by none of them for the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, run
from upshot.runs.engine_api.steps import SharedWork


class Slow:
    """A body that waits until it is let go, and counts."""

    def __init__(self) -> None:
        self.begun = self.ended = self.cancelled = 0
        self.gate = asyncio.Event()

    async def work(self) -> str:
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            await asyncio.sleep(0)
            raise
        self.ended += 1
        return "done"


async def waiters(count: int, jobs: SharedWork[str], slow: Slow) -> list[asyncio.Task[str]]:
    tasks = [asyncio.ensure_future(jobs.do("k", slow.work)) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_who_is_cancelled_only_stops_waiting(leaver: int) -> None:
    jobs, slow = SharedWork[str](), Slow()
    tasks = await waiters(3, jobs, slow)
    tasks.pop(leaver).cancel()
    await asyncio.sleep(0)
    slow.gate.set()
    assert await asyncio.gather(*tasks) == ["done", "done"]
    assert (slow.begun, slow.ended, slow.cancelled) == (1, 1, 0)


async def test_the_last_to_leave_ends_the_work_and_waits_for_that() -> None:
    jobs, slow = SharedWork[str](), Slow()
    tasks = await waiters(2, jobs, slow)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert (slow.begun, slow.ended, slow.cancelled) == (1, 0, 1)
    assert all(task.cancelled() for task in tasks)


async def test_what_the_work_raises_reaches_all() -> None:
    async def fail() -> str:
        raise KeyError("k")

    jobs = SharedWork[str]()
    told = await asyncio.gather(*(jobs.do("k", fail) for _ in range(2)), return_exceptions=True)
    assert [type(one) for one in told] == [KeyError, KeyError]


async def test_what_is_done_is_done_anew() -> None:
    jobs, slow = SharedWork[str](), Slow()
    slow.gate.set()
    await jobs.do("k", slow.work)
    await jobs.do("k", slow.work)
    assert slow.begun == 2


class Lingering(Slow):
    """A body that, once cancelled, cleans up until it is let go."""

    answer: str = ""

    async def work(self) -> str:
        self.begun += 1
        if self.begun > 1:
            return "anew"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            await self.gate.wait()
            if not self.answer:
                raise
        return self.answer


async def come_late(slow: Lingering) -> tuple[asyncio.Task[str], list[str]]:
    """The last who waited is cancelled; two come while the work cleans up."""
    jobs = SharedWork[str]()
    (leaver,) = await waiters(1, jobs, slow)
    leaver.cancel()
    while not slow.cancelled:
        await asyncio.sleep(0)
    late = await waiters(2, jobs, slow)
    slow.gate.set()
    return leaver, await asyncio.gather(*late)


async def test_who_comes_while_work_is_being_cancelled_has_it_done_anew() -> None:
    slow = Lingering()
    leaver, told = await come_late(slow)
    assert (leaver.cancelled(), told, slow.begun) == (True, ["anew", "anew"], 2)


async def test_who_comes_while_work_is_being_cancelled_gets_what_it_gives_all_the_same() -> None:
    slow = Lingering()
    slow.answer = "kept"
    leaver, told = await come_late(slow)
    assert (leaver.cancelled(), told, slow.begun) == (True, ["kept", "kept"], 1)


async def first_leaves(run: Any, host: Any, ask: Any, gate: asyncio.Event) -> Any:
    """Two ask for the same, and the one that was first is cancelled."""
    first, second = asyncio.ensure_future(ask()), asyncio.ensure_future(ask())
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait({first})
    gate.set()
    return await second


async def test_a_step_goes_on_while_anybody_waits_for_it() -> None:
    slow = Slow()

    async def work(run: Any, host: Any, board: Any) -> Any:
        return await first_leaves(run, host, lambda: host.once("k", "write", slow.work), slow.gate)

    result = await run(Agent("a", engine=Do(work)), "?")
    assert (result.status, result.output) == ("completed", "done")
    assert (slow.begun, slow.cancelled) == (1, 0)


async def test_a_child_goes_on_while_anybody_waits_for_it() -> None:
    slow = Slow()
    inner = Agent("inner", engine=Do(lambda *_: slow.work()))

    async def work(run: Any, host: Any, board: Any) -> Any:
        async def ask() -> Any:
            return (await run.child(inner, "?", key="k")).output

        return await first_leaves(run, host, ask, slow.gate)

    result = await run(Agent("a", engine=Do(work)), "?")
    assert (result.status, result.output) == ("completed", "done")
    assert (slow.begun, slow.cancelled) == (1, 0)


async def test_a_step_that_nobody_waits_for_any_more_is_cancelled() -> None:
    slow = Slow()

    async def work(run: Any, host: Any, board: Any) -> None:
        async with asyncio.timeout(0.01):
            await host.once("k", "read", slow.work)

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert (result.error.type, slow.cancelled) == ("TimeoutError", 1)
