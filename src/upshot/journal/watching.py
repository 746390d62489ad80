"""Waiting for changes that other tasks and other processes make to a journal.

To wait, subscribe, read, then wait: ``Watch.changed`` returns as soon as something may have
changed since the watch started or since ``changed`` last returned, so no change is missed. It may
return without cause, and one read may cover many changes.

``Changes`` is the list of waiters. Each journal has one and notifies it of its own commits. A
``Listener`` in a separate thread receives commits of other processes; it lives from the first
watch until the journal is closed.
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
"""Topic: the runs that are due."""
EFFECTS = "effects"
"""Topic: the unknown effects."""

# How often to poll a journal that cannot notify of changes.
POLL_S = 0.25
_ENDING_S = 1.0


def of_run(run_id: str) -> str:
    """Topic: the log of a run."""
    return f"run:{run_id}"


def placed_answers_topic(run_id: str) -> str:
    """Topic: the control requests for a run."""
    return f"wish:{run_id}"


def of_effect(id: str) -> str:
    """Topic: the state of an effect."""
    return f"effect:{id}"


def effect_of(topic: str) -> str | None:
    """Return the effect of the topic, None if the topic is not an effect."""
    kind, _, id = topic.partition(":")
    return id if kind == "effect" else None


def run_of(topic: str) -> str | None:
    """Return the run of the topic, None if the topic is not the log of a run."""
    kind, _, run_id = topic.partition(":")
    return run_id if kind == "run" else None


class Listener(Protocol):
    """Receives the commits of other processes. It belongs to one thread, except for ``wake``."""

    def wait(self, topics: Collection[str]) -> Collection[str] | None:
        """Wait a while for a commit of another process, or until ``wake`` is called.

        Args:
            topics: The topics being watched; if empty, it waits for ``wake`` alone.

        Returns:
            The topics that may have changed, including those that are new to it; None means all.
        """
        ...

    def wake(self) -> None:
        """End the current or the next ``wait``; may be called in any thread."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class Watcher(Protocol):
    """Waits for changes; leaving its ``with`` block ends the watch."""

    async def changed(self, timeout_s: float | None = None) -> bool:
        """Wait until something may have changed since the last return, or since the watch started.

        Args:
            timeout_s: Seconds to wait at most; None waits as long as it takes.

        Returns:
            False if the time ran out.
        """
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...


class Watch:
    """Waits for changes of some topics; belongs to the event loop it was created in."""

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
        """Report a possible change; may be called in any thread."""
        # If the loop is closed, there is no waiter left.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._changes.drop(self, self._topics)


class Changes:
    """The waiters for changes of a journal; all methods may be called in any thread.

    Args:
        listen: Makes the listener for other processes; None if there are none.

    Attributes:
        watches: The waiters by topic; empty if there are none.
    """

    def __init__(self, listen: Callable[[], Listener] | None = None) -> None:
        # Values are replaced, never changed: another thread may be reading them.
        self.watches: dict[str, tuple[Watch, ...]] = {}
        self._lock = threading.Lock()
        self._listen = listen
        self._listener: Listener | None = None
        self._ended: Future[None] = Future()
        self._is_closed = False

    def watch(self, *topics: str) -> Watch:
        """Start to wait for changes of these topics."""
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
                # A daemon, so that a program that forgot to close its journal can still exit.
                work = (self._listener,)
                threading.Thread(
                    target=self._run_listener, args=work, name="upshot-listener", daemon=True
                ).start()

    def drop(self, watch: Watch, topics: Collection[str]) -> None:
        """Stop waking *watch*."""
        with self._lock:
            for topic in topics:
                left = tuple(one for one in self.watches.get(topic, ()) if one is not watch)
                if left:
                    self.watches[topic] = left
                else:
                    self.watches.pop(topic, None)

    def notify(self, topics: Iterable[str] | None) -> None:
        """Wake the waiters for any of these topics; None means all."""
        for topic in list(self.watches) if topics is None else topics:
            for watch in self.watches.get(topic, ()):
                watch.wake()

    async def aclose(self) -> None:
        """End the listener and wake all waiters, which then find the journal closed."""
        with self._lock:
            self._is_closed = True
            if self._listener is not None:
                self._listener.wake()
        self.notify(None)
        if self._listener is not None:
            # The listener may be blocked connecting to a server that does not answer.
            await asyncio.wait({asyncio.wrap_future(self._ended)}, timeout=_ENDING_S)

    def _run_listener(self, listener: Listener) -> None:
        try:
            while not self._is_closed:
                changed = listener.wait([*self.watches])
                if changed is None or changed:
                    self.notify(changed)
        finally:
            listener.close()
            self._ended.set_result(None)


class _Polling:
    """Polls a journal that cannot notify: assumes a change after each interval."""

    async def changed(self, timeout_s: float | None = None) -> bool:
        """See ``Watcher.changed``."""
        await asyncio.sleep(POLL_S if timeout_s is None else min(POLL_S, timeout_s))
        return timeout_s is None or timeout_s > POLL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing to clean up."""


def watch(journal: Journal, *topics: str) -> Watcher:
    """Start to wait for changes in *journal*; a journal that cannot notify of them is polled.

    Args:
        journal: Any journal.
        topics: ``DUE``, ``EFFECTS``, or topics made by ``of_run``, ``of_effect`` and
            ``placed_answers_topic``.

    Returns:
        The watcher, to use as a context manager.
    """
    make: Callable[..., Watcher] | None = getattr(journal, "watch", None)
    return _Polling() if make is None else make(*topics)
