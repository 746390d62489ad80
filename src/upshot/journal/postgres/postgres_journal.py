"""PostgresJournal: a log in a PostgreSQL database, its committer, and its listener.

Processes notify each other of commits by LISTEN and NOTIFY. A run's row says until when it is
watched, so that commits of unwatched runs send nothing. Control requests and due runs are always
announced.
"""

from __future__ import annotations

import logging
import re
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import ClassVar, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg.errors import (
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    ReadOnlySqlTransaction,
)

from upshot.contract.effects import to_digest
from upshot.contract.events import Event, RunStarted
from upshot.contract.message import Unknown
from upshot.errors import JournalError, UpshotError
from upshot.journal.event_codec import Entry, checksum, gap_error, stamp_of
from upshot.journal.pieces import Keep, PieceRow, pieces_of, run_of_topic
from upshot.journal.postgres.server import (
    COLUMN_OIDS,
    DRIVER_ERRORS,
    NUMBERS_OID,
    PASSING,
    ROWS,
    Line,
    Server,
    ServerConnection,
    columns_of,
    nul_error,
    numbers,
    reason_of,
)
from upshot.journal.postgres.tables import (
    DROP_INDEX,
    MAKE_INDEX,
    STEPS,
    is_read_only,
    prepare,
)
from upshot.journal.shared import JournalAway
from upshot.journal.sql.connection import SEQ_BITS, SEQ_MASK, Connection
from upshot.journal.sql.health import too_new
from upshot.journal.sql.own_lease import OwnLease
from upshot.journal.sql.queries import Reader
from upshot.journal.sql.search_rows import has_index
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.sql.writer import (
    Batch,
    Committed,
    Item,
    TellHeld,
    Worker,
    Writer,
    misfit,
    misplaced,
)
from upshot.journal.watching import POLL_S, effect_of, of_run, run_of
from upshot.state.child_runs import origins_of

T = TypeVar("T")
_CONTENT = (
    *("runs", "events", "effects", "artifacts", "turn_blocks"),
    *("wishes", "inbox", "notes", "submissions", "pieces"),
)


