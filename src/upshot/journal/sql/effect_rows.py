"""Rows of effects: claimed and ended with the events of their calls, and read.

A row repeats nothing from the log or the list of runs: it identifies its call by a number and by
the positions of the call's events. Their content is read together with the row. When the run is
removed, that content is stored in the row's ``kept``, and the run's columns are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from upshot.contract.codec import decode, encode
from upshot.contract.effects import EffectEntry, id_without_key, to_digest
from upshot.contract.events import Event, ToolSettled, ToolStarted
from upshot.contract.tool_calls import Settlement
from upshot.errors import JournalError, Misuse
from upshot.journal.effects import (
    APPLIED,
    BEGUN,
    EFFECT_STATES,
    FIRST_CHECK_S,
    NONE,
    UNKNOWN,
    call_number,
    column_text,
    filled,
    keep_us_of,
    state_number,
)
from upshot.journal.event_codec import Entry, checksum, from_micros, read_event, to_micros
from upshot.journal.lease_holder import read_holder
from upshot.journal.sql.connection import (
    HOLDER,
    NEXT_EFFECT,
    NOW_US,
    SEQ_BITS,
    SEQ_MASK,
    WATCHED,
    Connection,
    WriteConnection,
    among,
    in_pages,
)
from upshot.journal.watching import EFFECTS, of_effect

IS_OPEN = f"e.state IN ({BEGUN}, {UNKNOWN})"
"""Whether an effect is begun or unknown; worded like the index on those rows."""
IS_PAST_KEEP = f"e.ended_at + e.keep_us <= {NOW_US}"
"""Whether the key of a used effect has expired."""
_FIRST_CHECK_US = int(FIRST_CHECK_S * 1_000_000)
# A call that is started again, such as an idempotent one, already has its claim.
_CLAIM = f"""INSERT INTO effects AS e (id, name, key, tool, keep_us, run_no, call, started_seq,
        started_at, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, {NOW_US}), {BEGUN})
    ON CONFLICT (id) DO UPDATE SET effect_no = {NEXT_EFFECT}, state = {BEGUN},
        key = excluded.key, tool = excluded.tool, keep_us = excluded.keep_us,
        run_no = excluded.run_no, call = excluded.call,
        started_seq = excluded.started_seq, started_at = excluded.started_at,
        attempts = e.attempts + CASE WHEN e.run_no = excluded.run_no AND e.call = excluded.call
            THEN 0 ELSE 1 END,
        settled_seq = 0, ended_at = NULL, settled = NULL, checks = 0, check_at = NULL,
        run_id = NULL, agent_id = NULL, owner = NULL, tenant = NULL, kept = NULL
    WHERE e.state = {NONE} OR {IS_PAST_KEEP}
        OR e.run_no = excluded.run_no AND e.call = excluded.call AND {IS_OPEN}
    RETURNING 1"""
# If the call itself says that it was made, that overrides an earlier settlement.
_END = f"""UPDATE effects SET state = CASE WHEN settled IS NULL OR ? = {APPLIED} THEN ?
        ELSE state END, settled = CASE WHEN ? = {APPLIED} THEN NULL ELSE settled END,
    settled_seq = ?, ended_at = CASE WHEN keep_us IS NOT NULL OR ? THEN coalesce(?, {NOW_US}) END,
    check_at = CASE WHEN ? = {UNKNOWN} AND settled IS NULL THEN {NOW_US} + {_FIRST_CHECK_US} END
    WHERE id = ? AND run_no = ? AND call = ? RETURNING {WATCHED}"""
_OWN = f"""INSERT INTO effects (id, name, run_no, call, settled_seq, started_at, ended_at, check_at,
        state) VALUES (?, ?, ?, ?, ?, coalesce(?, {NOW_US}), coalesce(?, {NOW_US}),
        {NOW_US} + {_FIRST_CHECK_US}, {UNKNOWN})
    ON CONFLICT (id) DO NOTHING"""
ROWS = f"""SELECT e.effect_no, e.id, e.name, e.key, e.state, e.attempts, e.run_no, e.call,
    e.started_seq, e.settled_seq, e.started_at, e.ended_at, e.settled, e.checks, e.check_at, e.tool,
    e.kept, coalesce(e.run_id, runs.run_id), coalesce(e.agent_id, runs.agent_id),
    coalesce(e.owner, runs.owner), coalesce(e.tenant, runs.tenant), {HOLDER}
    FROM effects AS e LEFT JOIN runs ON runs.run_no = e.run_no"""
"""The rows in the form of ``EffectRow``; conditions may follow."""
_ONE = f"{ROWS} WHERE e.id = ?"
_EVENTS = "SELECT id, CAST(epoch AS BIGINT), kind, time, body, crc FROM events WHERE"

Refusal: TypeAlias = tuple[str, str, EffectEntry]
"""The run and the call of a refused claim, and the entry that blocks it."""


Calls: TypeAlias = dict[int, tuple[ToolStarted | None, ToolSettled | None]]
"""The start and the end of calls, by ``EffectRow.effect_no``."""


class EffectRow(NamedTuple):
    """A row, joined with the columns of its run."""

    effect_no: int
    id: bytes
    name: str
    key: str
    state: int
    attempts: int
    run_no: int | None
    call: int
    started_seq: int
    settled_seq: int
    started_at: int
    ended_at: int | None
    settled: str | None
    checks: int
    check_at: int | None
    tool: str | None
    kept: str | None
    run_id: str | None
    agent_id: str | None
    owner: str | None
    tenant: str | None
    holder: str | None

    @property
    def is_left(self) -> bool:
        """Whether it is begun but no process works on its run."""
        if self.state != BEGUN:
            return False
        holder = read_holder(self.holder)
        return holder is None or not holder.may_work


def note_effects(
    connection: WriteConnection, changed: Iterable[tuple[int, Entry]]
) -> list[Refusal]:
    """Apply new entries, each with the number of its run, to the ledger.

    Returns:
        The claims that were refused.
    """
    refused: list[Refusal] = []
    # Sorted, so that writers cannot deadlock.
    for run_no, entry in sorted(changed, key=_id_of):
        event = entry.effect
        if isinstance(event, ToolSettled):
            _end_claim(connection, run_no, entry, event)
        elif event is not None and event.claim is not None and not claim(connection, run_no, event):
            found = read_entry(connection, event.claim.id)
            if found is not None:
                refused.append((entry.run_id, event.call_id, found))
    return refused


def _id_of(changed: tuple[int, Entry]) -> str:
    event = changed[1].effect
    if isinstance(event, ToolSettled):
        record = event.record
        return record.effect_id or id_without_key(event.run_id, record.call_id)
    return "" if event is None or event.claim is None else event.claim.id


def claim(connection: WriteConnection, run_no: int, started: ToolStarted) -> bool:
    """Claim the effect of a call that starts; returns whether the call now has it."""
    wanted = started.claim
    assert wanted is not None
    name, tool = column_text(wanted.name), column_text(wanted.tool)
    values = (
        to_digest(wanted.id),
        name,
        column_text(wanted.key),
        None if tool in ("", name) else tool,
        keep_us_of(wanted),
        run_no,
        call_number(started.call_id),
        started.seq,
        to_micros(started.time),
    )
    return bool(connection.execute(_CLAIM, values).fetchall())


def _end_claim(connection: WriteConnection, run_no: int, entry: Entry, event: ToolSettled) -> None:
    record, call = event.record, call_number(event.call_id)
    id = record.effect_id or id_without_key(entry.run_id, record.call_id)
    digest = to_digest(id)
    if digest is None:
        return
    state = state_number(record.effect)
    if record.effect_id:
        # In the other cases the event has the time.
        says_end = state == UNKNOWN or entry.time is None
        place = (entry.seq, says_end, entry.time, state, digest, run_no, call)
        found = connection.execute(_END, (state, state, state, *place)).fetchall()
        if found and found[0][0]:
            connection.topics.add(of_effect(id))
    else:
        times = (to_micros(record.started_at), entry.time)
        name = column_text(record.tool_name)
        connection.execute(_OWN, (digest, name, run_no, call, entry.seq, *times))
    if state == UNKNOWN:
        connection.topics.add(EFFECTS)


def read_row(connection: Connection, id: str) -> EffectRow | None:
    """Return the row of an effect, None if there is none."""
    digest = to_digest(id)
    row = None if digest is None else connection.execute(_ONE, (digest,)).fetchone()
    return None if row is None else EffectRow._make(row)


def read_entry(connection: Connection, id: str) -> EffectEntry | None:
    """Return the entry of an effect, None if there is none."""
    row = read_row(connection, id)
    return None if row is None else entry_of(connection, row)


def entry_of(connection: Connection, row: EffectRow, calls: Calls | None = None) -> EffectEntry:
    """Make an entry from a row and the log of its run.

    Args:
        connection: To the database.
        row: The row.
        calls: The events of its call, if they are read already.
    """
    state = UNKNOWN if row.is_left else row.state
    entry = EffectEntry(
        id=row.id.hex(),
        name=row.name,
        key=row.key,
        state=EFFECT_STATES[state],
        attempts=row.attempts,
        run_id=row.run_id or "",
        tool_name=row.tool or row.name,
        agent_id=row.agent_id or "",
        user=row.owner or "",
        tenant=row.tenant or "",
        started_seq=row.started_seq,
        settled_seq=row.settled_seq,
        started_at=from_micros(row.started_at),
        ended_at=from_micros(row.ended_at),
        settled=read_settlement(row.settled),
        checks=row.checks,
        check_at=from_micros(row.check_at),
    )
    if row.kept is not None:
        return _with_kept(entry, row.kept)
    if calls is None:
        calls = read_calls(connection, [row])
    return filled(entry, *calls[row.effect_no])


def _with_kept(entry: EffectEntry, kept: str) -> EffectEntry:
    """Return *entry* with the details that were saved before its log was removed."""
    try:
        known = decode(kept, EffectEntry)
    except Misuse:
        return entry
    more = ("call_id", "scope", "others", "idempotency_key", "approved_by", "output")
    return msgspec.structs.replace(entry, **{name: getattr(known, name) for name in more})


def details_to_keep(entry: EffectEntry) -> str:
    """Return what to keep of *entry* when its log is removed."""
    return encode(entry).decode()


def read_settlement(text: str | None) -> Settlement | None:
    """Decode the settlement in a row; None if there is none or it cannot be read."""
    try:
        return None if text is None else decode(text, Settlement)
    except Misuse:
        return None


def read_calls(connection: Connection, rows: Iterable[EffectRow]) -> Calls:
    """Return the events of the calls of rows; None for an event that is not in the log."""
    named = {row.effect_no: row for row in rows}
    events = _read_events(connection, named.values())
    found: Calls = {}
    for effect_no, row in named.items():
        started, settled = (events.get(key) for key in _keys_of(row))
        # If a damaged log was cut off, their places may have other events.
        if not isinstance(started, ToolStarted) or call_number(started.call_id) != row.call:
            started = None
        if not isinstance(settled, ToolSettled) or call_number(settled.call_id) != row.call:
            settled = None
        found[effect_no] = started, settled
    return found


def _keys_of(row: EffectRow) -> tuple[int, int]:
    """Return the keys of the events of a row's call; no event has the key 0."""
    if row.run_no is None or row.run_id is None:
        return 0, 0
    start, end = row.started_seq, row.settled_seq
    return start and row.run_no << SEQ_BITS | start, end and row.run_no << SEQ_BITS | end


