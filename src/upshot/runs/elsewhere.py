"""Elsewhere: asking something of a run that lives in the event loop of another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["PATIENCE_S", "ask_elsewhere"]

# A loop that does not even begin for so long is held up by what waits for who asks. What holds
# it up for a shorter time may be work of its own.
PATIENCE_S = 10.0

T = TypeVar("T")


async def ask_elsewhere(
    loop: asyncio.AbstractEventLoop,
    ask: Callable[[], Coroutine[Any, Any, T]],
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Have *loop* do something, and wait for it; a cancel here cancels it there.

    Args:
        loop: That of another thread.
        ask: Makes what is to be done, in that loop.
        patience_s: Within how many seconds it has to begin; it may take longer than that.

    Raises:
        RuntimeError: The loop has ended, or is held up; nothing was begun.
        Exception: What *ask* raised.
    """
    if not loop.is_running():
        raise RuntimeError("its event loop has ended")
    here = asyncio.get_running_loop()
    begun, limit = asyncio.Event(), asyncio.timeout(patience_s)
    is_wanted = True

    async def begin() -> T:
        if not is_wanted:
            # Its cancel would come in time only after the first step.
            raise asyncio.CancelledError
        here.call_soon_threadsafe(begun.set)
        return await ask()

    work = begin()
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        # Closed in between.
        work.close()
        raise
    try:
        async with limit:
            await begun.wait()
    except BaseException as error:
        is_wanted = False
        future.cancel()
        if isinstance(error, TimeoutError) and limit.expired():
            raise RuntimeError(
                f"its event loop did not answer within {patience_s:g} s: something in it waits "
                "without await, such as thread.join(); use await asyncio.to_thread(...) there"
            ) from None
        raise
    return await asyncio.wrap_future(future)
