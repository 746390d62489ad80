"""The tables of a journal, and opening a file that has or gets them.

SQLite's locks on a file belong to the process, and the system drops all of them as soon as any code
in it closes a descriptor of that file. So nothing here opens a file directly that is already open
as a database. A forked process has the connections of its parent without their locks, and must not
use that file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from upshot.errors import JournalError, Misuse
from upshot.journal.effects import BEGUN, UNKNOWN
from upshot.journal.event_codec import FORMAT, Entry, checksum
from upshot.journal.lease_holder import LEASE_S, boot_s, lease_left_s
from upshot.journal.run_counts import Tallies
from upshot.journal.run_list import LEAST_TOOK_S, searched
from upshot.journal.sql.connection import IS_NEW, NEVER, REMAINS, SEQ_BITS
from upshot.journal.sql.count_rows import ADDED, COLUMNS, TABLE, count_again
from upshot.journal.sql.health import too_new

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Device and inode of a file, which identify it under any name.
Identity: TypeAlias = tuple[int, int]

_lock = threading.Lock()
_open: Counter[Identity] = Counter()
_inherited: set[Identity] = set()


def peek(path: str, length: int) -> bytes | None:
    """Read the first bytes of a file; None if it is open as a database here."""
    with _lock:
        if _open[_identity(os.stat(path))]:
            return None
        with open(path, "rb") as file:
            return file.read(length)


def keep_open(path: str) -> Identity:
    """Register that the file is about to be opened as a database, until ``note_closed``."""
    with _lock:
        file = _identity(os.stat(path))
        if file in _inherited:
            raise JournalError(
                f"the journal {path} was open when this process was forked, so it cannot be used "
                "here: start processes by spawn, or before opening the journal"
            )
        _open[file] += 1
        return file


def note_closed(file: Identity) -> None:
    """Register that the file was closed."""
    with _lock:
        _open[file] -= 1
        if _open[file] < 1:
            del _open[file]


def identity_of(path: str) -> Identity | None:
    """Return the file that *path* leads to now, None for none."""
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def _changed_at(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _after_fork() -> None:
    global _lock  # noqa: PLW0603  # of the process, which is another one now
    _lock = threading.Lock()
    _inherited.update(_open)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

# What sqlite3 raises for a damaged file: its message may quote bytes that are not text.
FILE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
APPLICATION_ID: int = int.from_bytes(b"upst")
_MAGIC = b"SQLite format 3\x00"
BUSY_S = 30.0
_FILE_MODE = 0o600
_TICK_NS = 2_000_000_000

_KEEP_LEASE = """INSERT INTO leases (holder, until) VALUES (?, ?)
    ON CONFLICT (holder) DO UPDATE SET until = excluded.until"""

VERSION: int = 4
"""The version of the tables.

