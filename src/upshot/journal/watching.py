"""Waiting for what other tasks and other processes change in a journal.

Who waits subscribes, looks, and waits: ``Watch.changed`` returns as soon as something may have
changed since the watch began or ``changed`` returned last, so that no change is missed whenever
it comes. It may return without a reason, and one look is enough for many changes.

``Changes`` is the list of who waits; each journal has one and tells it what it committed itself.
A ``Listener`` in a thread of its own hears of the commits of other processes, and lives from the
first watch to the end of the journal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol, Self

from upshot.contract.protocols import Journal

DUE = "due"
"""Topic: which runs somebody has to take up."""
EFFECTS = "effects"
"""Topic: which effects are unknown."""

# How often a journal is looked into that cannot tell of changes.
POLL_S = 0.25
_ENDING_S = 1.0


def of_run(run_id: str) -> str:
    """Topic: the log of a run."""
    return f"run:{run_id}"


def wishes_of(run_id: str) -> str:
    """Topic: what others want of a run."""
    return f"wish:{run_id}"


def of_effect(id: str) -> str:
    """Topic: how far an effect is."""
    return f"effect:{id}"


def effect_of(topic: str) -> str | None:
    """The effect whose state is the topic, None where it is another one."""
    kind, _, id = topic.partition(":")
    return id if kind == "effect" else None


def run_of(topic: str) -> str | None:
    """The run whose log is the topic, None where it is another one."""
    kind, _, run_id = topic.partition(":")
    return run_id if kind == "run" else None


class Listener(Protocol):
    """Hears what other processes commit; it belongs to one thread, but for ``wake``."""

    def wait(self, topics: Collection[str]) -> Collection[str] | None:
        """Wait for a commit of another process, for a while, or until ``wake`` is called.

        Args:
            topics: Of which anybody wants to know; without any it waits for ``wake`` alone.

        Returns:
            Which of them may have changed, those that are new to it among them; None is all.
        """
        ...

    def wake(self) -> None:
        """End a ``wait`` that is under way, or the next one; may be called in any thread."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Watcher(Protocol):
    """Waits for changes; ``with`` ends it."""

    async def changed(self, timeout_s: float | None = None) -> bool:
        """Wait until something may have changed since the last return, or since it was made.

        Args:
            timeout_s: Seconds to wait at most; None waits as long as it takes.

        Returns:
            False if the time was up.
        """
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...


class Watch:
    """Waits for changes of some topics; belongs to the event loop in which it was made."""

    def __init__(self, changes: Changes, topics: Collection[str]) -> None:
        self._changes = changes
        self._topics = topics
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        changes.add(self, topics)

    async def changed(self, timeout_s: float | None = None) -> bool:
        """See ``Watcher.changed``."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def wake(self) -> None:
        """Something may have changed; called in any thread."""
        # The loop may be closed, and then nobody waits any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._changes.drop(self, self._topics)


class Changes:
    """Who waits for changes of a journal; all may be called in any thread.

    Args:
        listen: Makes what hears of other processes; None where there are none.

    Attributes:
        watches: Who waits, by topic; empty while nobody does.
    """

    def __init__(self, listen: Callable[[], Listener] | None = None) -> None:
        # Its values are replaced and never changed: another thread may be reading them.
        self.watches: dict[str, tuple[Watch, ...]] = {}
        self._lock = threading.Lock()
        self._listen = listen
        self._listener: Listener | None = None
        self._ended: Future[None] = Future()
        self._is_closed = False

    def watch(self, *topics: str) -> Watch:
        """Begin to wait for changes of these topics."""
        return Watch(self, topics)

    def add(self, watch: Watch, topics: Collection[str]) -> None:
        """Wake *watch* for these topics from now on."""
        with self._lock:
            for topic in topics:
                self.watches[topic] = (*self.watches.get(topic, ()), watch)
            if self._listener is not None:
                self._listener.wake()
            elif self._listen is not None and not self._is_closed:
                self._listener = self._listen()
                # A daemon, so that a program that forgot to close its journal can end.
                work = (self._listener,)
                threading.Thread(
                    target=self._hear, args=work, name="upshot-listener", daemon=True
                ).start()

    def drop(self, watch: Watch, topics: Collection[str]) -> None:
        """Wake *watch* no more."""
        with self._lock:
            for topic in topics:
                left = tuple(one for one in self.watches.get(topic, ()) if one is not watch)
                if left:
                    self.watches[topic] = left
                else:
                    self.watches.pop(topic, None)

    def tell(self, topics: Iterable[str] | None) -> None:
        """Wake who waits for any of these; None is all."""
        for topic in list(self.watches) if topics is None else topics:
            for watch in self.watches.get(topic, ()):
                watch.wake()

    async def aclose(self) -> None:
        """End the listener, and wake everybody, who finds the journal closed."""
        with self._lock:
            self._is_closed = True
            if self._listener is not None:
                self._listener.wake()
        self.tell(None)
        if self._listener is not None:
            # It may be just connecting to a server that does not answer.
            await asyncio.wait({asyncio.wrap_future(self._ended)}, timeout=_ENDING_S)

    def _hear(self, listener: Listener) -> None:
        try:
            while not self._is_closed:
                told = listener.wait([*self.watches])
                if told is None or told:
                    self.tell(told)
        finally:
            listener.close()
            self._ended.set_result(None)


class _Polling:
    """Takes it that a journal which tells nothing has changed after a while."""

    async def changed(self, timeout_s: float | None = None) -> bool:
        """See ``Watcher.changed``."""
        await asyncio.sleep(POLL_S if timeout_s is None else min(POLL_S, timeout_s))
        return timeout_s is None or timeout_s > POLL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """There is nothing to end."""


def watch(journal: Journal, *topics: str) -> Watcher:
    """Begin to wait for changes in *journal*; one that cannot tell of them is looked into often.

    Args:
        journal: Any.
        topics: ``DUE``, ``EFFECTS``, or what ``of_run``, ``of_effect`` and ``wishes_of`` give.

    Returns:
        It is to be used as a context manager.
    """
    make: Callable[..., Watcher] | None = getattr(journal, "watch", None)
    return _Polling() if make is None else make(*topics)
