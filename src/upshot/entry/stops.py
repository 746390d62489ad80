"""Stopping a run that any process may work on: the request is stored, and its holder acts on it.

The request is a row beside the log. A session that resumes a run looks for one first. While
sessions work, one timer per journal polls the requests for all runs of this process, since other
processes cannot reach a session. A cancel of a run without a holder ends it at once.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import InterruptCause
from upshot.contract.protocols import Journal
from upshot.contract.run_control import Interrupt
from upshot.entry.run_lease import sessions_of
from upshot.entry.signals import pass_signals_on
from upshot.errors import JournalError, Misuse
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.shared import SharedJournal, Stop, needs_shared, shared_journal
from upshot.runs.session import Session
from upshot.state.child_runs import CHAIN_OPTION, child_id

# How often a process polls for requests that its runs stop.
_POLL_S = 0.25

_watched: WeakKeyDictionary[Any, asyncio.TimerHandle] = WeakKeyDictionary()
_polls: set[asyncio.Task[None]] = set()


async def place_stop(stop: Stop, journal: Journal, shared: SharedJournal) -> bool:
    """Store the request that a run stop, and notify its session in this event loop.

    Returns:
        Whether there is such a session.
    """
    await shared.place_stop(stop)
    session = sessions_of(journal).get(stop.run_id)
    if session is not None:
        stop_session(session, stop)
    return session is not None


def stop_of(run_id: str, cause: object = None, detail: str = "") -> Stop:
    """Return the request that a run stop: a cancel without a *cause*, else an interrupt.

    Raises:
        Misuse: The cause is not a string.
    """
    if cause is None:
        return Stop(run_id=run_id, kind="cancel", at=SYSTEM_CLOCK.now())
    if not isinstance(cause, str):
        raise Misuse(f"the cause of an interrupt must be a text, got {type(cause).__name__}")
    interrupt = Interrupt(InterruptCause(cause), detail)
    return Stop(
        run_id=run_id,
        kind="interrupt",
        cause=str(interrupt.cause.value),
        detail=interrupt.detail,
        at=SYSTEM_CLOCK.now(),
    )


def stop_session(session: Session, stop: Stop) -> None:
    """Stop a session as requested; a repeated request has no further effect."""
    if stop.kind == "cancel":
        session.context.supervisor.end("cancel")
    else:
        session.interrupt(Interrupt(InterruptCause(stop.cause), stop.detail))


async def with_stops(session: Session, journal: Journal) -> Session:
    """Return a session that is about to start, after applying earlier requests to it.

    Of a chain of handoffs, it also gets the signals that the run before has not read. A session
    that continues a stopped run drops those requests instead.
    """
    shared, plan = shared_journal(journal), session.plan
    run_ids = [plan.run_id]
    if plan.parent_run_id and plan.run_id == child_id(CHAIN_OPTION, plan.parent_run_id):
        # The parent may have handed its request over before it saw the request to stop.
        run_ids.append(plan.parent_run_id)
        if shared is not None:
            await pass_signals_on(plan.parent_run_id, plan.run_id, journal)
    if shared is not None and plan.continue_stopped:
        for run_id in run_ids:
            await shared.drop_stops(run_id)
    elif shared is not None:
        for stop in await shared.stops(run_ids):
            stop_session(session, stop)
    return session


def watch_stops(journal: Journal) -> None:
    """Poll for requests of other processes for as long as this event loop works on runs."""
    if journal in _watched or isinstance(journal, MemoryJournal):
        return
    if shared_journal(journal) is not None:
        _schedule_poll(journal)


def _schedule_poll(journal: Journal) -> None:
    loop = asyncio.get_running_loop()
    _watched[journal] = loop.call_later(_POLL_S, _start_poll, journal)


def _start_poll(journal: Journal) -> None:
    if not sessions_of(journal):
        _watched.pop(journal, None)
        return
    look = asyncio.get_running_loop().create_task(_poll(journal))
    _polls.add(look)
    look.add_done_callback(_polls.discard)


async def _poll(journal: Journal) -> None:
    sessions = sessions_of(journal)
    try:
        stops = await needs_shared(journal).stops([*sessions])
    except JournalError:
        # Keep polling: the error may pass, and a session in a long call does not see it.
        stops = ()
    for stop in stops:
        stop_session(sessions[stop.run_id], stop)
    _schedule_poll(journal)