def _read_events(connection: Connection, rows: Iterable[EffectRow]) -> dict[int, Event]:
    """Return the sound events of the calls of rows, by their keys."""
    runs = {key: row.run_id or "" for row in rows for key in _keys_of(row) if key}
    found: dict[int, Event] = {}
    for keys in in_pages(runs):
        for key, *stored in connection.execute(f"{_EVENTS} {among('id', keys)}", keys).fetchall():
            if (event := _sound_event(runs[key], key & SEQ_MASK, stored)) is not None:
                found[key] = event
    return found


def _sound_event(run_id: str, seq: int, stored: Sequence[Any]) -> Event | None:
    epoch, kind, time, body, crc = stored
    entry = Entry(run_id, seq, epoch, kind, time, body)
    try:
        return read_event(entry) if checksum(entry) == crc else None
    except JournalError:
        return None


def event_at(connection: Connection, run_no: int, run_id: str, seq: int) -> Event | None:
    """Return an event of a run, None if it is missing or damaged."""
    key = run_no << SEQ_BITS | seq
    found = connection.execute(f"{_EVENTS} id = ?", (key,)).fetchone()
    return None if not seq or found is None else _sound_event(run_id, seq, found[1:])


def read_rows(
    connection: Connection, conditions: str, values: Sequence[object] = ()
) -> list[EffectRow]:
    """Read the rows that match *conditions*, which start with WHERE."""
    found = connection.execute(f"{ROWS} {conditions}", values).fetchall()
    return [EffectRow._make(row) for row in found]
