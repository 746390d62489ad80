"""Takes up the runs of an App, many at once, until it is told to end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from upshot.contract.base.checks import check_amount, check_whole
from upshot.contract.protocols import Journal
from upshot.errors import JournalError, Misuse
from upshot.fleet.app import App
from upshot.fleet.poisoned import (
    ALONE_AFTER,
    Deaths,
    count_death,
    forget_deaths,
    note_alone,
    set_aside,
)
from upshot.journal.event_codec import logger
from upshot.journal.shared import DueRun, needs_shared
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.watching import DUE, Watcher
from upshot.runs.live_run import LiveRun

# How often it looks for runs that become due by the clock, and for those whose process died, of
# which nobody tells it.
_LOOK_S = 1.0
# It looks at so many times the runs that it has room for, so that several workers that look at once
# seldom choose the same ones.
_CHOICE = 4
# A run that began with other code is left so long to a worker that has that code.
_OTHER_VERSION_S = 5.0
# A run that cannot be taken up here is looked at again after so long.
_REFUSED_S = 30.0
# All runs beside one that kills its worker may have to be worked on alone for once.
_ALONE_AT_ONCE = 4
# How long after the grace sessions may take to write their end.
_ENDING_S = 5.0


class Worker:
    """Works on the runs of an App that are due, until ``stop``.

    Args:
        app: Whose runs.
        concurrency: How many runs at once, from 1.
        grace_s: How many seconds steps in hand may take to end by themselves after ``stop``.
        only_same_version: Whether runs that began with another version are left alone; otherwise
            they are taken up when nobody else has done so for 5 s.
        alone: The command of a process that works on one run alone, by ``work_on``; the run's id is
            added. Without it a run at which its process died twice is not taken up.

    Attributes:
        refused: Why runs were not taken up here, by run.

    Raises:
        Misuse: An argument is out of its range.
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int = 50,
        grace_s: float = 25.0,
        only_same_version: bool = False,
        alone: Sequence[str] = (),
    ) -> None:
        check_whole("concurrency", concurrency, least=1)
        check_amount("grace_s", grace_s)
        self._app = app
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._only_same_version = only_same_version
        self._alone = tuple(alone)
        self._tasks: dict[str, asyncio.Task[bool]] = {}
        self._taken: dict[str, DueRun] = {}
        self._lives: dict[str, LiveRun[Any]] = {}
        # Until when a run is left alone here.
        self._later: dict[str, float] = {}
        self.refused: dict[str, str] = {}
        self._processes = set[asyncio.subprocess.Process]()
        self._room_alone = asyncio.Semaphore(_ALONE_AT_ONCE)
        self._wake = asyncio.Event()
        self._is_stopping = False

    async def work(self) -> bool:
        """Take up runs until ``stop`` is called, and then leave those under way to other workers.

        Returns:
            Whether every run was given back or has come to its end or a park.

        Raises:
            Misuse: The App has no journal, or one that processes cannot share.
            JournalError: The journal cannot be read any more.
        """
        journal = needs_shared(await self._app.open())
        with journal.watch(DUE) as watch:
            listening = asyncio.create_task(self._listen(watch))
            try:
                while not self._is_stopping:
                    self._wake.clear()
                    await self._fill()
                    await self._wake.wait()
            finally:
                listening.cancel()
                is_clean = await self.drain()
        return is_clean

    def stop(self) -> None:
        """Have ``work`` take nothing any more and end; may be called again."""
        self._is_stopping = True
        self._wake.set()

    async def _listen(self, watch: Watcher) -> None:
        """Wake the worker where runs may have become due, and from time to time."""
        while True:
            await watch.changed(_LOOK_S)
            self._wake.set()

    async def _fill(self) -> None:
        """Take up as many runs as there is room for."""
        free = self._concurrency - len(self._tasks)
        if free <= 0:
            return
        now = asyncio.get_running_loop().time()
        due = [
            one
            for one in await self._app.due(limit=_CHOICE * free + len(self._tasks))
            if one.run_id not in self._tasks and not self.is_put_off(one.run_id)
        ]
        for one in choose(due, free, self._taken.values()):
            if await self._is_ours(one, now) and not self._is_stopping:
                self.take(one)

    async def _is_ours(self, due: DueRun, now: float) -> bool:
        """Whether to take up a run; one that began with other code is left to others at first."""
        if not due.has_begun:
            return True
        new = await needs_shared(await self._app.open()).submission(due.run_id)
        if new is None or new.version == self._app.version:
            return True
        if self._only_same_version:
            self._refuse(due.run_id, f"it began with version {new.version}")
            return False
        # The second time it is looked at nobody has taken it meanwhile.
        if due.run_id in self._later:
            return True
        self._later[due.run_id] = now + _OTHER_VERSION_S
        return False

    def take(self, due: DueRun) -> asyncio.Task[bool]:
        """Take a run up, unless it is at work here; gives whether it was worked on or refused."""
        if (task := self._tasks.get(due.run_id)) is None:
            task = asyncio.create_task(self._work_on(due))
            self._tasks[due.run_id], self._taken[due.run_id] = task, due
            task.add_done_callback(lambda _: self._leave(due.run_id))
        return task

    def at_work(self, run_id: str) -> asyncio.Task[bool] | None:
        """What ``take`` gave for a run that is at work here."""
        return self._tasks.get(run_id)

    def is_put_off(self, run_id: str) -> bool:
        """Whether a run is left alone here for now."""
        return self._later.get(run_id, 0.0) > asyncio.get_running_loop().time()

    def _leave(self, run_id: str) -> None:
        for known in (self._tasks, self._taken, self._lives):
            known.pop(run_id, None)
        self._wake.set()

    async def work_on(self, run_id: str) -> bool:
        """Work on one run alone, until it ends, parks, or ``stop`` is called; see ``work``."""
        self.take(DueRun(run_id=run_id, agent_id=""))
        while self._tasks and not self._is_stopping:
            self._wake.clear()
            await self._wake.wait()
        return await self.drain()

    async def _work_on(self, due: DueRun) -> bool:
        run_id, is_mine = due.run_id, True
        self._later.pop(run_id, None)
        try:
            journal = await self._app.open()
            deaths = await self._deaths_of(due, journal)
            if deaths.is_lost:
                await set_aside(run_id, journal)
            elif deaths.count >= ALONE_AFTER:
                await self._have_alone(run_id, journal)
                return True
            else:
                on_live = self._watched(run_id)
                is_mine = await self._app.activate(run_id, on_live=on_live) is not None
            if deaths.count and not self._is_stopping:
                await forget_deaths(run_id, journal)
            self.refused.pop(run_id, None)
        except (Misuse, JournalError) as error:
            # What one run lacks, or a log that is damaged, is no reason to leave the others.
            self._refuse(run_id, str(error))
        return is_mine

    async def _deaths_of(self, due: DueRun, journal: Journal) -> Deaths:
        """How often the process of a run died in one place, if it did just now."""
        if due.reason != "died":
            return Deaths()
        holder = (await cast("SqlJournal", journal).holders()).get(due.run_id)
        if holder is None or holder.pid < 1 or holder.state != "gone":
            # Its lease lapsed, or it is worked on again.
            return Deaths()
        return await count_death(due.run_id, holder, journal)

    async def _have_alone(self, run_id: str, journal: Journal) -> None:
        """Have a process of its own work on a run."""
        if not self._alone:
            raise Misuse("its process died twice: take it up by `upshot work`, which spares others")
        async with self._room_alone:
            if self._is_stopping:
                return
            await note_alone(run_id, journal)
            process = await asyncio.create_subprocess_exec(*self._alone, run_id)
            self._processes.add(process)
            try:
                await process.wait()
            finally:
                self._processes.discard(process)

    def _refuse(self, run_id: str, why: str) -> None:
        if self.refused.get(run_id) != why:
            logger.warning("run %s is not worked on here: %s", run_id, why)
        self.refused[run_id] = why
        self._later[run_id] = asyncio.get_running_loop().time() + _REFUSED_S

    def _watched(self, run_id: str) -> Callable[[LiveRun[Any]], None]:
        def began(live: LiveRun[Any]) -> None:
            self._lives[run_id] = live
            if self._is_stopping:
                live.release("drain", grace_s=self._grace_s)

        return began

    async def drain(self) -> bool:
        """Leave all runs to other workers; returns whether that could be done."""
        for live in self._lives.values():
            live.release("drain", grace_s=self._grace_s)
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.terminate()
        if not self._tasks:
            return True
        _, left = await asyncio.wait(self._tasks.values(), timeout=self._grace_s + _ENDING_S)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_ENDING_S)
        return not left


def choose(due: Sequence[DueRun], count: int, taken: Iterable[DueRun]) -> list[DueRun]:
    """At most *count* of the runs that are due: larger priorities first, and fair among equals.

    Agents take turns, and within one agent conversations, those that are worked on already counted.
    Which of equal ones come first is left to chance: another worker that looks at the same list
    then chooses others.

    Args:
        due: Those that are due.
        count: The most to choose.
        taken: Those that are worked on here.
    """
    counts = Counter[tuple[str, ...]]()

    def add(one: DueRun) -> None:
        counts[one.agent_id,] += 1
        counts[one.agent_id, one.conversation] += 1

    def rank(one: DueRun) -> tuple[int, int, int]:
        said = counts[one.agent_id, one.conversation] if one.conversation else 0
        return -one.priority, counts[one.agent_id,], said

    for one in taken:
        add(one)
    left, chosen = random.sample(due, len(due)), list[DueRun]()
    while left and len(chosen) < count:
        best = min(left, key=rank)
        left.remove(best)
        chosen.append(best)
        add(best)
    return chosen
