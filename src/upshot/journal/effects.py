"""Effects by identity: what the ledgers of all journals share.

A journal keeps one row for each identity of an effect. A call claims it with its
``tool_started``, and its ``tool_settled`` ends the claim. Both are written in the transaction of
the event, so the ledger costs no extra commit. A refused claim does not fail the event: once the
event is safe, the session reads the entry that blocks it.

The life of a row:
    A claim creates it as begun. A claim may also reuse a row that certainly had no effect, or
    whose key has expired. The end of the call makes it applied, none or unknown. If no process
    works on its run, a begun row is unknown: readers see it as such, and the next claim writes
    that down. An unknown row is settled by ``verify``, by a person or by the service itself. The
    first settlement counts, unless the call itself later reports that it was made.

A call with an unknown effect but no identity gets a row too, so that it can be settled.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime
from functools import cache
from typing import NamedTuple, Protocol, cast, get_args

import msgspec

from upshot.contract.base.checks import check_moment, check_whole
from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import clean_text, to_json, without_nul
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.effects import EffectClaim, EffectEntry, EffectState
from upshot.contract.events import Event, ToolSettled, ToolStarted
from upshot.contract.tool_calls import Settlement, ToolOutcome
from upshot.errors import Misuse
from upshot.journal.watching import Watcher, of_effect

EFFECT_STATES: tuple[EffectState, ...] = get_args(EffectState)
"""The states of a row; a table stores their indexes."""
BEGUN, APPLIED, NONE, UNKNOWN = range(4)
FIRST_CHECK_S = 1.0
"""How long after the end of a call ``verify`` is first asked about its effect."""
# Longer than anyone keeps a key, yet its microseconds still fit a column.
_LONGEST_KEEP_S = 3.0e11


def effect_event(event: Event) -> ToolStarted | ToolSettled | None:
    """Return *event* if it changes a row of the ledger, else None."""
    kind = type(event)
    if kind is ToolStarted:
        started = cast("ToolStarted", event)
        return None if started.claim is None else started
    if kind is ToolSettled:
        settled = cast("ToolSettled", event)
        record = settled.record
        return settled if record.effect_id or record.effect is Effect.UNKNOWN else None
    return None


def call_number(call_id: str) -> int:
    """Return a 32-bit hash of a call's id, to find it among the calls of its run."""
    digest = hashlib.sha256(call_id.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], signed=True)


def state_number(effect: Effect) -> int:
    """Return the state of a row whose call ended with *effect*."""
    return {Effect.APPLIED: APPLIED, Effect.NONE: NONE}.get(effect, UNKNOWN)


def keep_us_of(claim: EffectClaim) -> int | None:
    """Return the microseconds to keep a key after its end, None for unlimited."""
    keep_s = claim.keep_s
    if keep_s is None or not 0 <= keep_s < _LONGEST_KEEP_S:
        return None
    return int(keep_s * 1_000_000)


def column_text(text: str) -> str:
    """Return *text* in a form that every database can store."""
    return without_nul(clean_text(text))


def filled(
    entry: EffectEntry, started: ToolStarted | None, settled: ToolSettled | None
) -> EffectEntry:
    """Return *entry* with the details from the stored events of its call.

    Args:
        entry: Made from its row.
        started: The start of the call, None if the log has none, or no more.
        settled: Its end, None if there is none.
    """
    more: dict[str, object] = {}
    if settled is not None:
        record = settled.record
        more = {"call_id": record.call_id}
        more["idempotency_key"] = record.idempotency_key or entry.idempotency_key
        more["approved_by"] = "" if record.approval is None else record.approval.approvers
        more["ended_at"] = entry.ended_at or settled.time
    if started is not None:
        more["call_id"] = started.call_id
        more["idempotency_key"] = started.idempotency_key or more.get("idempotency_key", "")
        if started.claim is not None:
            more |= {"scope": started.claim.scope, "others": started.claim.others}
    return msgspec.structs.replace(entry, **more) if more else entry


def named_outcome(entry: EffectEntry, event: Event | None) -> ToolOutcome | None:
    """Return the outcome of the call of *entry*, if *event* is its end.

    Stored outcomes omit the id and tool of their call; they are filled in.
    """
    if not isinstance(event, ToolSettled) or event.call_id != entry.call_id:
        return None
    outcome = event.record.outcome
    named = {"call_id": outcome.call_id or entry.call_id}
    named["tool_name"] = outcome.tool_name or entry.tool_name
    return msgspec.structs.replace(outcome, **named)


