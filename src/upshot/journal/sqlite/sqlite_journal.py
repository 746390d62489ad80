"""SqliteJournal: a log in a file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import ClassVar, TypeVar

from upshot.errors import JournalError
from upshot.journal.event_codec import FORMAT
from upshot.journal.sql.connection import Connection
from upshot.journal.sql.queries import Reader
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.sql.writer import Writer
from upshot.journal.sqlite.batch import FileCommitter
from upshot.journal.sqlite.listening import FileListener
from upshot.journal.sqlite.live_file import LiveFile
from upshot.journal.sqlite.tables import (
    BUSY_S,
    FILE_ERRORS,
    add_clock,
    clear_room,
    is_read_only,
    open_database,
    open_to_read,
)

T = TypeVar("T")


class SqliteJournal(SqlJournal):
    """A log in an SQLite file, in WAL mode; plays the role Journal.

    ``open`` makes one; it belongs to the event loop it was opened in. Appends are
    queued and written by a thread of their own, all that is queued in one commit that waits
    for the disk; what no caller waits for is written a moment later. Other processes may have
    the same file open.

    Attributes:
        path: The file.
        artifacts: The store of large outputs, in the same file.
    """

    _errors: ClassVar[tuple[type[Exception], ...]] = FILE_ERRORS
    _facts: ClassVar[str] = "SELECT user_version, '' FROM pragma_user_version"
    _touch: ClassVar[str] = f"PRAGMA user_version = {FORMAT}"

    @classmethod
    async def open(
        cls, path: str | PathLike[str], *, create: bool = True, read_only: bool = False
    ) -> SqliteJournal:
        """Open the journal at *path*.

        Args:
            path: A file; one that is not there yet becomes a journal, with mode 0600.
            create: Whether it may be made; if not, a missing file is misuse.
            read_only: Whether to take nothing. A file that may not be written, as on a read-only
                file system, is opened so anyway.

        Raises:
            Misuse: *path* cannot hold a journal, or holds something else.
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
                open_database(name, create=create), writer.lease, writer.tell_held
            )
        )
        return cls(name, writer, Reader(FileSource(name, _connect)))

    def clear_room(self, run_ids: Sequence[str]) -> None:
        """See ``SqlJournal.clear_room``."""
        clear_room(self.path, ())
        if os.path.exists(live := f"{self.path}-live"):
            clear_room(live, run_ids)


class FileSource:
    """Reads a journal's file; plays the role Source."""

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
