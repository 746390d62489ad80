"""Claims a run: a new epoch on a log without damage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from upshot.contract.base.enums import Status
from upshot.errors import JournalError
from upshot.journal.event_codec import Damage, Entry, damage_error, epoch_error, logger, read_event
from upshot.journal.lease_holder import NOBODY, LeaseHolder, read_holder
from upshot.journal.run_list import TurnClaim, TurnInTheWay
from upshot.journal.shared import QUEUED
from upshot.journal.sql.connection import HOLDER, NOW_US, Connection, WriteConnection, keys_of
from upshot.journal.sql.count_rows import note_status
from upshot.journal.sql.due import IS_OPEN
from upshot.journal.sql.inbox import keep_asks
from upshot.journal.sql.own_lease import OwnLease, this_holder
from upshot.journal.sql.queries import number_of, read_entries, scan_run
from upshot.journal.watching import DUE
from upshot.state.summary import NO_ASKS, RUNNING, SUMMARY_KINDS, asks_after, summary_change

# How long to wait for a process that may be just ending, and how often to check it.
_ENDING_S = 0.2
_LOOK_S = 0.01
_HOLDER = f"SELECT CAST(epoch AS BIGINT), {HOLDER} FROM runs WHERE run_id = ?"
_HOLDERS = f"SELECT CAST(run_id AS TEXT), {HOLDER} FROM runs WHERE holder IS NOT NULL"
_TAKE = """INSERT INTO runs (run_id, epoch, last_seq, holder) VALUES (?, ?, ?, ?)
    ON CONFLICT (run_id) DO UPDATE SET epoch = excluded.epoch, last_seq = excluded.last_seq,
    holder = excluded.holder, due_at = NULL"""
_CUT = f"""UPDATE runs SET status = ?, revision = CASE WHEN ? = '{RUNNING}' THEN 0 ELSE revision END
    WHERE run_no = ?"""
_TAKE_TURN = "UPDATE runs SET context_id = ?, turn = ? WHERE run_id = ?"
_OPEN_TURNS = f"""SELECT CAST(run_id AS TEXT), CAST(status AS TEXT), last_seq, is_chained,
    {HOLDER} FROM runs WHERE context_id <> '' AND context_id = ? AND turn NOT IN ('', ?)
    AND run_id <> ? AND status IN ('{QUEUED}', '{RUNNING}', '{Status.INPUT_REQUIRED}')
    ORDER BY run_no"""
# A root run that has started or was submitted becomes due when it is released.
_RELEASE = f"""UPDATE runs SET holder = '{NOBODY}',
    due_at = coalesce(due_at, CASE WHEN {IS_OPEN} THEN {NOW_US} END),
    due_reason = CASE WHEN due_at IS NULL THEN 'released' ELSE due_reason END
    WHERE run_id = ? AND epoch = ?"""
_HOLD = "UPDATE runs SET holder = ? WHERE run_id = ? AND epoch = ?"


class Lease(NamedTuple):
    """A run that was claimed."""

    epoch: int
    last_seq: int
    damage: Damage | None


def claim_run(
    connection: WriteConnection,
    run_id: str,
    own: OwnLease,
    *,
    cut: bool,
    take_over: bool,
    turn: TurnClaim | None = None,
) -> Lease | LeaseHolder | TurnInTheWay:
    """Claim a run and its turn within a transaction, for this process."""
    connection.lock_run(run_id)
    if turn is not None:
        connection.lock_turns(turn.conversation)
    holder = None if take_over else _other_holder(connection, run_id)
    if holder is not None:
        return holder
    if turn is not None and (blocking := turn_in_the_way(connection, run_id, turn)) is not None:
        return blocking
    # The whole run is read before it is claimed: a session must not build on a damaged log.
    scan = scan_run(connection, run_id)
    damage = scan.damage
    if damage is not None:
        if not damage.tail and not cut:
            raise damage_error(damage)
        damage = msgspec.structs.replace(damage, cut=True)
        cut_run(connection, run_id, scan.last_seq)
        logger.warning("%s", damage)
    row = connection.execute(_HOLDER, (run_id,)).fetchone()
    # Checksums cover the epochs of the events, but not that of the run.
    epoch = max(scan.epoch, row[0] or 0 if row else 0) + 1
    own.keep(connection)
    connection.execute(_TAKE, (run_id, epoch, scan.last_seq, this_holder()))
    if turn is not None:
        connection.execute(_TAKE_TURN, (turn.conversation, turn.head, run_id))
    return Lease(epoch, scan.last_seq, damage)


def turn_in_the_way(connection: Connection, run_id: str, turn: TurnClaim) -> TurnInTheWay | None:
    """Return the first other turn that blocks this one, None if there is none."""
    others = connection.execute(_OPEN_TURNS, (turn.conversation, turn.head, run_id))
    for other_id, status, last_seq, is_chained, text in others.fetchall():
        if status != Status.INPUT_REQUIRED:
            holder = read_holder(text)
            is_held = holder is not None and holder.may_work
            # A run that takes over a request by handoff continues the turn.
            if not (is_held or last_seq or is_chained):
                # It was claimed, but had not started when its process ended.
                continue
            status = RUNNING if is_held else "died"  # noqa: PLW2901
        if turn.is_blocked_by(status):
            return TurnInTheWay(other_id, status)
    return None


def hold_run(connection: WriteConnection, run_id: str, epoch: int) -> None:
    """Record again that this process works on the run, unless another has claimed it since."""
    connection.execute(_HOLD, (this_holder(), run_id, epoch))


def release_runs(connection: WriteConnection, claims: Iterable[tuple[str, int]]) -> None:
    """Record that this process has stopped working on runs that did not settle."""
    connection.executemany(_RELEASE, claims)
    connection.topics.add(DUE)


def read_holders(connection: Connection) -> dict[str, LeaseHolder]:
    """Return the holders of the runs that were claimed and have not settled since, by run."""
    read = ((run_id, read_holder(text)) for run_id, text in connection.execute(_HOLDERS))
    return {run_id: holder for run_id, holder in read if holder is not None}


async def wait_for_end(holder: LeaseHolder) -> None:
    """Wait a moment for a process that may be just ending."""
    for _ in range(round(_ENDING_S / _LOOK_S)):
        if holder.state != "lives":
            return
        await asyncio.sleep(_LOOK_S)


def _other_holder(connection: Connection, run_id: str) -> LeaseHolder | None:
    """Return the other process that works on the run, None if none is known to."""
    row = connection.execute(_HOLDER, (run_id,)).fetchone()
    holder = read_holder(row[1]) if row else None
    if holder is None or holder.is_this_process or holder.state != "lives":
        return None
    return holder


def cut_run(connection: WriteConnection, run_id: str, last: int) -> None:
    """Remove the events after *last*, and fix the run's status."""
    run_no = number_of(connection, run_id)
    if run_no is None:
        return
    start, end = keys_of(run_no)
    connection.execute("DELETE FROM events WHERE id > ? AND id <= ?", (start | last, end))
    # The status may have come from an event that is cut off now, so it is derived again.
    status, asks = RUNNING, NO_ASKS
    for entry in read_entries(connection, run_id):
        if entry.kind in SUMMARY_KINDS:
            event = read_event(entry)
            asks, change = asks_after(asks, event), summary_change(event)
            status = status if change is None else change.status
    note_status(connection, run_no, status)
    connection.execute(_CUT, (status, status, run_no))
    keep_asks(connection, run_no, asks)