class PostgresJournal(SqlJournal):
    """A log in a PostgreSQL database, which many machines may have open; implements Journal.

    ``open`` makes one; it belongs to the event loop it was opened in. Appends are queued and
    written by a separate thread: everything queued goes into one commit. Events without a waiting
    caller are written a moment later. A lost connection is reopened, for up to a minute, and
    nothing is written twice or lost by that.

    Attributes:
        path: The URL without the password.
        artifacts: The store of large outputs, in the same database.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = DRIVER_ERRORS
    # Every commit of a journal waits, whatever synchronous_commit says. The state of a receiver is
    # NULL for a user without pg_read_all_stats.
    _facts: ClassVar[str] = r"""SELECT version, CASE
        WHEN names = '' THEN 'none'
        WHEN (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL
            OR sync_state IN ('sync', 'quorum'))
            < coalesce(substring(names FROM '^\s*[a-zA-Z]*\s*(\d+)\s*\(')::int, 1) THEN 'away'
        ELSE 'synchronous' END
        FROM journal, current_setting('synchronous_standby_names') AS names"""
    _touch: ClassVar[str] = "UPDATE journal SET version = version"
    _make_index: ClassVar[tuple[str, ...]] = MAKE_INDEX
    _drop_index: ClassVar[tuple[str, ...]] = DROP_INDEX
    _server: Server

    @classmethod
    async def open(cls, url: str, *, create: bool = True, upgrade: bool = False) -> PostgresJournal:
        """Open the journal at *url*.

        Args:
            url: ``postgresql://user:password@host:port/database``; missing parts come from libpq's
                environment variables. If it leads to a pooler, ``?listen=URL`` names a direct way
                to the same database, percent-encoded.
            create: If true, create the tables, in the schema ``upshot``, in a database without a
                journal; if false, that is Misuse.
            upgrade: Whether to upgrade the tables of an older version to this one.

        Returns:
            The journal. A read-only server, such as a standby, is opened for reading.

        Raises:
            Misuse: *url* is not such a URL, or has no journal.
            JournalError: The server cannot be reached, or the tables have another version.
        """
        server = Server(url)
        opener = Worker("upshot-journal-opener")
        try:
            connection = await opener.call(lambda: _connect(server, create=create, upgrade=upgrade))
        finally:
            opener.stop()
        writer = Writer(
            server.name,
            lambda keep: ServerListener(server, keep),
            lambda: ServerPieces(server),
        )
        reader = Reader(ServerSource(server))
        opened = cls(server.name, writer, reader, read_only=connection is None)
        opened._server = server
        if connection is None:
            return opened
        await writer.open(
            lambda: ServerCommitter(Line(server, connection), writer.lease, writer.report_held)
        )
        return opened

    @property
    def trouble(self) -> JournalError | None:
        """Why a worker must stop using it: the server was away too long, or its tables are newer.

        The version of the tables is checked whenever the lease is renewed.
        """
        broken, newer = self._writer.broken, too_new(self.path, self.lease.tables, len(STEPS))
        if isinstance(broken, JournalAway):
            return broken
        return JournalError(newer) if newer else None

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """See ``SqlJournal.append``; a NUL in an id is Misuse."""
        if isinstance(event, Unknown):
            self.check_text(event.kind, stamp_of(event)[0])
        elif event.run_id not in self._holds:
            self.check_text(event.run_id)
        if isinstance(event, RunStarted):
            names = (event.agent.id, event.parent_run_id, event.request.context_id)
            self.check_text(*names, *origins_of(event.options))
        super().append(event, epoch=epoch)

    def check_text(self, *texts: str) -> None:
        """Raise Misuse for texts with a NUL."""
        for text in texts:
            if "\0" in text:
                raise nul_error(text)

    def clear_room(self, run_ids: Sequence[str]) -> None:
        """See ``SqlJournal.clear_room``."""
        try:
            connection = self._server.connect()
            try:
                connection.do("DELETE FROM upshot.pieces WHERE run_id = ANY(%s)", [[*run_ids]])
                tables = [*_CONTENT, "run_texts"] if has_index(connection) else _CONTENT
                connection.do(f"VACUUM {', '.join(f'upshot.{table}' for table in tables)}")
            finally:
                connection.close()
        except DRIVER_ERRORS as error:
            raise JournalError(
                f"the content is gone from {self.path}, but its dead rows are not: {error}"
            ) from error


class ServerSource:
    """Reads a server; implements Source."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._line = Line(server)

    def read(self, work: Callable[[Connection], T]) -> T:
        """See ``Source.read``."""

        def look(connection: ServerConnection, tries: int) -> T:
            connection.begin_reading()
            try:
                return work(connection)
            finally:
                connection.do(b"ROLLBACK")

        try:
            return self._line.carry(look)
        except DRIVER_ERRORS as error:
            raise JournalError(
                f"the journal {self._server.name} cannot be read: {error}"
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self._line.drop()


def _connect(server: Server, *, create: bool, upgrade: bool) -> ServerConnection | None:
    """Connect to a database with tables; None if it can only be read."""
    connection = None
    try:
        connection = server.connect()
        server.check(connection)
        prepare(connection, server.name, create=create, upgrade=upgrade)
        if not is_read_only(connection):
            return connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, DRIVER_ERRORS):
            # Its message may contain the password, and so may its cause.
            raise server.opening_error(error) from None
        raise
    connection.close()
    return None


# Runs are locked in the order of their numbers, so that two groups cannot deadlock. A run is
# written if its epoch is the writer's and its log ends with the event that the writer knows. The
# statement is a transaction of its own if there is none. It returns the runs that were written,
# with the lowest bit set for a watched run, and the next one if pieces are wanted too. Those
# columns are read after the row is locked: a watcher that marks the row before it reads the log
# misses no commit.
_APPEND = f"""WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%b, %b, %b) AS g(last, epoch, crc)
        WHERE current_setting('synchronous_commit') IN ('on', 'remote_apply')
        OR set_config('synchronous_commit', 'on', true) = 'on'
    ), held AS MATERIALIZED (
        SELECT r.run_no, r.watched_until, r.shown_until FROM upshot.runs AS r
        JOIN given ON r.run_no = given.last >> {SEQ_BITS} AND r.epoch = given.epoch
        ORDER BY r.run_no FOR UPDATE OF r
    ), fit AS MATERIALIZED (
        SELECT run_no, watched_until, shown_until FROM held JOIN given
        ON run_no = last >> {SEQ_BITS}
        WHERE (last & {SEQ_MASK} = 0
            OR EXISTS (SELECT FROM upshot.events AS e WHERE e.id = last AND e.crc = given.crc))
        AND NOT EXISTS (SELECT FROM upshot.events AS e WHERE e.id = last + 1)
    ), added AS (
        INSERT INTO upshot.events (id, epoch, kind, time, body, crc)
        SELECT e.* FROM {ROWS} JOIN fit ON run_no = e.id >> {SEQ_BITS}
    )
    SELECT run_no << 2 | CASE WHEN shown_until > clock_timestamp() THEN 3
        WHEN watched_until > clock_timestamp() THEN 1 ELSE 0 END FROM fit"""
