"""Takes up the runs of an App, many at once, until it is told to end.

A run at which its process dies again and again is set aside. A death counts only where the process
is known to have ended, and the run has ended no step since the death before. After the second one
the run is worked on alone, in a process of its own, so that those beside it are spared.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.base.checks import check_amount, check_whole
from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.structs import Value
from upshot.contract.codec import decode, encode
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.entry.resume import read_begun
from upshot.entry.session_setup import begin_to_end, go_on, run_child
from upshot.errors import JournalError, Misuse
from upshot.fleet.app import App
from upshot.fleet.verifier import Verifier
from upshot.journal.event_codec import logger
from upshot.journal.lease_holder import LeaseHolder, RunHeld
from upshot.journal.shared import DueRun, JournalAway, SharedValues, needs_shared
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.watching import DUE, Watcher
from upshot.runs.engine_api.exceptions import Failed
from upshot.runs.live_run import LiveRun

# How often it looks for runs that become due by the clock, and for those whose process died, of
# which nobody tells it.
_LOOK_S = 1.0
# It looks at so many times the runs that it has room for, so that several workers that look at once
# seldom choose the same ones.
_CHOICE = 4
# A run that began with other code is left so long to a worker that has that code.
_OTHER_VERSION_S = 5.0
# So long a worker may take to claim what it has reserved.
_RESERVED_S = 5.0
# A run that cannot be taken up here is looked at again after so long.
_REFUSED_S = 30.0
# All runs beside one that kills its worker may have to be worked on alone for once.
ALONE_AT_ONCE = 4
# So long is waited before a journal that is away is opened again; doubled each time.
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
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
        park_over_s: A run in which nothing is under way but a wait of more than so many seconds is
            left until that is over.
        alone: The command of a process that calls ``work_on_each``. Without it a run at which its
            process died twice is not taken up.

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
        park_over_s: float = 5.0,
        alone: Sequence[str] = (),
    ) -> None:
        check_whole("concurrency", concurrency, least=1)
        check_amount("grace_s", grace_s)
        check_amount("park_over_s", park_over_s)
        self._app = app
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._only_same_version = only_same_version
        self._park_over_s = park_over_s
        self._alone = tuple(alone)
        self._tasks: dict[str, asyncio.Task[bool]] = {}
        self._taken: dict[str, DueRun] = {}
        self._lives: dict[str, LiveRun[Any]] = {}
        # Until when a run is left alone here.
        self._later: dict[str, float] = {}
        self.refused: dict[str, str] = {}
        # Runs that wait for a process of their own or are in it, and what feeds such processes.
        self._suspects = deque[str]()
        self._apart = set[str]()
        self._processes = set[asyncio.subprocess.Process]()
        self._feeding = set[asyncio.Task[None]]()
        # Those that were under way when the journal was lost; this process holds them still.
        self._lost: list[DueRun] = []
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()

    async def work(self) -> bool:
        """Take up runs until ``stop`` is called, and then leave those under way to other workers.

        A server that cannot be reached is waited for, unless the App was given an open journal.

        Returns:
            Whether every run was given back or has come to its end or a park.

        Raises:
            Misuse: The App has no journal, or one that processes cannot share.
            JournalError: The journal cannot be used, or its tables are those of newer code; runs
                under way are left to other workers first.
        """
        wait_s = _FIRST_WAIT_S
        while not self._is_stopping:
            try:
                journal = await self._app.open()
                if wait_s > _FIRST_WAIT_S:
                    logger.info("the journal is there again")
                wait_s = _FIRST_WAIT_S
                return await self._work_with(journal)
            except JournalAway as error:
                if not isinstance(self._app.journal, str):
                    raise
                if wait_s == _FIRST_WAIT_S:
                    logger.warning("%s; the worker waits for it", error)
                await self._app.aclose()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        return True

    async def _work_with(self, journal: Journal) -> bool:
        """Take up runs of a journal while it can be reached."""
        with needs_shared(journal).watch(DUE) as watch:
            listening = asyncio.create_task(self._listen(watch))
            verifying = asyncio.create_task(Verifier(self._app).work())
            try:
                while not self._is_stopping:
                    self._wake.clear()
                    if (trouble := trouble_of(journal)) is not None:
                        raise trouble
                    while self._lost:
                        self.take(self._lost.pop())
                    await self._fill()
                    await self._wake.wait()
            finally:
                listening.cancel()
                verifying.cancel()
                is_clean = await self.drain()
        return is_clean

    def stop(self) -> None:
        """Have ``work`` take nothing any more and end; may be called again."""
        self._stopped.set()
        self._wake.set()
        # At once: ``work`` may wait for the journal.
        self._release()

    @property
    def _is_stopping(self) -> bool:
        return self._stopped.is_set()

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
        chosen = choose(due, free, self._taken.values())
        chosen = [one for one in chosen if await self._is_ours(one, now)]
        # One run alone is claimed at once, which costs no other worker more than a look.
        for one in await self._reserved(chosen) if len(due) > 1 else chosen:
            if not self._is_stopping:
                self.take(one)

    async def _reserved(self, chosen: list[DueRun]) -> list[DueRun]:
        """Those that no other worker takes up just now."""
        shared = needs_shared(await self._app.open())
        ids = [one.run_id for one in chosen if one.at is not None]
        mine = await shared.reserve_due(ids, for_s=_RESERVED_S) if ids else ()
        if len(mine) < len(ids):
            # There may be others.
            self._wake.set()
        return [one for one in chosen if one.at is None or one.run_id in mine]

    async def _is_ours(self, due: DueRun, now: float) -> bool:
        """Whether to take up a run; one that began with other code is left to others at first."""
        if due.is_new:
            return True
        new = await needs_shared(await self._app.open()).submission(due.run_id)
        # Looked at before the run is taken, so that no session has to end for it.
        if new is None or not (due.has_begun or new.after) or new.version == self._app.version:
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
        return run_id in self._apart or (
            self._later.get(run_id, 0.0) > asyncio.get_running_loop().time()
        )

    def _leave(self, run_id: str) -> None:
        for known in (self._tasks, self._taken, self._lives):
            known.pop(run_id, None)
        self._wake.set()

    async def work_on_each(self, feed: socket.socket) -> bool:
        """Work on the runs whose ids come as lines, one after another; answer each with a line.

        Returns:
            What ``work`` returns, once *feed* ends or ``stop`` is called.
        """
        reader, writer = await asyncio.open_connection(sock=feed)
        while not self._is_stopping and (line := await reader.readline()):
            self.take(DueRun(run_id=line.decode().strip(), agent_id=""))
            while self._tasks and not self._is_stopping:
                self._wake.clear()
                await self._wake.wait()
            if not self._is_stopping:
                writer.write(line)
        is_clean = await self.drain()
        writer.close()
        return is_clean

    async def _work_on(self, due: DueRun) -> bool:
        run_id, is_mine = due.run_id, True
        self._later.pop(run_id, None)
        try:
            journal = await self._app.open()
            deaths = await self._deaths_of(due, journal)
            if deaths.is_lost:
                await set_aside(run_id, journal)
            elif deaths.count >= ALONE_AFTER:
                self._have_alone(run_id)
                return True
            else:
                on_live = self._watched(run_id)
                is_mine = await self._app.activate(run_id, on_live=on_live) is not None
                if trouble_of(journal) is not None:
                    self._lost.append(due)
            # One that is worked on alone has died before.
            if is_mine and (deaths.count or not due.reason) and not self._is_stopping:
                await forget_deaths(run_id, journal)
            self.refused.pop(run_id, None)
        except JournalAway:
            self._lost.append(due)
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

    def _have_alone(self, run_id: str) -> None:
        """Have a process of its own work on a run, where no other run is worked on meanwhile."""
        if not self._alone:
            raise Misuse("its process died twice: take it up by `upshot work`, which spares others")
        self._suspects.append(run_id)
        self._apart.add(run_id)
        if len(self._feeding) < ALONE_AT_ONCE:
            task = asyncio.create_task(self._feed())
            self._feeding.add(task)
            task.add_done_callback(self._feeding.discard)

    async def _feed(self) -> None:
        """Have processes work on the suspects, one after another, until there is none."""
        while self._suspects and not self._is_stopping:
            ours, theirs = socket.socketpair()
            with theirs:
                process = await asyncio.create_subprocess_exec(*self._alone, stdin=theirs.fileno())
            self._processes.add(process)
            reader, writer = await asyncio.open_connection(sock=ours)
            answer = b"\n"
            while answer and self._suspects and not self._is_stopping:
                run_id = self._suspects.popleft()
                answer = await self._have_done(run_id, reader, writer)
                self._apart.discard(run_id)
                self._wake.set()
            writer.close()
            await process.wait()
            self._processes.discard(process)

    async def _have_done(
        self, run_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        """Have a process work on a run; gives its answer, nothing if it has died."""
        try:
            await note_alone(run_id, await self._app.open())
            writer.write(f"{run_id}\n".encode())
            return await reader.readline()
        except JournalError as error:
            self._refuse(run_id, str(error))
            return b"\n"
        except ConnectionError:
            return b""

    def _refuse(self, run_id: str, why: str) -> None:
        if self.refused.get(run_id) != why:
            logger.warning("run %s is not worked on here: %s", run_id, why)
        self.refused[run_id] = why
        self._later[run_id] = asyncio.get_running_loop().time() + _REFUSED_S

    def _watched(self, run_id: str) -> Callable[[LiveRun[Any]], None]:
        def began(live: LiveRun[Any]) -> None:
            self._lives[run_id] = live
            live.park_waits(self._park_over_s)
            if self._is_stopping:
                live.release("drain", grace_s=self._grace_s)

        return began

    def _release(self) -> None:
        for live in self._lives.values():
            live.release("drain", grace_s=self._grace_s)

    async def drain(self) -> bool:
        """Leave all runs to other workers; returns whether that could be done."""
        self._release()
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.terminate()
        tasks = {*self._tasks.values(), *self._feeding}
        if not tasks:
            return True
        _, left = await asyncio.wait(tasks, timeout=self._grace_s + _ENDING_S)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_ENDING_S)
        return not left


def trouble_of(journal: Journal) -> JournalError | None:
    """Why nothing more may be done with a journal, None where it may."""
    return getattr(journal, "trouble", None)


def choose(due: Sequence[DueRun], count: int, taken: Iterable[DueRun]) -> list[DueRun]:
    """At most *count* of the runs that are due: larger priorities first, and fair among equals.

    What was worked on before goes before what is new, so that runs whose process died do not
    wait behind all that were submitted.

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

    def rank(one: DueRun) -> tuple[int, bool, int, int]:
        said = counts[one.agent_id, one.conversation] if one.conversation else 0
        return -one.priority, one.is_new, counts[one.agent_id,], said

    for one in taken:
        add(one)
    left, chosen = random.sample(due, len(due)), list[DueRun]()
    while left and len(chosen) < count:
        best = min(left, key=rank)
        left.remove(best)
        chosen.append(best)
        add(best)
    return chosen


