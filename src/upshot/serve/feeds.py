"""Feeds that many pages watch: each is read, folded and encoded once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing, suppress
from typing import NamedTuple

from upshot.serve.site import ServerSentEvent


class Part(NamedTuple):
    """One message to a watcher.

    Attributes:
        event: The event to send.
        mark: Where it ends; the next part starts there.
    """

    event: ServerSentEvent
    mark: int


class Feed:
    """A source that one task follows for all its watchers.

    A slow watcher gets all changes since its last part in one part, so no one waits for it and
    nothing is buffered for it.

    Args:
        changes: Yields whenever there is something new; closed when the last watcher leaves.
        part: Returns what is new since a mark, 0 for all; a watcher's first part is all.
    """

    def __init__(self, changes: AsyncGenerator[None], part: Callable[[int], Part]) -> None:
        self._part = part
        self._count = 0
        self._made: dict[int, Part] = {}
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self._is_over = False
        self.watchers: int = 0
        self._task = asyncio.create_task(self._follow(changes))

    async def parts(self) -> AsyncGenerator[ServerSentEvent]:
        """Yield each part as it arrives, until the source ends."""
        count = mark = 0
        while True:
            changed, is_over = self._changed, self._is_over
            if count != self._count:
                count = self._count
                made = self._made.get(mark)
                if made is None:
                    made = self._made[mark] = self._part(mark)
                mark = made.mark
                yield made.event
            elif self._failure is not None:
                raise self._failure
            elif is_over:
                return
            else:
                await changed.wait()

    async def aclose(self) -> None:
        """End the task."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self, changes: AsyncGenerator[None]) -> None:
        try:
            async with aclosing(changes):
                async for _ in changes:
                    self._count += 1
                    self._made.clear()
                    self._notify_watchers()
        # Boundary: whatever ends the feed is raised to each of its watchers.
        except Exception as error:
            self._failure = error
        self._is_over = True
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Feeds:
    """The feeds with watchers, by key."""

    def __init__(self) -> None:
        self._open: dict[Hashable, Feed] = {}

    async def watch(
        self, key: Hashable, begin: Callable[[], Feed]
    ) -> AsyncGenerator[ServerSentEvent]:
        """Yield the parts of a feed; *begin* creates it for its first watcher."""
        feed = self._open.get(key)
        if feed is None:
            feed = self._open[key] = begin()
        feed.watchers += 1
        try:
            async with aclosing(feed.parts()) as parts:
                async for part in parts:
                    yield part
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                if self._open.get(key) is feed:
                    del self._open[key]
                await feed.aclose()
