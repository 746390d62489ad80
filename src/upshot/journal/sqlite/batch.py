"""Writes what has gathered to an SQLite file, in one transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Sequence
from typing import NamedTuple

from upshot.errors import JournalError
from upshot.journal.event_codec import Entry, gap_error
from upshot.journal.sql.connection import SEQ_BITS, SEQ_MASK
from upshot.journal.sql.own_lease import OwnLease
from upshot.journal.sql.writer import (
    Batch,
    Committed,
    Item,
    TellHeld,
    misfit,
    misplaced,
    note_entries,
)
from upshot.journal.sqlite.live_file import LiveFile
from upshot.journal.sqlite.tables import Database

_END = f"""SELECT run_no, epoch, coalesce((SELECT max(id) & {SEQ_MASK} FROM events
        WHERE id BETWEEN run_no << {SEQ_BITS} AND (run_no << {SEQ_BITS}) | {SEQ_MASK}), 0)
    FROM runs WHERE run_id = ?"""
_BEGIN_RUN = "INSERT INTO runs (run_id) VALUES (?)"


class RunEnd(NamedTuple):
    """Where the log of a run ends.

    Attributes:
        run_no: The run's number in this file.
        epoch: That of the last claim, 0 for none.
        last_seq: Seq of the last event, 0 for none.
    """

    run_no: int
    epoch: int
    last_seq: int


class FileCommitter:
    """Writes to a journal's file; plays the role Committer."""

    def __init__(self, database: Database, lease: OwnLease, tell: TellHeld) -> None:
        self._database = database
        self._lease = lease
        self._tell = tell
        self._ends: dict[str, RunEnd] = {}
        self._live = LiveFile(database.path)

    def commit(self, items: Sequence[Item]) -> Committed:
        """See ``Committer.commit``."""
        batch = FileBatch(self._database, self._ends)
        with self._database.turn:
            batch.write(items)
        self._lease.commit()
        # SQLite writes into a file that was deleted or replaced without a word.
        self._database.check_place()
        if wanted := self._live.wanted():
            batch.committed.shown = wanted & batch.committed.written.keys()
        return batch.committed

    def announce(self, committed: Committed) -> None:
        """Other processes see for themselves that the file has changed."""

    @property
    def rest_s(self) -> float | None:
        """While a run may be held, the lease has to be renewed."""
        return self._lease.due_s

    def rest(self) -> None:
        """Renew the lease, while any run is held."""
        database, lease = self._database, self._lease
        lease.begin_renewal()
        # A file that is kept by another process is no harm yet: the next renewal waits for it.
        with contextlib.suppress(sqlite3.Error), database.turn:
            with _transaction(database):
                held = lease.renew(database)
                if not held:
                    database.forget_leases()
            lease.commit()
            self._tell(held)

    def close(self) -> None:
        """Close the file."""
        self._live.close()
        self._database.close()


class FileBatch(Batch):
    """One transaction.

    Args:
        database: Not within a transaction.
        ends: What is known of the runs from the batches before; kept up to date.
    """

    def __init__(self, database: Database, ends: dict[str, RunEnd]) -> None:
        super().__init__(database)
        self._database = database
        self._ends = ends

    def write(self, items: Sequence[Item]) -> None:
        """Write all of *items* in their order, and commit.

        Raises:
            sqlite3.Error: Nothing at all was written.
        """
        try:
            with _transaction(self._database):
                self.fill(items)
        except BaseException:
            # What was known of the runs may have been written by the transaction that is rolled
            # back.
            self._ends.clear()
            raise

    def append(self, groups: dict[str, list[Entry]]) -> None:
        """See ``Batch.append``."""
        for run_id, entries in groups.items():
            self.note(run_id, entries, self._append(run_id, entries))

    def _append(self, run_id: str, entries: list[Entry]) -> JournalError | None:
        """Write the entries of one run; returns why not where they do not fit."""
        if (error := misplaced(entries)) is not None:
            return error
        first, last = entries[0], entries[-1]
        end = self._ends.get(run_id)
        # Looked up in the file only when needed: for a run in progress the last batch has told.
        if end is None or end.epoch != first.epoch:
            end = self._find_end(run_id, first.epoch)
        if (error := misfit(first, end.epoch, end.last_seq)) is not None:
            return error
        try:
            is_written = self._database.insert_events(end.run_no, entries)
        except sqlite3.IntegrityError:
            # Another journal appended under the same epoch. The first key is taken, so nothing of
            # the run was written.
            is_written = False
        if not is_written:
            self._ends.pop(run_id, None)
            found = self._find_end(run_id, first.epoch)
            error = misfit(first, found.epoch, found.last_seq)
            return error or gap_error(run_id, first.seq, found.last_seq)
        note_entries(self._database, end.run_no, entries)
        # Several journals may append to a run that is not claimed.
        if first.epoch and not (last.change is not None and last.change.is_end):
            self._ends[run_id] = RunEnd(end.run_no, end.epoch, last.seq)
        else:
            self._ends.pop(run_id, None)
        return None

    def _find_end(self, run_id: str, epoch: int) -> RunEnd:
        row = self._database.execute(_END, (run_id,)).fetchone()
        if row is None and not epoch:
            # A run that is not claimed begins with its first event.
            row = (self._database.execute(_BEGIN_RUN, (run_id,)).lastrowid, 0, 0)
        return RunEnd._make(row or (0, 0, 0))


@contextlib.contextmanager
def _transaction(database: Database) -> Generator[None]:
    """A transaction that writes, committed in the end, or undone."""
    try:
        # With the lock from the start: SQLite refuses it at once to a reader that then wants to
        # write.
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
        raise
