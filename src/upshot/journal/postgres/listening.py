"""Hears of what other processes commit to a database, by LISTEN and NOTIFY.

A run's row says until when anybody watches it, so that nobody tells of runs that nobody watches.
What others want of a run, and that runs are due, is always told.
"""

from __future__ import annotations

import logging
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

import msgspec
import psycopg
from psycopg.errors import (
    FeatureNotSupported,
    ObjectNotInPrerequisiteState,
    ReadOnlySqlTransaction,
)

from upshot.errors import UpshotError
from upshot.journal.pieces import Keep, PieceRow, pieces_of, shown_run
from upshot.journal.postgres.server import Line, Server, ServerConnection, numbers, reason_of
from upshot.journal.watching import POLL_S, run_of

logger: logging.Logger = logging.getLogger("upshot.journal")

# PostgreSQL takes fewer than 8,000 bytes.
_MOST_BYTES = 7_900
# So long a row says that its run is watched, and so often that is said again.
_WATCHED_S = 15
_RENEW_S = 5.0
# A commit whose word was lost, with the process or the connection that had it, is found so late.
NET_S = 2.0
_PROOF_S = 2.0
_UNTIL = f"""UPDATE upshot.runs SET %s = clock_timestamp() + interval '{_WATCHED_S} s'
    FROM set_config('synchronous_commit', 'off', true) WHERE run_id = %%s AND
    (%s > clock_timestamp() + interval '{_WATCHED_S / 2} s') IS NOT TRUE"""
_WATCH = _UNTIL % (2 * ("watched_until",))
_WANT = _UNTIL % (2 * ("shown_until",))
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
    """What is told of a commit; without topics where they are too long, which is any."""
    payload = msgspec.json.encode([writer, *topics])
    return (payload if len(payload) < _MOST_BYTES else msgspec.json.encode([writer])).decode()


_LOST = "%s cannot be listened to: %s; it is looked into every %s s while anybody waits"


class ServerListener:
    """Listens to a server; plays the role Listener.

    Args:
        server: Where.
        keep: Takes the pieces that other processes show.
        net_s: After so many seconds everything may have changed, although nothing was told.
    """

    def __init__(self, server: Server, keep: Keep, *, net_s: float = NET_S) -> None:
        self._server = server
        self._keep = keep
        # The place of the last piece of each run that was handed on.
        self._places: dict[str, tuple[int, int]] = {}
        self._net_s = net_s
        self._connection: ServerConnection | None = None
        # Whether what others tell does not come here, as through a pooler.
        self._is_deaf = False
        # Whether it was said that there is no connection, since there was one.
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
                # Whatever was told until now was not heard.
                return None
            if new := self._subscribe(topics):
                self._read_pieces(None)
                return new
            told = self._hear(is_watched=bool(topics))
            self._read_pieces(told)
            return told
        except (psycopg.Error, UpshotError) as error:
            if not self._is_warned:
                self._is_warned = True
                logger.warning(_LOST, self._server.name, reason_of(error), POLL_S)
            self._drop()
            self._pause(is_watched=bool(topics))
            return None

    def wake(self) -> None:
        """See ``Listener.wake``."""
        # It has been rung often enough if nothing goes in any more.
        with suppress(OSError):
            self._button.send(b"\0")

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        self._bell.close()
        self._button.close()

    def _connect(self) -> None:
        """Listen, and prove that what is told comes here."""
        connection = self._connection = self._server.connect(listen=True)
        self._look_at = time.monotonic() + self._net_s
        try:
            connection.listen()
            was_deaf, self._is_deaf = self._is_deaf, not self._is_heard(connection)
        except (FeatureNotSupported, ObjectNotInPrerequisiteState, ReadOnlySqlTransaction):
            was_deaf, self._is_deaf = self._is_deaf, True
        self._is_warned = False
        if self._is_deaf and not was_deaf:
            logger.warning(
                "%s does not pass on what NOTIFY tells, as a pooler or a standby: it is "
                "looked into every %s s while anybody waits; ?listen=URL names a direct way",
                self._server.name,
                POLL_S,
            )

    def _is_heard(self, connection: ServerConnection) -> bool:
        """Whether what is told over another connection comes to this one."""
        proof, deadline = secrets.token_hex(8), time.monotonic() + _PROOF_S
        other = self._server.connect()
        try:
            other.notify(proof)
        finally:
            other.close()
        while (left_s := deadline - time.monotonic()) > 0:
            if proof in connection.hear(self._bell, left_s):
                return True
            self._drain()
        return False

    def _subscribe(self, topics: Collection[str]) -> Collection[str]:
        """Have others tell of these topics; returns those of which they were not told before."""
        now, wanted = time.monotonic(), set(topics)
        new = wanted - self._known
        self._known = wanted
        is_due = now > self._renew_at
        if is_due:
            self._renew_at = now + _RENEW_S
        shown = filter(None, map(shown_run, topics))
        self._places = {run_id: self._places.get(run_id, (0, 0)) for run_id in shown}
        if self._connection is not None:
            for topic in topics if is_due else new:
                if (run_id := shown_run(topic)) is not None:
                    self._connection.do(_WANT, [run_id])
                elif (run_id := run_of(topic)) is not None and not self._is_deaf:
                    self._connection.do(_WATCH, [run_id])
        return new

    def _read_pieces(self, told: Collection[str] | None) -> None:
        """Hand on the pieces of the runs of which that was told; None is all that are watched."""
        wanted = self._places if told is None else [*filter(None, map(shown_run, told))]
        if not wanted or self._connection is None:
            return
        seqs = numbers([self._places[run_id][0] for run_id in wanted])
        parts = numbers([self._places[run_id][1] for run_id in wanted])
        found = self._connection.do(_READ, [[*wanted], seqs, parts])
        rows = [*map(PieceRow._make, found)]
        self._places.update((row.run_id, (row.seq, row.part)) for row in rows)
        self._keep(rows)

    def _hear(self, *, is_watched: bool) -> Collection[str] | None:
        """What others told; None is anything."""
        if self._connection is None or (self._is_deaf and is_watched):
            self._pause(is_watched=is_watched)
            return None
        heard = self._connection.hear(self._bell, self._net_s if is_watched else None)
        self._drain()
        told: set[str] = set()
        for one in heard:
            payload = _parsed(one)
            if payload[:1] == [self._server.writer]:
                continue
            if len(payload) < 2:
                return None
            told.update(payload[1:])
        if time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + self._net_s
            return None
        return told & self._known

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
    """Keeps pieces in a table; plays the role PieceStore."""

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
        # What was shown may be missed; the log says it all.
        with suppress(psycopg.Error):
            self._line.try_once(lambda connection: connection.do(_PUT, values))

    def close(self) -> None:
        """Close the connection."""
        self._line.drop()


def _parsed(payload: str) -> list[str]:
    """What stands in a payload; nothing in one of another program."""
    try:
        return msgspec.json.decode(payload, type=list[str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return []
