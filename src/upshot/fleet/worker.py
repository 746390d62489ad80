"""Works on the due runs of an App, many at once, until it is stopped.

A run that kills its process again and again is set aside. A death counts only if the process is
known to have ended, and the run has finished no step since the previous death. After the second
death the run is worked on alone, in a process of its own, to spare the other runs.
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
from upshot.entry.session_setup import begin_to_end, continue_run
from upshot.errors import JournalError, Misuse
from upshot.fleet.app import App
from upshot.fleet.schedules import Scheduler
from upshot.fleet.verifier import Verifier
from upshot.fleet.worker_list import Registration
from upshot.journal.audit import Actor, acting
from upshot.journal.event_codec import logger
from upshot.journal.lease_holder import LeaseHolder, RunHeld
from upshot.journal.shared import DueRun, JournalAway, SharedValues, needs_shared
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.watching import DUE, Watcher
from upshot.runs.engine_api.exceptions import Failed
from upshot.runs.live_run import LiveRun

# How often it looks for runs that become due by the clock, and for those whose process died, of
# which there is no notification.
_LOOK_S = 1.0
# It looks at this many times the runs that it has room for, so that workers that look at the same
# time seldom choose the same ones.
_CHOICE = 4
# How long a run that started with other code is left to a worker with that code.
_OTHER_VERSION_S = 5.0
# How long a worker may take to claim a run that it has reserved.
_RESERVED_S = 5.0
# After how long a run that cannot be worked on here is tried again.
_REFUSED_S = 30.0
# Processes for single runs at once: when a worker dies, each of its runs may need one.
ALONE_AT_ONCE = 4
# How often it looks for runs that the search index lacks; searches read these.
_INDEX_S = 5.0
# The wait before reopening a journal that cannot be reached; doubled each time.
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
# How long sessions may take after the grace to write their end.
_ENDING_S = 5.0


class Worker:
    """Works on the due runs of an App until ``stop``.

    Args:
        app: The App with the runs.
        concurrency: How many runs at once, from 1.
        grace_s: How many seconds steps in progress may take to finish after ``stop``.
        only_same_version: Whether to leave alone runs that started with another version; otherwise
            they are claimed if no other worker has done so for 5 s.
        park_over_s: A run that only waits, for longer than this many seconds, is released until the
            wait is over.
        alone: The command of a process that calls ``work_on_each``. Without it, a run whose process
            died twice is not claimed.

    Attributes:
        concurrency: How many runs at once.
        refused: Why runs were not worked on here, by run.

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
        self.concurrency: int = concurrency
        self._grace_s = grace_s
        self._only_same_version = only_same_version
        self._park_over_s = park_over_s
        self._alone = tuple(alone)
        self._tasks: dict[str, asyncio.Task[bool]] = {}
        self._claimed: dict[str, DueRun] = {}
        self._live_runs: dict[str, LiveRun[Any]] = {}
        # When a run that is left alone here may be tried again.
        self._not_before: dict[str, float] = {}
        self.refused: dict[str, str] = {}
        # Runs that wait for, or are in, a process of their own, and what feeds such processes.
        self._suspects = deque[str]()
        self._apart = set[str]()
        self._processes = set[asyncio.subprocess.Process]()
        self._feeding = set[asyncio.Task[None]]()
        # Runs that were in progress when the journal was lost; this process still holds them.
        self._lost: list[DueRun] = []
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._is_finishing = False
        self._entry = Registration(app.version, concurrency)

    async def work(self) -> bool:
        """Work on due runs until ``stop`` is called, then leave those in progress to other workers.

        It waits for a server that cannot be reached, unless the App was given an open journal.

        Returns:
            Whether every run was released, has ended or has parked.

        Raises:
            Misuse: The App has no journal, or one that processes cannot share.
            JournalError: The journal cannot be used, or newer code made its tables; runs in
                progress are left to other workers first.
        """
        wait_s = _FIRST_WAIT_S
        while not self.is_stopping:
            try:
                journal = await self._app.open()
                if wait_s > _FIRST_WAIT_S:
                    logger.info("the journal can be reached again")
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
        """Work on the runs of a journal while it can be reached."""
        with acting(Actor(door="worker")), needs_shared(journal).watch(DUE) as watch:
            listening = asyncio.create_task(self._listen(watch))
            verifying = asyncio.create_task(Verifier(self._app).work())
            submitting = asyncio.create_task(Scheduler(self._app).work())
            indexing = asyncio.create_task(keep_index(self._app))
            registering = asyncio.create_task(self._entry.keep(journal, self.finish))
            try:
                while not (self.is_stopping or self._has_finished):
                    self._wake.clear()
                    if (trouble := trouble_of(journal)) is not None:
                        raise trouble
                    while self._lost:
                        self.start_work(self._lost.pop())
                    await self._fill()
                    await self._wake.wait()
            finally:
                listening.cancel()
                verifying.cancel()
                submitting.cancel()
                indexing.cancel()
                is_clean = await self.drain()
                registering.cancel()
                await self._entry.remove(journal)
        return is_clean

    def stop(self) -> None:
        """Make ``work`` claim nothing more and end; may be called again."""
        self._stopped.set()
        self._wake.set()
        # At once: ``work`` may be waiting for the journal.
        self._release()

    def finish(self) -> None:
        """Make ``work`` claim nothing more, and end when the runs that it holds have ended."""
        if not self._is_finishing:
            logger.info("the worker takes no more runs, and ends with those that it holds")
        self._is_finishing = True
        self._wake.set()

    @property
    def is_draining(self) -> bool:
        """Whether it claims nothing more, because ``finish`` or ``stop`` was called."""
        return self._is_finishing or self.is_stopping

    @property
    def _has_finished(self) -> bool:
        return self._is_finishing and not (self._tasks or self._feeding or self._lost)

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped.is_set()

    @property
    def at_work_count(self) -> int:
        """How many runs it works on."""
        return len(self._tasks)

    async def _listen(self, watch: Watcher) -> None:
        """Wake the worker when runs may have become due, and from time to time."""
        while True:
            await watch.changed(_LOOK_S)
            self._wake.set()

    async def _fill(self) -> None:
        """Claim as many runs as there is room for."""
        free = self.concurrency - len(self._tasks)
        if free <= 0:
            return
        now = asyncio.get_running_loop().time()
        due = [
            one
            for one in await self._app.due(limit=_CHOICE * free + len(self._tasks))
            if one.run_id not in self._tasks and not self.is_put_off(one.run_id)
        ]
        chosen = choose(due, free, self._claimed.values())
        chosen = [one for one in chosen if await self._is_ours(one, now)]
        # A single run is claimed without a reservation; that costs other workers only a look.
        for one in await self._reserved(chosen) if len(due) > 1 else chosen:
            if not (self.is_stopping or self._is_finishing):
                self.start_work(one)

    async def _reserved(self, chosen: list[DueRun]) -> list[DueRun]:
        """Return the runs that this worker could reserve."""
        shared = needs_shared(await self._app.open())
        ids = [one.run_id for one in chosen if one.at is not None]
        mine = await shared.reserve_due(ids, for_s=_RESERVED_S) if ids else ()
        if len(mine) < len(ids):
            # There may be others.
            self._wake.set()
        return [one for one in chosen if one.at is None or one.run_id in mine]

    async def _is_ours(self, due: DueRun, now: float) -> bool:
        """Whether to claim a run; one that started with other code is left to others at first."""
        if due.is_new:
            return True
        new = await needs_shared(await self._app.open()).submission(due.run_id)
        # Checked before the claim, so that no session has to end for it.
        if new is None or not (due.has_begun or new.after) or new.version == self._app.version:
            return True
        if self._only_same_version:
            self._refuse(due.run_id, f"it began with version {new.version}")
            return False
        # At the second look, no other worker has claimed it in the meantime.
        if due.run_id in self._not_before:
            return True
        self._not_before[due.run_id] = now + _OTHER_VERSION_S
        return False

    def start_work(self, due: DueRun) -> asyncio.Task[bool]:
        """Return the task that works on a run; its result is False if it cannot work on it now."""
        if (task := self._tasks.get(due.run_id)) is None:
            task = asyncio.create_task(self._work_on(due))
            self._tasks[due.run_id], self._claimed[due.run_id] = task, due
            task.add_done_callback(lambda _: self._forget_task(due.run_id))
        return task

    def at_work(self, run_id: str) -> asyncio.Task[bool] | None:
        """Return the task that works on a run here; None if there is none."""
        return self._tasks.get(run_id)

    def is_put_off(self, run_id: str) -> bool:
        """Whether a run is left alone here for now."""
        return run_id in self._apart or (
            self._not_before.get(run_id, 0.0) > asyncio.get_running_loop().time()
        )

    def _forget_task(self, run_id: str) -> None:
        for known in (self._tasks, self._claimed, self._live_runs):
            known.pop(run_id, None)
        self._wake.set()

    async def work_on_each(self, feed: socket.socket) -> bool:
        """Work on the runs whose ids arrive as lines, one after another; answer each with a line.

        Returns:
            What ``work`` returns, once *feed* ends or ``stop`` is called.
        """
        reader, writer = await asyncio.open_connection(sock=feed)
        while not self.is_stopping and (line := await reader.readline()):
            self.start_work(DueRun(run_id=line.decode().strip(), agent_id=""))
            while self._tasks and not self.is_stopping:
                self._wake.clear()
                await self._wake.wait()
            if not self.is_stopping:
                writer.write(line)
        is_clean = await self.drain()
        writer.close()
        return is_clean

    async def _work_on(self, due: DueRun) -> bool:
        run_id, is_mine = due.run_id, True
        self._not_before.pop(run_id, None)
        try:
            journal = await self._app.open()
            deaths = await self._deaths_of(due, journal)
            if deaths.is_lost:
                await set_aside(run_id, journal)
            elif deaths.count >= ALONE_AFTER:
                self._queue_alone(run_id)
                return True
            else:
                on_live = self._make_on_live(run_id)
                result = await self._app.activate(run_id, on_live=on_live)
                is_mine = result is not None
                if result is not None:
                    about = {"run_id": run_id, "agent": due.agent_id}
                    logger.info("run %s is %s", run_id, result.status, extra=about)
                if trouble_of(journal) is not None:
                    self._lost.append(due)
            # A run that is worked on alone has died before.
            if is_mine and (deaths.count or not due.reason) and not self.is_stopping:
                await forget_deaths(run_id, journal)
            self.refused.pop(run_id, None)
        except JournalAway:
            self._lost.append(due)
        except (Misuse, JournalError) as error:
            # One run's missing options or damaged log is no reason to abandon the others.
            self._refuse(run_id, str(error))
        return is_mine

    async def _deaths_of(self, due: DueRun, journal: Journal) -> Deaths:
        """Return how often the run's process died in one place, if it died just now."""
        if due.reason != "died":
            return Deaths()
        holder = (await cast("SqlJournal", journal).holders()).get(due.run_id)
        if holder is None or holder.pid < 1 or holder.state != "gone":
            # Its lease lapsed, or it is worked on again.
            return Deaths()
        return await count_death(due.run_id, holder, journal)

    def _queue_alone(self, run_id: str) -> None:
        """Queue a run for a separate process, which works on no other run at the same time."""
        if not self._alone:
            raise Misuse("its process died twice: use `upshot work`, which isolates it")
        self._suspects.append(run_id)
        self._apart.add(run_id)
        if len(self._feeding) < ALONE_AT_ONCE:
            task = asyncio.create_task(self._feed())
            self._feeding.add(task)
            task.add_done_callback(self._feeding.discard)

    async def _feed(self) -> None:
        """Start processes that work on the suspects, one after another, until none is left."""
        while self._suspects and not self.is_stopping:
            ours, theirs = socket.socketpair()
            with theirs:
                process = await asyncio.create_subprocess_exec(*self._alone, stdin=theirs.fileno())
            self._processes.add(process)
            reader, writer = await asyncio.open_connection(sock=ours)
            answer = b"\n"
            while answer and self._suspects and not self.is_stopping:
                run_id = self._suspects.popleft()
                answer = await self._send_to_process(run_id, reader, writer)
                self._apart.discard(run_id)
                self._wake.set()
            writer.close()
            await process.wait()
            self._processes.discard(process)

    async def _send_to_process(
        self, run_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        """Let a process work on a run; return its answer, empty if it has died."""
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
            about = {"run_id": run_id}
            logger.warning("run %s is not worked on here: %s", run_id, why, extra=about)
        self.refused[run_id] = why
        self._not_before[run_id] = asyncio.get_running_loop().time() + _REFUSED_S

    def _make_on_live(self, run_id: str) -> Callable[[LiveRun[Any]], None]:
        def began(live: LiveRun[Any]) -> None:
            self._live_runs[run_id] = live
            live.park_waits(self._park_over_s)
            if self.is_stopping:
                live.release("drain", grace_s=self._grace_s)

        return began

    def _release(self) -> None:
        for live in self._live_runs.values():
            live.release("drain", grace_s=self._grace_s)

    async def drain(self) -> bool:
        """Leave all runs to other workers; return whether that succeeded."""
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
    """Return why a journal cannot be used any further, or None."""
    return getattr(journal, "trouble", None)


async def keep_index(app: App) -> None:
    """Add runs to the search index of an App's journal, if it has one, until cancelled."""
    while True:
        count = 0
        try:
            journal = await app.open()
            if not isinstance(journal, SqlJournal):
                return
            count = await journal.index_runs()
        except JournalError as error:
            logger.warning("%s", error)
        # After each few, so that the runs in progress come first.
        await asyncio.sleep(0.01 if count else _INDEX_S)


def choose(due: Sequence[DueRun], count: int, taken: Iterable[DueRun]) -> list[DueRun]:
    """Choose at most *count* due runs: higher priorities first, and fair among equals.

    Runs that were worked on before precede new ones, so that runs whose process died do not wait
    behind all that were submitted.

    Agents take turns, and conversations within an agent; runs already at work count. Ties are
    broken at random, so that another worker with the same list chooses other runs.

    Args:
        due: The due runs.
        count: The maximum to choose.
        taken: The runs that are worked on here.
    """
    counts = Counter[tuple[str, ...]]()

    def add(one: DueRun) -> None:
        counts[one.agent_id,] += 1
        counts[one.agent_id, one.conversation] += 1

    def rank(one: DueRun) -> tuple[int, bool, int, int]:
        in_conversation = counts[one.agent_id, one.conversation] if one.conversation else 0
        return -one.priority, one.is_new, counts[one.agent_id,], in_conversation

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
"""After this many deaths in one place, a run is worked on alone."""


class Deaths(Value, frozen=True, kw_only=True):
    """How often the process of a run died in one place.

    Attributes:
        count: How often.
        steps: How many steps the run had finished then.
        holder: The process that died last.
        alone: Whether the run is worked on alone from then on.
    """

    count: int = 0
    steps: int = 0
    holder: str = ""
    alone: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether it also died while it was worked on alone."""
        return self.count > ALONE_AFTER and self.alone


async def count_death(run_id: str, holder: LeaseHolder, journal: Journal) -> Deaths:
    """Count the death of *holder*, only once even if several workers report it."""
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
    """Record that a run is worked on alone from now on."""
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
    """End a run as failed, without its agent; None if another process works on it."""
    past = await read_begun(run_id, journal)
    agent = Agent[Any](past.agent.id or run_id, engine=_Lost())
    new = await needs_shared(journal).submission(run_id) if past.started is None else None
    going = continue_run(run_id, agent, journal, (), {})
    try:
        async with going if new is None else begin_to_end(new, journal, _Lost()) as live:
            return live if isinstance(live, AgentResult) else await live.finish()
    except RunHeld:
        return None


class _Lost:
    """The engine of a run that only needs to end."""

    async def execute(self, run: object, host: object, board: object) -> None:
        """Fail with the reason."""
        raise Failed(
            ErrorCode.WORKER_LOST,
            "the process that worked on the run died three times in one place, at last in a "
            "process of the run's own: see what it does there, and fork it before that",
        )


def _name_of(run_id: str) -> str:
    return f"deaths {run_id}"
