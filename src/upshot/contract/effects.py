"""Effects by identity: what a call claims, and what the ledger stores about it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypedDict, Unpack, cast

from upshot.contract.base.structs import (
    CheckedMeta,
    Json,
    JsonObject,
    Moment,
    Value,
    check_types,
    settle_moments,
)
from upshot.contract.tool_calls import EffectRef, Settlement, ToolOutcome
from upshot.errors import Misuse

if TYPE_CHECKING:
    from upshot.contract.events import ToolStarted

EffectState: TypeAlias = Literal["begun", "applied", "none", "unknown"]
"""State of an effect: its call is running, it happened, it certainly did not, or it may have."""


class EffectClaim(Value, frozen=True, kw_only=True):
    """The identity of the effect that a call is about to make.

    Attributes:
        id: SHA-256 over scope, name and key, 32 hex digits; unique for each effect of a journal.
        name: The name of the effect; the tool's name, unless it declares another one.
        key: Canonical JSON of the arguments that identify it; secrets are masked.
        scope: Where the key is unique: "" for the whole journal, otherwise such as "tenant acme".
        others: The arguments that must not differ in a second call: canonical JSON with secrets
            masked, or a digest if it is long.
        keep_s: Seconds after its end for which the key is kept; None keeps it forever.
        tool: The tool, if that is not the name of the effect.

    Raises:
        Misuse: The id is not 32 lower-case hex digits.
    """

    id: str
    name: str
    key: str = ""
    scope: str = ""
    others: str = ""
    keep_s: float | None = None
    tool: str = ""

    def __post_init__(self) -> None:
        if to_digest(self.id) is None:
            raise Misuse(f"the id of an effect is 32 hex digits in lower case, got {self.id!r:.60}")


class EffectEntry(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """The entry of one effect in the ledger of a journal.

    Attributes:
        id: Identifies the effect in the journal.
        name: The name of the effect, which several tools may share.
        key: Canonical JSON of the arguments that identify it; "" if its tool declares no identity.
        scope: Where the key is unique: "" for the whole journal, otherwise such as "tenant acme".
        others: The arguments that must not differ in a second call, as in ``EffectClaim``.
        state: The state of the effect.
        attempts: The number of calls made for it, including calls that certainly had no effect.
        run_id: The run of the last call made for it.
        call_id: That call.
        tool_name: The tool of that call.
        agent_id: The agent of the run.
        user: The user of the run, "" if unknown.
        tenant: The tenant of the run, "" if it has none.
        approved_by: Who approved the call, "" if it needed no approval.
        idempotency_key: The key that the tool was given.
        started_seq: The ``seq`` of ``tool_started`` in the log of the run; 0 without a log.
        settled_seq: The ``seq`` of ``tool_settled``, 0 until it is logged.
        started_at: When the call started.
        ended_at: When it settled, None while it runs.
        settled: How an unknown effect was resolved, None if it was not.
        output: The outcome of a call that is in no log, as JSON; None if it is in a log.
        checks: How often ``verify`` was asked since the call ended.
        check_at: When it is asked next, None for never.
    """

    id: str
    name: str
    key: str = ""
    scope: str = ""
    others: str = ""
    state: EffectState = "begun"
    attempts: int = 1
    run_id: str = ""
    call_id: str = ""
    tool_name: str = ""
    agent_id: str = ""
    user: str = ""
    tenant: str = ""
    approved_by: str = ""
    idempotency_key: str = ""
    started_seq: int = 0
    settled_seq: int = 0
    started_at: Moment | None = None
    ended_at: Moment | None = None
    settled: Settlement | None = None
    output: JsonObject | None = None
    checks: int = 0
    check_at: Moment | None = None

    def __post_init__(self) -> None:
        settle_moments(self, "started_at", "ended_at", "check_at")
        check_types(self, "state")

    @property
    def ref(self) -> EffectRef:
        """The call that made the effect, or may have."""
        return EffectRef(
            effect_id=self.id, run_id=self.run_id, call_id=self.call_id, at=self.started_at
        )

    def is_of(self, run_id: str, call_id: str) -> bool:
        """Return whether this is the last call made for the effect."""
        return (self.run_id, self.call_id) == (run_id, call_id)

    def is_made_by(self, call_id: str, idempotency_key: str) -> bool:
        """Return whether the last call made for the effect is this one, in its run or in a fork.

        The idempotency key distinguishes calls that have the same id in two runs or attempts; rows
        whose log is gone have none.
        """
        if self.idempotency_key and idempotency_key:
            return self.idempotency_key == idempotency_key
        return self.call_id == call_id

    def is_free(self, now: datetime, keep_s: float | None) -> bool:
        """Return whether a call may make it: it did not happen, or its key was kept long enough."""
        if self.state == "none" or keep_s is None or self.ended_at is None:
            return self.state == "none"
        return (now - self.ended_at).total_seconds() >= keep_s

    def __str__(self) -> str:
        """Return the name and what identifies the effect, such as ``refund {"order_id":"7"}``."""
        return f"{self.name} {self.key}" if self.key else f"{self.name} (call {self.call_id})"


def id_without_key(run_id: str, call_id: str) -> str:
    """Return the id of the effect of a call whose tool declares no identity."""
    return hashlib.sha256(f"call\n{run_id}\n{call_id}".encode(errors="surrogatepass")).hexdigest()[
        :32
    ]


def to_digest(id: str) -> bytes | None:
    """Return the 16 bytes of an effect's id, or None if *id* is not the id of an effect."""
    try:
        digest = bytes.fromhex(id)
    except ValueError:
        return None
    return digest if len(digest) == 16 and digest.hex() == id else None


