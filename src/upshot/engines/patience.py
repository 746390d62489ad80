"""Patience: the wait before a node or state is tried again."""

from __future__ import annotations

import random

from ..contract import Clock
from ..runs import current_run

__all__ = ["wait_again"]

_MAX_DOUBLINGS = 64
# The most that chance adds to a wait, as a part of it.
_JITTER = 0.5


async def wait_again(
    backoff_s: float, tries: int, *, floor_s: float, clock: Clock | None = None
) -> bool:
    """Wait before the next try.

    Args:
        backoff_s: Seconds before the second try; doubled for each one after it.
        tries: How often it was tried.
        floor_s: What the provider asks for; chance only adds.
        clock: What is waited on, None for the run's.

    Returns:
        False, at once, where the wait would end after the run's deadline.
    """
    scope = current_run.get()
    if scope is None:
        return False
    wait_s = max(backoff_s * 2 ** min(tries - 1, _MAX_DOUBLINGS), floor_s)
    wait_s *= 1 + random.random() * _JITTER
    deadline = scope.ledger.deadline
    if deadline is not None and scope.clock.monotonic() + wait_s >= deadline:
        return False
    await scope.pause(wait_s, clock)
    return True
