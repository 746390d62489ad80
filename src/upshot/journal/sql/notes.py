"""Notes on runs as rows, beside their logs."""

from __future__ import annotations

import msgspec

from upshot.contract.codec import encode
from upshot.contract.protocols import Note
from upshot.journal.event_codec import from_micros, to_micros
from upshot.journal.sql.connection import Connection, WriteConnection

_DROP = "DELETE FROM notes WHERE run_id = ? AND name = ? AND author = ?"
_KEEP = "INSERT INTO notes (run_id, name, author, at, body) VALUES (?, ?, ?, ?, ?)"
_READ = """SELECT CAST(name AS TEXT), CAST(author AS TEXT), at, CAST(body AS TEXT) FROM notes
    WHERE run_id = ? ORDER BY at, name, author"""


def keep_note(connection: WriteConnection, note: Note) -> None:
    """Keep a note in place of that of its name by the same person; see ``SharedJournal.note``."""
    connection.lock_run(note.run_id)
    connection.execute(_DROP, (note.run_id, note.name, note.by))
    if note.value is not None:
        body = encode(note.value).decode()
        connection.execute(_KEEP, (note.run_id, note.name, note.by, to_micros(note.at), body))


def read_notes(connection: Connection, run_id: str) -> list[Note]:
    """The notes on a run, oldest first."""
    return [
        Note(run_id=run_id, name=name, by=by, at=from_micros(at), value=msgspec.json.decode(body))
        for name, by, at, body in connection.execute(_READ, (run_id,)).fetchall()
    ]
