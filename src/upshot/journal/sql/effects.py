"""The ledger of effects in an SQL database: listed, claimed again, settled, checked, kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar, Unpack

import msgspec

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.effects import EffectEntry, EffectFilters, to_digest
from upshot.contract.events import REDACTED, ToolStarted
from upshot.contract.tool_calls import Settlement, ToolOutcome
from upshot.errors import JournalError, Misuse
from upshot.journal.audit import AuditRow, row_of_settlement, with_effect
from upshot.journal.effects import (
    BEGUN,
    EFFECT_STATES,
    UNKNOWN,
    EffectQuery,
    check_settlement,
    named_outcome,
    no_such_effect,
    not_unknown,
    outcome_of,
    state_number,
    wait_for_change,
)
from upshot.journal.event_codec import to_micros
from upshot.journal.lease_holder import read_holder
from upshot.journal.sql.audit_rows import add_row
from upshot.journal.sql.connection import NOW_US, Connection, WriteConnection, among, in_pages
from upshot.journal.sql.due import make_due_soon
from upshot.journal.sql.effect_rows import (
    IS_OPEN,
    IS_PAST_KEEP,
    Calls,
    EffectRow,
    claim,
    details_to_keep,
    entry_of,
    event_at,
    read_calls,
    read_entry,
    read_row,
    read_rows,
    read_settlement,
)
from upshot.journal.sql.inbox import remove_settled_questions
from upshot.journal.sql.queries import number_of
from upshot.journal.watching import EFFECTS, of_effect
from upshot.journal.work_listeners import notify_settled
from upshot.state.summary import RUNNING

if TYPE_CHECKING:
    from upshot.journal.sql.writer import Writer
    from upshot.journal.watching import Watch

T = TypeVar("T")
# Writing to a row locks it until the end of the transaction.
_LOCK = "UPDATE effects SET attempts = attempts WHERE id = ?"
_LEAVE = f"""UPDATE effects SET state = {UNKNOWN}, ended_at = coalesce(ended_at, {NOW_US}),
    check_at = {NOW_US} WHERE effect_no = ? AND state = {BEGUN} AND started_at = ?"""
_SETTLE = f"""UPDATE effects SET state = ?, settled = ?, check_at = NULL,
    ended_at = coalesce(ended_at, ?, {NOW_US}) WHERE id = ?"""
_STATUS = "SELECT CAST(status AS TEXT) FROM runs WHERE run_id = ?"
_LEFT = f"WHERE {IS_OPEN} AND e.state = {BEGUN}"
_DUE = f"""WHERE {IS_OPEN} AND e.state = {UNKNOWN} AND e.check_at <= {NOW_US}
    AND coalesce(e.tool, e.name) IN ({{places}}) ORDER BY e.check_at, e.effect_no LIMIT ?"""
_TAKE_CHECK = f"""UPDATE effects SET check_at = {NOW_US} + ?, checks = checks + 1
    WHERE effect_no = ? AND state = {UNKNOWN} AND check_at = ? RETURNING check_at"""
_NOTE_CHECK = f"UPDATE effects SET check_at = ? WHERE id = ? AND state = {UNKNOWN}"
_KEEP = """WITH known (effect_no, run_id, agent_id, owner, tenant, state, ended_at, kept)
    AS (VALUES {rows}) UPDATE effects SET run_no = NULL, run_id = known.run_id,
    agent_id = known.agent_id, owner = known.owner, tenant = known.tenant, state = known.state,
    ended_at = coalesce(CAST(known.ended_at AS BIGINT), effects.ended_at, effects.started_at),
    kept = known.kept FROM known WHERE effects.effect_no = known.effect_no"""
_DROP_PAST = f"DELETE FROM effects AS e WHERE e.run_no IS NULL AND {IS_PAST_KEEP}"
_DROP_ENDED = "DELETE FROM effects WHERE run_no IS NULL AND ended_at < ?"
_REDACT = f"UPDATE effects SET key = '{REDACTED}' WHERE run_no = ? AND key <> ''"
_REDACT_NOTE = "UPDATE effects SET settled = ? WHERE effect_no = ?"


class SqlEffects:
    """The ledger of a journal in an SQL database; implements EffectLedger."""

    _writer: Writer

    if TYPE_CHECKING:

        def watch(self, *topics: str) -> Watch: ...
        async def flush(self) -> None: ...
        async def read(self, work: Callable[[Connection], T]) -> T: ...
        async def write(self, work: Callable[[WriteConnection], T]) -> T: ...

    def refused_claim(self, run_id: str, call_id: str) -> EffectEntry | None:
        """See ``EffectLedger.refused_claim``."""
        return self._writer.refused.pop((run_id, call_id), None)

    async def claim_effect(self, started: ToolStarted) -> EffectEntry | None:
        """See ``EffectLedger.claim_effect``."""
        return await self.write(lambda connection: _claim_again(connection, started))

    async def wait_for_effect(self, entry: EffectEntry, *, timeout_s: float) -> None:
        """See ``EffectLedger.wait_for_effect``."""
        await wait_for_change(self, entry, timeout_s)

    async def effect(self, id: str) -> EffectEntry | None:
        """See ``EffectLedger.effect``."""
        await self.flush()
        return await self.read(lambda connection: read_entry(connection, id))

    async def effects(self, **filters: Unpack[EffectFilters]) -> Sequence[EffectEntry]:
        """See ``EffectLedger.effects``."""
        wanted = EffectQuery(**filters)
        wanted.check()
        await self.flush()
        return await self.read(lambda connection: _read_effects(connection, wanted))

    async def effect_outcome(self, entry: EffectEntry) -> ToolOutcome | None:
        """See ``EffectLedger.effect_outcome``."""
        if entry.output is not None:
            return outcome_of(entry)
        return await self.read(lambda connection: _read_outcome(connection, entry))

    async def settle_effect(self, id: str, settlement: Settlement) -> EffectEntry:
        """See ``EffectLedger.settle_effect``."""
        check_settlement(settlement)
        row = row_of_settlement(settlement)
        settled = await self.write(lambda connection: _settle(connection, id, settlement, row))
        return notify_settled(settled, settlement)

    async def claim_checks(
        self, names: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[EffectEntry]:
        """See ``EffectLedger.claim_checks``."""
        if not names:
            return ()
        # Polled often, and seldom true.
        if not await self.read(lambda connection: _has_checks(connection, names)):
            return ()
        return await self.write(lambda connection: _take_checks(connection, names, limit, for_s))

    async def note_check(self, id: str, at: datetime | None) -> None:
        """See ``EffectLedger.note_check``."""
        digest = to_digest(id)
        if digest is not None:
            values = (to_micros(at), digest)
            await self.write(lambda connection: connection.execute(_NOTE_CHECK, values))


def _claim_again(connection: WriteConnection, started: ToolStarted) -> EffectEntry | None:
    wanted = started.claim
    if wanted is None:
        raise Misuse(f"call {started.call_id} claims no effect")
    run_no = number_of(connection, started.run_id)
    if run_no is None:
        raise JournalError(f"the journal has no run {started.run_id}", run_id=started.run_id)
    connection.execute(_LOCK, (to_digest(wanted.id),))
    row = read_row(connection, wanted.id)
    if row is not None and row.is_left:
        _mark_unknown(connection, row)
    if claim(connection, run_no, started):
        return None
    return read_entry(connection, wanted.id)


def _mark_unknown(connection: WriteConnection, row: EffectRow) -> None:
    """Record an abandoned effect as unknown."""
    connection.execute(_LEAVE, (row.effect_no, row.started_at))
    connection.topics |= {of_effect(row.id.hex()), EFFECTS}


def _settle(
    connection: WriteConnection, id: str, settlement: Settlement, act: AuditRow
) -> EffectEntry:
    row = read_row(connection, id)
    if row is None:
        raise no_such_effect(id)
    if row.run_id is not None and row.run_no is not None:
        # Locked before the row, in the order in which the writer of the run locks them.
        connection.lock_run(row.run_id)
    connection.execute(_LOCK, (row.id,))
    row = read_row(connection, id)
    if row is None:
        raise no_such_effect(id)
    entry = entry_of(connection, row)
    if row.settled is not None:
        return entry
    if entry.state != "unknown":
        raise not_unknown(entry)
    at = to_micros(settlement.at)
    values = (state_number(settlement.effect), encode(settlement).decode(), at, row.id)
    connection.execute(_SETTLE, values)
    connection.topics |= {of_effect(id), EFFECTS}
    waiting = {*remove_settled_questions(connection, id)}
    if row.run_id is not None and _may_wait(connection, row):
        waiting.add(row.run_id)
    for run_id in sorted(waiting):
        make_due_soon(connection, run_id, "settled")
    found = read_entry(connection, id)
    assert found is not None
    add_row(connection, with_effect(act, found))
    return found


def _may_wait(connection: Connection, row: EffectRow) -> bool:
    """Whether the run of a row waits for it, or may be just about to."""
    found = connection.execute(_STATUS, (row.run_id,)).fetchone()
    status = "" if found is None else found[0]
    if status == RUNNING:
        # A run whose process died is claimed elsewhere.
        holder = read_holder(row.holder)
        return holder is not None and holder.may_work
    return status == Status.INPUT_REQUIRED


# -- reads


def _read_effects(connection: Connection, wanted: EffectQuery) -> list[EffectEntry]:
    left = [str(row.effect_no) for row in read_rows(connection, _LEFT) if row.is_left]
    among = f"e.effect_no IN ({', '.join(left) or 'NULL'})"
    unknown = f"({IS_OPEN} AND (e.state = {UNKNOWN} OR {among}))"
    known = f"(e.state NOT IN ({BEGUN}, {UNKNOWN}) OR e.state = {BEGUN} AND NOT {among})"
    if not left:
        unknown = f"({IS_OPEN} AND e.state = {UNKNOWN})"
        known = f"e.state <> {UNKNOWN}"
    groups = {None: (unknown, known), "unknown": (unknown,)}
    state = -1 if wanted.state is None else EFFECT_STATES.index(wanted.state)
    after = _place_of(connection, wanted.after) if wanted.after else None
    conditions = [*_conditions(connection, wanted)]
    found: list[EffectRow] = []
    for group in groups.get(wanted.state, (f"({known} AND e.state = {state})",)):
        more = [(group,), *conditions]
        if after is not None:
            is_known = wanted.state is None and group == known
            if is_known and after[0]:
                # The previous page ended among the unknown ones, which come first.
                pass
            elif wanted.state is None and group == unknown and not after[0]:
                continue
            else:
                more.append(("e.effect_no < ?", after[1]))
        where = f"WHERE {' AND '.join(condition for condition, *_ in more)}"
        where += " ORDER BY e.effect_no DESC"
        values = [value for _, *given in more for value in given]
        if wanted.limit is not None:
            where += " LIMIT ?"
            values.append(wanted.limit - len(found))
        found += read_rows(connection, where, values)
        if wanted.limit is not None and len(found) >= wanted.limit:
            break
    calls = read_calls(connection, found)
    return [entry_of(connection, row, calls) for row in found]


def _place_of(connection: Connection, id: str) -> tuple[bool, int]:
    """Return whether an effect is unknown, and its position among effects of that kind."""
    row = read_row(connection, id)
    if row is None:
        raise no_such_effect(id)
    return row.is_left or row.state == UNKNOWN, row.effect_no


def _conditions(
    connection: Connection, wanted: EffectQuery
) -> Iterator[tuple[str, *tuple[object, ...]]]:
    """Return the conditions for the wanted effects, each with its values."""
    if wanted.tool:
        yield "(e.name = ? OR e.tool = ?)", wanted.tool, wanted.tool
    if wanted.key:
        end = "substr(e.key, instr(e.key, '\":') + 2)"
        yield f"(e.key IN (?, ?) OR {end} IN (?, ?))", *wanted.keys, *wanted.ends
    if wanted.run_id:
        run_no = number_of(connection, wanted.run_id)
        if run_no is not None:
            yield "e.run_no = ?", run_no
        else:
            yield "e.run_no IS NULL AND e.run_id = ?", wanted.run_id
    if wanted.user:
        # User and tenant together identify a user; without a tenant, the user belongs to none.
        yield "coalesce(e.owner, runs.owner) = ?", wanted.user
    if wanted.user or wanted.tenant:
        yield "coalesce(e.tenant, runs.tenant) = ?", wanted.tenant
    if wanted.since is not None:
        yield "e.started_at >= ?", _micros_of(wanted.since)
    if wanted.until is not None:
        yield "e.started_at < ?", _micros_of(wanted.until)


def _micros_of(moment: datetime) -> int | None:
    return to_micros(moment.astimezone(UTC))


def _read_outcome(connection: Connection, entry: EffectEntry) -> ToolOutcome | None:
    run_no = number_of(connection, entry.run_id)
    if run_no is None:
        # The run has been removed.
        now = read_entry(connection, entry.id)
        is_it = now is not None and now.ref == entry.ref
        return outcome_of(now) if now is not None and is_it else None
    settled = event_at(connection, run_no, entry.run_id, entry.settled_seq)
    return named_outcome(entry, settled)


# -- checks


def _has_checks(connection: Connection, names: Collection[str]) -> bool:
    return any(row.is_left for row in read_rows(connection, _LEFT)) or bool(
        _due_rows(connection, names, 1)
    )


def _due_rows(connection: Connection, names: Collection[str], limit: int) -> list[EffectRow]:
    conditions = _DUE.format(places=", ".join("?" * len(names)))
    return read_rows(connection, conditions, (*names, limit))


def _take_checks(
    connection: WriteConnection, names: Collection[str], limit: int, for_s: float
) -> list[EffectEntry]:
    for row in read_rows(connection, _LEFT):
        if row.is_left:
            _mark_unknown(connection, row)
    taken: list[EffectEntry] = []
    for row in _due_rows(connection, names, limit):
        # Another process may have been faster.
        given = (int(for_s * 1_000_000), row.effect_no, row.check_at)
        found = connection.execute(_TAKE_CHECK, given).fetchall()
        if found:
            now = row._replace(checks=row.checks + 1, check_at=found[0][0])
            taken.append(entry_of(connection, now))
    return taken


# -- when runs are removed


def keep_effects(connection: WriteConnection, run_nos: Sequence[int], *, effects: bool) -> None:
    """Keep the effects of runs that are about to be removed, with their outcomes.

    Args:
        connection: The connection to write with.
        run_nos: The numbers of the runs, at most a page of them.
        effects: Whether to remove the effects as well.
    """
    if effects:
        connection.execute(f"DELETE FROM effects WHERE {among('run_no', run_nos)}", run_nos)
        return
    rows = read_rows(connection, f"WHERE {among('e.run_no', run_nos)}", run_nos)
    calls = read_calls(connection, rows)
    for page in in_pages(rows):
        values: list[object] = []
        for row in page:
            values += _values_to_keep(entry_of(connection, row, calls), row, calls)
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(page))
        connection.execute(_KEEP.format(rows=places), values)


def _values_to_keep(entry: EffectEntry, row: EffectRow, calls: Calls) -> tuple[object, ...]:
    """Return the values of ``_KEEP`` for an effect."""
    if (outcome := named_outcome(entry, calls[row.effect_no][1])) is not None:
        output: JsonObject = msgspec.json.decode(encode(outcome))
        entry = msgspec.structs.replace(entry, output=output)
    owner = (row.run_id, row.agent_id, row.owner, row.tenant)
    state = UNKNOWN if row.state == BEGUN else row.state
    return row.effect_no, *owner, state, to_micros(entry.ended_at), details_to_keep(entry)


def drop_effects(
    connection: WriteConnection, ended_before: datetime | None, *, effects: bool
) -> None:
    """Remove effects of removed runs: expired ones; with *effects* all before *ended_before*."""
    connection.execute(_DROP_PAST)
    if effects and ended_before is not None:
        connection.execute(_DROP_ENDED, (_micros_of(ended_before),))


def redact_effects(connection: WriteConnection, run_no: int) -> None:
    """Remove the content from a run's effects; their digests stay."""
    connection.execute(_REDACT, (run_no,))
    for row in read_rows(connection, "WHERE e.run_no = ?", (run_no,)):
        settled = read_settlement(row.settled)
        if settled is not None and settled.note:
            bare = msgspec.structs.replace(settled, note=REDACTED)
            connection.execute(_REDACT_NOTE, (encode(bare).decode(), row.effect_no))
