"""Small values that several processes change, each within one transaction."""

from __future__ import annotations

from upshot.journal.sql.connection import Connection, WriteConnection
from upshot.journal.sql.due import NOW_US

# The row stays locked until the end, also one that was not there.
_READ = """INSERT INTO shared_values (name, body) VALUES (?, '')
    ON CONFLICT (name) DO UPDATE SET body = shared_values.body RETURNING CAST(body AS TEXT)"""
_LOOK = "SELECT CAST(body AS TEXT) FROM shared_values WHERE name = ?"
_WRITE = "UPDATE shared_values SET body = ? WHERE name = ?"
_FORGET = "DELETE FROM shared_values WHERE name >= ? AND name < ?"


def read_value(connection: Connection, name: str) -> str:
    """The value as it was last committed, "" where there is none."""
    row = connection.execute(_LOOK, (name,)).fetchone()
    return "" if row is None else row[0]


class StoredValues:
    """The values within a transaction; plays the role SharedValues.

    Args:
        connection: Writes.
    """

    def __init__(self, connection: WriteConnection) -> None:
        self._connection = connection
        self.now_us: int = connection.execute(f"SELECT {NOW_US}").fetchone()[0]

    def read(self, name: str) -> str:
        """See ``SharedValues.read``."""
        (body,) = self._connection.execute(_READ, (name,)).fetchall()[0]
        return body

    def write(self, name: str, body: str) -> None:
        """See ``SharedValues.write``."""
        self._connection.execute(_WRITE, (body, name))

    def forget(self, first: str, end: str) -> None:
        """See ``SharedValues.forget``."""
        self._connection.execute(_FORGET, (first, end))