ALONE_AFTER = 2
"""After so many deaths in one place a run is worked on alone."""


class Deaths(Value, frozen=True, kw_only=True):
    """How often the process of a run died in one place.

    Attributes:
        count: How often.
        steps: How many steps the run had ended then.
        holder: The process that died last.
        alone: Whether it is worked on alone from then on.
    """

    count: int = 0
    steps: int = 0
    holder: str = ""
    alone: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether it died when it was worked on alone, too."""
        return self.count > ALONE_AFTER and self.alone


async def count_death(run_id: str, holder: LeaseHolder, journal: Journal) -> Deaths:
    """Count the death of *holder*, once, whoever tells of it."""
    past = await read_begun(run_id, journal)
    steps = past.turns + len(past.records) + len(past.steps_settled)
    name, dead = _name_of(run_id), f"{holder.boot} {holder.space} {holder.pid} {holder.started}"

    def count(values: SharedValues) -> Deaths:
        body = values.read(name)
        known = decode(body, Deaths) if body else Deaths()
        if known.holder == dead:
            return known
        if known.steps != steps:
            known = Deaths()
        known = replace(known, count=known.count + 1, steps=steps, holder=dead)
        values.write(name, encode(known).decode())
        return known

    return await needs_shared(journal).change_values(count)


async def note_alone(run_id: str, journal: Journal) -> None:
    """Note that a run is worked on alone from now on."""
    name = _name_of(run_id)

    def note(values: SharedValues) -> None:
        known = decode(values.read(name), Deaths)
        values.write(name, encode(replace(known, alone=True)).decode())

    await needs_shared(journal).change_values(note)


async def forget_deaths(run_id: str, journal: Journal) -> None:
    """Forget the deaths of a run that has ended or waits."""
    name = _name_of(run_id)
    await needs_shared(journal).change_values(lambda values: values.forget(name, f"{name} "))


async def set_aside(run_id: str, journal: Journal) -> AgentResult[Any] | None:
    """End a run as failed, without its agent; None where another process works on it."""
    past = await read_begun(run_id, journal)
    agent = Agent[Any](past.agent.id or run_id, engine=_Lost())
    new = await needs_shared(journal).submission(run_id) if past.started is None else None
    going = go_on(run_id, agent, journal, (), {}, watch=False, child=run_child)
    try:
        async with going if new is None else begin_to_end(new, journal, _Lost()) as live:
            return live if isinstance(live, AgentResult) else await live.finish()
    except RunHeld:
        return None


class _Lost:
    """The engine of a run that is only to end."""

    async def execute(self, run: object, host: object, board: object) -> None:
        """Say why it is."""
        raise Failed(
            ErrorCode.WORKER_LOST,
            "the process that worked on the run died three times in one place, at last in a "
            "process of the run's own: see what it does there, and fork it before that",
        )


def _name_of(run_id: str) -> str:
    return f"deaths {run_id}"
