"""Reading what is stored of runs, and finding damage in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from ..contract import RunStarted, RunSummary
from ..errors import Misuse
from .damage import Damage
from .entry import checksum, decode_event, from_unix

__all__ = [
    "Page",
    "Scan",
    "epoch_of",
    "last_seq",
    "read_bodies",
    "read_page",
    "read_summaries",
    "scan_run",
]

# Damage may have given a value another type; a checksum then tells what it is worth.
_ROWS = """SELECT CAST(seq AS INTEGER), CAST(epoch AS INTEGER),
    coalesce(CAST(body AS BLOB), x''), CAST(crc AS INTEGER) FROM events
    WHERE run_id = ? AND seq > ? ORDER BY seq"""
_END = "SELECT CAST(last_seq AS INTEGER) FROM runs WHERE run_id = ?"
_EPOCH = "SELECT CAST(epoch AS INTEGER) FROM events WHERE run_id = ? AND seq = ?"
_SUMMARIES = """SELECT CAST(run_id AS TEXT), CAST(agent_id AS TEXT), CAST(status AS TEXT),
    CAST(started_at AS REAL), CAST(updated_at AS REAL), CAST(last_seq AS INTEGER),
    CAST(request AS TEXT), CAST(parent_run_id AS TEXT)
    FROM runs WHERE last_seq > 0 AND (?1 IS NULL OR status = ?1)
    ORDER BY started_at DESC, rowid DESC"""


class Page(NamedTuple):
    """Some events of a run in order.

    Attributes:
        bodies: The events as JSON.
        last: Seq of the last one; where there is none, what was asked for.
        more: Whether there may be more after them.
        fault: What is wrong with the next one, "" if nothing.
    """

    bodies: list[bytes]
    last: int
    more: bool
    fault: str


class Scan(NamedTuple):
    """What a run's log is like as a whole.

    Attributes:
        last_seq: Seq of the last event before any damage.
        epoch: The highest epoch that appended to it.
        damage: What is wrong with it, None if nothing.
    """

    last_seq: int
    epoch: int
    damage: Damage | None


class _Row(NamedTuple):
    """A row as it is in the file, which may hold anything where it is damaged."""

    seq: int
    epoch: int
    body: bytes
    crc: int

    def fault(self, run_id: str, expected: int) -> str:
        """What is wrong with it, "" if nothing."""
        if self.seq != expected:
            return f"event {expected} is missing"
        if self.crc != checksum(run_id, self.seq, self.epoch, self.body):
            return f"the checksum of event {expected} is wrong"
        return ""


def read_page(connection: sqlite3.Connection, run_id: str, after: int, limit: int) -> Page:
    """Read at most *limit* events with a seq above *after*, up to the first damaged one.

    Within a transaction, so that the rows and the list of runs are of one moment.
    """
    bodies: list[bytes] = []
    last = after
    rows = connection.execute(f"{_ROWS} LIMIT ?", (run_id, after, limit)).fetchall()
    for row in map(_Row._make, rows):
        if fault := row.fault(run_id, last + 1):
            return Page(bodies, last, False, fault)
        bodies.append(row.body)
        last += 1
    if len(rows) == limit:
        return Page(bodies, last, True, "")
    fault = f"event {last + 1} is missing" if last_seq(connection, run_id) > last else ""
    return Page(bodies, last, False, fault)


def read_bodies(connection: sqlite3.Connection, run_id: str) -> Iterator[bytes]:
    """All events of a run as JSON, in order; it must not be damaged."""
    for _seq, _epoch, body, _crc in connection.execute(_ROWS, (run_id, 0)):
        yield body


def scan_run(connection: sqlite3.Connection, run_id: str) -> Scan:
    """Check every event of a run."""
    last = epoch = lost = 0
    fault = ""
    tail = True
    for row in map(_Row._make, connection.execute(_ROWS, (run_id, 0))):
        if not fault:
            fault = row.fault(run_id, last + 1)
            if not fault:
                last, epoch = last + 1, max(epoch, row.epoch)
                continue
        lost += 1
        tail = tail and bool(row.fault(run_id, row.seq))
    missing = last_seq(connection, run_id) - last
    if not fault and missing > 0:
        fault, lost = f"event {last + 1} is missing", missing
    if not fault:
        return Scan(last, epoch, None)
    lost = max(lost, missing)
    return Scan(
        last, epoch, Damage(run_id=run_id, sound_to=last, lost=lost, reason=fault, tail=tail)
    )


def last_seq(connection: sqlite3.Connection, run_id: str) -> int:
    """Seq of the run's last event as the list of runs has it, 0 if it has none."""
    row = connection.execute(_END, (run_id,)).fetchone()
    return row[0] or 0 if row else 0


def epoch_of(connection: sqlite3.Connection, run_id: str, seq: int) -> int:
    """The epoch under which an event was appended; 0 for one that is not there."""
    row = connection.execute(_EPOCH, (run_id, seq)).fetchone()
    return row[0] or 0 if row else 0


def read_summaries(connection: sqlite3.Connection, status: str | None) -> list[RunSummary]:
    """The runs that have events, newest first; only those of *status* where one is given."""
    return [
        RunSummary(
            run_id=run_id,
            agent_id=agent_id,
            status=state,
            started_at=from_unix(started_at),
            updated_at=from_unix(updated_at),
            events=events,
            request=request,
            parent_run_id=_parent_of(connection, run_id) if parent is None else parent,
        )
        for run_id, agent_id, state, started_at, updated_at, events, request, parent in (
            connection.execute(_SUMMARIES, (status,)).fetchall()
        )
    ]


def _parent_of(connection: sqlite3.Connection, run_id: str) -> str:
    """The run that started one which was begun by an earlier version, which did not note it."""
    page = read_page(connection, run_id, 0, 1)
    if not page.bodies:
        return ""
    try:
        first = decode_event(page.bodies[0])
    except Misuse:
        # Of another version: the list is there all the same.
        return ""
    return first.parent_run_id if isinstance(first, RunStarted) else ""
