"""PostgresJournal: a log in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from upshot.contract.events import Event, RunStarted
from upshot.contract.message import Unknown
from upshot.errors import JournalError
from upshot.journal.event_codec import stamp_of
from upshot.journal.postgres.batch import ServerCommitter
from upshot.journal.postgres.listening import ServerListener, ServerPieces
from upshot.journal.postgres.server import DRIVER_ERRORS, Line, Server, ServerConnection, nul_error
from upshot.journal.postgres.tables import is_read_only, prepare, too_new
from upshot.journal.shared import JournalAway
from upshot.journal.sql.connection import Connection
from upshot.journal.sql.queries import Reader
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.sql.writer import Worker, Writer
from upshot.state.child_runs import origins_of

T = TypeVar("T")
_CONTENT = "runs events artifacts snapshots wishes inbox notes submissions pieces"
_VACUUM = f"VACUUM {', '.join(f'upshot.{table}' for table in _CONTENT.split(' '))}"


class PostgresJournal(SqlJournal):
    """A log in a PostgreSQL database, which many machines may have open; plays the role Journal.

    ``open`` makes one; it belongs to the event loop it was opened in. Appends are queued and
    written by a thread of their own, all that is queued in one commit; what no caller waits for is
    written a moment later. A lost connection is made again, for up to a minute, and nothing is
    written twice or lost by that.

    Attributes:
        path: The URL without the password.
        artifacts: The store of large outputs, in the same database.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = DRIVER_ERRORS
    _facts: ClassVar[str] = """SELECT version, CASE
        WHEN current_setting('synchronous_standby_names') = '' THEN 'none' ELSE 'synchronous' END
        FROM journal"""
    _touch: ClassVar[str] = "UPDATE journal SET version = version"
    _server: Server

    @classmethod
    async def open(cls, url: str, *, create: bool = True, upgrade: bool = False) -> PostgresJournal:
        """Open the journal at *url*.

        Args:
            url: ``postgresql://user:password@host:port/database``; parts that are missing come
                from libpq's environment variables. Where it leads to a pooler, ``?listen=URL``
                names a direct way to the same database, percent-encoded.
            create: Whether a database without a journal gets its tables, in the schema ``upshot``;
                if not, that is misuse.
            upgrade: Whether tables of an older version are brought to this one.

        Returns:
            The journal. A server that takes nothing, as a standby, is opened for reading.

        Raises:
            Misuse: *url* is no such URL, or leads to no journal.
            JournalError: The server cannot be reached, or the tables are of another version.
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
            lambda: ServerCommitter(Line(server, connection), writer.lease, writer.tell_held)
        )
        return opened

    @property
    def trouble(self) -> JournalError | None:
        """Why a worker may not go on with it: it was away for too long, or its tables are newer.

        The tables are looked at whenever the lease on runs is renewed.
        """
        broken, told = self._writer.broken, too_new(self.path, self.lease.tables)
        if isinstance(broken, JournalAway):
            return broken
        return JournalError(told) if told else None

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """See ``SqlJournal.append``; a NUL in an id is misuse."""
        if isinstance(event, Unknown):
            self.check_text(event.kind, stamp_of(event)[0])
        elif event.run_id not in self._holds:
            self.check_text(event.run_id)
        if isinstance(event, RunStarted):
            names = (event.agent.id, event.parent_run_id, event.request.context_id)
            self.check_text(*names, *origins_of(event.options))
        super().append(event, epoch=epoch)

    def check_text(self, *texts: str) -> None:
        """Refuse texts with a NUL."""
        for text in texts:
            if "\0" in text:
                raise nul_error(text)

    def clear_room(self, run_ids: Sequence[str]) -> None:
        """See ``SqlJournal.clear_room``."""
        try:
            connection = self._server.connect()
            try:
                connection.do("DELETE FROM upshot.pieces WHERE run_id = ANY(%s)", [[*run_ids]])
                connection.do(_VACUUM)
            finally:
                connection.close()
        except DRIVER_ERRORS as error:
            raise JournalError(
                f"what was redacted is gone from {self.path}, but its dead rows are not: {error}"
            ) from error


class ServerSource:
    """Reads a server; plays the role Source."""

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
    """A connection to a database with tables; None where they can only be read."""
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
            # What it says may hold the password, and so may its cause.
            raise server.opening_error(error) from None
        raise
    connection.close()
    return None
