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

        Returns:
            What the work returned.

        Raises:
            BaseException: Whatever it raised, to everybody who waits.
        """
        task = self._tasks.get(key)
        if task is None or task.done():
            task = self._tasks[key] = asyncio.get_running_loop().create_task(body())
            self._waiting[task] = 0
        self._waiting[task] += 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._waiting[task] == 1 and not task.done():
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    # Nobody else asks how it ended.
                    task.exception()
            raise
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                if self._tasks.get(key) is task:
                    del self._tasks[key]
