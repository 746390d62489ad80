"""Stop: whether somebody really ends what runs here."""

from __future__ import annotations

import asyncio

__all__ = ["is_stop"]


def is_stop(error: BaseException) -> bool:
    """Whether *error* ends the program or the running task, and is no foreign code's own doing."""
    if isinstance(error, asyncio.CancelledError):
        # Raised by a hook itself, it is an error like any other.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit)
