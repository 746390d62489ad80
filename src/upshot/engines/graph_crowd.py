"""Several nodes under way at the same time: they end together, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ..contract import Pending
from ..runs import Parked

__all__ = ["together"]

T = TypeVar("T")


async def together(
    works: Sequence[Coroutine[Any, Any, T]], *, at_once: int | None = None
) -> list[T]:
    """Do all of *works* at the same time.

    A failure cancels the others. One that is parked does not: the others go on to their end,
    so that all that is waited for is known at once.

    Args:
        works: What is done.
        at_once: How many at most at the same time, None for all.

    Returns:
        What came of each, in the order given.

    Raises:
        Parked: Nothing failed, and people are waited for.
        Exception: What the first in order of those that failed raised.
    """
    if len(works) == 1:
        return [await works[0]]
    gate = None if at_once is None else asyncio.Semaphore(at_once)
    tasks = [asyncio.ensure_future(_within(gate, work)) for work in works]
    try:
        await _until_settled(tasks)
    finally:
        for task in tasks:
            task.cancel()
        # Also when we are cancelled: nothing may be left behind.
        await asyncio.gather(*tasks, return_exceptions=True)
        for work in works:
            # One that was cancelled before its turn would be told as never awaited.
            work.close()
    return _values(tasks)


async def _within(gate: asyncio.Semaphore | None, work: Coroutine[Any, Any, T]) -> T:
    if gate is None:
        return await work
    async with gate:
        return await work


async def _until_settled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait until all are done, or one has failed."""
    left: set[asyncio.Task[Any]] = set(tasks)
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if any(_failure(task) is not None for task in done):
            return


def _values(tasks: Sequence[asyncio.Task[T]]) -> list[T]:
    # One that failed by itself comes before those that were cancelled because of it.
    failures = [failure for task in tasks if (failure := _failure(task)) is not None]
    failures.sort(key=lambda failure: isinstance(failure, asyncio.CancelledError))
    if failures:
        raise failures[0]
    pending: list[Pending] = []
    for task in tasks:
        error = task.exception()
        if isinstance(error, Parked):
            pending += error.pending
    if pending:
        raise Parked(*pending)
    return [task.result() for task in tasks]


def _failure(task: asyncio.Task[Any]) -> BaseException | None:
    """Why *task* failed, None where it did not or is parked."""
    if task.cancelled():
        return asyncio.CancelledError()
    error = task.exception()
    return None if isinstance(error, Parked) else error
