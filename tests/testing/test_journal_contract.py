"""The suite of journals: each check is tried on a journal that breaks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.testing.suites import assert_red, checks_of, tried_by
from upshot import Event, JournalError, Misuse, RunStarted, open_journal
from upshot.contract import DELTAS, RunCounts
from upshot.contract.codec import decode, encode
from upshot.journal import MemoryJournal, RemovedRuns
from upshot.testing import JournalContract
from upshot.testing.ledger_contract import LedgerChecks


class Backwards(MemoryJournal):
    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        told = [event async for event in super().events(run_id, after)]
        for event in reversed(told):
            yield event


class Late(MemoryJournal):
    """Shows only what somebody has waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.safe = 0

    async def durable(self, run_id: str, seq: int) -> None:
        await super().durable(run_id, seq)
        self.safe = max(self.safe, seq)

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        async for event in super().events(run_id, after):
            if event.seq <= self.safe:  # type: ignore[union-attr]
                yield event


class Moneyed(MemoryJournal):
    """Holds amounts of different currencies against each other."""

    async def runs(self, status: str | None = None, **filters: Any) -> Any:
        found = await super().runs(status, **filters)
        if filters.get("sort") == "cost":
            return sorted(found, key=lambda run: -float(run.cost or 0))
        return found


class Deaf(MemoryJournal):
    """Does not listen to ``after``."""

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        async for event in super().events(run_id):
            yield event


class Short(MemoryJournal):
    """Reads one page."""

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        async for event in super().events(run_id, after):
            if event.seq > after + 100:  # type: ignore[union-attr]
                return
            yield event


class Prudish(MemoryJournal):
    """Takes an unknown run for a mistake."""

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        if not await self.last_seq(run_id):
            raise JournalError(f"there is no run {run_id}")
        async for event in super().events(run_id, after):
            yield event


class Mixing(MemoryJournal):
    """Has one log for all."""

    def append(self, event: Any, *, epoch: int | None = None) -> None:
        seq = self.count = getattr(self, "count", 0) + 1
        super().append(replace(event, run_id="all", seq=seq), epoch=epoch)

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        async for event in super().events("all", after):
            yield event


class Lax(MemoryJournal):
    """Takes anything, with the seq that it likes."""

    def append(self, event: Any, *, epoch: int | None = None) -> None:
        if isinstance(event, DELTAS):
            return
        log = self._open().get(event.run_id)
        seq = 1 if log is None else len(log.events) + 1
        super().append(replace(event, seq=seq))


class Constant(MemoryJournal):
    async def claim(self, run_id: str, *, cut: bool = False) -> int:
        self._logs.setdefault(run_id, await self._made())
        return 0

    async def _made(self) -> Any:
        other = MemoryJournal()
        await other.claim("x")
        made = other._logs["x"]
        made.epoch = 0
        return made


class Sticky(MemoryJournal):
    """Leaves a run to whoever once had it."""

    async def claim_free(self, run_id: str) -> int:
        if run_id in self._logs:
            raise JournalError("somebody has it")
        return await self.claim(run_id)


class Single(MemoryJournal):
    """Lets one wait at a time, in order."""

    async def durable(self, run_id: str, seq: int) -> None:
        assert seq > getattr(self, "waited", 0), "somebody waited for more already"
        self.waited = seq
        await super().durable(run_id, seq)


class Hopeful(MemoryJournal):
    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        return None


class Vague(MemoryJournal):
    """Lists runs without their facts, in the order of their ids, claimed ones too."""

    async def runs(self, status: str | None = None, **narrowed: Any) -> Any:
        known = [log.summary(run_id) for run_id, log in sorted(self._open().items())]
        return [replace(one, request="", status="running", parent_run_id="") for one in known]


class Idle(MemoryJournal):
    """Lists runs without what they did."""

    async def runs(self, status: str | None = None, **narrowed: Any) -> Any:
        known = await super().runs(status, **narrowed)
        return [replace(one, effect=None, error_code="") for one in known]


class Careless(MemoryJournal):
    """Takes any event, and fails when it is read."""

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        # Under an epoch it is taken as that of a session, whose values were checked.
        super().append(event, epoch=epoch or 0)

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        async for event in super().events(run_id, after):
            decode(encode(event))
            yield event


