"""Batch: one transaction of the writer."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import JournalError
from .entry import RUNNING, Entry, checksum, epoch_error, gap_error

__all__ = ["Batch", "Item", "Job", "insert_entries"]

_ADVANCE = """UPDATE runs SET last_seq = ?, updated_at = coalesce(?, updated_at)
    WHERE run_id = ? AND epoch = ? AND last_seq = ?"""
_BEGIN_RUN = "INSERT INTO runs (run_id, epoch, last_seq, updated_at) VALUES (?, 0, ?, ?)"
# Who settles a run does not work on it any more.
_NOTE = f"""UPDATE runs SET status = ?1, agent_id = coalesce(?2, agent_id),
    started_at = coalesce(?3, started_at), request = coalesce(?4, request),
    parent_run_id = coalesce(?5, parent_run_id),
    holder = CASE WHEN ?1 = '{RUNNING}' THEN holder END WHERE run_id = ?6"""
_INSERT = """INSERT INTO events (run_id, seq, epoch, kind, time, call_id, body, crc)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


@dataclass(slots=True, eq=False)
class Job:
    """Work on the database that is more than an append.

    Attributes:
        work: What to do within the transaction; if it raises, only it is undone.
        done: Called in the writer's thread after the commit with what *work* gave, or why
            it did not.
    """

    work: Callable[[sqlite3.Connection], Any]
    done: Callable[[Any, Exception | None], None]


Item: TypeAlias = Entry | Job


class Batch:
    """One transaction.

    Args:
        connection: Not within a transaction.

    Attributes:
        written: The last seq written, by run.
        failed: Why nothing was written, by run.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._groups: dict[str, list[Entry]] = {}
        self._settled: list[tuple[Job, Any, Exception | None]] = []
        self.written: dict[str, int] = {}
        self.failed: dict[str, JournalError] = {}

    def write(self, items: Iterable[Item]) -> None:
        """Write all of *items* in their order, and commit.

        A run whose entries do not continue its log, or whose epoch is old, is left as it
        was and noted in ``failed``; the others are written.

        Raises:
            sqlite3.Error: Nothing at all was written.
        """
        connection = self._connection
        try:
            # With the lock from the start: SQLite refuses it at once to who has read and then wants
            # to write.
            connection.execute("BEGIN IMMEDIATE")
            for item in items:
                if isinstance(item, Entry):
                    self._groups.setdefault(item.run_id, []).append(item)
                else:
                    # A job sees all that was queued before it.
                    self._flush()
                    self._do(item)
            self._flush()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise

    def settle_jobs(self) -> None:
        """Tell every job what came of it; after the commit."""
        for job, result, error in self._settled:
            job.done(result, error)

    def _flush(self) -> None:
        groups, self._groups = self._groups, {}
        for run_id, entries in groups.items():
            error = _advance(self._connection, run_id, entries)
            if error is None:
                self.written[run_id] = entries[-1].seq
                insert_entries(self._connection, entries)
            else:
                self.failed.setdefault(run_id, error)

    def _do(self, job: Job) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            result, failure = job.work(self._connection), None
        # The promise kept: what one job did wrong fails its caller and not the other runs.
        except Exception as error:
            result, failure = None, error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")
        self._settled.append((job, result, failure))


def insert_entries(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Write *entries* and what they change in the list of runs; their runs must be there."""
    notes: list[tuple[object, ...]] = []

    def rows() -> Iterable[tuple[object, ...]]:
        for entry in entries:
            if entry.note is not None:
                notes.append((*entry.note, entry.run_id))
            run_id, seq, epoch, body = entry.run_id, entry.seq, entry.epoch, entry.body
            yield (*entry[:7], checksum(run_id, seq, epoch, body))

    connection.executemany(_INSERT, rows())
    if notes:
        connection.executemany(_NOTE, notes)


def _advance(
    connection: sqlite3.Connection, run_id: str, entries: list[Entry]
) -> JournalError | None:
    """Move the run's end to the last of *entries*; returns why not where they do not fit."""
    first, last = entries[0], entries[-1]
    for place, entry in enumerate(entries, first.seq):
        if entry.seq != place:
            return gap_error(run_id, entry.seq, place - 1)
        if entry.epoch != first.epoch:
            return epoch_error(run_id, min(entry.epoch, first.epoch), max(entry.epoch, first.epoch))
    # Checked and changed by one statement, for each costs the loop a turn of the lock.
    moved = (last.seq, last.time, run_id, first.epoch, first.seq - 1)
    if connection.execute(_ADVANCE, moved).rowcount:
        return None
    # Why it did not fit is looked up only here; a run that nobody claimed has no row yet.
    row = connection.execute("SELECT epoch, last_seq FROM runs WHERE run_id = ?", (run_id,))
    epoch, last_seq = row.fetchone() or (None, 0)
    if (epoch or 0) != first.epoch:
        return epoch_error(run_id, first.epoch, epoch or 0, last_seq)
    if first.seq != last_seq + 1:
        return gap_error(run_id, first.seq, last_seq)
    connection.execute(_BEGIN_RUN, (run_id, last.seq, last.time))
    return None
