"""SqliteJournal: a log in a file, with its committer and its listener to other processes.

The pieces of replies under way are in a file beside it, which may be lost at any time. It is made
by the first process that watches a run of another one, and nothing waits for it to reach the disk.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from typing import ClassVar, NamedTuple, TypeVar

from upshot.contract.effects import to_digest
from upshot.errors import JournalError, Misuse, UpshotError
from upshot.journal.event_codec import Entry, gap_error
from upshot.journal.pieces import Keep, PieceRow, run_of_topic
from upshot.journal.sql.connection import SEQ_BITS, SEQ_MASK, Connection
from upshot.journal.sql.own_lease import OwnLease
from upshot.journal.sql.queries import Reader
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.sql.writer import (
    Batch,
    Committed,
    Item,
    TellHeld,
    Writer,
    misfit,
    misplaced,
)
from upshot.journal.sqlite.tables import (
    APPLICATION_ID,
    BUSY_S,
    DROP_INDEX,
    FILE_ERRORS,
    MAKE_INDEX,
    Database,
    add_clock,
    begin_writing,
    clear_room,
    is_read_only,
    open_database,
    open_to_read,
)
from upshot.journal.watching import effect_of, run_of

T = TypeVar("T")
_FTS5 = "SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'"
# The first with trigrams.
_LEAST_SQLITE = (3, 34)


class SqliteJournal(SqlJournal):
    """A log in an SQLite file, in WAL mode; implements Journal.

    ``open`` makes one; it belongs to the event loop it was opened in. Appends are queued and
    written by a separate thread: everything queued goes into one commit that waits for the disk.
    Events without a waiting caller are written a moment later. Other processes may have the same
    file open.

    Attributes:
        path: The file.
        artifacts: The store of large outputs, in the same file.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = FILE_ERRORS
    _facts: ClassVar[str] = "SELECT user_version % 1000, '' FROM pragma_user_version"
    _touch: ClassVar[str] = f"PRAGMA application_id = {APPLICATION_ID}"
    _make_index: ClassVar[tuple[str, ...]] = MAKE_INDEX
    _drop_index: ClassVar[tuple[str, ...]] = DROP_INDEX

    @classmethod
    async def open(
        cls, path: str | PathLike[str], *, create: bool = True, read_only: bool = False
    ) -> SqliteJournal:
        """Open the journal at *path*.

        Args:
            path: A file; a missing one is created as a journal, with mode 0600.
            create: Whether it may be created; if not, a missing file is Misuse.
            read_only: Whether to open it for reading only. That is implied for a file that is not
                writable, as on a read-only file system.

        Raises:
            Misuse: *path* cannot be a journal, or is something else.
            JournalError: The file is damaged, or written by a newer version.
        """
        name = os.path.abspath(str(path))
        is_fixed = read_only or is_read_only(name)
        connect = open_to_read if is_fixed else _connect
        writer = Writer(
            name, lambda keep: FileListener(name, connect, keep), lambda: LiveFile(name)
        )
        if is_fixed:
            reader = Reader(FileSource(name, open_to_read))
            journal = cls(name, writer, reader, read_only=True)
            try:
                await journal.read(lambda connection: None)
            except BaseException:
                await journal.aclose()
                raise
            return journal
        await writer.open(
            lambda: FileCommitter(
                open_database(name, create=create), writer.lease, writer.report_held
            )
        )
        return cls(name, writer, Reader(FileSource(name, _connect)))

    async def make_search_index(self) -> bool:
        """See ``SqlSearch.make_search_index``."""
        (has_fts5,) = await self.read(lambda connection: connection.execute(_FTS5).fetchone())
        if not has_fts5 or sqlite3.sqlite_version_info < _LEAST_SQLITE:
            raise Misuse(
                f"the SQLite {sqlite3.sqlite_version} of this Python cannot make a search index: "
                "use a Python with SQLite 3.34 or newer, built with FTS5"
            )
        return await super().make_search_index()

    def clear_room(self, run_ids: Sequence[str]) -> None:
        """See ``SqlJournal.clear_room``."""
        clear_room(self.path, ())
        if os.path.exists(live := f"{self.path}-live"):
            clear_room(live, run_ids)


