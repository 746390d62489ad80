"""Effects by identity: what a call claims, and what the ledger knows of it."""

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
"""How far an effect is: its call runs, it was made, it certainly was not, or it may have been."""


class EffectClaim(Value, frozen=True, kw_only=True):
    """The identity of the effect that a call is about to make.

    Attributes:
        id: SHA-256 over scope, name and key, 32 hex digits; one effect in a journal has one id.
        name: The name of the effect: that of the tool, unless it declares another one.
        key: Canonical JSON of the arguments that identify it; secrets are masked.
        scope: Where the key is unique: "" in the journal, else such as "tenant acme".
        others: The arguments that must not differ in a second call: canonical JSON, secrets
            masked, or a digest of a long one.
        keep_s: Seconds after its end for which the key is kept; None is for good.
        tool: The tool, where that is not the name of the effect.

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
    """What the ledger of a journal knows of one effect.

    Attributes:
        id: Identifies it in the journal.
        name: The name of the effect, which several tools may share.
        key: Canonical JSON of the arguments that identify it; "" if its tool declares no identity.
        scope: Where the key is unique: "" in the journal, else such as "tenant acme".
        others: The arguments that must not differ in a second call, as in ``EffectClaim``.
        state: How far it is.
        attempts: How many calls were made for it, those that certainly had no effect included.
        run_id: The run of the last call that was made for it.
        call_id: That call.
        tool_name: The tool that it called.
        agent_id: The agent of the run.
        user: The user of the run, "" if unknown.
        tenant: The tenant of the run, "" if it has none.
        approved_by: Who approved the call, "" if it needed no approval.
        idempotency_key: The key that the tool was given.
        started_seq: The place of ``tool_started`` in the log of the run; 0 without a log.
        settled_seq: The place of ``tool_settled``, 0 while there is none.
        started_at: When the call started.
        ended_at: When it settled, None while it runs.
        settled: How an unknown effect became known, None if it did not.
        output: The outcome of a call that stands in no log, as JSON; None if it stands in one.
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
        """The call that made it, or may have."""
        return EffectRef(
            effect_id=self.id, run_id=self.run_id, call_id=self.call_id, at=self.started_at
        )

    def is_of(self, run_id: str, call_id: str) -> bool:
        """Whether the last call that was made for it is this one."""
        return (self.run_id, self.call_id) == (run_id, call_id)

    def is_free(self, now: datetime, keep_s: float | None) -> bool:
        """Whether a call may make it: it was not made, or its key was kept for long enough."""
        if self.state == "none" or keep_s is None or self.ended_at is None:
            return self.state == "none"
        return (now - self.ended_at).total_seconds() >= keep_s

    def __str__(self) -> str:
        """Its name with what identifies it, such as ``refund {"order_id":"7"}``."""
        return f"{self.name} {self.key}" if self.key else f"{self.name} (call {self.call_id})"


def id_without_key(run_id: str, call_id: str) -> str:
    """Return the id of the effect of a call whose tool declares no identity."""
    return hashlib.sha256(f"call\n{run_id}\n{call_id}".encode(errors="surrogatepass")).hexdigest()[
        :32
    ]


def to_digest(id: str) -> bytes | None:
    """The 16 bytes of an effect's id; None if *id* is not the id of an effect."""
    try:
        digest = bytes.fromhex(id)
    except ValueError:
        return None
    return digest if len(digest) == 16 and digest.hex() == id else None


_CHECKED_FOR = timedelta(hours=24)
_LONGEST_WAIT_S = 900.0


def next_check(entry: EffectEntry, now: datetime) -> datetime | None:
    """When ``verify`` is asked again about an unknown effect, after a check that found nothing.

    The wait doubles from 1 s to 15 min. After 24 h an effect is for a person to settle: None.
    """
    since = entry.ended_at or entry.started_at or now
    at = now + timedelta(seconds=min(2.0 ** min(entry.checks, 10), _LONGEST_WAIT_S))
    return at if at <= since + _CHECKED_FOR else None


class EffectCheck(Value, frozen=True, kw_only=True):
    """The result of asking ``verify`` about an effect.

    Attributes:
        effect: The effect as it stands now.
        said: What was found out, in words.
        seen: What the tool that a ``Lookup`` names gave; None without one.
    """

    effect: EffectEntry
    said: str
    seen: Json = None


class EffectFilters(TypedDict, total=False):
    """Which effects are wanted; a filter that is not given matches every one.

    Attributes:
        state: Only those in this state; what a dead process had begun is "unknown".
        tool: Only those of this tool, or of this effect name.
        key: Only those with this key: the canonical JSON, or the value of its only argument.
        run_id: Only those of this run.
        user: Only those of this user; with *tenant* the user of that tenant, else of none.
        tenant: Only those of this tenant.
        since: Only those that started at this moment or later, timezone-aware.
        limit: At most so many, from 1; None is all.
        after: Only those that come after this one: the id of the last of the page before.
    """

    state: EffectState | None
    tool: str
    key: str
    run_id: str
    user: str
    tenant: str
    since: datetime | None
    limit: int | None
    after: str


class EffectLedger(Protocol):
    """The effects that a journal knows, by identity; a journal plays this role too.

    A claim is written in the transaction of ``tool_started``, its end in that of
    ``tool_settled``, so the ledger needs no commit of its own.
    """

    def refused_claim(self, run_id: str, call_id: str) -> EffectEntry | None:
        """Return the entry that kept a call from its claim, once; None if the call has it.

        To be asked once the call's ``tool_started`` is durable.
        """
        ...

    async def claim_effect(self, started: ToolStarted) -> EffectEntry | None:
        """Claim again for a call that was refused; returns the entry in the way, None if it has it.

        An effect that certainly was not made, or whose key was kept long enough, can be claimed.
        One that was begun by a run on which nobody works any more is unknown.
        """
        ...

    async def wait_for_effect(self, entry: EffectEntry, *, timeout_s: float) -> None:
        """Wait until an entry may have changed, at most *timeout_s* seconds."""
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
        """Return the outcome of the call of an entry; None if it is not known any more."""
        ...

    async def take_checks(
        self, names: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[EffectEntry]:
        """Take unknown effects about which ``verify`` is to be asked now, the longest due first.

        No other process is given them for *for_s* seconds. Each counts as one more check.

        Args:
            names: Only those of these tools.
            limit: At most so many.
            for_s: After so many seconds they are due again, if ``note_check`` does not say when.
        """
        ...

    async def note_check(self, id: str, at: datetime | None) -> None:
        """Note when ``verify`` is asked next about an unknown effect, None for never."""
        ...

    async def settle_effect(self, id: str, settlement: Settlement) -> EffectEntry:
        """Settle an unknown effect; returns the entry as it stands: the first answer counts.

        Raises:
            Misuse: There is no such effect, or it is not unknown and was never settled.
        """
        ...


_METHODS = [name for name in vars(EffectLedger) if not name.startswith("_")]


def ledger_of(journal: object) -> EffectLedger | None:
    """Return *journal* as a ledger of effects, None if it keeps none."""
    return cast("EffectLedger", journal) if _keeps_effects(type(journal)) else None


@cache
def _keeps_effects(kind: type) -> bool:
    return all(callable(getattr(kind, name, None)) for name in _METHODS)
