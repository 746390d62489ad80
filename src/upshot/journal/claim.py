"""Taking a run: a new epoch, and a log without damage."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import msgspec

from ..contract import RunSettled
from .damage import Damage, damage_error, logger
from .entry import RUNNING, decode_event
from .stored import scan_run

__all__ = ["Claim", "claim_run"]

_EPOCH = "SELECT CAST(epoch AS INTEGER) FROM runs WHERE run_id = ?"
_TAKE = """INSERT INTO runs (run_id, epoch, last_seq) VALUES (?1, ?2, ?3)
    ON CONFLICT (run_id) DO UPDATE SET epoch = ?2, last_seq = ?3"""
_TURN = """SELECT body FROM events
    WHERE run_id = ? AND kind IN ('run_started', 'run_resumed', 'run_settled')
    ORDER BY seq DESC LIMIT 1"""


class Claim(NamedTuple):
    """A run that was taken.

    Attributes:
        epoch: What appends must carry from now on.
        last_seq: Seq of its last event, 0 if it has none.
        damage: What was cut off, None if nothing.
    """

    epoch: int
    last_seq: int
    damage: Damage | None


def claim_run(connection: sqlite3.Connection, run_id: str, *, cut: bool) -> Claim:
    """Take a run within a transaction.

    Args:
        connection: Within a transaction that may write.
        run_id: The run; it need not have any event.
        cut: Whether to drop also sound events that stand after a damaged one.

    Raises:
        JournalError: Sound events stand after a damaged one, and *cut* is false.
    """
    scan = scan_run(connection, run_id)
    damage = scan.damage
    if damage is not None:
        if not damage.tail and not cut:
            raise damage_error(damage)
        damage = msgspec.structs.replace(damage, cut=True)
        _cut(connection, run_id, scan.last_seq)
        logger.warning("%s", damage)
    row = connection.execute(_EPOCH, (run_id,)).fetchone()
    # The epochs of the events are under their checksums, that of the run is not.
    epoch = max(scan.epoch, row[0] or 0 if row else 0) + 1
    connection.execute(_TAKE, (run_id, epoch, scan.last_seq))
    return Claim(epoch, scan.last_seq, damage)


def _cut(connection: sqlite3.Connection, run_id: str, last_seq: int) -> None:
    connection.execute("DELETE FROM events WHERE run_id = ? AND seq > ?", (run_id, last_seq))
    row = connection.execute(_TURN, (run_id,)).fetchone()
    event = decode_event(row[0]) if row else None
    status = event.result.status.value if isinstance(event, RunSettled) else RUNNING
    connection.execute("UPDATE runs SET status = ? WHERE run_id = ?", (status, run_id))
