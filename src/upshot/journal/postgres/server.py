"""Connects to a PostgreSQL server, and reconnects if the connection is lost.

All events of a commit go to the server as one array for each column, so one statement and one round
trip serve any number of them. The driver would inspect its own lists element by element, so the
arrays are packed here.

Source:
    ``array_send`` of PostgreSQL, src/backend/utils/adt/arrayfuncs.c (read 2026-11).
"""

from __future__ import annotations

import re
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import conninfo
from psycopg.adapt import Dumper
from psycopg.errors import (
    IdleInTransactionSessionTimeout,
    ReadOnlySqlTransaction,
    UniqueViolation,
    error_from_result,
)
from psycopg.pq import DiagnosticField, ExecStatus, Format

from upshot.errors import JournalError, Misuse, UpshotError
from upshot.journal.event_codec import Entry, checksum
from upshot.journal.lease_holder import LEASE_S
from upshot.journal.postgres.urls import safe_place, split_url, without_password
from upshot.journal.run_counts import Tallies
from upshot.journal.shared import JournalAway
from upshot.journal.sql.connection import (
    CANDIDATES,
    COMPOSED,
    HAS_INDEX,
    HOLDER,
    IN_ANY_LANGUAGE,
    NEXT_EFFECT,
    SEQ_BITS,
    SKIP_LOCKED,
    WATCHED,
)
from upshot.journal.sql.count_rows import ADDED, COLUMNS, TEXTS

_HEAD = struct.Struct("!iiiii")
_NUMBER = struct.Struct("!iq")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
# Any numbers that no other program is likely to lock: one for each slot of the counts but the last.
_SLOTS = " ".join(
    f"WHEN pg_try_advisory_xact_lock({0x7570_7368_6F00 + slot}) THEN {slot}" for slot in range(7)
)
# All rows come as one value, because the driver takes its time for each.
_ADD_COUNTS = f"""WITH free AS MATERIALIZED (SELECT CASE {_SLOTS} ELSE 7 END AS slot)
    INSERT INTO upshot.run_counts SELECT {
    ", ".join(
        "slot"
        if name == "slot"
        else f"(e ->> {at})"
        if name in TEXTS
        else f"(e ->> {at})::{'double precision' if name == 'amount' else 'bigint'}"
        for at, name in enumerate(COLUMNS)
    )
} FROM jsonb_array_elements(%s::jsonb) AS e, free {ADDED}"""
_INT8, _TEXT, _BYTEA = 20, 25, 17
NUMBERS_OID, _TEXTS_OID, _BYTES_OID = 1016, 1009, 1001


class NumberArray(bytes):
    """A bigint[]."""


class TextArray(bytes):
    """A text[]."""


class BytesArray(bytes):
    """A bytea[]."""


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _NumberDumper(_ArrayDumper):
    oid = NUMBERS_OID


class _TextDumper(_ArrayDumper):
    oid = _TEXTS_OID


class _BytesDumper(_ArrayDumper):
    oid = _BYTES_OID


ARRAYS: tuple[tuple[type, type[Dumper]], ...] = (
    (NumberArray, _NumberDumper),
    (TextArray, _TextDumper),
    (BytesArray, _BytesDumper),
)

COLUMN_OIDS = (NUMBERS_OID, NUMBERS_OID, _TEXTS_OID, NUMBERS_OID, _BYTES_OID, NUMBERS_OID)
ROWS = """unnest(%b, %b, %b, %b, %b, %b) AS e(id, epoch, kind, time, body, crc)"""
INSERT: str = f"""INSERT INTO upshot.events (id, epoch, kind, time, body, crc)
    SELECT e.* FROM {ROWS}"""


def numbers(values: Sequence[int | None]) -> NumberArray:
    """Pack *values* as a bigint[]."""
    pack = _NUMBER.pack
    packed = [_NULL if value is None else pack(8, value) for value in values]
    return NumberArray(_HEAD.pack(1, 1, _INT8, len(packed), 1) + b"".join(packed))


def _join(values: Sequence[bytes]) -> bytes:
    pack = _LENGTH.pack
    return b"".join([part for value in values for part in (pack(len(value)), value)])


def columns_of(rows: Iterable[tuple[int, Entry]]) -> tuple[bytes, ...]:
    """Pack events of runs, each given with the run's number, as the columns of ``ROWS``."""
    ids: list[int] = []
    epochs: list[int] = []
    kinds: list[bytes] = []
    times: list[int | None] = []
    bodies: list[bytes] = []
    sums: list[int] = []
    for run_no, entry in rows:
        ids.append(run_no << SEQ_BITS | entry.seq)
        epochs.append(entry.epoch)
        kinds.append(entry.kind.encode())
        times.append(entry.time)
        bodies.append(entry.body)
        sums.append(checksum(entry))
    count = len(ids)
    return (
        numbers(ids),
        numbers(epochs),
        TextArray(_HEAD.pack(1, 0, _TEXT, count, 1) + _join(kinds)),
        numbers(times),
        BytesArray(_HEAD.pack(1, 0, _BYTEA, count, 1) + _join(bodies)),
        numbers(sums),
    )


