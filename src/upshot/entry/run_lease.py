"""Holds the log of a run for as long as this process works on it.

The journal's file says which process holds a run, and the epoch which holder was the last. Neither
distinguishes two sessions of one process that want the same run; a table of sessions does.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast
from weakref import ref

from upshot.contract.protocols import InstantJournal, Journal, as_leasing
from upshot.journal.lease_holder import LeaseHolder, RunHeld
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.run_list import TurnClaim, TurnInTheWay
from upshot.runs.release import cancel_lost_session
from upshot.runs.run_context import current_run
from upshot.runs.session import Phase, Session

# The place of a log, and the run.
_Place = tuple[str | int, str]

_FINAL = (Phase.PARKED, Phase.SETTLED)
_holds: dict[_Place, RunLease] = {}
# Event loops in several threads may work on the runs of one file.
_lock = threading.Lock()


class RunLease:
    """Marks a run as held by this process."""

    __slots__ = ("_known", "_loop", "_session", "epoch", "in_the_way")

    def __init__(self) -> None:
        self.epoch: int = 0
        # The turn of the conversation that prevented the claim.
        self.in_the_way: TurnInTheWay | None = None
        # Set once it is known which session works on the run, or that none will.
        self._known: asyncio.Event | None = None
        # A weak reference: it must not keep alive what was left behind in a closed loop.
        self._loop = ref(asyncio.get_running_loop())
        self._session: ref[Session] | None = None

    def set_session(self, session: Session) -> Session:
        """Record *session* as the one that works on the run; return it."""
        self._session = ref(session)
        self.wake_waiters()
        return session

    def end_session(self) -> None:
        """End the session that works on the run, because another process has claimed it."""
        if self._session is not None and (session := self._session()) is not None:
            cancel_lost_session(session)

    def wake_waiters(self) -> None:
        """Wake the tasks that wait in ``session``."""
        if self._known is not None:
            self._known.set()

    async def session(self) -> Session | None:
        """Return the session working on the run, once it has started; None if none ever does."""
        if self._session is None:
            self._known = self._known or asyncio.Event()
            await self._known.wait()
        return self._session and self._session()

    @property
    def known(self) -> Session | None:
        """The session working on the run, or None if that is not known yet."""
        return self._session and self._session()

    @property
    def is_near(self) -> bool:
        """Whether it belongs to the running event loop."""
        return self._loop() is asyncio.get_running_loop()

    @property
    def is_at_work(self) -> bool:
        """Whether the run is being worked on, and has neither settled nor lost its log."""
        loop = self._loop()
        if loop is None or not loop.is_running():
            # Like a suspended process: if it continues, its epoch is outdated.
            return False
        if self._session is None:
            return True
        session = self._session()
        if session is None or session.context.recorder.is_lost:
            return False
        if self.is_near:
            return not session.context.recorder.is_settled
        # The loop is in another thread: its last event may not be on disk yet.
        return session.phase not in _FINAL


def claim_new_run(run_id: str, journal: InstantJournal) -> RunLease:
    """Claim a new run, whose id is known only here, without waiting."""
    hold = _holds[_place_of(journal, run_id)] = RunLease()
    hold.epoch = journal.begin(run_id)
    return hold


def drop(hold: RunLease, run_id: str, journal: Journal) -> None:
    """Release a run that was held."""
    release = getattr(journal, "release", None)
    if hold.epoch and release is not None:
        release(run_id, hold.epoch)
    hold.wake_waiters()
    leasing = as_leasing(journal)
    if leasing is not None and leasing.on_lost.get(run_id) == hold.end_session:
        del leasing.on_lost[run_id]
    place = _place_of(journal, run_id)
    with _lock:
        # A session that took it over since keeps it.
        if _holds.get(place) is hold:
            del _holds[place]


@asynccontextmanager
async def claimed(
    run_id: str,
    journal: Journal,
    *,
    take_over: bool,
    is_owned: bool = False,
    turn: TurnClaim | None = None,
) -> AsyncGenerator[RunLease]:
    """Claim a run and its turn, and release both in the end, whatever happens.

    A run that this process works on is left alone, unless *take_over*. If another turn is in the
    way, nothing is claimed, and the lease says which. A journal that several processes may open has
    ``claim_free``, which leaves a run to another living process, and ``release``.
    """
    place, hold = _place_of(journal, run_id), RunLease()
    with _lock:
        if not take_over and is_at_work(run_id, journal):
            raise _busy(run_id)
        _holds[place] = hold
    try:
        claim_free = None if take_over or is_owned else getattr(journal, "claim_free", None)
        if turn is None:
            hold.epoch = await (claim_free or journal.claim)(run_id)
        else:
            # Every journal with turns has this method.
            keeps = cast("MemoryJournal", journal)
            taken_turn = await keeps.claim_turn(run_id, turn, take_over=take_over)
            if isinstance(taken_turn, TurnInTheWay):
                hold.in_the_way = taken_turn
            else:
                hold.epoch = taken_turn
        if (leasing := as_leasing(journal)) is not None:
            leasing.on_lost[run_id] = hold.end_session
        yield hold
    finally:
        drop(hold, run_id, journal)


def is_at_work(run_id: str, journal: Journal) -> bool:
    """Whether this process works on a run."""
    hold = _holds.get(_place_of(journal, run_id))
    return hold is not None and hold.is_at_work


def sessions_of(journal: Journal) -> dict[str, Session]:
    """Return the sessions of this event loop that work on runs of a journal."""
    place = _place_of(journal, "")[0]
    with _lock:
        held = [(run_id, hold) for (where, run_id), hold in _holds.items() if where == place]
    found = {run_id: hold.known for run_id, hold in held if hold.is_near and hold.is_at_work}
    return {run_id: session for run_id, session in found.items() if session is not None}


async def session_at_work(run_id: str, journal: Journal) -> Session | None:
    """Return the session that works on a run in this event loop, or None.

    Nothing is awaited between the last check and returning None, so the caller may claim the run.
    """
    place = _place_of(journal, run_id)
    while (hold := _holds.get(place)) is not None and hold.is_at_work:
        if not hold.is_near or _is_inside(run_id):
            return None
        if (session := await hold.session()) is not None:
            return session
    return None


def _is_inside(run_id: str) -> bool:
    """Whether the caller is part of the run, which would then wait for itself."""
    link = current_run.get()
    while link is not None and link.context.plan.run_id != run_id:
        link = link.context.parent
    return link is not None


async def may_be_at_work(run_id: str, journal: Journal) -> bool:
    """Whether work of an earlier session may still be running; asked before the run is claimed.

    A take-over does not wait for the session that had the run. A suspended process may be
    continued, and nothing is known of a process on another machine.
    """
    if _place_of(journal, run_id) in _holds or is_at_work(run_id, journal):
        return True
    holders = getattr(journal, "holders", None)
    holder: LeaseHolder | None = None if holders is None else (await holders()).get(run_id)
    return holder is not None and not holder.is_this_process and holder.state != "gone"


def _place_of(journal: Journal, run_id: str) -> _Place:
    path = getattr(journal, "path", None)
    if isinstance(path, str) and os.path.isfile(path):
        return os.path.realpath(path), run_id
    # The path of a server's journal is a URL.
    return (path if isinstance(path, str) and "://" in path else id(journal)), run_id


def _busy(run_id: str) -> RunHeld:
    return RunHeld(
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