_NUMBERS = count(1)
_SENT = re.sub("%b", lambda _: f"${next(_NUMBERS)}", _APPEND).encode()
_KINDS = [*[NUMBERS_OID] * 3, *COLUMN_OIDS]
_ENDS = f"""SELECT r.run_id, r.run_no, r.epoch, coalesce(e.id & {SEQ_MASK}, 0), coalesce(e.crc, 0)
    FROM upshot.runs AS r LEFT JOIN LATERAL (
        SELECT id, crc FROM upshot.events
        WHERE id BETWEEN r.run_no << {SEQ_BITS} AND (r.run_no << {SEQ_BITS}) | {SEQ_MASK}
        ORDER BY id DESC LIMIT 1
    ) AS e ON true
    WHERE r.run_id = ANY(%s)"""
# The lock waits for an earlier attempt that the server may still be executing.
_LOCKED = "SELECT run_no FROM upshot.runs WHERE run_id = ANY(%s) ORDER BY run_no FOR UPDATE"
_WRITTEN = f"""SELECT r.run_id, r.run_no FROM upshot.runs AS r
    JOIN unnest(%s::text[], %b, %b, %b) AS g(run_id, epoch, seq, crc) ON r.run_id = g.run_id
    JOIN upshot.events AS e ON e.id = (r.run_no << {SEQ_BITS}) | g.seq
    WHERE e.epoch = g.epoch AND e.crc = g.crc"""
_BEGIN_RUNS = """INSERT INTO upshot.runs (run_id)
    SELECT id FROM unnest(%s::text[]) AS id ORDER BY id ON CONFLICT DO NOTHING"""
_NUMBERED = """INSERT INTO upshot.commits AS c (writer, number) VALUES (%s, %s)
    ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = now()
    WHERE c.number < excluded.number"""
_FORGET = "DELETE FROM upshot.commits WHERE writer = %s"


class RunEnd(NamedTuple):
    """The end of a run's log.

    Attributes:
        run_no: The run's number in the database, 0 for none.
        epoch: The epoch of the last claim, 0 for none.
        last_seq: Seq of the last event, 0 for none.
        crc: The checksum of that event.
    """

    run_no: int
    epoch: int
    last_seq: int
    crc: int


_NOWHERE = RunEnd(0, 0, 0, 0)


