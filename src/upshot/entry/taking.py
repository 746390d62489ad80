"""Taking: a run's log is taken for as long as it is worked on here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..contract import Journal

__all__ = ["taken"]


@asynccontextmanager
async def taken(run_id: str, journal: Journal, *, take_over: bool) -> AsyncGenerator[int]:
    """Take a run, and let it go in the end, however that comes.

    A journal that more than one process may have open has ``claim_free``, which leaves a run to
    a living process, and ``release``; of any other one each claim takes over.

    Args:
        run_id: The run.
        journal: Where its log is.
        take_over: Whether to take it from another process that lives.

    Yields:
        The epoch.

    Raises:
        JournalError: Another process works on the run, or its log cannot be used.
    """
    claim_free = None if take_over else getattr(journal, "claim_free", None)
    epoch = await (claim_free or journal.claim)(run_id)
    try:
        yield epoch
    finally:
        release = getattr(journal, "release", None)
        if release is not None:
            release(run_id, epoch)
