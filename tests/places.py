"""Places for the journals that several processes may open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.postgres import PostgresServer
from upshot.journal import PostgresJournal, SqliteJournal

__all__ = ["Place"]


class Place:
    """A place without a journal.

    Attributes:
        where: Its name for ``open_journal``.
    """

    def __init__(self, where: str, server: PostgresServer | None = None) -> None:
        self.where = where
        self._server = server

    @classmethod
    def file(cls, folder: Path) -> Place:
        """A file in *folder*."""
        return cls(str(folder / "runs.db"))

    @classmethod
    def database(cls, server: PostgresServer, name: str) -> Place:
        """An empty database."""
        return cls(server.url(name), server)

    async def open(self) -> SqliteJournal | PostgresJournal:
        """Open the journal separately from all others."""
        if self._server is not None:
            return await PostgresJournal.open(self.where)
        return await SqliteJournal.open(self.where)

    def do(self, statement: str) -> list[Any]:
        """Execute a statement behind the journal's back; returns its rows."""
        if self._server is not None:
            database = self.where.rpartition("/")[2]
            return self._server.do(statement, database)
        with closing(sqlite3.connect(self.where)) as connection, connection:
            return connection.execute(statement).fetchall()