_CHECKED_FOR = timedelta(hours=24)
_LONGEST_WAIT_S = 900.0


def next_check(entry: EffectEntry, now: datetime) -> datetime | None:
    """Return when to ask ``verify`` again about an unknown effect after a check found nothing.

    The wait doubles from 1 s to 15 min. After 24 h a person has to settle the effect: None.
    """
    since = entry.ended_at or entry.started_at or now
    at = now + timedelta(seconds=min(2.0 ** min(entry.checks, 10), _LONGEST_WAIT_S))
    return at if at <= since + _CHECKED_FOR else None


class EffectCheck(Value, frozen=True, kw_only=True):
    """The result of asking ``verify`` about an effect.

    Attributes:
        effect: The current entry of the effect.
        said: What was found out, in words.
        seen: The output of the tool that a ``Lookup`` names; None without one.
    """

    effect: EffectEntry
    said: str
    seen: Json = None


class EffectFilters(TypedDict, total=False):
    """Filters for a list of effects; a filter that is not given matches every effect.

    Attributes:
        state: Only effects in this state; "begun" by a process that died counts as "unknown".
        tool: Only effects of this tool, or with this effect name.
        key: Only effects with this key: the canonical JSON, or the value of its only argument.
        run_id: Only effects of this run.
        user: Only effects of this user; a user of *tenant* if given, otherwise one without a
            tenant.
        tenant: Only effects of this tenant.
        since: Only effects that started at this moment or later, timezone-aware.
        until: Only effects that started before it.
        limit: The maximum number of effects, from 1; None returns all.
        after: Only effects after this one: the id of the last effect of the previous page.
    """

    state: EffectState | None
    tool: str
    key: str
    run_id: str
    user: str
    tenant: str
    since: datetime | None
    until: datetime | None
    limit: int | None
    after: str


class EffectLedger(Protocol):
    """The effects in a journal, by identity; a journal also plays this role.

    A claim is written in the transaction of ``tool_started``, and its end in the transaction of
    ``tool_settled``, so the ledger needs no extra commit.
    """

    def refused_claim(self, run_id: str, call_id: str) -> EffectEntry | None:
        """Return the entry that blocked a call's claim, once; None if the call has the claim.

        Call it after the call's ``tool_started`` is durable.
        """
        ...

    async def claim_effect(self, started: ToolStarted) -> EffectEntry | None:
        """Retry a refused claim; returns the entry in the way, None if the call has the claim now.

        An effect that certainly did not happen, or whose key was kept long enough, can be claimed.
        An effect whose call is in a run without a live session is unknown.
        """
        ...

    async def wait_for_effect(self, entry: EffectEntry, *, timeout_s: float) -> None:
        """Wait until an entry may have changed, *timeout_s* seconds or less."""
        ...

    async def effect(self, id: str) -> EffectEntry | None:
        """Return the entry of an effect, None if there is none."""
        ...

    async def effects(self, **filters: Unpack[EffectFilters]) -> Sequence[EffectEntry]:
        """Return the effects that match: the unknown ones first, each group newest first.

        Raises:
            Misuse: *limit* is not a positive whole number, or there is no effect *after*.
        """
        ...

    async def effect_outcome(self, entry: EffectEntry) -> ToolOutcome | None:
        """Return the outcome of an entry's call; None if it is not available."""
        ...

    async def claim_checks(
        self, names: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[EffectEntry]:
        """Claim unknown effects that ``verify`` should check now, the longest due first.

        No other process gets them for *for_s* seconds. Each counts as one more check.

        Args:
            names: Only effects of these tools.
            limit: The maximum number of effects.
            for_s: After this many seconds they are due again, unless ``note_check`` says when.
        """
        ...

    async def note_check(self, id: str, at: datetime | None) -> None:
        """Store when to ask ``verify`` next about an unknown effect, None for never."""
        ...

    async def settle_effect(self, id: str, settlement: Settlement) -> EffectEntry:
        """Settle an unknown effect and return its entry; the first settlement counts.

        Raises:
            Misuse: There is no such effect, or it is not unknown and was never settled.
        """
        ...


_METHODS = [name for name in vars(EffectLedger) if not name.startswith("_")]


def ledger_of(journal: object) -> EffectLedger | None:
    """Return *journal* as a ledger of effects, None if it does not store effects."""
    return cast("EffectLedger", journal) if _keeps_effects(type(journal)) else None


@cache
def _keeps_effects(kind: type) -> bool:
    return all(callable(getattr(kind, name, None)) for name in _METHODS)
