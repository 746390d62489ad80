"""Wishes as rows: the first one for each question of a run."""

from __future__ import annotations

from upshot.contract.codec import decode, encode
from upshot.journal.lease_holder import read_holder
from upshot.journal.shared import Wish
from upshot.journal.sql.connection import HOLDER, Connection, WriteConnection
from upshot.journal.sql.due import make_due_soon
from upshot.journal.sql.queries import last_seq
from upshot.journal.watching import wishes_of

_READ = "SELECT CAST(body AS TEXT) FROM wishes WHERE run_id = ?"
_ADD = "INSERT INTO wishes (run_id, item, body) VALUES (?, ?, ?)"
_HELD = f"SELECT {HOLDER} FROM runs WHERE run_id = ?"


def place_wish(connection: WriteConnection, wish: Wish, seq: int) -> Wish | None:
    """Keep a wish within a transaction; see ``SharedJournal.place_wish``."""
    connection.lock_run(wish.run_id)
    for one in read_wishes(connection, wish.run_id):
        if one.item == wish.item:
            return one
    if seq and (_is_held(connection, wish.run_id) or last_seq(connection, wish.run_id) != seq):
        return None
    connection.execute(_ADD, (wish.run_id, wish.item, encode(wish).decode()))
    connection.told.add(wishes_of(wish.run_id))
    if seq:
        make_due_soon(connection, wish.run_id, "answered")
    return wish


def read_wishes(connection: Connection, run_id: str) -> list[Wish]:
    """All wishes of a run."""
    return [decode(body, Wish) for (body,) in connection.execute(_READ, (run_id,))]


def _is_held(connection: Connection, run_id: str) -> bool:
    row = connection.execute(_HELD, (run_id,)).fetchone()
    holder = read_holder(row[0]) if row else None
    return holder is not None and holder.may_work