class ServerCommitter:
    """Writes to a server; implements Committer."""

    def __init__(self, line: Line, lease: OwnLease, notify: TellHeld) -> None:
        self._line = line
        self._lease = lease
        self._tell = notify
        # The ends of the logs that were written, as acknowledged.
        self._ends: dict[str, RunEnd] = {}
        self._count = 0

    @property
    def rest_s(self) -> float | None:
        """While this process may hold a run, the time until its lease has to be renewed."""
        return self._lease.due_s

    def commit(self, items: Sequence[Item]) -> Committed:
        """See ``Committer.commit``."""
        is_plain = all(map(_is_plain, items))
        batches: list[ServerBatch] = []
        self._count += 1

        def write(connection: ServerConnection, tries: int) -> None:
            batch = ServerBatch(connection, self._ends, is_again=tries > 0)
            if is_plain:
                batch.fill(items)
                batches.append(batch)
                return
            connection.begin()
            if not connection.do(_NUMBERED, [self._line.server.writer, self._count]).rowcount:
                # The last attempt was committed; only its answer was lost.
                connection.do(b"ROLLBACK")
                return
            batch.fill(items)
            batches.append(batch)
            connection.do(b"COMMIT")

        self._line.carry(write)
        done = batches[-1]
        self._ends.update(done.ends)
        for run_id in done.over:
            self._ends.pop(run_id, None)
        self._lease.commit()
        return done.committed

    def announce(self, committed: Committed) -> None:
        """See ``Committer.announce``."""
        topics = {*committed.topics, *map(of_run, committed.watched)}
        if topics:
            # A process that misses the notification polls after a while.
            with suppress(*DRIVER_ERRORS):
                payload = payload_of(self._line.server.writer, topics)
                self._line.try_once(lambda connection: connection.notify(payload))

    def do_periodic_work(self) -> None:
        """Renew the lease, while this process holds any runs."""
        self._lease.begin_renewal()
        # An unreachable server does no harm yet: the next commit waits for it.
        with suppress(*DRIVER_ERRORS):
            held = self._line.try_once(self._renew)
            self._lease.commit()
            self._tell(held)

    def _renew(self, connection: ServerConnection) -> frozenset[str]:
        connection.begin()
        held = self._lease.renew(connection)
        if not held:
            connection.forget_leases()
        connection.do(b"COMMIT")
        return held

    def close(self) -> None:
        """Close the connection."""
        with suppress(*DRIVER_ERRORS):
            if self._count:
                self._line.try_once(
                    lambda connection: connection.do(_FORGET, [self._line.server.writer])
                )
        self._line.drop()


def _is_plain(item: Item) -> bool:
    """Whether it is an event that changes only its log."""
    return isinstance(item, Entry) and item.is_plain


