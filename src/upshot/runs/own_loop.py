"""An event loop of one's own for a single piece of work, closed without hanging."""

from __future__ import annotations

import asyncio
import signal
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..errors import Misuse

__all__ = ["run_in_own_loop"]

T = TypeVar("T")

_CLOSE_S = 2.0


def run_in_own_loop(
    work: Callable[[], Coroutine[Any, Any, T]],
    *,
    closing: Callable[[], Coroutine[Any, Any, None]],
) -> T:
    """Run *work* in a new event loop and close it.

    ``asyncio.run`` waits for tasks that ignore their cancellation, without an end; here
    they get ``_CLOSE_S`` and are then left behind, named in a RuntimeWarning. Ctrl-C
    cancels the work once, so that it can finalise; the second time it is raised where the
    program stands.

    Args:
        work: Makes the coroutine to run.
        closing: Lets go of what the loop holds, such as connections; called at the end.

    Raises:
        Misuse: An event loop is running in this thread.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise Misuse("run_sync cannot be used inside an event loop: await run(...) there")
    loop = asyncio.new_event_loop()
    try:
        return _run(loop, work)
    finally:
        _close(loop, closing)


def _run(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    task = loop.create_task(work())
    pressed = False

    def on_interrupt(_number: int, _frame: object) -> None:
        nonlocal pressed
        if pressed:
            # At once, for the loop itself may be held up by what does not await.
            raise KeyboardInterrupt
        pressed = True
        loop.call_soon_threadsafe(task.cancel)

    in_main = threading.current_thread() is threading.main_thread()
    # A handler of the user's own is left alone.
    ours = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _close(
    loop: asyncio.AbstractEventLoop, closing: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_S))
        stuck = [
            str(getattr(task.get_coro(), "__qualname__", task)) for task in left if not task.done()
        ]
        if stuck:
            message = f"left behind, since they ignore their cancellation: {', '.join(stuck)}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
    loop.run_until_complete(closing())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
