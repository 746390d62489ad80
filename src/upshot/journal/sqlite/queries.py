"""Reads, exports and imports stored runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from upshot.contract.events import RunStarted
from upshot.contract.protocols import RunSummary
from upshot.errors import JournalError, Misuse
from upshot.journal.artifact_store import StoredArtifact
from upshot.journal.event_codec import (
    Damage,
    Entry,
    Exported,
    checksum,
    damage_error,
    decode_event,
    from_unix,
    read_lines,
    write_lines,
)
from upshot.journal.sqlite.tables import FILE_ERRORS
from upshot.journal.sqlite.writer import Worker, insert_entries

__all__ = [
    "EventPage",
    "Reader",
    "Scan",
    "epoch_of",
    "export_run",
    "import_run",
    "insert_artifact",
    "last_seq",
    "read_bodies",
    "read_page",
    "read_summaries",
    "scan_run",
]

T = TypeVar("T")
_BUSY_S = 30.0


class Reader:
    """Reads a journal's file, one thing after the other.

    Args:
        path: A journal that a writer has opened already.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._worker = Worker("upshot-journal-reader")
        self._connection: sqlite3.Connection | None = None
        self._used = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do *work* in the thread; it sees what was committed when it began.

        Raises:
            JournalError: The file is damaged.
            Exception: What *work* raised.
        """
        self._used = True
        return await self._worker.call(lambda: self._read(work))

    async def aclose(self) -> None:
        """Close the connection after what is being read."""
        if self._used:
            await self._worker.call(self._close)
        self._worker.stop()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _connect(self._path)
            self._connection.execute("BEGIN")
            try:
                return work(self._connection)
            finally:
                self._connection.execute("ROLLBACK")
        except FILE_ERRORS as error:
            raise JournalError(f"the journal {self._path} cannot be read: {error}") from error

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


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


class EventPage(NamedTuple):
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


def read_page(connection: sqlite3.Connection, run_id: str, after: int, limit: int) -> EventPage:
    """Read at most *limit* events with a seq above *after*, up to the first damaged one.

    Within a transaction, so that the rows and the list of runs are of one moment.
    """
    bodies: list[bytes] = []
    last = after
    rows = connection.execute(f"{_ROWS} LIMIT ?", (run_id, after, limit)).fetchall()
    for row in map(_Row._make, rows):
        if fault := row.fault(run_id, last + 1):
            return EventPage(bodies, last, False, fault)
        bodies.append(row.body)
        last += 1
    if len(rows) == limit:
        return EventPage(bodies, last, True, "")
    fault = f"event {last + 1} is missing" if last_seq(connection, run_id) > last else ""
    return EventPage(bodies, last, False, fault)


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


_INSERT = """INSERT INTO artifacts
    (id, run_id, call_id, media_type, size_bytes, sha256, lines, data, summary, stored_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_SELECT = """SELECT id, run_id, call_id, media_type, sha256, lines, summary, data,
    stored_at FROM artifacts WHERE run_id = ? ORDER BY rowid"""
_CHUNK = 200


def export_run(connection: sqlite3.Connection, run_id: str, path: str) -> int:
    """Write a run as JSON lines; returns how many events.

    Raises:
        Misuse: There is no such run, or *path* cannot be written.
        JournalError: The run is damaged.
    """
    scan = scan_run(connection, run_id)
    if scan.damage is not None:
        raise damage_error(scan.damage)
    count = "SELECT count(*) FROM artifacts WHERE run_id = ?"
    (artifacts,) = connection.execute(count, (run_id,)).fetchone()
    bodies = read_bodies(connection, run_id)
    run = Exported(run_id, scan.last_seq, bodies, artifacts, _read_artifacts(connection, run_id))
    return write_lines(path, run)


def import_run(connection: sqlite3.Connection, path: str) -> str:
    """Read a run from JSON lines within a transaction; returns its id.

    Raises:
        Misuse: *path* cannot be read.
        JournalError: A line is damaged, or the run is there already.
    """
    run_id, epoch, last = "", 0, 0
    entries: list[Entry] = []
    for line in read_lines(path):
        if isinstance(line, StoredArtifact):
            insert_artifact(connection, line)
            continue
        if not run_id:
            run_id = line.run_id
            epoch = _make_room(connection, run_id)
        last = line.seq
        entries.append(line._replace(epoch=epoch))
        if len(entries) == _CHUNK:
            insert_entries(connection, entries)
            entries = []
    insert_entries(connection, entries)
    end = """UPDATE runs SET last_seq = ?1,
        updated_at = (SELECT max(time) FROM events WHERE run_id = ?2) WHERE run_id = ?2"""
    connection.execute(end, (last, run_id))
    return run_id


def insert_artifact(connection: sqlite3.Connection, artifact: StoredArtifact) -> None:
    """Store *artifact*, whose id must be new."""
    file = artifact.file
    connection.execute(
        _INSERT,
        (
            artifact.id,
            artifact.run_id,
            artifact.call_id,
            file.media_type,
            file.size_bytes,
            file.sha256,
            file.lines,
            artifact.data,
            file.summary,
            artifact.stored_at,
        ),
    )


def _make_room(connection: sqlite3.Connection, run_id: str) -> int:
    """Make the run's line in the list of runs; returns the epoch of its events."""
    known = connection.execute("SELECT epoch FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    events = connection.execute("SELECT 1 FROM events WHERE run_id = ? LIMIT 1", (run_id,))
    if events.fetchone() is not None:
        raise JournalError(f"run {run_id} is in the journal already", run_id=run_id)
    if known is not None:
        return int(known[0])
    connection.execute("INSERT INTO runs (run_id) VALUES (?)", (run_id,))
    return 0


def _read_artifacts(connection: sqlite3.Connection, run_id: str) -> Iterator[StoredArtifact]:
    for row in connection.execute(_SELECT, (run_id,)):
        yield msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), StoredArtifact)


_COLUMNS = (
    "id",
    "run_id",
    "call_id",
    "media_type",
    "sha256",
    "lines",
    "summary",
    "data",
    "stored_at",
)