Version 1 has no counts of runs, version 2 has them by the hour, and version 3 has no audit.
"""
_FORMATS = 1000
USER_VERSION: int = FORMAT * _FORMATS + VERSION
"""What a file says of both; a draft of the format has the format alone."""
_NEEDED = f"this_journal_needs_an_upshot_that_knows_tables_of_version_{VERSION}"
_COUNTS = f"CREATE TABLE {TABLE.format(text='TEXT')} WITHOUT ROWID"
# A process that opened the file before the tables were renewed lacks the function. So it cannot end
# or remove a run without counting it, nor store an answer without a row of the audit: its
# transaction fails, and names the function.
_GUARDED = {
    "ends_are_counted": "UPDATE OF took ON runs",
    "removals_are_counted": "DELETE ON runs",
    "answers_are_audited": "INSERT ON wishes",
}
_GUARDS = tuple(
    f"CREATE TRIGGER {name} BEFORE {what} BEGIN SELECT {_NEEDED}(); END"
    for name, what in _GUARDED.items()
)
_ADD_COUNTS = f"INSERT INTO run_counts VALUES ({', '.join('?' * len(COLUMNS))}) {ADDED}"
_AUDIT = (
    # Who did what; rows are only added, and without content once their run is redacted.
    """CREATE TABLE audit (
        audit_no INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        person TEXT NOT NULL,
        tenant TEXT NOT NULL,
        kind TEXT NOT NULL,
        action TEXT NOT NULL,
        run_id TEXT NOT NULL,
        run_tenant TEXT NOT NULL,
        subject TEXT NOT NULL,
        tool TEXT NOT NULL,
        digest TEXT NOT NULL,
        detail TEXT NOT NULL,
        door TEXT NOT NULL,
        session TEXT NOT NULL,
        address TEXT NOT NULL,
        arguments TEXT,
        once TEXT UNIQUE
    )""",
    "CREATE INDEX audit_by_time ON audit (at, audit_no)",
    "CREATE INDEX audit_of_run ON audit (run_id, at, audit_no) WHERE run_id <> ''",
    "CREATE INDEX audit_of_tool ON audit (tool, at, audit_no) WHERE tool <> ''",
    # Users who are signed in with a browser, by a digest of what the browser has.
    """CREATE TABLE web_sessions (
        key TEXT PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        person TEXT NOT NULL,
        tenant TEXT NOT NULL,
        subject TEXT NOT NULL,
        provider_session TEXT NOT NULL,
        seen_at INTEGER NOT NULL,
        until INTEGER NOT NULL,
        body TEXT NOT NULL
    ) WITHOUT ROWID""",
)
_TABLES = (
    """CREATE TABLE runs (
        run_no INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        agent_id TEXT NOT NULL DEFAULT '',
        status TEXT NOT NULL DEFAULT 'running',
        epoch INTEGER NOT NULL DEFAULT 0,
        last_seq INTEGER NOT NULL DEFAULT 0,
        started_at INTEGER NOT NULL DEFAULT {NEVER},
        request TEXT NOT NULL DEFAULT '',
        parent_run_id TEXT NOT NULL DEFAULT '',
        context_id TEXT NOT NULL DEFAULT '',
        turn TEXT NOT NULL DEFAULT '',
        is_chained INTEGER NOT NULL DEFAULT 0,
        is_inside INTEGER NOT NULL DEFAULT 0,
        revision INTEGER NOT NULL DEFAULT 0,
        spent TEXT,
        tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL NOT NULL DEFAULT 0,
        currency TEXT NOT NULL DEFAULT '',
        effect INTEGER NOT NULL DEFAULT 0,
        error_code TEXT NOT NULL DEFAULT '',
        holder TEXT,
        priority INTEGER NOT NULL DEFAULT 0,
        due_at INTEGER,
        due_reason TEXT NOT NULL DEFAULT '',
        owner TEXT NOT NULL DEFAULT '',
        tenant TEXT NOT NULL DEFAULT '',
        answer TEXT NOT NULL DEFAULT '',
        took REAL NOT NULL DEFAULT 0,
        tools TEXT NOT NULL DEFAULT '',
        calls TEXT NOT NULL DEFAULT ''
    )""".replace("{NEVER}", str(NEVER)),
    # A second index on the same column as UNIQUE: it finds rows that a damaged first one hides.
    "CREATE INDEX runs_by_id ON runs (run_id)",
    "CREATE INDEX runs_by_start ON runs (started_at)",
    "CREATE INDEX runs_by_status ON runs (status, started_at)",
    "CREATE INDEX runs_of_context ON runs (context_id, started_at) WHERE context_id <> ''",
    "CREATE INDEX runs_of_parent ON runs (parent_run_id, started_at) WHERE parent_run_id <> ''",
    "CREATE INDEX runs_held ON runs (run_no) WHERE holder IS NOT NULL",
    "CREATE INDEX runs_by_effect ON runs (effect, started_at, run_no) WHERE effect > 0",
    "CREATE INDEX runs_by_cost ON runs (currency, cost, started_at, run_no) WHERE cost > 0",
    "CREATE INDEX runs_by_tokens ON runs (tokens, started_at, run_no) WHERE tokens > 0",
    "CREATE INDEX runs_by_error ON runs (error_code, started_at, run_no) WHERE error_code <> ''",
    f"CREATE INDEX runs_by_took ON runs (took, started_at, run_no) WHERE took >= {LEAST_TOOK_S}",
    "CREATE INDEX runs_of_owner ON runs (owner, started_at) WHERE owner <> ''",
    "CREATE INDEX runs_of_tenant ON runs (tenant, started_at) WHERE tenant <> ''",
    f"""CREATE INDEX runs_due ON runs (priority DESC, {IS_NEW}, due_at, run_no)
        WHERE due_at IS NOT NULL""",
    _COUNTS,
    """CREATE TABLE forks (
        origin_run_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        PRIMARY KEY (origin_run_id, run_id)
    ) WITHOUT ROWID""",
    # One tree keyed by one integer: an append touches the page at the end of its run and no index.
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        epoch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        time INTEGER,
        body BLOB NOT NULL,
        crc INTEGER NOT NULL
    )""",
    # The effects of calls, one row for each identity.
    """CREATE TABLE effects (
        effect_no INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        started_at INTEGER NOT NULL,
        ended_at INTEGER,
        run_no INTEGER,
        call INTEGER NOT NULL,
        started_seq INTEGER NOT NULL DEFAULT 0,
        settled_seq INTEGER NOT NULL DEFAULT 0,
        state INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 1,
        checks INTEGER NOT NULL DEFAULT 0,
        check_at INTEGER,
        keep_us INTEGER,
        name TEXT NOT NULL,
        key TEXT NOT NULL DEFAULT '',
        tool TEXT,
        settled TEXT,
        run_id TEXT,
        agent_id TEXT,
        owner TEXT,
        tenant TEXT,
        kept TEXT
    )""",
    "CREATE INDEX effects_of_run ON effects (run_no)",
    f"CREATE INDEX effects_open ON effects (state) WHERE state IN ({BEGUN}, {UNKNOWN})",
    """CREATE TABLE artifacts (
        id TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        call_id TEXT NOT NULL,
        media_type TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        lines INTEGER,
        data BLOB NOT NULL,
        summary TEXT NOT NULL,
        stored_at REAL NOT NULL
    )""",
    "CREATE INDEX artifacts_of_run ON artifacts (run_id)",
    # Blocks of conversations; a cache, which may be dropped.
    """CREATE TABLE turn_blocks (
        context_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        body BLOB NOT NULL,
        crc INTEGER NOT NULL,
        PRIMARY KEY (context_id, number)
    ) WITHOUT ROWID""",
    # Control requests for runs; the holder copies answers into the log.
    """CREATE TABLE wishes (
        run_id TEXT NOT NULL,
        item TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (run_id, item)
    )""",
    # The open questions of parked runs, by the outermost run that waits.
    """CREATE TABLE inbox (
        root_no INTEGER NOT NULL,
        run_no INTEGER NOT NULL,
        place INTEGER NOT NULL,
        item TEXT NOT NULL,
        tool TEXT NOT NULL,
        body TEXT NOT NULL,
        asked_at INTEGER NOT NULL,
        tell_at INTEGER DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (run_no, place)
    ) WITHOUT ROWID""",
    "CREATE INDEX inbox_to_tell ON inbox (tell_at) WHERE tell_at IS NOT NULL",
    "CREATE INDEX inbox_of_root ON inbox (root_no, asked_at)",
    "CREATE INDEX inbox_by_wait ON inbox (asked_at, root_no, run_no, place)",
    # Until when processes have the runs they hold, on the clock since the machine started.
    """CREATE TABLE leases (
        holder TEXT PRIMARY KEY,
        until REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE submissions (
        run_id TEXT PRIMARY KEY,
        key TEXT UNIQUE,
        until INTEGER,
        body TEXT NOT NULL
    )""",
    # Notes that people attached to runs.
    """CREATE TABLE notes (
        run_id TEXT NOT NULL,
        name TEXT NOT NULL,
        author TEXT NOT NULL,
        at INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (run_id, name, author)
    )""",
    """CREATE TABLE shared_values (
        name TEXT PRIMARY KEY,
        body TEXT NOT NULL
    ) WITHOUT ROWID""",
    *_AUDIT,
    *_GUARDS,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {USER_VERSION}",
)