class ServerBatch(Batch):
    """What is written in one transaction.

    Args:
        connection: Within a transaction, unless only plain events are written.
        known: The ends of the logs that were written before.
        is_again: Whether an earlier attempt may have been committed.

    Attributes:
        ends: The new ends of logs.
        over: The runs whose ends can be forgotten.
    """

    passing: ClassVar[tuple[type[Exception], ...]] = PASSING

    def __init__(
        self, connection: ServerConnection, known: dict[str, RunEnd], *, is_again: bool
    ) -> None:
        super().__init__(connection)
        self._connection = connection
        self._known = known
        self._is_again = is_again
        self.ends: dict[str, RunEnd] = {}
        self.over: set[str] = set()

    def append(self, groups: dict[str, list[Entry]]) -> None:
        """See ``Batch.append``."""
        left: dict[str, list[Entry]] = {}
        for run_id, entries in groups.items():
            if (error := misplaced(entries)) is None:
                left[run_id] = entries
            else:
                self.note(run_id, entries, error)
        if self._is_again:
            self._connection.do(_LOCKED, [[*left]])
            self._skip_written(left)
        fitting = self._find_fitting(left)
        if fitting:
            written = self._insert(fitting)
            for run_id, (end, entries) in fitting.items():
                if end.run_no in written:
                    del left[run_id]
                    self._note_written(run_id, end, entries, is_watched=written[end.run_no])
        if left and self._is_again:
            # An earlier attempt may have been committed between the check and the write.
            self._skip_written(left)
        if left:
            found = self._read_ends(left)
            for run_id, entries in left.items():
                self.note(run_id, entries, self._refusal(entries, found.get(run_id, _NOWHERE)))

    def _find_fitting(self, left: dict[str, list[Entry]]) -> dict[str, tuple[RunEnd, list[Entry]]]:
        """Return the runs whose entries continue their logs, as far as is known here."""
        ends = {run_id: self._end_of(run_id, entries[0]) for run_id, entries in left.items()}
        if unknown := [run_id for run_id, end in ends.items() if end is None]:
            # A run that is not claimed starts with its first event.
            if begun := [run_id for run_id in unknown if not left[run_id][0].epoch]:
                self._connection.do(_BEGIN_RUNS, [begun])
            ends.update(self._read_ends(unknown))
        return {
            run_id: (end, left[run_id])
            for run_id, end in ends.items()
            if end is not None and misfit(left[run_id][0], end.epoch, end.last_seq) is None
        }

    def _end_of(self, run_id: str, first: Entry) -> RunEnd | None:
        end = self.ends.get(run_id) or self._known.get(run_id)
        # It is void after another claim, perhaps of a run that was removed in between.
        return None if end is None or misfit(first, end.epoch, end.last_seq) else end

    def _insert(self, fitting: dict[str, tuple[RunEnd, list[Entry]]]) -> dict[int, int]:
        """Write the entries of each run that was not claimed or written by another process.

        For each run, either all entries are written or none.

        Returns:
            The written runs by number, with 1 if watched, 3 if pieces are wanted too.
        """
        ends = [end for end, _ in fitting.values()]
        rows = ((end.run_no, entry) for end, entries in fitting.values() for entry in entries)
        values = (
            numbers([end.run_no << SEQ_BITS | end.last_seq for end in ends]),
            numbers([end.epoch for end in ends]),
            numbers([end.crc for end in ends]),
            *columns_of(rows),
        )
        written = self._connection.send(_SENT, values, _KINDS)
        found = (int.from_bytes(one, signed=True) for one in written)
        return {one >> 2: one & 3 for one in found}

    def _note_written(
        self, run_id: str, end: RunEnd, entries: list[Entry], *, is_watched: int
    ) -> None:
        """Record what was written."""
        if is_watched:
            self.committed.watched.add(run_id)
        if is_watched > 1:
            self.committed.shown |= {run_id}
        last = entries[-1]
        if not all(map(_is_plain, entries)):
            self.note_entries(end.run_no, entries)
        self._note_log_end(run_id, end.run_no, last)
        self.note(run_id, entries, None)

    def _note_log_end(self, run_id: str, run_no: int, last: Entry) -> None:
        """Record the new end of the log."""
        # Several journals may append to a run that is not claimed.
        if last.epoch and not (last.change is not None and last.change.is_end):
            self.ends[run_id] = RunEnd(run_no, last.epoch, last.seq, checksum(last))
            self.over.discard(run_id)
        else:
            self.ends.pop(run_id, None)
            self.over.add(run_id)

    def _skip_written(self, left: dict[str, list[Entry]]) -> None:
        """Remove from *left* what an earlier attempt wrote: a run's last event proves that."""
        lasts = [entries[-1] for entries in left.values()]
        values = (
            [*left],
            numbers([last.epoch for last in lasts]),
            numbers([last.seq for last in lasts]),
            numbers([checksum(last) for last in lasts]),
        )
        for run_id, run_no in self._connection.do(_WRITTEN, values).fetchall():
            entries = left.pop(run_id)
            self.committed.watched.add(run_id)
            self._note_log_end(run_id, run_no, entries[-1])
            self.note(run_id, entries, None)

    def _read_ends(self, run_ids: Iterable[str]) -> dict[str, RunEnd]:
        rows = self._connection.do(_ENDS, [[*run_ids]])
        return {run_id: RunEnd._make(end) for run_id, *end in rows}

    def _refusal(self, entries: list[Entry], found: RunEnd) -> JournalError:
        """Return why entries do not continue the log that ends at *found*."""
        first = entries[0]
        run_id = first.run_id
        known = self.ends.get(run_id) or self._known.get(run_id)
        self.over.add(run_id)
        if known is not None and known.epoch == first.epoch and found.epoch <= known.epoch:
            return JournalError(
                f"the log of run {run_id} ends with event {found.last_seq}, and does not have "
                f"event {known.last_seq} as it was acknowledged: the database has lost it, as "
                "after a change to a standby that was behind; nothing more is written",
                run_id=run_id,
                seq=min(found.last_seq, known.last_seq - 1),
            )
        error = misfit(first, found.epoch, found.last_seq)
        return error or gap_error(run_id, first.seq, found.last_seq)


logger: logging.Logger = logging.getLogger("upshot.journal")

# PostgreSQL accepts fewer than 8,000 bytes.
_MOST_BYTES = 7_900
# How long a row says that its run is watched, and how often that is renewed.
_WATCHED_S = 15
_RENEW_S = 5.0
# The longest delay if a notification is lost with its process or connection.
NET_S = 2.0
_PROOF_S = 2.0
_UNTIL = f"""UPDATE upshot.runs SET %s = clock_timestamp() + interval '{_WATCHED_S} s'
    FROM set_config('synchronous_commit', 'off', true) WHERE run_id = %%s AND
    (%s > clock_timestamp() + interval '{_WATCHED_S / 2} s') IS NOT TRUE"""