T = TypeVar("T")

DRIVER_ERRORS: tuple[type[Exception], ...] = (psycopg.Error,)
# What a retry may fix: a lost connection, a server that is starting or has stopped being the
# primary, a deadlock, and a place in a log that another writer took between check and write.
PASSING: tuple[type[Exception], ...] = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    IdleInTransactionSessionTimeout,
    ReadOnlySqlTransaction,
    UniqueViolation,
)
# What a driver says, in words or by a code, about a server that may be reachable again soon.
_AWAY = re.compile(
    "refused|timed? ?out|closed the connection|terminating connection|reset by peer|No such file"
    "|No route|unreachable|Temporary failure|starting up|shutting down|recovery mode"
    "|not yet accepting|too many|reserved for|EOF detected|could not receive"
)
# The first and the longest wait between two attempts to reach a lost server.
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0
# These notice a peer that vanished silently; a URL may override them. No statement is prepared,
# because a pooler may give each transaction another session.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "upshot",
}
_ADVICE = (
    ("password", "give the password in the URL, in PGPASSWORD or in ~/.pgpass"),
    ("role", "correct the user in the URL, or create the role"),
    ("database", "correct the name in the URL, or create the database"),
    ("", "check host and port in the URL, and that the server runs"),
)
_LEAST_VERSION = 120_000

# -- statements

_SYNC = (
    "set_config('synchronous_commit', 'on', true) "
    "WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
)
# No setting outlives a transaction.
# A process that is suspended in a transaction must not keep its locks for longer than its lease.
_BEGIN = (
    "BEGIN; SET LOCAL search_path = upshot; "
    f"SET LOCAL idle_in_transaction_session_timeout = '{LEASE_S:.0f} s'; SELECT {_SYNC}"
)
# Within the main transaction, it would block all other commits until that one is on disk.
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('upshot', %s)"
# Compiling a statement takes longer than any of these; figures are grouped in memory, unsorted.
_BEGIN_READING = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = upshot; "
    "SET LOCAL jit = off; SET LOCAL work_mem = '32MB'"
)
# The parts of shared statements that PostgreSQL words differently. A holder is followed by the
# seconds left of its lease, below 0 if it has lapsed.
_WORDS = (
    ("coalesce(CAST(body AS BLOB), x'')", "body"),
    ("CAST(kind AS BLOB)", "convert_to(kind, 'UTF8')"),
    (" INDEXED BY sqlite_autoindex_runs_1", ""),
    (" INDEXED BY runs_by_id", ""),
    (SKIP_LOCKED, "FOR UPDATE SKIP LOCKED"),
    (
        HAS_INDEX,
        """SELECT count(*) FROM pg_tables
        WHERE schemaname = 'upshot' AND tablename = 'run_texts'""",
    ),
    (CANDIDATES, "SELECT run_no FROM run_texts WHERE grams_of(body) @> grams_of(?)"),
    (NEXT_EFFECT, "nextval('upshot.effects_effect_no_seq')"),
    (WATCHED, "coalesce(watched_until > clock_timestamp(), false)"),
    ("instr(", "strpos("),
    (COMPOSED, "normalize"),
    (IN_ANY_LANGUAGE, 'COLLATE "und-x-icu"'),
    ("now_us()", "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"),
    (
        HOLDER,
        """(holder || chr(10) || coalesce((SELECT extract(epoch FROM until - clock_timestamp())
        FROM leases WHERE leases.holder = runs.holder), -1))""",
    ),
)
_LOCK = "SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE"
_LEASE = f"clock_timestamp() + interval '{LEASE_S} s'"


@lru_cache(maxsize=256)
def _translate(statement: str) -> bytes:
    """Translate a shared statement for this driver."""
    for ours, theirs in _WORDS:
        statement = statement.replace(ours, theirs)
    return statement.replace("?", "%s").encode()