class FileSource:
    """Reads a journal's file; implements Source."""

    def __init__(self, path: str, connect: Callable[[str], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = partial(connect, path)
        self._connection: sqlite3.Connection | None = None

    def read(self, work: Callable[[Connection], T]) -> T:
        """See ``Source.read``."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.execute("BEGIN")
            try:
                return work(self._connection)
            finally:
                self._connection.execute("ROLLBACK")
        except FILE_ERRORS as error:
            raise JournalError(f"the journal {self._path} cannot be read: {error}") from error

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    add_clock(connection)
    return connection


# How often the file is polled while it is watched.
_TICK_S = 0.025
_LAST = f"""SELECT max(id) FROM events WHERE id BETWEEN
    (SELECT run_no << {SEQ_BITS} FROM runs WHERE run_id = ?)
    AND (SELECT (run_no << {SEQ_BITS}) | {SEQ_MASK} FROM runs WHERE run_id = ?)"""

_FAR = "SELECT state, run_no, call, attempts FROM effects WHERE id = ?"


class FileListener:
    """Polls a file; implements Listener.

    Args:
        path: The file.
        connect: Opens it for reading.
        keep: Receives the pieces of other processes.
    """

    def __init__(self, path: str, connect: Callable[[str], sqlite3.Connection], keep: Keep) -> None:
        self._path = path
        self._keep = keep
        self._live = LiveFile(path)
        # The place of the last piece of each run that was passed on, and when to renew the request
        # for pieces.
        self._places: dict[str, tuple[int, int]] = {}
        self._renew_at = 0.0
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._bell = threading.Event()
        # SQLite changes this number with every commit of another connection.
        self._version = 0
        # The last known key of the last event of each watched run, and the state of each watched
        # effect.
        self._ends: dict[str, tuple[int, ...] | None] = {}

    def wait(self, topics: Collection[str]) -> Collection[str] | None:
        """See ``Listener.wait``."""
        self._bell.wait(_TICK_S if topics else None)
        self._bell.clear()
        # A folder that is not writable has no pieces.
        with suppress(sqlite3.Error, OSError):
            self._read_pieces({run for one in topics if (run := run_of_topic(one)) is not None})
        try:
            return self._find_changes(topics)
        except (*FILE_ERRORS, UpshotError):
            # Callers that read the journal themselves get the error.
            self._drop()
            return None

    def wake(self) -> None:
        """See ``Listener.wake``."""
        self._bell.set()

    def close(self) -> None:
        """Close the file."""
        self._live.close()
        self._drop()

    def _find_changes(self, topics: Collection[str]) -> Collection[str]:
        """Return the topics that may have changed since the last check."""
        if self._connection is None:
            self._connection = self._connect(self._path)
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        logs = {topic for topic in topics if run_of_topic(topic) is None}
        if version == self._version and self._ends.keys() == logs:
            return ()
        # Logs and effects are compared; for control requests and due runs, any commit may be a
        # change.
        is_new = version != self._version
        self._version, before = version, self._ends
        self._ends = {topic: self._end_of(topic) for topic in logs}
        return [
            topic
            for topic, end in self._ends.items()
            if topic not in before or (is_new and (end is None or end != before[topic]))
        ]

    def _read_pieces(self, run_ids: set[str]) -> None:
        """Pass on the pieces of these runs."""
        if not run_ids:
            self._places = {}
            return
        now, new = time.monotonic(), run_ids - self._places.keys()
        if new or now > self._renew_at:
            self._live.request_pieces(run_ids)
            self._renew_at = now + WANTED_S / 3
            self._places = {run_id: self._places.get(run_id, (0, 0)) for run_id in run_ids}
        if self._live.has_changed() or new:
            rows = self._live.read(self._places)
            self._places.update((row.run_id, (row.seq, row.part)) for row in rows)
            self._keep(rows)

    def _end_of(self, topic: str) -> tuple[int, ...] | None:
        if self._connection is None:
            return None
        if (id := effect_of(topic)) is not None:
            return self._connection.execute(_FAR, (to_digest(id),)).fetchone()
        run_id = run_of(topic)
        if run_id is None:
            return None
        found = self._connection.execute(_LAST, (run_id, run_id)).fetchone()
        return None if found[0] is None else found

    def _drop(self) -> None:
        connection, self._connection, self._ends = self._connection, None, {}
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


_END = f"""SELECT run_no, epoch, coalesce((SELECT max(id) & {SEQ_MASK} FROM events
        WHERE id BETWEEN run_no << {SEQ_BITS} AND (run_no << {SEQ_BITS}) | {SEQ_MASK}), 0)
    FROM runs WHERE run_id = ?"""
_BEGIN_RUN = "INSERT INTO runs (run_id) VALUES (?)"


class RunEnd(NamedTuple):
    """The end of a run's log.

    Attributes:
        run_no: The run's number in this file.
        epoch: The epoch of the last claim, 0 for none.
        last_seq: Seq of the last event, 0 for none.
    """

    run_no: int
    epoch: int
    last_seq: int


class FileCommitter:
    """Writes to a journal's file; implements Committer."""

    def __init__(self, database: Database, lease: OwnLease, notify: TellHeld) -> None:
        self._database = database
        self._lease = lease
        self._tell = notify
        self._ends: dict[str, RunEnd] = {}
        self._live = LiveFile(database.path)

    def commit(self, items: Sequence[Item]) -> Committed:
        """See ``Committer.commit``."""
        batch = FileBatch(self._database, self._ends)
        with self._database.turn:
            batch.write(items)
        self._lease.commit()
        # SQLite writes into a file that was deleted or replaced without any error.
        self._database.check_place()
        if wanted := self._live.requested_runs():
            batch.committed.shown = wanted & batch.committed.written.keys()
        return batch.committed

    def announce(self, committed: Committed) -> None:
        """Do nothing: other processes poll the file for changes."""

    @property
    def rest_s(self) -> float | None:
        """While this process may hold a run, the time until its lease has to be renewed."""
        return self._lease.due_s

    def do_periodic_work(self) -> None:
        """Renew the lease, while this process holds any runs."""
        database, lease = self._database, self._lease
        lease.begin_renewal()
        # A file locked by another process does no harm yet: the next renewal waits for it.
        with suppress(sqlite3.Error), database.turn:
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
        ends: What earlier batches know about the runs; kept up to date.
    """

    def __init__(self, database: Database, ends: dict[str, RunEnd]) -> None:
        super().__init__(database)
        self._database = database
        self._ends = ends

    def write(self, items: Sequence[Item]) -> None:
        """Write all *items* in order, and commit.

        Raises:
            sqlite3.Error: Nothing at all was written.
        """
        try:
            with _transaction(self._database):
                self.fill(items)
        except BaseException:
            # The known ends may come from the transaction that is rolled back.
            self._ends.clear()
            raise

    def append(self, groups: dict[str, list[Entry]]) -> None:
        """See ``Batch.append``."""
        for run_id, entries in groups.items():
            self.note(run_id, entries, self._append(run_id, entries))

    def _append(self, run_id: str, entries: list[Entry]) -> JournalError | None:
        """Write the entries of one run; returns the error if they do not fit."""
        if (error := misplaced(entries)) is not None:
            return error
        first, last = entries[0], entries[-1]
        end = self._ends.get(run_id)
        # Read from the file only when needed: for a run in progress the last batch left its end.
        if end is None or end.epoch != first.epoch:
            end = self._find_end(run_id, first.epoch)
        if (error := misfit(first, end.epoch, end.last_seq)) is not None:
            return error
        try:
            is_written = self._database.insert_events(end.run_no, entries)
        except sqlite3.IntegrityError:
            # Another journal appended with the same epoch. The first key is taken, so nothing was
            # written for the run.
            is_written = False
        if not is_written:
            self._ends.pop(run_id, None)
            found = self._find_end(run_id, first.epoch)
            error = misfit(first, found.epoch, found.last_seq)
            return error or gap_error(run_id, first.seq, found.last_seq)
        self.note_entries(end.run_no, entries)
        # Several journals may append to a run that is not claimed.
        if first.epoch and not (last.change is not None and last.change.is_end):
            self._ends[run_id] = RunEnd(end.run_no, end.epoch, last.seq)
        else:
            self._ends.pop(run_id, None)
        return None

    def _find_end(self, run_id: str, epoch: int) -> RunEnd:
        row = self._database.execute(_END, (run_id,)).fetchone()
        if row is None and not epoch:
            # A run that is not claimed starts with its first event.
            row = (self._database.execute(_BEGIN_RUN, (run_id,)).lastrowid, 0, 0)
        return RunEnd._make(row or (0, 0, 0))


@contextmanager
def _transaction(database: Database) -> Generator[None]:
    """Open a transaction that writes, and commit it at the end, or roll it back."""
    try:
        begin_writing(database, database.path)
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
        raise


WANTED_S = 15.0
"""How long a row says that the pieces of a run are wanted."""

_TABLES = """
    CREATE TABLE IF NOT EXISTS watchers (run_id TEXT PRIMARY KEY, until REAL NOT NULL);
    CREATE TABLE IF NOT EXISTS pieces (run_id TEXT, seq INTEGER, part INTEGER, body BLOB NOT NULL,
        PRIMARY KEY (run_id, seq, part)) WITHOUT ROWID;
"""
_WANTED = "SELECT run_id, until FROM watchers WHERE until > ?"
_BUSY_S = 5.0
_NONE = frozenset[str]()


class LiveFile:
    """One connection to the file beside a journal; belongs to one thread.

    Args:
        path: The journal.
    """

    def __init__(self, path: str) -> None:
        self._path = f"{path}-live"
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._wanted = _NONE
        self._look_at = 0.0

    def requested_runs(self) -> frozenset[str]:
        """Return the runs whose pieces are wanted; none if there is no file."""
        if self._connection is None and not os.path.exists(self._path):
            return _NONE
        with suppress(sqlite3.Error, OSError):
            now = time.time()
            if self.has_changed() or now > self._look_at:
                until = dict(self._open().execute(_WANTED, (now,)).fetchall())
                self._wanted = frozenset(until)
                self._look_at = min(until.values(), default=now + WANTED_S)
            return self._wanted
        self.close()
        return _NONE

    def has_changed(self) -> bool:
        """Whether another connection has written since the last call."""
        (version,) = self._open().execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, version
        return version != before

    def request_pieces(self, run_ids: Collection[str]) -> None:
        """Request the pieces of these runs for a while."""
        until = time.time() + WANTED_S
        rows = [(run_id, until) for run_id in run_ids]
        with self._open() as connection:
            connection.execute("DELETE FROM watchers WHERE until < ?", (time.time(),))
            connection.executemany("INSERT OR REPLACE INTO watchers VALUES (?, ?)", rows)

    def put(self, rows: Sequence[PieceRow]) -> None:
        """See ``PieceStore.put``."""
        try:
            if self._connection is None and not os.path.exists(self._path):
                return
            with self._open() as connection:
                connection.executemany(
                    "DELETE FROM pieces WHERE run_id = ? AND seq < ?",
                    [(row.run_id, row.seq) for row in rows],
                )
                connection.executemany(
                    "INSERT OR IGNORE INTO pieces VALUES (?, ?, ?, ?)",
                    [row for row in rows if row.body],
                )
        except (sqlite3.Error, OSError):
            # Pieces may be lost; the log has everything.
            self.close()

    def read(self, places: Mapping[str, tuple[int, int]]) -> list[PieceRow]:
        """Return the pieces after these places, by run."""
        connection, found = self._open(), list[PieceRow]()
        for run_id, place in places.items():
            rows = connection.execute(
                "SELECT run_id, seq, part, body FROM pieces WHERE run_id = ? "
                "AND (seq, part) > (?, ?) ORDER BY seq, part",
                (run_id, *place),
            )
            found += map(PieceRow._make, rows)
        return found

    def close(self) -> None:
        """Close the file."""
        connection, self._connection, self._version = self._connection, None, -1
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                # Torn by a loss of power, since nothing waits for this file to reach the disk.
                for end in ("", "-wal", "-shm"):
                    with suppress(FileNotFoundError):
                        os.remove(self._path + end)
                self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_S)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection
