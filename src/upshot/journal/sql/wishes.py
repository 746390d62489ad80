"""Wishes as rows: the first one for each question of a run."""

from __future__ import annotations

from collections.abc import Sequence

from upshot.contract.codec import decode, encode
from upshot.journal.lease_holder import read_holder
from upshot.journal.shared import Stop, Wish
from upshot.journal.sql.connection import HOLDER, Connection, WriteConnection
from upshot.journal.sql.due import make_due_soon
from upshot.journal.sql.inbox import drop_item
from upshot.journal.sql.queries import last_seq
from upshot.journal.watching import wishes_of

# No question is named by one word.
_STOPS = "item IN ('cancel', 'interrupt')"
_READ = f"SELECT CAST(body AS TEXT) FROM wishes WHERE run_id = ? AND NOT {_STOPS}"
_READ_STOPS = f"SELECT CAST(body AS TEXT) FROM wishes WHERE {_STOPS} AND run_id IN "
_STOP = "INSERT INTO wishes (run_id, item, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_DROP = f"DELETE FROM wishes WHERE run_id = ? AND {_STOPS}"
# So many places a statement may have.
_CHUNK = 500
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
    drop_item(connection, wish.run_id, wish.item)
    connection.told.add(wishes_of(wish.run_id))
    if seq:
        make_due_soon(connection, wish.run_id, "answered")
    return wish


def read_wishes(connection: Connection, run_id: str) -> list[Wish]:
    """All wishes of a run."""
    return [decode(body, Wish) for (body,) in connection.execute(_READ, (run_id,))]


def place_stop(connection: WriteConnection, stop: Stop) -> None:
    """Keep a wish to stop within a transaction; see ``SharedJournal.place_stop``."""
    connection.lock_run(stop.run_id)
    connection.execute(_STOP, (stop.run_id, stop.kind, encode(stop).decode()))
    connection.told.add(wishes_of(stop.run_id))
    # Also of a run that is worked on: if it parks before it has heard, it is taken up again.
    make_due_soon(connection, stop.run_id, stop.kind)


def read_stops(connection: Connection, run_ids: Sequence[str]) -> list[Stop]:
    """The wishes that any of some runs stop."""
    found: list[Stop] = []
    for start in range(0, len(run_ids), _CHUNK):
        some = run_ids[start : start + _CHUNK]
        rows = connection.execute(f"{_READ_STOPS} ({', '.join('?' * len(some))})", some)
        found += [decode(body, Stop) for (body,) in rows]
    return found


def drop_stops(connection: WriteConnection, run_id: str) -> None:
    """Forget the wishes that a run stop."""
    connection.execute(_DROP, (run_id,))


def _is_held(connection: Connection, run_id: str) -> bool:
    row = connection.execute(_HELD, (run_id,)).fetchone()
    holder = read_holder(row[0]) if row else None
    return holder is not None and holder.may_work
