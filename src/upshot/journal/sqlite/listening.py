"""Hears of what other processes commit to a journal's file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from upshot.errors import UpshotError
from upshot.journal.pieces import Keep, shown_run
from upshot.journal.sql.connection import SEQ_BITS, SEQ_MASK
from upshot.journal.sqlite.live_file import WANTED_S, LiveFile
from upshot.journal.sqlite.tables import FILE_ERRORS
from upshot.journal.watching import run_of

# How often the file is looked at while anybody waits.
_TICK_S = 0.025
_LAST = f"""SELECT max(id) FROM events WHERE id BETWEEN
    (SELECT run_no << {SEQ_BITS} FROM runs WHERE run_id = ?)
    AND (SELECT (run_no << {SEQ_BITS}) | {SEQ_MASK} FROM runs WHERE run_id = ?)"""


class FileListener:
    """Looks at a file; plays the role Listener.

    Args:
        path: The file.
        connect: Opens it for reading.
        keep: Takes the pieces that other processes show.
    """

    def __init__(self, path: str, connect: Callable[[str], sqlite3.Connection], keep: Keep) -> None:
        self._path = path
        self._keep = keep
        self._live = LiveFile(path)
        # The place of the last piece of each run that was handed on, and when to say again that
        # they are wanted.
        self._places: dict[str, tuple[int, int]] = {}
        self._renew_at = 0.0
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
        # A folder that cannot be written has no pieces.
        with suppress(sqlite3.Error, OSError):
            self._read_pieces({run for one in topics if (run := shown_run(one)) is not None})
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
        self._live.close()
        self._drop()

    def _look(self, topics: Collection[str]) -> Collection[str]:
        """Which topics may have changed since the last look."""
        if self._connection is None:
            self._connection = self._connect(self._path)
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        logs = {topic for topic in topics if shown_run(topic) is None}
        if version == self._version and self._ends.keys() == logs:
            return ()
        # A commit of another run wakes nobody; of wishes and due runs any commit may be a change.
        is_new = version != self._version
        self._version, before = version, self._ends
        self._ends = {topic: self._end_of(topic) for topic in logs}
        return [
            topic
            for topic, end in self._ends.items()
            if topic not in before or (is_new and (end is None or end != before[topic]))
        ]

    def _read_pieces(self, run_ids: set[str]) -> None:
        """Hand on the pieces of these runs."""
        if not run_ids:
            self._places = {}
            return
        now, new = time.monotonic(), run_ids - self._places.keys()
        if new or now > self._renew_at:
            self._live.want(run_ids)
            self._renew_at = now + WANTED_S / 3
            self._places = {run_id: self._places.get(run_id, (0, 0)) for run_id in run_ids}
        if self._live.has_changed() or new:
            rows = self._live.read(self._places)
            self._places.update((row.run_id, (row.seq, row.part)) for row in rows)
            self._keep(rows)

    def _end_of(self, topic: str) -> int | None:
        run_id = run_of(topic)
        if run_id is None or self._connection is None:
            return None
        return self._connection.execute(_LAST, (run_id, run_id)).fetchone()[0]

    def _drop(self) -> None:
        connection, self._connection, self._ends = self._connection, None, {}
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
