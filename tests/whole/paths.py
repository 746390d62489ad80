"""The paths by which a case is run: one function each, which gives what it led to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import upshot
from tests.whole.world import Life
from upshot import AgentResult, Misuse, Request, RunSettled, Status
from upshot.contract.protocols import Event


@dataclass
class Outcome:
    """What a life of a case led to.

    Attributes:
        result: The last result.
        journal: An open journal with the log, None if there is none.
        shown: The last result that each reader was shown, None if it was shown none.
        results: The results of all sessions, in order.
    """

    result: AgentResult[Any]
    journal: Any = None
    shown: list[AgentResult[Any] | None] = field(default_factory=list)
    results: list[AgentResult[Any]] = field(default_factory=list)


class Stopper:
    """Stops the run at its step, once."""

    def __init__(self, life: Life) -> None:
        self._stop, self._count, self.live = life.case.stop, 0, None
        life.world.on_step = self.step
        self._loop = asyncio.get_running_loop()

    def step(self, kind: str) -> None:
        """Count a step, and stop if it is the one."""
        if self._stop is None or kind != self._stop[0]:
            return
        self._count += 1
        if self._count != self._stop[1]:
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._go, self._stop[2])

    def _go(self, way: str) -> None:
        live: Any = self.live
        if isinstance(live, asyncio.Task):
            live.cancel()
        elif live is not None:
            getattr(live, way)()


async def read(live: Any, shown: list[AgentResult[Any] | None]) -> None:
    """Read the events of a run to their end."""
    place = len(shown)
    shown.append(None)
    async for event in live:
        if isinstance(event, RunSettled) and not event.path:
            shown[place] = event.result


async def by_run(life: Life, journal: Any) -> Outcome:
    """``await run(...)``."""
    return await _to_end(life, journal, lambda options: _started(life, options))


async def _started(life: Life, options: dict[str, Any]) -> AgentResult[Any]:
    """A run that nobody watches, which can be stopped all the same."""
    if life.case.stop is None:
        return await upshot.run(life.agent(), request(life), **options)
    stopper = Stopper(life)
    async with upshot.start(life.agent(), request(life), **options) as live:
        stopper.live = live
        return await live.result()


async def by_run_sync(life: Life, journal: Any) -> Outcome:
    """``run_sync(...)`` in a thread, which has a loop of its own."""

    async def go(options: dict[str, Any]) -> AgentResult[Any]:
        if life.case.stop is not None:
            return await _started(life, options)
        if life.case.journal == "sqlite":
            # An open journal belongs to its loop.
            options = {**options, "journal": life.journal}
        return await asyncio.to_thread(upshot.run_sync, life.agent(), request(life), **options)

    return await _to_end(life, journal, go)


async def by_start(life: Life, journal: Any) -> Outcome:
    """``start(...)``, with readers that join at their events."""
    shown: list[AgentResult[Any] | None] = []

    async def go(options: dict[str, Any]) -> AgentResult[Any]:
        stopper, guests = Stopper(life), list[asyncio.Task[None]]()
        first, *others = (*life.case.readers, 0)
        async with upshot.start(life.agent(), request(life), **options) as live:
            stopper.live = live
            if not life.case.readers:
                return await live.result()
            own = asyncio.create_task(read(live, shown))
            for joins in others[:-1]:
                guests.append(asyncio.create_task(_guest(life, live, options["journal"], joins, shown)))
            result = await live.result()
            await asyncio.gather(own, *guests)
        return result

    return await _to_end(life, journal, go, shown)


async def _guest(life: Life, live: Any, journal: Any, joins: int, shown: list[Any]) -> None:
    """A further reader of a run that is under way."""
    for _ in range(joins * 5):
        await asyncio.sleep(0)
    if live.done:
        return
    # The run may be ending meanwhile.
    with suppress(Misuse):
        async with upshot.reopen(life.run_id, life.agent(), journal=journal) as guest:
            await read(guest, shown)


async def by_resume(life: Life, journal: Any) -> Outcome:
    """A run that is cancelled at its stop, or parks, and goes on from the log as often as needed."""
    return await _to_end(life, journal, lambda options: _started(life, options), goes_on=True)


Go = Callable[[dict[str, Any]], Awaitable[AgentResult[Any]]]


async def _to_end(
    life: Life,
    journal: Any,
    go: Go,
    shown: list[AgentResult[Any] | None] | None = None,
    *,
    goes_on: bool = False,
) -> Outcome:
    """Begin by *go*, and answer what is asked until it has ended."""
    options = {**life.options(), "journal": journal}
    results = [await go(options)]
    while results[-1].status is Status.INPUT_REQUIRED or (goes_on and _was_stopped(results[-1])):
        life.world.on_step = lambda kind: None
        answers = [life.answer(one) for one in results[-1].pending]
        resumed = await upshot.resume(
            life.run_id,
            life.agent(),
            answers=answers,
            continue_stopped=goes_on,
            **options,
        )
        results.append(resumed)
    return Outcome(results[-1], journal, shown or [], results)


def _was_stopped(result: AgentResult[Any]) -> bool:
    return result.status in (Status.CANCELED, Status.INTERRUPTED)


def request(life: Life, task: int = 0) -> Request:
    """What is asked."""
    return Request(f"Task #{task}: go.", run_id=life.run_id)


PATHS: dict[str, Callable[[Life, Any], Awaitable[Outcome]]] = {
    "run": by_run,
    "run_sync": by_run_sync,
    "start": by_start,
    "resume": by_resume,
}


async def run_case(life: Life, path: str, journal: Any) -> Outcome:
    """Run a case by *path*."""
    return await PATHS[path](life, journal)


__all__ = ["PATHS", "Event", "Outcome", "run_case"]
