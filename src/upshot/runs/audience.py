"""Audience: a method of the user's host that is told what happens."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from .callback import is_closing

__all__ = ["Audience"]


class Audience:
    """Tells a method every fact in order; one that raises is told nothing more.

    Args:
        method: Sync or async.
        on_failure: Called once with what it raised.
    """

    def __init__(
        self,
        method: Callable[[Any], object],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._method = method
        self._on_failure = on_failure
        self._waiting: deque[Awaitable[object]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def tell(self, fact: object) -> None:
        """Hand *fact* on; never raises and never waits."""
        if self._has_failed:
            return
        try:
            told = self._method(fact)
        except BaseException as error:
            # A host looks on; it never fails a run. Nothing waits here that could be cancelled.
            self._fail(error)
            return
        if inspect.isawaitable(told):
            self._waiting.append(told)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._work_off())

    @property
    def is_busy(self) -> bool:
        """Whether it has not taken all that it was told."""
        return self._task is not None and not self._task.done()

    async def drain(self) -> None:
        """Wait until all that was told has been taken."""
        if self._task is not None:
            await self._task

    def close(self) -> None:
        """Drop what was not taken."""
        self._has_failed = True
        if self._task is not None:
            self._task.cancel()
            # Its context leads to the run, and that back here.
            self._task = None
        for told in self._waiting:
            if inspect.iscoroutine(told):
                told.close()
        self._waiting.clear()
        # What fails from now on concerns nobody, and who was to hear of it may go.
        self._on_failure = _forget

    async def _work_off(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft()
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError | GeneratorExit):
                task = None if is_closing() else asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            # A host looks on; it never fails a run.
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        # First, for the warning that it becomes is an event too.
        self._has_failed = True
        self._on_failure(error)


def _forget(_: BaseException) -> None:
    """Nobody hears of a failure any more."""
