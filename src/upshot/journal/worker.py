"""Worker: a daemon thread that runs functions for an event loop, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

__all__ = ["Worker", "resolve"]

T = TypeVar("T")
_Call: TypeAlias = tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]


class Worker:
    """One thread, begun at the first call.

    The loop's own executor is not used: leaving the loop would wait for its threads.

    Args:
        name: What the thread is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def call(self, function: Callable[[], T]) -> T:
        """Run *function* in the thread.

        Returns:
            What it returns. Cancelling the wait does not stop the function.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((function, resolve(future)))
        return await future

    def stop(self) -> None:
        """End the thread after the calls that were made."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, done = call
            try:
                result, failure = function(), None
            # The promise kept: whatever the function raises is raised to its caller.
            except Exception as error:
                result, failure = None, error
            done(result, failure)
            # Nothing of the last call is kept alive while waiting for the next.
            del call, function, done, result, failure


def resolve(future: asyncio.Future[T]) -> Callable[[Any, Exception | None], None]:
    """A function that gives a result or an exception to *future* from any thread."""
    loop = future.get_loop()

    def settle(result: T, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def done(result: Any, error: Exception | None) -> None:
        # The loop may be gone, and then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    return done