_WATCH = _UNTIL % (2 * ("watched_until",))
_WANT = _UNTIL % (2 * ("shown_until",))
_WATCH_EFFECT = f"""UPDATE upshot.effects
    SET watched_until = clock_timestamp() + interval '{_WATCHED_S} s'
    FROM set_config('synchronous_commit', 'off', true) WHERE id = %s AND
    (watched_until > clock_timestamp() + interval '{_WATCHED_S / 2} s') IS NOT TRUE"""
_READ = """SELECT p.run_id, p.seq, p.part, p.body FROM upshot.pieces AS p
    JOIN unnest(%s::text[], %b, %b) AS g(run_id, seq, part) ON p.run_id = g.run_id
    WHERE (p.seq, p.part) > (g.seq, g.part) ORDER BY p.run_id, p.seq, p.part"""
_PUT = """WITH given AS (
        SELECT * FROM unnest(%s::text[], %b, %b, %b::bytea[]) AS g(run_id, seq, part, body)
    ), gone AS (
        DELETE FROM upshot.pieces AS p USING given WHERE p.run_id = given.run_id
        AND p.seq < given.seq
    ), put AS (
        INSERT INTO upshot.pieces (run_id, seq, part, body) SELECT * FROM given WHERE body <> ''
        ON CONFLICT DO NOTHING
    )
    SELECT set_config('synchronous_commit', 'off', true), pg_notify('upshot', %s)"""


def payload_of(writer: str, topics: Iterable[str]) -> str:
    """Return the payload for a commit; without topics, which means any, if they are too long."""
    payload = msgspec.json.encode([writer, *topics])
    return (payload if len(payload) < _MOST_BYTES else msgspec.json.encode([writer])).decode()


_LOST = "cannot listen to %s: %s; it is polled every %s s while it is watched"


