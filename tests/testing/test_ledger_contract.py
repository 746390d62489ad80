"""The checks of ledgers: each is tried on a journal that breaks it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.testing.suites import assert_red, checks_of, tried_by
from upshot import EffectEntry
from upshot.contract import Settlement, ToolStarted
from upshot.journal import MemoryJournal
from upshot.testing import JournalContract
from upshot.testing.ledger_contract import LedgerChecks


class Generous(MemoryJournal):
    """Lets every call have its claim."""

    def refused_claim(self, run_id: str, call_id: str) -> EffectEntry | None:
        return None

    async def claim_effect(self, started: ToolStarted) -> EffectEntry | None:
        return None


class Strict(MemoryJournal):
    """Refuses every claim."""

    def refused_claim(self, run_id: str, call_id: str) -> EffectEntry | None:
        return EffectEntry(id="", name="")


class Hopeful(MemoryJournal):
    """Takes it that a call goes on for ever."""

    async def effect(self, id: str) -> EffectEntry | None:
        entry = await super().effect(id)
        return None if entry is None else replace(entry, state="begun")


class Latest(MemoryJournal):
    """Tells everybody that his settlement counts."""

    async def settle_effect(self, id: str, settlement: Settlement) -> EffectEntry:
        return replace(await super().settle_effect(id, settlement), settled=settlement)


class Blind(MemoryJournal):
    """Lists nothing."""

    async def effects(self, **filters: Any) -> Sequence[EffectEntry]:
        return ()


class Lost(MemoryJournal):
    """Forgets the effects of what it removes."""

    async def remove_runs(self, *given: Any, **options: Any) -> Any:
        return await super().remove_runs(*given, **{**options, "effects": True})


class Silent(MemoryJournal):
    """Tells of nothing."""

    def watch(self, *topics: str) -> Any:
        return _Nothing()

    async def due_runs(self, *given: Any, **options: Any) -> Any:
        return []


class _Nothing:
    async def changed(self, timeout_s: float | None = None) -> bool:
        return False

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *raised: object) -> None: ...


class Pushing(MemoryJournal):
    """Gives out all checks, to whoever asks."""

    async def claim_checks(self, names: Collection[str], *, limit: int, for_s: float) -> Any:
        return await self.effects()


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Generous, "test_the_first_call_has_the_claim_and_the_second_is_told", "claimed already"),
        (Strict, "test_the_first_call_has_the_claim_and_the_second_is_told", "the effect was free"),
        (Generous, "test_a_call_that_applied_keeps_its_key_and_outcome", ""),
        (Strict, "test_a_call_without_effect_frees_its_key", ""),
        (Strict, "test_a_key_is_free_when_its_keep_has_passed", ""),
        (Hopeful, "test_what_a_left_run_had_begun_is_unknown", "its run did die"),
        (Generous, "test_a_refused_call_may_claim_again", "assert not True"),
        (Strict, "test_a_call_that_is_started_again_has_its_claim", ""),
        (Latest, "test_the_first_settlement_counts", ""),
        (Hopeful, "test_an_effect_that_is_settled_as_none_is_free", "begun"),
        (Generous, "test_what_the_call_says_was_made_was_made", ""),
        (Blind, "test_a_call_without_identity_can_be_settled_too", ""),
        (Blind, "test_effects_are_found_by_what_is_known_of_them", ""),
        (Silent, "test_who_waits_for_an_effect_is_told", ""),
        (Silent, "test_a_parked_run_goes_on_when_its_effect_is_settled", "it is due for []"),
        (Pushing, "test_checks_are_given_to_one_process_at_a_time", ""),
        (Lost, "test_effects_outlive_their_runs", "it has no effect '7'"),
    ],
)
def test_a_broken_ledger_is_found_out(broken: type[MemoryJournal], check: str, words: str):
    assert_red(JournalContract, check, broken, words)


def test_every_check_of_ledgers_is_tried():
    assert tried_by(test_a_broken_ledger_is_found_out) == checks_of(LedgerChecks)