class Whole(MemoryJournal):
    """Gives all runs, whatever is wanted, and removes just what is named."""

    async def runs(self, status: str | None = None, **narrowed: Any) -> Any:
        return await super().runs(status)

    async def remove_runs(self, run_ids: Any = (), **dated: Any) -> Any:
        for run_id in run_ids or [*self._logs]:
            del self._logs[run_id]
        return RemovedRuns(run_ids=tuple(run_ids))


class Greedy(MemoryJournal):
    """Writes a file whatever there is, and takes any in again."""

    async def export(self, run_id: str, path: Any) -> int:
        try:
            return await super().export(run_id, path)
        except Misuse:
            Path(path).write_bytes(b"")
            return 0

    async def import_(self, path: Any) -> str:
        self._logs.pop("run-1", None)
        return await super().import_(path)


class Lossy(MemoryJournal):
    async def import_(self, path: Any) -> str:
        run_id = await super().import_(path)
        del self._logs[run_id].events[-1]
        return run_id


class Partial(MemoryJournal):
    """Takes what it can read."""

    async def import_(self, path: Any) -> str:
        try:
            return await super().import_(path)
        except JournalError:
            lines = Path(path).read_bytes().splitlines(keepends=True)
            Path(path).write_bytes(b"".join(lines[:2]))
            raise JournalError("it is damaged somewhere") from None


class Undead(MemoryJournal):
    async def aclose(self) -> None:
        return None


class Rude(MemoryJournal):
    """Refuses with an error of its own."""

    def append(self, event: Any, *, epoch: int | None = None) -> None:
        try:
            super().append(event, epoch=epoch)
        except (JournalError, Misuse) as error:
            raise KeyError("no") from error


class Half:
    """Has only one of the methods."""

    def append(self, event: Any, *, epoch: int | None = None) -> None: ...


class TestOpenJournal(JournalContract):
    """A place is one journal while it is open."""

    def make(self) -> Any:
        return open_journal("memory:")


class TestFile(JournalContract):
    @pytest.fixture(autouse=True)
    def _places(self, tmp_path: Path) -> None:
        self.places = (tmp_path / f"{number}.db" for number in count())

    async def make(self) -> Any:
        return open_journal(next(self.places))


class Generous(MemoryJournal):
    """Gives everybody the turn."""

    async def claim_turn(self, run_id: str, turn: Any, *, take_over: bool = False) -> Any:
        return await self.claim(run_id)


class Timeless(MemoryJournal):
    """Counts turns by their beginnings."""

    async def runs(self, status: str | None = None, **filters: Any) -> Any:
        listed = await super().runs(status, **filters)
        return [replace(run, revision=4 - int(run.run_id[-1])) for run in listed]


class Nobodys(MemoryJournal):
    """Knows neither whose runs are nor how many there are."""

    async def runs(self, status: str | None = None, **filters: Any) -> Any:
        return [replace(run, owner="") for run in await super().runs(status, **filters)]

    async def counts(self, status: str | None = None, **filters: Any) -> Any:
        return RunCounts()

    async def submit(self, new: Any) -> Any:
        return await super().submit(replace(new, options={}))


class Twofold(MemoryJournal):
    """Counts each run twice."""

    async def figures(self, wanted: Any) -> Any:
        figures = await super().figures(wanted)
        totals = tuple(replace(one, count=2 * one.count) for one in figures.totals)
        return replace(figures, totals=totals)


