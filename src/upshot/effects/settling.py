"""Lists the effects of a journal, finds the one that a person named, and settles it."""

from __future__ import annotations

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import Allowed, check_argument
from upshot.contract.base.enums import Effect
from upshot.contract.effects import EffectEntry, EffectLedger, ledger_of
from upshot.contract.tool_calls import Settlement
from upshot.errors import Misuse

SHORT_ID_CHARS = 8
"""Number of digits of an effect's id that people are shown, and may use to name the effect."""
_TEXT = Allowed("a string", (str,))
_BOOL = Allowed("True or False", (bool,))
_MAX_NAMED = 3


def needs_ledger(journal: object) -> EffectLedger:
    """Return *journal* as a ledger of effects.

    Raises:
        Misuse: The journal does not store effects.
    """
    ledger = ledger_of(journal)
    if ledger is None:
        kind = type(journal).__name__
        raise Misuse(f"{kind} stores no effects: give a file's path, a URL or a journal of upshot")
    return ledger


async def settle(
    ledger: EffectLedger, id: str, *, applied: bool, by: str, note: str = ""
) -> EffectEntry:
    """Settle an unknown effect and return its entry; the first settlement counts.

    Args:
        ledger: The ledger of the effect.
        id: The id of the effect.
        applied: Whether it was made. If not, its key is free again.
        by: Who found out.
        note: What they saw.

    Raises:
        Misuse: There is no such effect, it is not unknown, or *by* is empty.
    """
    check_argument("applied", applied, _BOOL)
    check_argument("by", by, _TEXT)
    check_argument("note", note, _TEXT)
    if not by:
        raise Misuse("by is empty: say who found out whether the effect was made")
    effect = Effect.APPLIED if applied else Effect.NONE
    known = Settlement(effect=effect, by=by, at=SYSTEM_CLOCK.now(), note=note)
    return await ledger.settle_effect(id, known)


async def find_effect(ledger: EffectLedger, wanted: str) -> EffectEntry:
    """Return the effect that a person named.

    Args:
        ledger: The ledger of the effect.
        wanted: The id of an effect, the key of a single unknown effect, or 8 or more of the first
            digits of the id of an unknown one.

    Raises:
        Misuse: There is no such effect, or several.
    """
    entry = await ledger.effect(wanted)
    if entry is not None:
        return entry
    found: list[EffectEntry] = []
    if wanted:
        found = [*await ledger.effects(state="unknown", key=wanted)]
        # Anything shorter is a mistyped key.
        if not found and len(wanted) >= SHORT_ID_CHARS:
            unknown = await ledger.effects(state="unknown")
            found = [entry for entry in unknown if entry.id.startswith(wanted)]
        # An effect that is already settled says by whom.
        found = found or [*await ledger.effects(key=wanted, limit=2)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Misuse(
            f"the journal has no unknown effect {wanted!r:.60}: `upshot effects --unknown` lists "
            "its unknown effects"
        )
    named = ", ".join(f"{one.id[:SHORT_ID_CHARS]} ({one})" for one in found[:_MAX_NAMED])
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    raise Misuse(f"several effects match {wanted!r:.60}: {named}{more}: give the id of one")
