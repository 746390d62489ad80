"""Runs out of a journal's file and into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from ..errors import JournalError
from .artifacts import StoredArtifact
from .batch import insert_entries
from .damage import damage_error
from .entry import Entry
from .lines import Exported, read_lines, write_lines
from .stored import read_bodies, scan_run

__all__ = ["export_run", "import_run", "insert_artifact"]

_INSERT = """INSERT INTO artifacts
    (id, run_id, call_id, media_type, size_bytes, sha256, lines, data, summary, stored_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_SELECT = """SELECT id, run_id, call_id, media_type, sha256, lines, summary, data,
    stored_at FROM artifacts WHERE run_id = ? ORDER BY rowid"""
_CHUNK = 200


def export_run(connection: sqlite3.Connection, run_id: str, path: str) -> int:
    """Write a run as JSON lines; returns how many events.

    Raises:
        Misuse: There is no such run, or *path* cannot be written.
        JournalError: The run is damaged.
    """
    scan = scan_run(connection, run_id)
    if scan.damage is not None:
        raise damage_error(scan.damage)
    count = "SELECT count(*) FROM artifacts WHERE run_id = ?"
    (artifacts,) = connection.execute(count, (run_id,)).fetchone()
    bodies = read_bodies(connection, run_id)
    run = Exported(run_id, scan.last_seq, bodies, artifacts, _read_artifacts(connection, run_id))
    return write_lines(path, run)


def import_run(connection: sqlite3.Connection, path: str) -> str:
    """Read a run from JSON lines within a transaction; returns its id.

    Raises:
        Misuse: *path* cannot be read.
        JournalError: A line is damaged, or the run is there already.
    """
    run_id, epoch, last = "", 0, 0
    entries: list[Entry] = []
    for line in read_lines(path):
        if isinstance(line, StoredArtifact):
            insert_artifact(connection, line)
            continue
        if not run_id:
            run_id = line.run_id
            epoch = _make_room(connection, run_id)
        last = line.seq
        entries.append(line._replace(epoch=epoch))
        if len(entries) == _CHUNK:
            insert_entries(connection, entries)
            entries = []
    insert_entries(connection, entries)
    end = """UPDATE runs SET last_seq = ?1,
        updated_at = (SELECT max(time) FROM events WHERE run_id = ?2) WHERE run_id = ?2"""
    connection.execute(end, (last, run_id))
    return run_id


def insert_artifact(connection: sqlite3.Connection, artifact: StoredArtifact) -> None:
    """Store *artifact*, whose id must be new."""
    file = artifact.file
    connection.execute(
        _INSERT,
        (
            artifact.id,
            artifact.run_id,
            artifact.call_id,
            file.media_type,
            file.size_bytes,
            file.sha256,
            file.lines,
            artifact.data,
            file.summary,
            artifact.stored_at,
        ),
    )


def _make_room(connection: sqlite3.Connection, run_id: str) -> int:
    """Make the run's line in the list of runs; returns the epoch of its events."""
    known = connection.execute("SELECT epoch FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    events = connection.execute("SELECT 1 FROM events WHERE run_id = ? LIMIT 1", (run_id,))
    if events.fetchone() is not None:
        raise JournalError(f"run {run_id} is in the journal already", run_id=run_id)
    if known is not None:
        return int(known[0])
    connection.execute("INSERT INTO runs (run_id) VALUES (?)", (run_id,))
    return 0


def _read_artifacts(connection: sqlite3.Connection, run_id: str) -> Iterator[StoredArtifact]:
    for row in connection.execute(_SELECT, (run_id,)):
        yield msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), StoredArtifact)


_COLUMNS = (
    "id",
    "run_id",
    "call_id",
    "media_type",
    "sha256",
    "lines",
    "summary",
    "data",
    "stored_at",
)
