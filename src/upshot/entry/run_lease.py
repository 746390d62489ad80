"""Holds the log of a run for as long as this process works on it.

A journal's file says which process holds a run, and its epoch which holder was the last. Neither
distinguishes two sessions in one process that want the same run; a table of the sessions does.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast
from weakref import ref

from upshot.contract.protocols import Journal, as_instant
from upshot.errors import JournalError
from upshot.journal.lease_holder import LeaseHolder
from upshot.runs.session import Session

# The place of a log, and the run.
_Place = tuple[str | int, str]

_holds: dict[_Place, RunLease] = {}
# Loops of several threads may work on the runs of one file.
_lock = threading.Lock()


class RunLease:
    """Marks that this process holds a run."""

    __slots__ = ("_loop", "_session", "epoch")

    def __init__(self) -> None:
        self.epoch: int = 0
        # What was left behind in a loop that is closed is not kept alive by this.
        self._loop = ref(asyncio.get_running_loop())
        self._session: ref[Session] | None = None

    def give(self, session: Session) -> Session:
        """Note that *session* is what works on it; returns it."""
        self._session = ref(session)
        return session

    @property
    def is_at_work(self) -> bool:
        """Whether the run is worked on, and has neither settled nor lost its log."""
        loop = self._loop()
        if loop is None or not loop.is_running():
            # Like a process that is suspended: should it go on, its epoch is an old one.
            return False
        if self._session is None:
            return True
        session = self._session()
        recorder = session and session.context.recorder
        return recorder is not None and not (recorder.is_settled or recorder.is_lost)


@asynccontextmanager
async def taken(
    run_id: str, journal: Journal, *, take_over: bool, is_owned: bool = False, leaves: bool = True
) -> AsyncGenerator[RunLease]:
    """Take a run, and release it in the end, whatever happens.

    A journal that more than one process may have open has ``claim_free``, which leaves a run to
    another living one, and ``release``.
    """
    place, hold = _place_of(journal, run_id), RunLease()
    with _lock:
        if leaves and not take_over and is_at_work(run_id, journal):
            raise _busy(run_id)
        _holds[place] = hold
    try:
        claim_free = None if take_over or is_owned else getattr(journal, "claim_free", None)
        hold.epoch = await (claim_free or journal.claim)(run_id)
        try:
            yield hold
        finally:
            release = getattr(journal, "release", None)
            if release is not None:
                release(run_id, hold.epoch)
    finally:
        with _lock:
            # A session that took it over since keeps it.
            if _holds.get(place) is hold:
                del _holds[place]


def is_at_work(run_id: str, journal: Journal) -> bool:
    """Whether this process works on a run."""
    hold = _holds.get(_place_of(journal, run_id))
    if hold is not None and hold.is_at_work:
        return True
    instant = as_instant(journal)
    return instant is not None and instant.is_begun(run_id)


async def may_be_at_work(run_id: str, journal: Journal) -> bool:
    """Whether what an earlier session began may still go on; asked before the run is taken.

    A take-over does not wait for the session that had the run. A suspended process may be
    continued, and of one on another machine nothing is known.
    """
    if _place_of(journal, run_id) in _holds or is_at_work(run_id, journal):
        return True
    holders = getattr(journal, "holders", None)
    holder: LeaseHolder | None = None if holders is None else (await holders()).get(run_id)
    return holder is not None and not holder.is_this_process and holder.state != "gone"


def _place_of(journal: Journal, run_id: str) -> _Place:
    path = getattr(journal, "path", None)
    is_file = isinstance(path, str) and os.path.isfile(path)
    return (os.path.realpath(cast("str", path)) if is_file else id(journal)), run_id


def _busy(run_id: str) -> JournalError:
    return JournalError(
        f"run {run_id} is being worked on in this process: wait for its result and then answer "
        "what it still waits for, or give take_over=True",
        run_id=run_id,
    )


def _after_fork() -> None:
    global _lock  # noqa: PLW0603  # of the process, which is another one now
    _lock = threading.Lock()
    _holds.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
