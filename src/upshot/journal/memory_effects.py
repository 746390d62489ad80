"""The ledger of effects of a MemoryJournal."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Unpack, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.effects import EffectEntry, EffectFilters, id_without_key
from upshot.contract.events import REDACTED, Event, ToolSettled, ToolStarted
from upshot.contract.tool_calls import Settlement, ToolOutcome
from upshot.errors import JournalError, Misuse
from upshot.journal.audit import row_of_settlement, with_effect
from upshot.journal.effects import (
    EFFECT_STATES,
    FIRST_CHECK_S,
    EffectQuery,
    check_settlement,
    effect_event,
    filled,
    keep_us_of,
    named_outcome,
    no_such_effect,
    not_unknown,
    outcome_of,
    state_number,
    wait_for_change,
)
from upshot.journal.watching import EFFECTS, of_effect
from upshot.journal.work_listeners import notify_settled
from upshot.state.summary import RUNNING, summary_change

if TYPE_CHECKING:
    from upshot.journal.audit import AuditRow
    from upshot.journal.memory_log import MemoryLog
    from upshot.journal.watching import Changes, Watch


class _Kept(NamedTuple):
    """One effect.

    Attributes:
        entry: What is known about it. It names the run's owner only after the run was removed.
        number: Increases with each claim.
        keep_us: How many microseconds the key is kept, None for unlimited.
        loop: The event loop that its call was started in, None if there was none.
    """

    entry: EffectEntry
    number: int
    keep_us: int | None = None
    loop: asyncio.AbstractEventLoop | None = None


class MemoryEffects:
    """The ledger of a journal in memory; implements EffectLedger."""

    def __init__(self) -> None:
        self._effects: dict[str, _Kept] = {}
        self._count = 0
        self._refused: dict[tuple[str, str], EffectEntry] = {}
        # Runs that were released before they settled, and not claimed since.
        self._abandoned: set[str] = set()

    if TYPE_CHECKING:
        _logs: dict[str, MemoryLog]
        _changes: Changes

        def watch(self, *topics: str) -> Watch: ...
        def _open(self) -> dict[str, MemoryLog]: ...
        def _make_due(self, run_id: str, reason: str, delay_s: float = 0) -> None: ...
        def _root_of(self, run_id: str) -> str: ...
        def _pop_questions(self, effect_id: str) -> set[str]: ...
        def _add_row(self, row: AuditRow) -> None: ...

    def refused_claim(self, run_id: str, call_id: str) -> EffectEntry | None:
        """See ``EffectLedger.refused_claim``."""
        return self._refused.pop((run_id, call_id), None)

    async def claim_effect(self, started: ToolStarted) -> EffectEntry | None:
        """See ``EffectLedger.claim_effect``."""
        logs = self._open()
        if started.claim is None:
            raise Misuse(f"call {started.call_id} claims no effect")
        if started.run_id not in logs:
            raise JournalError(f"the journal has no run {started.run_id}", run_id=started.run_id)
        id = started.claim.id
        kept = self._effects.get(id)
        if kept is not None and self._is_abandoned(kept):
            self._mark_unknown(kept)
        return None if self._claim(started) else self._to_entry(self._effects[id])

    async def wait_for_effect(self, entry: EffectEntry, *, timeout_s: float) -> None:
        """See ``EffectLedger.wait_for_effect``."""
        await wait_for_change(self, entry, timeout_s)

    async def effect(self, id: str) -> EffectEntry | None:
        """See ``EffectLedger.effect``."""
        self._open()
        kept = self._effects.get(id)
        return None if kept is None else self._to_entry(kept)

    async def effects(self, **filters: Unpack[EffectFilters]) -> Sequence[EffectEntry]:
        """See ``EffectLedger.effects``."""
        self._open()
        wanted = EffectQuery(**filters)
        wanted.check()
        newest_first = sorted(self._effects.values(), key=lambda kept: -kept.number)
        listed = [self._to_entry(kept) for kept in newest_first]
        listed.sort(key=lambda entry: entry.state != "unknown")
        if wanted.after:
            ids = [entry.id for entry in listed]
            if wanted.after not in ids:
                raise no_such_effect(wanted.after)
            listed = listed[ids.index(wanted.after) + 1 :]
        return [entry for entry in listed if wanted.holds(entry)][: wanted.limit]

    async def effect_outcome(self, entry: EffectEntry) -> ToolOutcome | None:
        """See ``EffectLedger.effect_outcome``."""
        log = self._open().get(entry.run_id)
        if entry.output is not None:
            return outcome_of(entry)
        if log is None:
            # The run has been removed.
            kept = self._effects.get(entry.id)
            is_it = kept is not None and kept.entry.ref == entry.ref
            return outcome_of(kept.entry) if kept is not None and is_it else None
        return _outcome_in(log, entry)

    async def settle_effect(self, id: str, settlement: Settlement) -> EffectEntry:
        """See ``EffectLedger.settle_effect``."""
        self._open()
        check_settlement(settlement)
        kept = self._effects.get(id)
        if kept is None:
            raise no_such_effect(id)
        entry, was_left = self._to_entry(kept), self._is_abandoned(kept)
        if entry.settled is not None:
            return entry
        if entry.state != "unknown":
            raise not_unknown(entry)
        state = EFFECT_STATES[state_number(settlement.effect)]
        ended_at = kept.entry.ended_at or settlement.at or datetime.now(UTC)
        self._change(kept, state=state, settled=settlement, ended_at=ended_at, check_at=None)
        self._changes.notify([of_effect(id), EFFECTS])
        self._add_row(with_effect(row_of_settlement(settlement), entry))
        log = self._logs.get(entry.run_id)
        status = "" if log is None else log.summary(entry.run_id).status
        # A running session may be just about to wait.
        waiting = self._pop_questions(id)
        if status == Status.INPUT_REQUIRED or (status == RUNNING and not was_left):
            waiting.add(entry.run_id)
        for run_id in sorted(waiting):
            self._make_due(self._root_of(run_id), "settled")
        return notify_settled(self._to_entry(self._effects[id]), settlement)

    async def claim_checks(
        self, names: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[EffectEntry]:
        """See ``EffectLedger.claim_checks``."""
        self._open()
        now = datetime.now(UTC)
        for kept in [one for one in self._effects.values() if self._is_abandoned(one)]:
            self._mark_unknown(kept)
        due = [
            (entry.check_at, kept)
            for kept in self._effects.values()
            if (entry := kept.entry).state == "unknown" and entry.tool_name in names
            if entry.check_at is not None and entry.check_at <= now
        ]
        due.sort(key=lambda one: one[0])
        taken: list[EffectEntry] = []
        for _, kept in due[:limit]:
            again = now + timedelta(seconds=for_s)
            self._change(kept, checks=kept.entry.checks + 1, check_at=again)
            taken.append(self._to_entry(self._effects[kept.entry.id]))
        return taken

    async def note_check(self, id: str, at: datetime | None) -> None:
        """See ``EffectLedger.note_check``."""
        self._open()
        kept = self._effects.get(id)
        if kept is not None and kept.entry.state == "unknown":
            self._change(kept, check_at=at)

    # -- for the journal

    def _note_call(self, event: Event) -> None:
        """Apply the start or the end of a call to the ledger."""
        call = effect_event(event)
        if isinstance(call, ToolSettled):
            self._end_claim(call)
        elif call is not None and call.claim is not None and not self._claim(call):
            entry = self._to_entry(self._effects[call.claim.id])
            self._refused[call.run_id, call.call_id] = entry

    def _keep_effects(self, run_ids: Iterable[str], *, effects: bool) -> None:
        """Keep the effects of runs that are about to be removed, or remove them as well."""
        gone = {*run_ids}
        for id, kept in [*self._effects.items()]:
            is_going = kept.entry.run_id in gone
            is_past = is_going or kept.entry.run_id not in self._logs
            if (is_going and effects) or (is_past and self._is_past_keep(kept)):
                del self._effects[id]
            elif is_going:
                self._keep_outcome(kept)

    def _drop_effects(self, ended_before: datetime) -> None:
        """Remove the effects of removed runs that ended before *ended_before*."""
        for id, kept in [*self._effects.items()]:
            ended_at = kept.entry.ended_at
            is_past = ended_at is not None and ended_at < ended_before
            if kept.entry.run_id not in self._logs and is_past:
                del self._effects[id]

    def _redact_effects(self, run_id: str) -> None:
        """Remove the content from a run's effects; their digests stay."""
        for kept in [*self._effects.values()]:
            entry = kept.entry
            if entry.run_id == run_id:
                settled = entry.settled
                if settled is not None and settled.note:
                    settled = replace(settled, note=REDACTED)
                key, others = entry.key and REDACTED, entry.others and REDACTED
                self._change(kept, key=key, others=others, settled=settled)

    # -- inside

    def _claim(self, started: ToolStarted) -> bool:
        """Claim an effect for a call; returns whether the call now has it."""
        claim = started.claim
        assert claim is not None
        kept, attempts = self._effects.get(claim.id), 1
        if kept is not None:
            entry = kept.entry
            is_same = (entry.run_id, entry.call_id) == (started.run_id, started.call_id)
            # A call that is started again, such as an idempotent one, already has its claim.
            is_own = is_same and entry.state in ("begun", "unknown")
            if not (entry.state == "none" or is_own or self._is_past_keep(kept)):
                return False
            attempts = entry.attempts + (0 if is_same else 1)
        new = EffectEntry(
            id=claim.id,
            name=claim.name,
            key=claim.key,
            tool_name=claim.tool or claim.name,
            attempts=attempts,
            run_id=started.run_id,
            started_seq=started.seq,
            started_at=started.time or datetime.now(UTC),
        )
        self._count += 1
        entry = filled(new, started, None)
        self._effects[claim.id] = _Kept(entry, self._count, keep_us_of(claim), _running_loop())
        return True

    def _end_claim(self, event: ToolSettled) -> None:
        record, at = event.record, event.time or datetime.now(UTC)
        state = EFFECT_STATES[state_number(record.effect)]
        check_at = at + timedelta(seconds=FIRST_CHECK_S) if state == "unknown" else None
        if not record.effect_id:
            self._add_own(event, at, check_at)
        elif (kept := self._effects.get(record.effect_id)) is not None:
            entry = kept.entry
            if (entry.run_id, entry.call_id) != (event.run_id, event.call_id):
                return
            entry = filled(entry, None, event)
            # If the call itself says that it was made, that overrides an earlier settlement.
            if entry.settled is None or state == "applied":
                entry = replace(entry, state=state, settled=None, check_at=check_at)
            entry = replace(entry, settled_seq=event.seq, ended_at=at)
            self._effects[entry.id] = kept._replace(entry=entry)
            self._changes.notify([of_effect(entry.id)])
        if state == "unknown":
            self._changes.notify([EFFECTS])

    def _add_own(self, event: ToolSettled, at: datetime, check_at: datetime | None) -> None:
        """Add a row for a call without an identity."""
        record = event.record
        entry = EffectEntry(
            id=id_without_key(event.run_id, record.call_id),
            name=record.tool_name,
            tool_name=record.tool_name,
            state="unknown",
            run_id=event.run_id,
            settled_seq=event.seq,
            started_at=record.started_at or at,
            ended_at=at,
            check_at=check_at,
        )
        self._count += 1
        kept = _Kept(filled(entry, None, event), self._count)
        self._effects.setdefault(entry.id, kept)

    def _to_entry(self, kept: _Kept) -> EffectEntry:
        """Return the entry with its run's owner; begun means unknown if its run was abandoned."""
        entry, log = kept.entry, self._logs.get(kept.entry.run_id)
        if self._is_abandoned(kept):
            entry = replace(entry, state="unknown")
        change = summary_change(log.events[0]) if log is not None and log.events else None
        if change is None:
            return entry
        owner, tenant = change.owner or "", change.tenant or ""
        return replace(entry, agent_id=change.agent_id or "", user=owner, tenant=tenant)

    def _is_abandoned(self, kept: _Kept) -> bool:
        """Whether it is begun but no session works on its run."""
        run_id = kept.entry.run_id
        if kept.entry.state != "begun":
            return False
        log = self._logs.get(run_id)
        if log is None or log.is_over or run_id in self._abandoned:
            return True
        return kept.loop is not None and not kept.loop.is_running()

    def _is_past_keep(self, kept: _Kept) -> bool:
        if kept.keep_us is None or kept.entry.ended_at is None:
            return False
        return kept.entry.ended_at + timedelta(microseconds=kept.keep_us) <= datetime.now(UTC)

    def _mark_unknown(self, kept: _Kept) -> None:
        """Record an abandoned effect as unknown."""
        now = datetime.now(UTC)
        self._change(kept, state="unknown", ended_at=kept.entry.ended_at or now, check_at=now)
        self._changes.notify([of_effect(kept.entry.id), EFFECTS])

    def _keep_outcome(self, kept: _Kept) -> None:
        """Keep the outcome of a call whose log is about to be removed."""
        entry, log = self._to_entry(kept), self._logs.get(kept.entry.run_id)
        outcome = None if log is None else _outcome_in(log, entry)
        output = entry.output
        if outcome is not None:
            output = cast("JsonObject", msgspec.json.decode(encode(outcome)))
        ended_at = entry.ended_at or entry.started_at
        state = "unknown" if entry.state == "begun" else entry.state
        entry = replace(entry, output=output, ended_at=ended_at, state=state)
        self._effects[entry.id] = kept._replace(entry=entry)

    def _change(self, kept: _Kept, **changes: object) -> None:
        entry = replace(kept.entry, **changes)
        self._effects[entry.id] = kept._replace(entry=entry)


def _outcome_in(log: MemoryLog, entry: EffectEntry) -> ToolOutcome | None:
    """Return the outcome of the call of *entry* from its log."""
    place = entry.settled_seq - 1
    return named_outcome(entry, log.events[place] if 0 <= place < len(log.events) else None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