def outcome_of(entry: EffectEntry) -> ToolOutcome | None:
    """Return the outcome stored in the entry itself; None if it has none that can be read."""
    try:
        return None if entry.output is None else decode(encode(entry.output), _outcomes())
    except Misuse:
        return None


@cache
def _outcomes() -> msgspec.json.Decoder[ToolOutcome]:
    return decoder_of(ToolOutcome)


class EffectQuery(NamedTuple):
    """``EffectFilters`` with defaults filled in."""

    state: EffectState | None = None
    tool: str = ""
    key: str = ""
    run_id: str = ""
    user: str = ""
    tenant: str = ""
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    after: str = ""

    def check(self) -> None:
        """Raise Misuse for an invalid limit, an unknown state, or a time without a zone."""
        check_whole("limit", self.limit, least=1, none="all")
        if self.state not in (None, *EFFECT_STATES):
            raise Misuse(f"state is {self.state!r}: give one of {', '.join(EFFECT_STATES)}")
        check_moment("since", self.since)
        check_moment("until", self.until)

    @property
    def keys(self) -> tuple[str, str]:
        """The forms in which a stored key may equal the wanted one."""
        return self.key, to_json(self.key).decode()

    @property
    def ends(self) -> tuple[str, str]:
        """The ends of a stored key whose only argument has the wanted value."""
        return f"{self.key}}}", f"{to_json(self.key).decode()}}}"

    def holds(self, entry: EffectEntry) -> bool:
        """Whether *entry* matches the filters; limit and place are ignored."""
        return bool(
            self.state in (None, entry.state)
            and self.tool in ("", entry.tool_name, entry.name)
            and (not self.key or self._is_key(entry.key))
            and self.run_id in ("", entry.run_id)
            and self._is_owned(entry)
            and (self.since is None or (entry.started_at and entry.started_at >= self.since))
            and (self.until is None or (entry.started_at and entry.started_at < self.until))
        )

    def _is_key(self, key: str) -> bool:
        return key in self.keys or key.partition('":')[2] in self.ends

    def _is_owned(self, entry: EffectEntry) -> bool:
        # User and tenant together identify a user; without a tenant, the user belongs to none.
        if self.user:
            return (entry.user, entry.tenant) == (self.user, self.tenant)
        return self.tenant in ("", entry.tenant)


def no_such_effect(id: str) -> Misuse:
    """Return the exception for an effect that the journal does not know."""
    return Misuse(f"the journal has no effect {id!r:.60}: `effects()` lists those that it has")


def check_settlement(settlement: Settlement) -> None:
    """Raise Misuse for a settlement as neither applied nor none."""
    if settlement.effect not in (Effect.APPLIED, Effect.NONE):
        raise Misuse(
            f"effect is {settlement.effect!s:.40}: an effect is settled as applied or none"
        )


def not_unknown(entry: EffectEntry) -> Misuse:
    """Return the exception for an effect that cannot be settled."""
    why = "its call is under way" if entry.state == "begun" else f"its call says {entry.state}"
    return Misuse(f"the effect {entry} cannot be settled: {why}; only an unknown one can")


class WatchedLedger(Protocol):
    """A ledger that notifies of changes."""

    def watch(self, *topics: str) -> Watcher: ...
    async def effect(self, id: str) -> EffectEntry | None: ...


# How often to check whether the process of a call has ended, which nothing announces.
_LOOK_S = 1.0


async def wait_for_change(ledger: WatchedLedger, entry: EffectEntry, timeout_s: float) -> None:
    """Wait until *entry* may have changed; see ``EffectLedger.wait_for_effect``."""
    known = _progress_of(entry)
    until = time.monotonic() + timeout_s
    with ledger.watch(of_effect(entry.id)) as watcher:
        while True:
            found = await ledger.effect(entry.id)
            left_s = until - time.monotonic()
            if found is None or _progress_of(found) != known or left_s <= 0:
                return
            await watcher.changed(min(left_s, _LOOK_S))


def _progress_of(entry: EffectEntry) -> tuple[object, ...]:
    return entry.state, entry.run_id, entry.call_id, entry.attempts
