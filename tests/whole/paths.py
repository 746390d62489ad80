"""The paths by which a case is run: one function each, which returns the outcome."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import upshot
from tests.whole.case import make_case
from tests.whole.provider import World
from tests.whole.shown import ShownText, fault_of_text
from tests.whole.world import Life
from upshot import AgentResult, JournalError, Misuse, RunSettled, Status, VoidText
from upshot.models import AiohttpTransport

PROCESSES = multiprocessing.get_context("forkserver")
# Warm processes: what a child needs, even at first use, is loaded before it starts.
PROCESSES.set_forkserver_preload(
    [
        "tests.whole.doors",
        "jsonschema_rs",
        "upshot.journal.sqlite.sqlite_journal",
        "upshot.models.aiohttp_connector",
    ]
)


@dataclass
class Outcome:
    """The outcome of running a case.

    Attributes:
        result: The last result.
        journal: An open journal with the log, or None.
        shown: The last result that each reader saw, or None.
        results: The results of all sessions, in order.
        kills: How many times its process was killed.
        turns: The last result of each turn of a conversation; empty for a single run.
    """

    result: AgentResult[Any]
    journal: Any = None
    shown: list[AgentResult[Any] | None] = field(default_factory=list[AgentResult[Any] | None])
    results: list[AgentResult[Any]] = field(default_factory=list[AgentResult[Any]])
    kills: int = 0
    turns: list[AgentResult[Any]] = field(default_factory=list[AgentResult[Any]])


class Steps:
    """Counts the steps of a life, and acts at one of them, once."""

    def __init__(self, life: Life, at: tuple[str, int] | None, act: Callable[[], object]) -> None:
        self._at, self._count, self._act = at, 0, act
        life.world.on_step = self.step

    def step(self, kind: str) -> None:
        """Count a step, and act if it is the one."""
        if self._at is None or kind != self._at[0]:
            return
        self._count += 1
        if self._count == self._at[1]:
            self._act()


def stop_at_step(life: Life, live: Any) -> None:
    """Stop *live* at the step of the case."""
    if (stop := life.case.stop) is not None:
        Steps(life, stop[:2], getattr(live, stop[2]))


async def read(life: Life, live: Any, shown: list[AgentResult[Any] | None]) -> None:
    """Read the events of a run to their end."""
    place, text = len(shown), ShownText(life.world.strange)
    shown.append(None)
    async for event in live:
        text.add(event)
        if isinstance(event, RunSettled) and not event.path:
            shown[place] = event.result


async def read_text(life: Life, live: Any) -> None:
    """Read the text of a run to its end, and compare it with the result."""
    text = ""
    async for piece in live.text():
        text = (text[: -piece.voids] if isinstance(piece, VoidText) and piece.voids else text) + (
            "" if isinstance(piece, VoidText) else piece
        )
    result = await live.result()
    if (fault := fault_of_text(life.case, text, result)) is not None:
        life.world.strange.append(fault)


async def by_run(life: Life, journal: Any) -> Outcome:
    """``await run(...)``."""
    return await _to_end(life, journal, lambda options: _begun(life, options))


async def _begun(life: Life, options: dict[str, Any]) -> AgentResult[Any]:
    """Make a run without readers that can still be stopped."""
    if life.case.stop is None:
        return await life.begin(**options)
    async with life.start(**options) as live:
        stop_at_step(life, live)
        return await live.result()


async def by_run_sync(life: Life, journal: Any) -> Outcome:
    """``run_sync(...)`` in a thread with its own loop."""

    async def go(options: dict[str, Any]) -> AgentResult[Any]:
        if life.case.stop is not None or life.case.engine == "handoff":
            return await _begun(life, options)
        if life.case.journal == "sqlite":
            # An open journal belongs to its loop.
            options = {**options, "journal": life.journal}
        (agent,) = life.agents()
        return await asyncio.to_thread(upshot.run_sync, agent, life.request(), **options)

    return await _to_end(life, journal, go)


async def by_start(life: Life, journal: Any) -> Outcome:
    """``start(...)``, with readers that join at their events."""
    shown: list[AgentResult[Any] | None] = []

    async def go(options: dict[str, Any]) -> AgentResult[Any]:
        readers = life.case.readers
        async with life.start(**options) as live, asyncio.TaskGroup() as group:
            stop_at_step(life, live)
            if readers and life.case.seed % 2:
                group.create_task(read_text(life, live))
            elif readers:
                group.create_task(read(life, live, shown))
            for joins in readers[1:]:
                group.create_task(_guest(life, live, joins, shown, options))
            return await live.result()

    return await _to_end(life, journal, go, shown)


async def _guest(
    life: Life, live: Any, joins: int, shown: list[Any], options: dict[str, Any]
) -> None:
    """Read a running run as another reader."""
    for _ in range(joins * 5):
        await asyncio.sleep(0)
    if live.done or life.case.engine == "handoff":
        return
    # The run may be ending.
    with suppress(Misuse):
        (agent,) = life.agents()
        async with upshot.reopen(life.run_id, agent, **options) as guest:
            await read(life, guest, shown)


async def by_resume(life: Life, journal: Any) -> Outcome:
    """Make a run that is stopped, or parks, and is resumed from the log as often as needed."""
    return await _to_end(life, journal, lambda options: _begun(life, options), goes_on=True)


async def by_leave(life: Life, journal: Any) -> Outcome:
    """Leave ``async with start(...)`` before the run has ended; some cases resume it."""

    async def go(options: dict[str, Any]) -> AgentResult[Any]:
        leaves, text = asyncio.Event(), ShownText(life.world.strange)
        stop = life.case.stop
        Steps(life, None if stop is None else stop[:2], leaves.set)
        async with life.start(**options) as live:
            async for event in live:
                text.add(event)
                if leaves.is_set():
                    break
        if not live.done:
            life.world.strange.append("its block was left, and it is worked on")
        return await live.result()

    return await _to_end(life, journal, go, goes_on=life.case.seed % 2 == 0)


async def by_conversation(life: Life, journal: Any) -> Outcome:
    """Make the turns of a conversation, one after the other."""
    outcomes: list[Outcome] = []
    for task in range(life.case.tasks):

        async def go(options: dict[str, Any], task: int = task) -> AgentResult[Any]:
            return await life.begin(task, **options)

        outcomes.append(await _to_end(life, journal, go))
    last, turns = outcomes[-1], [one.result for one in outcomes]
    results = [result for one in outcomes for result in one.results]
    return Outcome(last.result, journal, [], results, turns=turns)


async def by_kill(life: Life, journal: Any) -> Outcome:
    """Make a run whose processes are killed, one after the other, until one is left alone."""
    killed = await killed_in(life, work_alone)
    outcome = await _to_end(life, journal, partial(_go_on, life))
    outcome.kills = killed
    return outcome


async def killed_in(life: Life, work: Work) -> int:
    """Run *work* in processes, each of which is killed; returns how many were."""
    killed = 0
    for place in range(len(life.case.kills)):
        killed += await _killed(life, place, work)
    return killed


async def _killed(life: Life, place: int, work: Work) -> bool:
    """Run *work* in a process, and kill it where the case says; returns whether it was killed."""
    seat = (life.case.seed, life.world.number, life.folder, life.port), place, work
    await asyncio.to_thread(_wait_for_fork_server)
    process = PROCESSES.Process(target=be_killed, args=seat, daemon=True)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    process.start()
    at = life.case.kills[place]
    Steps(life, at if at[0] == "request" else None, process.kill)
    loop.add_reader(process.sentinel, lambda: ended.done() or ended.set_result(None))
    await ended
    loop.remove_reader(process.sentinel)
    process.join()
    life.world.on_step = lambda kind: None
    if process.exitcode not in (0, -signal.SIGKILL):
        life.world.strange.append(f"the child process ended with {process.exitcode}")
    return process.exitcode != 0


@cache
def _wait_for_fork_server() -> None:
    """Start a process that does nothing; the first takes seconds, which other cases can use."""
    process = PROCESSES.Process(target=_do_nothing)
    process.start()
    process.join()


def _do_nothing() -> None:
    pass


async def _go_on(life: Life, options: dict[str, Any]) -> AgentResult[Any]:
    """Start the run, or resume it if it was started."""
    runs = [one.run_id for one in await options["journal"].runs() if not one.parent_run_id]
    return await life.resume(runs[-1], **options) if runs else await life.begin(**options)


async def work_alone(life: Life, journal: Any) -> None:
    """Start or resume the run, until it ends."""
    await _to_end(life, journal, partial(_go_on, life))


def be_killed(seat: tuple[int, int, str, int], place: int, work: Work) -> None:
    """Work on a run in this process, which is killed in the middle."""
    seed, number, folder, port = seat

    async def go() -> None:
        async with aclosing(AiohttpTransport()) as transport:
            life = Life(World(number, make_case(seed)), folder, port, transport)
            kill = life.case.kills[place]
            at = None if kill[0] == "request" else kill
            Steps(life, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
            async with upshot.open_journal(life.journal) as journal:
                await work(life, journal)

    asyncio.run(go())


Work = Callable[[Life, Any], Awaitable[None]]
Go = Callable[[dict[str, Any]], Awaitable[AgentResult[Any]]]


async def _to_end(
    life: Life,
    journal: Any,
    go: Go,
    shown: list[AgentResult[Any] | None] | None = None,
    *,
    goes_on: bool = False,
) -> Outcome:
    """Start with *go*, and answer questions until the run has ended."""
    options = {**life.options(), "journal": journal}
    results = [await go(options)]
    while results[-1].status is Status.INPUT_REQUIRED or (goes_on and _was_stopped(results[-1])):
        if goes_on:
            life.world.on_step = lambda kind: None
        last = results[-1]
        answers = [life.answer(one) for one in last.pending]
        results.append(
            await life.resume(last.run_id, answers=answers, continue_stopped=goes_on, **options)
        )
    return Outcome(results[-1], journal, shown or [], results)


def _was_stopped(result: AgentResult[Any]) -> bool:
    return result.status in (Status.CANCELED, Status.INTERRUPTED)


PATHS: dict[str, Callable[[Life, Any], Awaitable[Outcome]]] = {
    "run": by_run,
    "run_sync": by_run_sync,
    "start": by_start,
    "resume": by_resume,
    "leave": by_leave,
    "kill": by_kill,
    "conversation": by_conversation,
}

__all__ = ["PATHS", "JournalError", "Outcome"]
