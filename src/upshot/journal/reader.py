"""Reader: a thread with a connection that reads while the writer writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from ..errors import JournalError
from .schema import FILE_ERRORS
from .worker import Worker

__all__ = ["Reader"]

T = TypeVar("T")
_BUSY_S = 30.0


class Reader:
    """Reads a journal's file, one thing after the other.

    Args:
        path: A journal that a writer has opened already.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._worker = Worker("upshot-journal-reader")
        self._connection: sqlite3.Connection | None = None
        self._used = False

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do *work* in the thread; it sees what was committed when it began.

        Raises:
            JournalError: The file is damaged.
            Exception: What *work* raised.
        """
        self._used = True
        return await self._worker.call(lambda: self._read(work))

    async def aclose(self) -> None:
        """Close the connection after what is being read."""
        if self._used:
            await self._worker.call(self._close)
        self._worker.stop()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _connect(self._path)
            self._connection.execute("BEGIN")
            try:
                return work(self._connection)
            finally:
                self._connection.execute("ROLLBACK")
        except FILE_ERRORS as error:
            raise JournalError(f"the journal {self._path} cannot be read: {error}") from error

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    return connection