_RUN_NO = f"{{row}}.id >> {SEQ_BITS}"
_REMOVED = f"""INSERT INTO run_pending VALUES ({REMAINS}, random())
            ON CONFLICT (run_no) DO UPDATE SET stamp = excluded.stamp"""
_CHANGED = f"""BEGIN
        DELETE FROM run_texts WHERE run_no = {_RUN_NO.format(row="OLD")};
        INSERT INTO run_pending VALUES ({_RUN_NO.format(row="OLD")}, random())
            ON CONFLICT (run_no) DO UPDATE SET stamp = excluded.stamp;
        {_REMOVED};
    END"""
MAKE_INDEX = (
    # The texts of logs, and the runs whose logs must be read instead.
    "CREATE TABLE run_texts (run_no INTEGER PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE run_pending (run_no INTEGER PRIMARY KEY, stamp INTEGER NOT NULL)",
    """CREATE VIRTUAL TABLE run_grams USING fts5(body, content='run_texts',
        content_rowid='run_no', detail=none, tokenize='trigram case_sensitive 1')""",
    # With more, a merge could wait for others.
    "INSERT INTO run_grams (run_grams, rank) VALUES ('usermerge', 2)",
    """CREATE TRIGGER text_added AFTER INSERT ON run_texts BEGIN
        INSERT INTO run_grams (rowid, body) VALUES (NEW.run_no, NEW.body);
    END""",
    """CREATE TRIGGER text_removed AFTER DELETE ON run_texts BEGIN
        INSERT INTO run_grams (run_grams, rowid, body) VALUES ('delete', OLD.run_no, OLD.body);
    END""",
    f"""CREATE TRIGGER event_added AFTER INSERT ON events
        WHEN NOT EXISTS (SELECT 1 FROM run_pending WHERE run_no = {_RUN_NO.format(row="NEW")})
    BEGIN
        INSERT INTO run_pending VALUES ({_RUN_NO.format(row="NEW")}, random());
    END""",
    f"CREATE TRIGGER event_rewritten AFTER UPDATE ON events {_CHANGED}",
    f"CREATE TRIGGER event_removed AFTER DELETE ON events {_CHANGED}",
    f"""CREATE TRIGGER run_removed AFTER DELETE ON runs BEGIN
        DELETE FROM run_texts WHERE run_no = OLD.run_no;
        DELETE FROM run_pending WHERE run_no = OLD.run_no;
        {_REMOVED};
    END""",
    "INSERT INTO run_pending SELECT run_no, random() FROM runs",
)
"""The statements that make the search index of ``sql.search_rows``."""
DROP_INDEX: tuple[str, ...] = (
    *(
        f"DROP TRIGGER {name}"
        for name in ("event_added", "event_rewritten", "event_removed", "run_removed")
    ),
    *(f"DROP TABLE {name}" for name in ("run_grams", "run_texts", "run_pending")),
)


