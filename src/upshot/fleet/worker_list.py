"""Which workers a journal has, and a request to one of them to take no more runs.

Each worker keeps a value in the journal, which it renews every few seconds. A request to drain it
is a value of its own, so that the worker and who asks never write over each other. Both go when the
worker ends. What a killed worker left is removed by a later one, after an hour.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec.structs import replace

from upshot.contract.base.structs import Moment, Value
from upshot.contract.codec import decode, encode
from upshot.contract.protocols import Journal
from upshot.errors import JournalError, Misuse
from upshot.journal.event_codec import from_micros, logger
from upshot.journal.lease_holder import LeaseHolder, this_process
from upshot.journal.shared import SharedJournal, SharedValues, needs_shared
from upshot.version import __version__

__all__ = ["Drain", "Registration", "WorkerState", "drain_worker", "read_workers"]

# How often a worker looks for a request, and how often it says that it is there.
_LOOK_S = 1.0
_BEAT_S = 5.0
# A process on another machine that has said nothing for this long is gone.
_SILENT = timedelta(seconds=30)
_KEPT = timedelta(hours=1)
# The character after the space ends the range of names.
_WORKER, _DRAIN = "worker ", "drain-worker "


class Drain(Value, frozen=True, kw_only=True):
    """A request to a worker to take no more runs.

    Attributes:
        by: Who asked.
        at: When.
    """

    by: str
    at: Moment


class _Registered(Value, frozen=True, kw_only=True):
    """What a worker says of itself.

    Attributes:
        process: Its process.
        version: The version of its App.
        upshot: The version of upshot.
        concurrency: How many runs it works on at once at most.
        since: When it started to work on runs.
        seen: When it last said that it is there, by the journal's clock.
        is_draining: Whether it takes no more runs.
    """

    process: LeaseHolder
    version: str
    upshot: str
    concurrency: int
    since: Moment
    seen: Moment
    is_draining: bool = False


class WorkerState(Value, frozen=True, kw_only=True):
    """A worker, or another process that holds runs.

    Attributes:
        id: Names the worker for ``drain_worker``; "" for a process that is no worker.
        host: Its machine.
        pid: Its process id there.
        state: "working"; "draining" once it takes no more runs; "stopped" if it is suspended;
            "gone" if its process has ended, or has said nothing for too long.
        version: The version of its App; "" if not known.
        upshot: The version of upshot; "" if not known.
        concurrency: How many runs it works on at once at most; 0 if not known.
        since: When it started to work on runs; None if not known.
        seen: When it last said that it is there; None if not known.
        lease_s: Seconds until its lease ends, if it is not renewed; None if it holds no run.
        runs: The runs that it holds.
        drain: Who asked it to take no more; None if nobody did.
    """

    id: str = ""
    host: str
    pid: int
    state: Literal["working", "draining", "stopped", "gone"]
    version: str = ""
    upshot: str = ""
    concurrency: int = 0
    since: Moment | None = None
    seen: Moment | None = None
    lease_s: float | None = None
    runs: tuple[str, ...] = ()
    drain: Drain | None = None


class Registration:
    """The entry of one worker in a journal.

    Args:
        version: The version of its App.
        concurrency: How many runs it works on at once at most.

    Attributes:
        id: Names the worker.
    """

    def __init__(self, version: str, concurrency: int) -> None:
        self.id: str = secrets.token_hex(4)
        self._version = version
        self._concurrency = concurrency
        self._since = datetime.now(UTC)
        self._is_draining = False

    async def keep(self, journal: Journal, on_drain: Callable[[], None]) -> None:
        """Renew the entry regularly, and call *on_drain* when the worker is asked to drain.

        It ends only when it is cancelled.
        """
        shared, beat_at, is_new = needs_shared(journal), 0.0, True
        loop = asyncio.get_running_loop()
        while True:
            try:
                if is_new:
                    await remove_lost_workers(journal)
                    is_new = False
                if not self._is_draining and await shared.value(_DRAIN + self.id):
                    on_drain()
                    self._is_draining, beat_at = True, 0.0
                if loop.time() >= beat_at:
                    await shared.change_values(self._write)
                    beat_at = loop.time() + _BEAT_S
            except JournalError as error:
                # The worker itself notices that its journal is away.
                logger.debug("worker %s cannot say that it is there: %s", self.id, error)
            await asyncio.sleep(_LOOK_S)

    async def remove(self, journal: Journal) -> None:
        """Remove the entry of a worker that ends."""
        try:
            await needs_shared(journal).change_values(lambda values: _forget(values, self.id))
        except JournalError as error:
            logger.debug("worker %s cannot be removed from the list: %s", self.id, error)

    def _write(self, values: SharedValues) -> None:
        name = _WORKER + self.id
        values.read(name)
        entry = _Registered(
            process=this_process(),
            version=self._version,
            upshot=__version__,
            concurrency=self._concurrency,
            since=self._since,
            seen=from_micros(values.now_us) or self._since,
            is_draining=self._is_draining,
        )
        values.write(name, encode(entry).decode())


def _forget(values: SharedValues, id: str) -> None:
    for prefix in (_WORKER, _DRAIN):
        values.forget(prefix + id, f"{prefix}{id} ")


async def read_workers(journal: Journal) -> tuple[WorkerState, ...]:
    """Return the workers of a journal, and the other processes that hold runs of it.

    Workers that ended less than an hour ago without saying so are among them.

    Raises:
        Misuse: Processes cannot share the journal.
        JournalError: It cannot be read.
    """
    shared = needs_shared(journal)
    entries = await _read_entries(shared, _WORKER, _Registered)
    drains = await _read_entries(shared, _DRAIN, Drain)
    held = await _runs_by_process(journal)
    now, found = datetime.now(UTC), list[WorkerState]()
    for id, entry in entries.items():
        runs = held.pop(entry.process, {})
        found.append(_state_of(id, entry, runs, drains.get(id), now))
    others = [
        WorkerState(
            host=process.host,
            pid=process.pid,
            state="working",
            lease_s=_least_lease(runs),
            runs=tuple(sorted(runs)),
        )
        for process, runs in held.items()
        if process.pid and any(holder.may_work for holder in runs.values())
    ]
    return tuple(
        sorted([*found, *others], key=lambda one: (one.state == "gone", one.host, one.pid))
    )


async def drain_worker(journal: Journal, id: str, *, by: str) -> WorkerState:
    """Ask a worker to finish the runs that it holds and take no more.

    ``upshot work`` then ends; a server keeps serving without working on runs.

    Args:
        journal: The journal.
        id: The worker, as ``read_workers`` names it.
        by: Who asks.

    Returns:
        The worker, which takes no more runs within a second or two. Of several requests the first
        one counts.

    Raises:
        Misuse: There is no such worker, or it is gone.
        JournalError: The journal cannot be written.
    """
    workers = {one.id: one for one in await read_workers(journal) if one.id}
    known = workers.get(id)
    if known is None or known.state == "gone":
        there = ", ".join(one.id for one in workers.values() if one.state != "gone")
        what = "is gone" if known else "is not a worker of this journal"
        raise Misuse(f"{id!r} {what}: there are {there}" if there else f"{id!r} {what}")
    name, wanted = _DRAIN + id, Drain(by=by, at=datetime.now(UTC))

    def ask(values: SharedValues) -> Drain:
        if body := values.read(name):
            return decode(body, Drain)
        values.write(name, encode(wanted).decode())
        return wanted

    drain = await needs_shared(journal).change_values(ask)
    return replace(
        known, drain=drain, state="draining" if known.state == "working" else known.state
    )


async def remove_lost_workers(journal: Journal) -> None:
    """Remove what workers left that were killed over an hour ago."""
    shared, now = needs_shared(journal), datetime.now(UTC)
    entries = await _read_entries(shared, _WORKER, _Registered)
    drains = await _read_entries(shared, _DRAIN, Drain)
    lost = [id for id, entry in entries.items() if entry.seen < now - _KEPT]
    lost += [id for id, one in drains.items() if id not in entries and one.at < now - _KEPT]

    def remove(values: SharedValues) -> None:
        for id in lost:
            _forget(values, id)

    if lost:
        await shared.change_values(remove)


def _state_of(
    id: str,
    entry: _Registered,
    runs: Mapping[str, LeaseHolder],
    drain: Drain | None,
    now: datetime,
) -> WorkerState:
    # Where its process cannot be looked at, its last sign of life decides.
    left_s = (entry.seen + _SILENT - now).total_seconds()
    process = replace(entry.process, lease_s=left_s).state
    state: Any = {"gone": "gone", "unknown": "gone", "stopped": "stopped"}.get(process)
    return WorkerState(
        id=id,
        host=entry.process.host,
        pid=entry.process.pid,
        state=state or ("draining" if entry.is_draining else "working"),
        version=entry.version,
        upshot=entry.upshot,
        concurrency=entry.concurrency,
        since=entry.since,
        seen=entry.seen,
        lease_s=_least_lease(runs),
        runs=tuple(sorted(runs)),
        drain=drain,
    )


def _least_lease(runs: Mapping[str, LeaseHolder]) -> float | None:
    return min((one.lease_s for one in runs.values() if one.lease_s is not None), default=None)


async def _read_entries(shared: SharedJournal, prefix: str, kind: type[Any]) -> dict[str, Any]:
    """Return the entries with a prefix, by the id of their worker."""
    found = await shared.values(prefix, f"{prefix[:-1]}!")
    return {name.removeprefix(prefix): decode(body, kind) for name, body in found.items()}


async def _runs_by_process(journal: Journal) -> dict[LeaseHolder, dict[str, LeaseHolder]]:
    """Return the holder of each run that is worked on, by its process."""
    held: defaultdict[LeaseHolder, dict[str, LeaseHolder]] = defaultdict(dict)
    read: Callable[[], Any] | None = getattr(journal, "holders", None)
    holders: Mapping[str, LeaseHolder] = {} if read is None else await read()
    for run_id, holder in holders.items():
        held[replace(holder, lease_s=None)][run_id] = holder
    return dict(held)
