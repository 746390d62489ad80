"""Barrier: waiting until what one holder of a run has logged is safe."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from functools import cache
from typing import Any, cast

from .roles import Journal

__all__ = ["takes_epoch", "until_safe"]


def until_safe(journal: Journal, run_id: str, seq: int, *, epoch: int | None) -> Awaitable[None]:
    """Wait as ``journal.durable`` does; one that knows no epochs there is not told any.

    Args:
        journal: Where the run's log is.
        run_id: The run.
        seq: Of the last event that has to be safe.
        epoch: Under which it was appended, None where nobody knows.

    Raises:
        JournalError: It could not be written, or another holder's event stands in its place.
    """
    if epoch is None or not takes_epoch(type(journal)):
        return journal.durable(run_id, seq)
    return journal.durable(run_id, seq, epoch=epoch)


@cache
def takes_epoch(kind: type) -> bool:
    """Whether ``durable`` of a journal of that class takes an epoch, as older ones do not."""
    try:
        parameters = inspect.signature(cast("Any", kind).durable).parameters.values()
    except (AttributeError, TypeError, ValueError):
        # It hands its calls on, to nobody knows what.
        return False
    return any(one.name == "epoch" or one.kind is one.VAR_KEYWORD for one in parameters)