# How long to wait for a turn. A suspended holder, or a fork that keeps its descriptor, must not
# block the others forever.
_PATIENCE_S = 10.0


class FileLock:
    """Queues writers, so that none waits for much longer than the others.

    SQLite's own lock is polled: the writer that checks at the right moment gets it, and one of
    eight may miss it for seconds. The system wakes the waiters of ``flock`` in turn. It is for
    fairness only: the file stays correct without it, so any failure of it is ignored, and SQLite's
    lock is waited for as usual.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._late: threading.Thread | None = None
        self._is_usable = fcntl is not None

    def __enter__(self) -> None:
        if fcntl is None or not self._is_usable or self._is_late():
            return
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(self._path, flags, _FILE_MODE)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()
        except OSError:
            # For example a file system without locks.
            self._is_usable = False

    def __exit__(self, *raised: object) -> None:
        if fcntl is not None and self._file is not None and not self._is_late():
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        # A thread that still waits needs its descriptor; it is closed when the process ends.
        if self._file is not None and not self._is_late():
            os.close(self._file)
            self._file = None

    def _wait(self) -> None:
        # Only a thread that can be abandoned may wait without a limit, and no other wait is fair.
        self._late = threading.Thread(target=self._acquire, name="upshot-journal-turn", daemon=True)
        self._late.start()
        self._late.join(_PATIENCE_S)

    def _acquire(self) -> None:
        assert fcntl is not None and self._file is not None
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _is_late(self) -> bool:
        """Whether a thread still waits for a turn that was given up on."""
        if self._late is None or not self._late.is_alive():
            self._late = None
            return False
        return True


# The inserting statement also compares the epoch, because each further statement costs the loop a
# turn of the interpreter's lock. It compares the id, since the number of a removed run is reused.
_INSERT = """INSERT INTO events (id, epoch, kind, time, body, crc)
    SELECT ?, ?, ?, ?, ?, ? FROM runs WHERE run_no = ? AND run_id = ? AND epoch = ?"""


class Database(sqlite3.Connection):
    """A connection that knows which file it has open, and whether that is still in its place."""

    path: str
    file: Identity
    turn: FileLock
    topics: set[str]
    counts: Tallies
    _log: Identity | None = None
    _folder_changed: int | None = None

    def lock_run(self, run_id: str) -> None:
        """Do nothing: a transaction that writes has locked the whole file."""

    def lock_turns(self, conversation: str) -> None:
        """Do nothing: a transaction that writes has locked the whole file."""

    def lock_runs(self) -> None:
        """Do nothing: a transaction that writes has locked the whole file."""

    def add_counts(self, rows: Sequence[Sequence[Any]]) -> None:
        """See ``WriteConnection.add_counts``; one transaction at a time writes to a file."""
        self.executemany(_ADD_COUNTS, rows)

    def keep_lease(self, holder: str) -> int:
        """See ``WriteConnection.keep_lease``."""
        self.execute(_KEEP_LEASE, (holder, boot_s() + LEASE_S))
        return 0

    def forget_leases(self) -> None:
        """Remove the leases of processes that are long gone."""
        self.execute("DELETE FROM leases WHERE lease_left_s(holder, until) < -60")

    def insert_events(self, run_no: int, entries: Sequence[Entry]) -> bool:
        """Write events of one run and epoch; returns whether the run has that epoch."""
        first = entries[0]
        place = (run_no, first.run_id, first.epoch)
        base = run_no << SEQ_BITS
        rows = [
            (base | entry.seq, entry.epoch, *entry[3:6], checksum(entry), *place)
            for entry in entries
        ]
        return self.executemany(_INSERT, rows).rowcount == len(rows)

    def check_place(self) -> None:
        """Raise JournalError if the last commit went to a file that no later process will find."""
        # A file cannot be removed without changing its folder, so one check replaces two.
        changed = _changed_at(os.path.dirname(self.path))
        if changed is not None and changed == self._folder_changed:
            return
        log = identity_of(f"{self.path}-wal")
        self._log = self._log or log
        if identity_of(self.path) != self.file or log != self._log:
            raise JournalError(
                f"the journal {self.path} was deleted or replaced while it was in use: what was "
                "logged since is lost"
            )
        # Another change within the same tick of the file system's clock would go unnoticed.
        is_past = changed is not None and changed < time.time_ns() - _TICK_NS
        self._folder_changed = changed if is_past else None

    def close(self) -> None:
        """Close the file."""
        super().close()
        self.turn.close()
        note_closed(self.file)


def open_database(path: str, *, create: bool = True) -> Database:
    """Open the journal at *path*.

    Args:
        path: A file; a missing or empty one becomes a journal.
        create: Whether it may become one; if not, that is Misuse.

    Returns:
        A connection in WAL mode that does not start transactions implicitly. It may be used in any
        thread, but only in one at a time.

    Raises:
        Misuse: *path* cannot be a journal, or is something else.
        JournalError: The file is damaged, locked by another process, or of a newer version.
    """
    made = _check_file(path, create=create)
    try:
        return _open_counts(path, create=create)
    except FILE_ERRORS as error:
        raise JournalError(f"the journal {path} cannot be opened: {error}") from error
    finally:
        if made and not os.path.getsize(path):
            os.remove(path)


def clear_room(path: str, shown: Sequence[str]) -> None:
    """Erase the bytes of deleted and replaced rows from a file and its log.

    Args:
        path: The file.
        shown: The runs whose pieces to remove, if the file has pieces.

    Raises:
        JournalError: Another process keeps the file.
    """
    try:
        with contextlib.closing(
            sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        ) as connection:
            for run_id in shown:
                connection.execute("DELETE FROM pieces WHERE run_id = ?", (run_id,))
            # secure_delete does not reach the remains on a page whose rows were moved.
            connection.execute("VACUUM")
            (is_kept, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except FILE_ERRORS as error:
        is_kept = str(error)
    if is_kept:
        raise JournalError(
            f"the content is gone from the tables of {path}, but not yet from the free space "
            f"of the file and its log, which another process uses ({is_kept}): redact again"
        )


def add_clock(connection: sqlite3.Connection) -> None:
    """Define ``now_us()``, the time in microseconds, and other functions of statements."""
    connection.create_function("now_us", 0, lambda: time.time_ns() // 1_000)
    # SQLite's own converts only ASCII letters.
    connection.create_function("lower", 1, _lower, deterministic=True)
    connection.create_function("lease_left_s", 2, lease_left_s)
    connection.create_function("holder_of", 2, _holder_of)
    connection.create_function("grams_of", 1, _grams_of, deterministic=True)
    connection.create_function(_NEEDED, 0, lambda: None)


def _lower(text: object) -> str:
    return searched(str(text))


def _grams_of(text: str) -> str:
    """Return the query for the texts that have all trigrams of *text*."""
    grams = dict.fromkeys(text[at : at + 3].replace('"', '""') for at in range(len(text) - 2))
    return " AND ".join(f'"{gram}"' for gram in grams)


def _holder_of(holder: str | None, until: float | None) -> str | None:
    return holder and f"{holder}\n{lease_left_s(holder, until)}"


def is_read_only(path: str) -> bool:
    """Whether there is a file that is not writable, as on a read-only file system."""
    return os.path.isfile(path) and not os.access(path, os.W_OK)


def open_to_read(path: str) -> sqlite3.Connection:
    """Open a journal that is not writable."""
    _check_file(path, create=False)
    url = f"file:{quote(path)}"
    try:
        try:
            return _connect_to_read(f"{url}?mode=ro", path)
        except sqlite3.OperationalError:
            log = f"{path}-wal"
            if os.path.exists(log) and os.path.getsize(log):
                raise
            # SQLite wants to create its files beside the journal, unless no user may write there.
            return _connect_to_read(f"{url}?immutable=1", path)
    except FILE_ERRORS as error:
        raise JournalError(
            f"the journal {path} cannot be read without write access: {error}; copy it to "
            "another folder, with the files beside it"
        ) from error


def _connect_to_read(url: str, path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        url, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    add_clock(connection)
    try:
        version = _tables_version(connection, path)
        if version is None:
            raise Misuse(f"{path} is not a journal: it has no tables")
        if version < VERSION:
            raise JournalError(
                f"the tables of the journal {path} are of version {version}, and this upshot needs "
                f"version {VERSION}: open it once where it is writable, which upgrades it"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _check_file(path: str, *, create: bool) -> bool:
    """Raise if *path* cannot be a journal; returns whether the file was created here."""
    try:
        if not os.path.exists(path):
            return _make(path, create=create)
        if not os.path.isfile(path):
            raise Misuse(f"{path} cannot be a journal: it is not a file")
        head = peek(path, len(_MAGIC))
        if head == b"" and not create:
            raise Misuse(f"{path} is not a journal: it is empty")
        if head and head != _MAGIC:
            raise Misuse(f"{path} is not a journal: it is not an SQLite database")
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, Misuse):
            raise
        raise Misuse(f"{path!r} cannot be a journal: {error}") from error
    return False


def _make(path: str, *, create: bool) -> bool:
    if not create:
        raise Misuse(f"there is no journal at {path}")
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        raise Misuse(f"there is no folder {folder} for the journal {path}")
    with contextlib.suppress(FileExistsError):
        # SQLite gives the files beside it the same mode.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _FILE_MODE))
        return True
    return False


def _open_counts(path: str, *, create: bool) -> Database:
    file = keep_open(path)
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, factory=Database
        )
    except BaseException:
        note_closed(file)
        raise
    connection.path, connection.file, connection.topics = path, file, set()
    connection.counts = Tallies()
    add_clock(connection)
    connection.turn = FileLock(f"{path}-lock")
    try:
        _prepare(connection, path, create=create)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: Database, path: str, *, create: bool) -> None:
    # In one transaction: between two reads another process may create its tables.
    connection.execute("BEGIN")
    version = _tables_version(connection, path)
    connection.execute("COMMIT")
    if version is None and not create:
        raise Misuse(f"{path} is not a journal: it has no tables")
    _use_wal(connection, path)
    connection.execute("PRAGMA synchronous = FULL")
    # Removed data is overwritten in the file, so salvage cannot find it again.
    connection.execute("PRAGMA secure_delete = ON")
    if version == VERSION:
        return
    begin_writing(connection, path)
    # Another process may have been faster.
    version = _tables_version(connection, path)
    if version is None:
        for statement in _TABLES:
            connection.execute(statement)
    elif version < VERSION:
        _renew(connection, version)
    connection.execute("COMMIT")


def _renew(connection: Database, version: int) -> None:
    """Upgrade the tables of an older version, within a transaction that writes."""
    if version == 1:
        connection.execute("ALTER TABLE runs ADD COLUMN calls TEXT NOT NULL DEFAULT ''")
    for name in _GUARDED:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    if version < 3:
        connection.execute("DROP TABLE IF EXISTS run_counts")
        connection.execute(_COUNTS)
        count_again(connection)
    for statement in (*_AUDIT, *_GUARDS):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {USER_VERSION}")


def begin_writing(connection: sqlite3.Connection, path: str) -> None:
    """Start a transaction that writes.

    Raises:
        JournalError: Another process has kept the file locked.
    """
    try:
        # With the lock from the start: SQLite immediately refuses it to a reader that then wants to
        # write.
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        # The lowest eight bits are the error, the others give details.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise JournalError(
            f"the journal {path} cannot be written: another process has kept it locked for "
            f"{BUSY_S:.0f} s, perhaps because it was suspended during a commit: continue that "
            f"process, or end it (`fuser {path}` lists the processes)"
        ) from error


def _tables_version(connection: sqlite3.Connection, path: str) -> int | None:
    """Return the version of the tables; None if there are none.

    Raises:
        JournalError: This code cannot use them.
        Misuse: They are of another program.
    """
    owner = _pragma(connection, "application_id")
    number = _pragma(connection, "user_version")
    if owner != APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or number or tables:
            raise Misuse(f"{path} is not a journal: it is a database of another program")
        return None
    format, version = divmod(number, _FORMATS) if number >= _FORMATS else (number, 0)
    if format != FORMAT:
        raise JournalError(
            f"the journal {path} is of format {format}, and this version of upshot reads "
            f"format {FORMAT}: use the version that wrote it, or another file"
        )
    if newer := too_new(path, version, VERSION):
        raise JournalError(newer)
    if not version:
        found = "SELECT 1 FROM sqlite_master WHERE name = 'run_counts'"
        version = 1 if connection.execute(found).fetchone() is None else 2
    return version


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # The change of mode does not wait for other processes by itself.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise JournalError(f"the journal {path} cannot be opened: its file system has no WAL mode")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