class ServerConnection:
    """One connection; implements Connection and WriteConnection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.topics: set[str] = set()
        self.counts: Tallies = Tallies()
        self._connection = connection
        self._received: list[str] = []
        for array in ARRAYS:
            connection.adapters.register_dumper(*array)

    def begin(self) -> None:
        """Start a transaction that writes."""
        self._connection.execute(_BEGIN.encode())

    def begin_reading(self) -> None:
        """Start a transaction that sees one point in time and writes nothing."""
        self._connection.execute(_BEGIN_READING.encode())

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """Execute a statement that all databases share."""
        return self.do(_translate(statement), values)

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> None:
        """Execute a statement that all databases share, for each of *values*."""
        for each in values:
            self.execute(statement, each)

    def do(self, statement: str | bytes, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Execute a statement in PostgreSQL's own dialect."""
        text = statement if isinstance(statement, bytes) else statement.encode()
        try:
            return self._connection.execute(text, values, binary=True)
        except psycopg.DataError as error:
            if "NUL" not in str(error):
                raise
            held = next(one for one in values if isinstance(one, str) and "\0" in one)
            raise nul_error(held) from error

    def send(self, statement: bytes, values: Sequence[bytes], kinds: Sequence[int]) -> list[bytes]:
        """Execute a statement that has ``$1`` for binary values, as every commit of events does.

        It calls libpq directly, which releases the interpreter's lock while it waits: the driver's
        cursor costs several times as much CPU as the rest of such a commit.

        Args:
            statement: Returns one column.
            values: The values, in binary form.
            kinds: The ids of their types.

        Returns:
            The column, in binary form.

        Raises:
            psycopg.Error: It failed, as in ``do``.
        """
        binary = [Format.BINARY] * len(values)
        libpq = self._connection.pgconn
        found = libpq.exec_params(statement, values, kinds, binary, Format.BINARY)
        if found.status == ExecStatus.TUPLES_OK:
            return [found.get_value(row, 0) or b"" for row in range(found.ntuples)]
        if found.error_field(DiagnosticField.SQLSTATE) is None:
            # Not reported by the server: the connection was lost.
            raise psycopg.OperationalError(libpq.get_error_message())
        raise error_from_result(found)

    def lock_run(self, run_id: str) -> None:
        """See ``WriteConnection.lock_run``."""
        # Not by an insert alone, which uses up a number even if the run exists.
        if self.do(_LOCK, [run_id]).fetchone() is None:
            self.execute("INSERT INTO runs (run_id) VALUES (?) ON CONFLICT DO NOTHING", [run_id])
            self.do(_LOCK, [run_id])

    def lock_turns(self, conversation: str) -> None:
        """See ``WriteConnection.lock_turns``."""
        self.do("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [conversation])

    def lock_runs(self) -> None:
        """See ``WriteConnection.lock_runs``."""
        self.do(b"LOCK TABLE runs IN EXCLUSIVE MODE")

    def add_counts(self, rows: Sequence[Sequence[Any]]) -> None:
        """See ``WriteConnection.add_counts``."""
        self.do(_ADD_COUNTS, [msgspec.json.encode(rows).decode()])

    def insert_events(self, run_no: int, entries: Sequence[Entry]) -> bool:
        """See ``WriteConnection.insert_events``; the run is locked."""
        self.do(INSERT, columns_of((run_no, entry) for entry in entries))
        return True

    def keep_lease(self, holder: str) -> int:
        """See ``WriteConnection.keep_lease``."""
        row = self.execute(
            f"INSERT INTO leases (holder, until) VALUES (?, {_LEASE}) ON CONFLICT (holder) "
            "DO UPDATE SET until = excluded.until RETURNING (SELECT version FROM journal)",
            [holder],
        ).fetchone()
        return row[0] if row else 0

    def forget_leases(self) -> None:
        """Remove the leases, commits and pieces of processes that ended long ago."""
        for table, moment in (("leases", "until"), ("commits", "at"), ("pieces", "at")):
            self.do(f"DELETE FROM {table} WHERE {moment} < now() - interval '1 day'")

    def notify(self, payload: str) -> None:
        """Notify listeners. It does not wait for the disk, nor delay other commits."""
        self.do(_NOTIFY, [payload])

    def listen(self) -> None:
        """Receive notifications from now on; ``wait_for_notice`` returns them."""
        self._connection.add_notify_handler(lambda notice: self._received.append(notice.payload))
        self.do(b"LISTEN upshot")

    def wait_for_notice(self, bell: socket.socket, timeout_s: float | None) -> list[str]:
        """Wait until a notification arrives or *bell* can be read, at most *timeout_s* seconds.

        Raises:
            psycopg.Error: The connection was lost.
        """
        libpq = self._connection.pgconn
        # Notifications that came with an answer are here already.
        if not self._received:
            with selectors.DefaultSelector() as selector:
                selector.register(libpq.socket, selectors.EVENT_READ)
                selector.register(bell, selectors.EVENT_READ)
                selector.select(timeout_s)
            libpq.consume_input()
            while (notice := libpq.notifies()) is not None:
                self._received.append(notice.extra.decode())
        heard, self._received = self._received, []
        return heard

    def close(self) -> None:
        """Close it; uncommitted changes are rolled back."""
        with suppress(psycopg.Error):
            self._connection.close()


def nul_error(text: str) -> Misuse:
    """Return the exception for a text that PostgreSQL cannot store."""
    return Misuse(
        f"{text!r:.80} has a NUL character, which no PostgreSQL text may contain: leave it out"
    )


class Server:
    """A database on a server, by the URL of a journal.

    Attributes:
        name: The URL without the password.
        writer: The id of this writer, unique among all processes.
        patience_s: How long to wait for it when it is lost.
    """

    def __init__(self, url: str) -> None:
        self.name: str = safe_place(url)
        self.writer: str = secrets.token_hex(16)
        self.patience_s: float
        self._url, listen, self.patience_s = split_url(url)
        self._conninfo = self._read(self._url)
        self._listen = self._read(listen)

    def _read(self, url: str) -> str:
        try:
            given = conninfo.conninfo_to_dict(url)
        except psycopg.Error as error:
            text = without_password(reason_of(error), url)
            raise Misuse(
                f"{safe_place(url)} is not the URL of a journal: {text}; the form is "
                "postgresql://user:password@host:port/database"
            ) from None
        missing = {name: value for name, value in _DEFAULTS.items() if name not in given}
        return conninfo.make_conninfo(url, **missing, client_encoding="utf8")

    def connect(self, *, listen: bool = False) -> ServerConnection:
        """Open a connection; to listen, it bypasses a pooler if the URL says how.

        Raises:
            psycopg.Error: That is not possible now.
        """
        where = self._listen if listen else self._conninfo
        return ServerConnection(psycopg.connect(where, autocommit=True, prepare_threshold=None))

    def check(self, connection: ServerConnection) -> None:
        """Raise Misuse for a server or database that cannot have a journal.

        Raises:
            Misuse: It is too old, or has another encoding.
        """
        row = connection.do(
            "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
        ).fetchone()
        version, encoding = row or (0, "")
        if version < _LEAST_VERSION or encoding != "UTF8":
            raise Misuse(
                f"{self.name} cannot hold a journal: it is PostgreSQL {version // 10_000} with the "
                f"encoding {encoding}, and version 12 or newer with UTF8 is needed"
            )

    def opening_error(self, error: Exception) -> JournalError:
        """Return the exception for a journal that cannot be opened because of *error*."""
        text = without_password(reason_of(error), self._url)
        kind = JournalAway if _AWAY.search(str(error)) else JournalError
        advice = next(advice for word, advice in _ADVICE if word in text)
        return kind(f"the journal {self.name} cannot be opened: {text}; {advice}")


class Line:
    """A connection to a server that reconnects if it is lost; belongs to one thread."""

    def __init__(self, server: Server, connection: ServerConnection | None = None) -> None:
        self.server = server
        self._connection: ServerConnection | None = connection

    def carry(self, work: Callable[[ServerConnection, int], T]) -> T:
        """Call *work*, and retry after a failure that may pass.

        Args:
            work: Gets a connection without a transaction, and the number of earlier attempts, which
                may have been committed.

        Raises:
            JournalAway: The server could not be reached for as long as the URL says.
        """
        deadline, wait_s, tries = time.monotonic() + self.server.patience_s, _FIRST_WAIT_S, 0
        while True:
            try:
                if self._connection is None:
                    self._connection = self.server.connect()
                return work(self._connection, tries)
            except UpshotError:
                raise
            except PASSING as error:
                self.drop()
                tries += 1
                if time.monotonic() > deadline:
                    raise JournalAway(
                        f"the journal {self.server.name} cannot be reached any more: "
                        f"{reason_of(error)}"
                    ) from error
            except BaseException:
                # Perhaps in the middle of a transaction.
                self.drop()
                raise
            # Retry at once after the first lost connection: it may have been the only one.
            if tries > 1:
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def try_once(self, work: Callable[[ServerConnection], T]) -> T:
        """Call *work* without a retry.

        Raises:
            psycopg.Error: It failed.
        """
        try:
            if self._connection is None:
                self._connection = self.server.connect()
            return work(self._connection)
        except psycopg.Error:
            self.drop()
            raise

    def drop(self) -> None:
        """Close the connection; the next work opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def reason_of(error: Exception) -> str:
    """Return a driver's error message as one line."""
    text = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
    return text.rpartition("failed: ")[2].removeprefix("FATAL: ").strip()
