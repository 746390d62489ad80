"""Hears of what other processes commit to a journal's file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection
from contextlib import suppress

from upshot.errors import UpshotError
from upshot.journal.sql.connection import SEQ_BITS, SEQ_MASK
from upshot.journal.sqlite.tables import FILE_ERRORS
from upshot.journal.watching import run_of

# How often the file is looked at while anybody waits.
_TICK_S = 0.025
_LAST = f"""SELECT max(id) FROM events WHERE id BETWEEN
    (SELECT run_no << {SEQ_BITS} FROM runs WHERE run_id = ?1)
    AND (SELECT (run_no << {SEQ_BITS}) | {SEQ_MASK} FROM runs WHERE run_id = ?1)"""


class FileListener:
    """Looks at a file; plays the role Listener.

    Args:
        path: The file.
        connect: Opens it for reading.
    """

    def __init__(self, path: str, connect: Callable[[str], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._bell = threading.Event()
        # A number that SQLite changes with every commit of another connection.
        self._version = 0
        # The key of the last event of each run that is watched, as it was seen last.
        self._ends: dict[str, int | None] = {}

    def wait(self, topics: Collection[str]) -> Collection[str] | None:
        """See ``Listener.wait``."""
        self._bell.wait(_TICK_S if topics else None)
        self._bell.clear()
        try:
            return self._look(topics)
        except (*FILE_ERRORS, UpshotError):
            # Whoever looks for himself is told what is wrong.
            self._drop()
            return None

    def wake(self) -> None:
        """See ``Listener.wake``."""
        self._bell.set()

    def close(self) -> None:
        """Close the file."""
        self._drop()

    def _look(self, topics: Collection[str]) -> Collection[str]:
        """Which topics may have changed since the last look."""
        if self._connection is None:
            self._connection = self._connect(self._path)
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version == self._version and self._ends.keys() == set(topics):
            return ()
        # A commit of another run wakes nobody; of what is no log, any commit may be a change.
        is_new = version != self._version
        self._version, before = version, self._ends
        self._ends = {topic: self._end_of(topic) for topic in topics}
        return [
            topic
            for topic, end in self._ends.items()
            if topic not in before or (is_new and (end is None or end != before[topic]))
        ]

    def _end_of(self, topic: str) -> int | None:
        run_id = run_of(topic)
        if run_id is None or self._connection is None:
            return None
        return self._connection.execute(_LAST, (run_id,)).fetchone()[0]

    def _drop(self) -> None:
        connection, self._connection, self._ends = self._connection, None, {}
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
