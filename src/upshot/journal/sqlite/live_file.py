"""The file beside a journal for what is shown of replies under way; it may be lost at any time.

It is made by the first process that watches a run of another one. Nothing waits for the disk.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from upshot.journal.pieces import PieceRow

WANTED_S = 15.0
"""So long a row says that anybody wants the pieces of a run."""

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

    def wanted(self) -> frozenset[str]:
        """The runs whose pieces anybody wants; none where there is no file."""
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
        """Whether another connection has written since this was asked last."""
        (version,) = self._open().execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, version
        return version != before

    def want(self, run_ids: Collection[str]) -> None:
        """Note that the pieces of these runs are wanted for a while."""
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
            # What was shown may be missed; the log says it all.
            self.close()

    def read(self, places: Mapping[str, tuple[int, int]]) -> list[PieceRow]:
        """What stands after these places, by run."""
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
                # Torn by a loss of power, which nothing waited for.
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
