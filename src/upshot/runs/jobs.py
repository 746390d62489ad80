"""Jobs: work under a key that several may wait for, and that none of them ends for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Jobs"]

T = TypeVar("T")


class Jobs(Generic[T]):
    """Pieces of work, each in a task of its own while anybody waits for it."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}
        self._waiting: dict[asyncio.Task[T], int] = {}

    async def do(self, key: str, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do *body*, or wait for what is being done under *key*.

        Who is cancelled only stops waiting; the last one cancels the work and waits for its end.
        Who comes while it is being cancelled waits for that too, and has it done anew.

        Returns:
            What the work returned.

        Raises:
            BaseException: Whatever it raised, to everybody who waits.
        """
        task = self._tasks.get(key)
        try:
            if task is not None and task not in self._waiting and not task.done():
                # Its last waiter left it: its cancel is nobody's who comes now.
                await asyncio.wait({task})
                return await self.do(key, body) if task.cancelled() else task.result()
            if task is None or task.done():
                task = self._tasks[key] = asyncio.get_running_loop().create_task(body())
                self._waiting[task] = 0
            self._waiting[task] += 1
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                await self._leave(task)
                raise
            finally:
                self._let_go(key, task)
        finally:
            # What it raised leads to this frame, and must not lead back from here.
            del task

    async def _leave(self, task: asyncio.Task[T]) -> None:
        """Cancel *task* and wait for its end, where nobody else waits for it."""
        if self._waiting[task] > 1 or task.done():
            return
        del self._waiting[task]
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            # Nobody else need ask how it ended.
            task.exception()

    def _let_go(self, key: str, task: asyncio.Task[T]) -> None:
        """Count one waiter of *task* less; what nobody waits for and is done is forgotten."""
        left = self._waiting.get(task, 1) - 1
        if left:
            self._waiting[task] = left
            return
        self._waiting.pop(task, None)
        if task.done() and self._tasks.get(key) is task:
            del self._tasks[key]
