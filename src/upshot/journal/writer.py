"""Writer: the one thread that writes to a journal's file, many appends to a commit."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from ..errors import JournalError
from .batch import Batch, Item, Job
from .damage import logger
from .entry import Entry
from .schema import Database, open_database
from .worker import resolve

__all__ = ["Writer"]

T = TypeVar("T")

# What nobody waits for is written within so long, or when so much is queued.
_LINGER_S = 0.05
_QUEUE_BYTES = 1_000_000


class Writer:
    """A queue of what shall be written, and the thread that writes it.

    All methods belong to the event loop; only the thread touches the connection.

    Args:
        path: The journal's file.

    Attributes:
        written: Seq of the last event that is safe, by run.
        failed: Why a run's events are no longer written, by run.
        broken: Why nothing is written any more, None while all is well.
        asleep: Whether the thread has nothing to do, and will look only when it is called.
    """

    def __init__(self, path: str) -> None:
        self.written: dict[str, int] = {}
        self.failed: dict[str, JournalError] = {}
        self.broken: JournalError | None = None
        self._path = path
        # A future in the queue is somebody who waits for all that was queued before.
        self._items: deque[Item | asyncio.Future[None]] = deque()
        self._queued_bytes = 0
        # Each is a reason to look; how many there are means nothing.
        self._calls: SimpleQueue[None] = SimpleQueue()
        self.asleep: bool = False
        self._hurried = self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def open(self, *, create: bool) -> None:
        """Open the file and begin to write.

        Raises:
            Misuse: The path is no place for a journal.
            JournalError: The file cannot be used.
        """
        opened: asyncio.Future[None] = self._loop.create_future()
        work = (partial(open_database, self._path, create=create), resolve(opened))
        # A daemon, so that a program that forgot to close its journal can end. Whatever somebody
        # waited for is on disk by then.
        threading.Thread(target=self._run, args=work, name="upshot-journal", daemon=True).start()
        try:
            await opened
        except asyncio.CancelledError:
            self._stop()
            raise

    def put(self, entry: Entry) -> None:
        """Queue an event; returns at once."""
        self._items.append(entry)
        self._stir(len(entry.body))

    async def flush(self) -> None:
        """Wait until all that was queued before is written, or has failed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._items.append(future)
        self._hurry()
        await future

    async def work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do *work* in its place in the queue.

        Returns:
            What it gave, once that is committed.

        Raises:
            JournalError: The file cannot be written.
            Exception: What *work* raised; then it is undone.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self._items.append(Job(work, resolve(future)))
        self._hurry()
        return await future

    def post(self, work: Callable[[sqlite3.Connection], None], size_bytes: int) -> None:
        """Queue *work*, which keeps *size_bytes* in memory; returns at once."""
        self._items.append(Job(work, _forget))
        self._stir(size_bytes)

    async def aclose(self) -> None:
        """Write what is queued, close the file and end the thread."""
        self._stop()
        await asyncio.shield(self._ended)

    def _stop(self) -> None:
        self._stopping = True
        self._hurry()

    def _stir(self, size_bytes: int) -> None:
        self._queued_bytes += size_bytes
        if self._queued_bytes > _QUEUE_BYTES:
            self._hurry()
        # To wake it for each event would cost more than to write it; awake, it looks by itself.
        elif self.asleep:
            self.asleep = False
            self._calls.put(None)

    def _hurry(self) -> None:
        self._queued_bytes = 0
        if not self._hurried:
            self._hurried = True
            self._calls.put(None)

    def _run(
        self,
        open: Callable[[], Database],
        opened: Callable[[None, Exception | None], None],
    ) -> None:
        try:
            connection = open()
        # The promise kept: who opens a journal is told why it cannot be.
        except Exception as error:
            opened(None, error)
            return
        opened(None, None)
        with contextlib.closing(connection):
            while not (self._stopping and not self._items):
                self._wait()
                self._turn(connection)
        resolve(self._ended)(None, None)

    def _wait(self) -> None:
        """Wait until somebody is in a hurry, or something has been queued for a while.

        While more comes all the time, nobody has to wake the thread for it.
        """
        while not self._hurried:
            try:
                self._calls.get(timeout=_LINGER_S)
            except Empty:
                if self._items:
                    return
                self._sleep()

    def _sleep(self) -> None:
        self.asleep = True
        # Looked at after that is said: who queues from here on wakes the thread.
        if not self._items and not self._hurried:
            self._calls.get()
        self.asleep = False

    def _turn(self, connection: Database) -> None:
        # Lowered before the queue is emptied: what is queued from here on raises it again.
        self._hurried = False
        items: list[Item] = []
        waiters: list[asyncio.Future[None]] = []
        while self._items:
            item = self._items.popleft()
            if isinstance(item, asyncio.Future):
                waiters.append(item)
            else:
                items.append(item)
        if items:
            self._write(connection, items)
        if waiters:
            # The loop may be gone, and then nobody waits any more.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_wake, waiters)

    def _write(self, connection: Database, items: list[Item]) -> None:
        if self.broken is not None:
            _refuse(items, self.broken)
            return
        batch = Batch(connection)
        try:
            # SQLite writes into a file that was deleted or replaced without a word.
            batch.write(items)
            connection.check_place()
        # The promise kept: whatever stops the writing is told to all who wait for it.
        except Exception as error:
            message = f"the journal {self._path} cannot be written: {error}"
            if isinstance(error, JournalError):
                message = str(error)
            self.broken = JournalError(message)
            logger.error("%s", message)
            _refuse(items, self.broken)
            return
        # The first failure is the cause; what comes after follows from it.
        for run_id, failure in batch.failed.items():
            self.failed.setdefault(run_id, failure)
        # Ahead of the waking of those who wait, since this is where they look.
        self.written.update(batch.written)
        batch.settle_jobs()


def _refuse(items: list[Item], error: JournalError) -> None:
    for item in items:
        if isinstance(item, Job):
            item.done(None, error)


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _forget(result: None, error: Exception | None) -> None:
    """Nobody waits for what was posted."""
    if error is not None:
        logger.error("a journal could not store something: %s", error)