class ServerListener:
    """Listens to a server; implements Listener.

    Args:
        server: The server.
        keep: Receives the pieces of other processes.
        net_s: After so many seconds without a notification, everything may have changed.
    """

    def __init__(self, server: Server, keep: Keep, *, net_s: float = NET_S) -> None:
        self._server = server
        self._keep = keep
        # The place of the last piece of each run that was passed on.
        self._places: dict[str, tuple[int, int]] = {}
        self._net_s = net_s
        self._connection: ServerConnection | None = None
        # Whether notifications do not arrive here, as through a pooler.
        self._is_deaf = False
        # Whether the lost connection was already logged.
        self._is_warned = False
        self._known: set[str] = set()
        self._renew_at = self._look_at = 0.0
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)

    def wait(self, topics: Collection[str]) -> Collection[str] | None:
        """See ``Listener.wait``."""
        try:
            if self._connection is None and topics:
                self._connect()
                # Notifications before now were missed.
                return None
            if new := self._subscribe(topics):
                self._read_pieces(None)
                return new
            received = self._receive(is_watched=bool(topics))
            self._read_pieces(received)
            return received
        except (psycopg.Error, UpshotError) as error:
            if not self._is_warned:
                self._is_warned = True
                logger.warning(_LOST, self._server.name, reason_of(error), POLL_S)
            self._drop()
            self._pause(is_watched=bool(topics))
            return None

    def wake(self) -> None:
        """See ``Listener.wake``."""
        # If the buffer is full, there are enough wake-ups in it.
        with suppress(OSError):
            self._button.send(b"\0")

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        self._bell.close()
        self._button.close()

    def _connect(self) -> None:
        """Listen, and test that notifications arrive here."""
        connection = self._connection = self._server.connect(listen=True)
        self._look_at = time.monotonic() + self._net_s
        try:
            connection.listen()
            was_deaf, self._is_deaf = self._is_deaf, not self._is_delivered(connection)
        except (FeatureNotSupported, ObjectNotInPrerequisiteState, ReadOnlySqlTransaction):
            was_deaf, self._is_deaf = self._is_deaf, True
        self._is_warned = False
        if self._is_deaf and not was_deaf:
            logger.warning(
                "%s does not deliver notifications, as with a pooler or a standby: it is "
                "polled every %s s while it is watched; add ?listen=URL of a direct connection",
                self._server.name,
                POLL_S,
            )

    def _is_delivered(self, connection: ServerConnection) -> bool:
        """Whether a notification from another connection arrives here."""
        proof, deadline = secrets.token_hex(8), time.monotonic() + _PROOF_S
        other = self._server.connect()
        try:
            other.notify(proof)
        finally:
            other.close()
        while (left_s := deadline - time.monotonic()) > 0:
            if proof in connection.wait_for_notice(self._bell, left_s):
                return True
            self._drain()
        return False

    def _subscribe(self, topics: Collection[str]) -> Collection[str]:
        """Subscribe to these topics; returns those that are new."""
        now, wanted = time.monotonic(), set(topics)
        new = wanted - self._known
        self._known = wanted
        is_due = now > self._renew_at
        if is_due:
            self._renew_at = now + _RENEW_S
        shown = filter(None, map(run_of_topic, topics))
        self._places = {run_id: self._places.get(run_id, (0, 0)) for run_id in shown}
        if self._connection is not None:
            for topic in topics if is_due else new:
                if (run_id := run_of_topic(topic)) is not None:
                    self._connection.do(_WANT, [run_id])
                elif self._is_deaf:
                    continue
                elif (run_id := run_of(topic)) is not None:
                    self._connection.do(_WATCH, [run_id])
                elif (id := effect_of(topic)) is not None:
                    self._connection.do(_WATCH_EFFECT, [to_digest(id)])
        return new

    def _read_pieces(self, topics: Collection[str] | None) -> None:
        """Pass on the pieces of the runs in *topics*; None means all that are watched."""
        wanted = self._places if topics is None else [*filter(None, map(run_of_topic, topics))]
        if not wanted or self._connection is None:
            return
        seqs = numbers([self._places[run_id][0] for run_id in wanted])
        parts = numbers([self._places[run_id][1] for run_id in wanted])
        found = self._connection.do(_READ, [[*wanted], seqs, parts])
        rows = [*map(PieceRow._make, found)]
        self._places.update((row.run_id, (row.seq, row.part)) for row in rows)
        self._keep(rows)

    def _receive(self, *, is_watched: bool) -> Collection[str] | None:
        """Return the topics of received notifications; None means any."""
        if self._connection is None or (self._is_deaf and is_watched):
            self._pause(is_watched=is_watched)
            return None
        heard = self._connection.wait_for_notice(self._bell, self._net_s if is_watched else None)
        self._drain()
        topics: set[str] = set()
        for one in heard:
            payload = _parse_payload(one)
            if payload[:1] == [self._server.writer]:
                continue
            if len(payload) < 2:
                return None
            topics.update(payload[1:])
        if time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + self._net_s
            return None
        return topics & self._known

    def _pause(self, *, is_watched: bool) -> None:
        self._bell.settimeout(POLL_S if is_watched else None)
        with suppress(TimeoutError):
            self._bell.recv(4096)
        self._bell.setblocking(False)

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            self._bell.recv(4096)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._known = set()
        if connection is not None:
            connection.close()


class ServerPieces:
    """Keeps pieces in a table; implements PieceStore."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._line = Line(server)
        with suppress(psycopg.Error):
            self._line.try_once(lambda connection: None)

    def put(self, rows: Sequence[PieceRow]) -> None:
        """See ``PieceStore.put``."""
        run_ids, seqs, parts, bodies = map(list, zip(*rows, strict=True))
        payload = payload_of(self._server.writer, map(pieces_of, run_ids))
        values = [run_ids, numbers(seqs), numbers(parts), bodies, payload]
        # Pieces may be lost; the log has everything.
        with suppress(psycopg.Error):
            self._line.try_once(lambda connection: connection.do(_PUT, values))

    def close(self) -> None:
        """Close the connection."""
        self._line.drop()


def _parse_payload(payload: str) -> list[str]:
    """Decode a payload; empty if it is from another program."""
    try:
        return msgspec.json.decode(payload, type=list[str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return []
