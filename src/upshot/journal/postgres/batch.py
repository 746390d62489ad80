"""Writes what has gathered to a PostgreSQL server, in one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import ClassVar, NamedTuple

from upshot.errors import JournalError
from upshot.journal.event_codec import Entry, checksum, gap_error
from upshot.journal.postgres.listening import payload_of
from upshot.journal.postgres.rows import COLUMN_OIDS, NUMBERS_OID, ROWS, columns_of, numbers
from upshot.journal.postgres.server import (
    DRIVER_ERRORS,
    PASSING,
    Line,
    ServerConnection,
)
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
from upshot.journal.watching import of_run

# The runs are locked in the order of their numbers, so that no two groups wait for each other. A
# run is written to if its epoch is that of the writer, and its log ends with the event that the
# writer knows. What stands in no transaction is one. It gives the runs that were written to, with
# the lowest bit set for those that anybody watches, and the next one
# where he wants pieces: the row is read again once it is locked, so
# that a watcher who has written his word there before he looks misses no commit.
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
# The lock waits for an earlier try that the server may still be at.
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
    """Where the log of a run ends.

    Attributes:
        run_no: The run's number in the database, 0 for none.
        epoch: That of the last claim, 0 for none.
        last_seq: Seq of the last event, 0 for none.
        crc: The checksum of that event.
    """

    run_no: int
    epoch: int
    last_seq: int
    crc: int


_NOWHERE = RunEnd(0, 0, 0, 0)


class ServerCommitter:
    """Writes to a server; plays the role Committer."""

    def __init__(self, line: Line, lease: OwnLease, tell: TellHeld) -> None:
        self._line = line
        self._lease = lease
        self._tell = tell
        # Where the logs end that were written to, as it was acknowledged.
        self._ends: dict[str, RunEnd] = {}
        self._count = 0

    @property
    def rest_s(self) -> float | None:
        """While a run may be held, the lease has to be renewed."""
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
                # The last try that got so far was committed; its answer was lost.
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
        topics = {*committed.told, *map(of_run, committed.watched)}
        if topics:
            # Who does not hear of it looks again after a while.
            with suppress(*DRIVER_ERRORS):
                payload = payload_of(self._line.server.writer, topics)
                self._line.try_once(lambda connection: connection.notify(payload))

    def rest(self) -> None:
        """Renew the lease, while any run is held."""
        self._lease.begin_renewal()
        # A server that cannot be reached is no harm yet: the next commit waits for it.
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
    """Whether it is an event that changes nothing in the list of runs."""
    return isinstance(item, Entry) and item.change is None and item.seq > 1


class ServerBatch(Batch):
    """What is written in one transaction.

    Args:
        connection: Within a transaction, unless all that is written is plain events.
        known: Where the logs end that were written to before.
        is_again: Whether an earlier try may have been committed.

    Attributes:
        ends: Where logs end now.
        over: The runs of which nothing has to be known any more.
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
            self._pass_written(left)
        fitting = self._choose(left)
        if fitting:
            written = self._insert(fitting)
            for run_id, (end, entries) in fitting.items():
                if end.run_no in written:
                    del left[run_id]
                    self._take(run_id, end, entries, is_watched=written[end.run_no])
        if left and self._is_again:
            # An earlier try may have come to its end between the look and the write.
            self._pass_written(left)
        if left:
            found = self._read_ends(left)
            for run_id, entries in left.items():
                self.note(run_id, entries, self._refusal(entries, found.get(run_id, _NOWHERE)))

    def _choose(self, left: dict[str, list[Entry]]) -> dict[str, tuple[RunEnd, list[Entry]]]:
        """Those that go on where their logs end, as far as that is known here."""
        ends = {run_id: self._end_of(run_id, entries[0]) for run_id, entries in left.items()}
        if unknown := [run_id for run_id, end in ends.items() if end is None]:
            # A run that is not claimed begins with its first event.
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
        # Another claim, of a run that was removed in between perhaps, makes it void.
        return None if end is None or misfit(first, end.epoch, end.last_seq) else end

    def _insert(self, fitting: dict[str, tuple[RunEnd, list[Entry]]]) -> dict[int, int]:
        """Write the entries of each run that nobody else wrote to or took.

        Of each run all is written or nothing.

        Returns:
            Those runs by number, with 1 where anybody watches, 3 where he wants pieces too.
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

    def _take(self, run_id: str, end: RunEnd, entries: list[Entry], *, is_watched: int) -> None:
        """Note what was written."""
        if is_watched:
            self.committed.watched.add(run_id)
        if is_watched > 1:
            self.committed.shown |= {run_id}
        last = entries[-1]
        if not all(map(_is_plain, entries)):
            note_entries(self._connection, end.run_no, entries)
        self._go_on(run_id, end.run_no, last)
        self.note(run_id, entries, None)

    def _go_on(self, run_id: str, run_no: int, last: Entry) -> None:
        """Note where the log ends now."""
        # Several journals may append to a run that is not claimed.
        if last.epoch and not (last.change is not None and last.change.is_end):
            self.ends[run_id] = RunEnd(run_no, last.epoch, last.seq, checksum(last))
            self.over.discard(run_id)
        else:
            self.ends.pop(run_id, None)
            self.over.add(run_id)

    def _pass_written(self, left: dict[str, list[Entry]]) -> None:
        """Take out of *left* what an earlier try wrote: the last event of a run is its key."""
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
            self._go_on(run_id, run_no, entries[-1])
            self.note(run_id, entries, None)

    def _read_ends(self, run_ids: Iterable[str]) -> dict[str, RunEnd]:
        rows = self._connection.do(_ENDS, [[*run_ids]])
        return {run_id: RunEnd._make(end) for run_id, *end in rows}

    def _refusal(self, entries: list[Entry], found: RunEnd) -> JournalError:
        """Why entries do not continue the log that ends at *found*."""
        first = entries[0]
        run_id = first.run_id
        known = self.ends.get(run_id) or self._known.get(run_id)
        self.over.add(run_id)
        if known is not None and known.epoch == first.epoch and found.epoch <= known.epoch:
            return JournalError(
                f"the log of run {run_id} ends with event {found.last_seq}, and does not hold "
                f"event {known.last_seq} as it was acknowledged: the database has lost it, as "
                "after a change to a standby that was behind; nothing more is written",
                run_id=run_id,
                seq=min(found.last_seq, known.last_seq - 1),
            )
        error = misfit(first, found.epoch, found.last_seq)
        return error or gap_error(run_id, first.seq, found.last_seq)