class TestGenerator(JournalContract):
    async def make(self) -> Any:
        async with open_journal("memory:") as journal:
            yield journal


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Backwards, "test_events_come_back_equal_and_in_order", "it gave the events"),
        (Late, "test_events_are_read_before_they_are_safe", "it gave the events []"),
        (Deaf, "test_reading_begins_after_the_seq_that_is_named", "it gave the events"),
        (Short, "test_a_long_run_is_read_whole", "of 500 events 100 were read"),
        (Prudish, "test_a_run_that_is_not_there_has_no_events", "there is no run run-unknown"),
        (Mixing, "test_runs_do_not_mix", "it gave the events"),
        (Lax, "test_a_gap_is_refused", "DID NOT RAISE"),
        (Rude, "test_a_gap_is_refused", "no"),
        (Lax, "test_a_repeated_seq_is_refused", "DID NOT RAISE"),
        (Lax, "test_a_delta_is_refused", "DID NOT RAISE"),
        (Constant, "test_claims_count_up", "the first claim gave 0 and the second 0"),
        (Lax, "test_an_old_epoch_can_no_longer_append", "DID NOT RAISE"),
        (
            Hopeful,
            "test_an_old_holder_is_told_of_its_own_events_alone",
            "DID NOT RAISE",
        ),
        (Sticky, "test_a_run_that_was_let_go_is_free", "somebody has it"),
        (Single, "test_many_may_wait_for_one_event", "somebody waited for more already"),
        (
            Hopeful,
            "test_an_event_that_nobody_appended_is_never_safe",
            "DID NOT RAISE",
        ),
        (Vague, "test_the_list_of_runs_says_what_each_is", "it lists ('run-1', 'agent', 3"),
        (Vague, "test_the_list_of_runs_says_who_started_each", "run-1 was started by run-0"),
        (Vague, "test_the_list_of_runs_follows_their_status", "run-2 alone is completed"),
        (Vague, "test_the_list_of_runs_has_the_newest_first", "the newest is run-3"),
        (Idle, "test_the_list_of_runs_says_what_each_did_and_cost", "'run-1': (None, '')"),
        (
            Nobodys,
            "test_the_list_of_runs_says_whose_each_is_and_what_it_answered",
            "it lists ('', 't-0'",
        ),
        (Nobodys, "test_runs_are_counted", "RunCounts()"),
        (Twofold, "test_a_run_counts_once_however_often_it_resumes", "it counts [(-1, 'failed'"),
        (
            Nobodys,
            "test_a_conversation_belongs_to_the_user_of_its_first_run",
            "DID NOT RAISE",
        ),
        (Careless, "test_an_event_that_cannot_be_read_back_is_refused", "cannot read back"),
        (Whole, "test_the_list_of_runs_comes_in_pages", "a page of at most 2 runs has 5"),
        (Whole, "test_the_list_of_runs_can_be_narrowed", "it gives {'context_id'"),
        (Generous, "test_a_conversation_has_one_turn_at_a_time", "run-1 has the turn"),
        (
            Generous,
            "test_a_turn_that_was_let_go_has_died_once_it_began",
            "run-2 started and was released",
        ),
        (
            Generous,
            "test_a_turn_is_kept_for_the_run_that_it_is_handed_to",
            "the turn is handed on",
        ),
        (Timeless, "test_turns_count_in_the_order_of_their_ends", "it counts"),
        (Whole, "test_a_removed_run_is_gone_with_all_that_it_started", "it reported ('run-1',)"),
        (Whole, "test_a_run_that_its_parent_reads_is_not_removed", "its parent was not"),
        (Whole, "test_runs_that_ended_before_a_date_are_removed", "it reported ()"),
        (
            Moneyed,
            "test_money_of_one_currency_is_never_held_against_that_of_another",
            "costs of two currencies are mixed",
        ),
        (Vague, "test_a_run_that_was_only_claimed_is_not_listed", "without an event is listed"),
        (Lossy, "test_what_was_exported_is_imported_equal", "it gave the events"),
        (Greedy, "test_an_import_never_changes_a_run", "DID NOT RAISE"),
        (Greedy, "test_an_export_of_nothing_is_misuse", "DID NOT RAISE"),
        (Partial, "test_a_damaged_import_takes_nothing", "Expected regex: 'line 4'"),
        (Undead, "test_a_closed_journal_takes_nothing", "DID NOT RAISE"),
        (
            Half,
            "test_claims_count_up",
            "which is not a journal: it has no method claim",
        ),
    ],
)
def test_a_broken_journal_is_found_out(broken: Any, check: str, words: str) -> None:
    assert_red(JournalContract, check, broken, words)


def test_a_journal_that_holds_runs_already_is_told() -> None:
    shared = MemoryJournal()
    shared.append(RunStarted(run_id="run-9", seq=1))
    check = "test_claims_count_up"
    assert_red(JournalContract, check, lambda: shared, "gave a journal that holds ['run-9']")


def test_every_check_of_the_suite_is_tried() -> None:
    of_ledgers = checks_of(LedgerChecks)
    assert tried_by(test_a_broken_journal_is_found_out) == checks_of(JournalContract) - of_ledgers