@dataclass(slots=True, eq=False)
class Taking:
    """A claim whose outcome is not known yet; it belongs to the event loop.

    What is appended until then is kept here. Behind the claim in the queue it would have an old
    epoch and be refused, although ``append`` accepted it, and it cannot be moved ahead of the
    claim.
    """

    kept: list[Entry] = field(default_factory=list[Entry])
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _refusal: JournalError | None = None

    def hand_over(self, claim: Lease) -> list[Entry]:
        """Return the kept entries with the new epoch; none if the claim refuses them.

        ``durable`` does not know which holder waits. So everything appended before the claim
        succeeded goes into the log, unless another holder had the run in between.
        """
        if not self.kept:
            return []
        first = self.kept[0]
        if (claim.epoch, claim.last_seq) != (first.epoch + 1, first.seq - 1):
            self._refusal = epoch_error(first.run_id, first.epoch, claim.epoch, claim.last_seq)
            return []
        return [entry._replace(epoch=claim.epoch) for entry in self.kept]

    async def wait(self) -> None:
        """Wait for the outcome."""
        await self.ended.wait()
        refusal = self._refusal
        if refusal is not None:
            raise JournalError(
                str(refusal),
                run_id=refusal.run_id,
                seq=refusal.seq,
                taken_over=refusal.taken_over,
            )


@dataclass(slots=True, eq=False)
class Hold:
    """What is known about a run that this journal appends to."""

    epoch: int
    last_seq: int
    settled: bool = False
    # Whether it was claimed here, and not only appended to.
    taken: bool = False
    # The last events of earlier holders in this process, by epoch, as long as no other process
    # had the run in between.
    ends: dict[int, int] = field(default_factory=dict[int, int])

    def has(self, seq: int, epoch: int) -> bool:
        """Whether the holder of *epoch* may have appended *seq*."""
        return epoch == self.epoch or seq <= self.ends.get(epoch, 0)
