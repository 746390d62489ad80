"""JournalContract: what every journal must do."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast
from unittest import SkipTest

import pytest
from msgspec.structs import replace

from upshot.contract.agent_spec import AgentSpec, HandoffEvent
from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.call_counts import CallCount
from upshot.contract.error import AgentError
from upshot.contract.events import (
    BoardChanged,
    Event,
    RunResumed,
    RunSettled,
    RunStarted,
    StepSettled,
    StepStarted,
    ToolStarted,
)
from upshot.contract.message import Message
from upshot.contract.model_calls import Request, TextDelta
from upshot.contract.protocols import Journal, RunSummary, takes_epoch
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Cost, Usage
from upshot.errors import JournalError, Misuse
from upshot.journal.run_counts import HOUR, FigureQuery
from upshot.journal.run_list import TurnClaim, TurnInTheWay
from upshot.journal.shared import OtherUser, Submission, needs_shared
from upshot.state.child_runs import CHAIN_OPTION, TURN_OPTION, child_id
from upshot.testing.ledger_contract import LedgerChecks
from upshot.testing.suite import Role, Suite

_START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_METHODS = ("claim", "append", "durable", "events", "runs", "export", "import_", "aclose")
_Play = Callable[[Any, Journal], Coroutine[Any, Any, None]]


def _with_journal(play: _Play) -> Callable[[JournalContract], Coroutine[Any, Any, None]]:
    """Make a check that gets a new journal, which is closed afterwards."""

    async def run(self: JournalContract) -> None:
        async with self._empty() as journal:  # pyright: ignore[reportPrivateUsage]  # its own
            await play(self, journal)

    run.__name__, run.__doc__ = play.__name__, play.__doc__
    run.__qualname__ = play.__qualname__
    return run


class JournalContract(LedgerChecks, Suite[Journal]):
    """A suite for pytest: inherit, and define a ``make`` that returns a new, empty journal.

    ::

        class TestMyJournal(JournalContract):
            def make(self):
                return open_my_journal(...)

    A journal is closed with ``aclose``, or by its context manager if ``make`` returns one, such as
    ``open_journal("memory:")``.
    """

    _role: Role = Role("a journal", _METHODS)

    @_with_journal
    async def test_events_come_back_equal_and_in_order(self, journal: Journal) -> None:
        """Reading returns what was appended."""
        appended = _append(journal, "run-1", 5)
        await journal.durable("run-1", 5)
        _check_same(await _read(journal, "run-1"), appended)

    @_with_journal
    async def test_events_are_read_before_they_are_safe(self, journal: Journal) -> None:
        """Reading sees events that are still queued."""
        appended = _append(journal, "run-1", 3)
        _check_same(await _read(journal, "run-1"), appended)

    @_with_journal
    async def test_reading_begins_after_the_seq_that_is_named(self, journal: Journal) -> None:
        """``after`` leaves out earlier events."""
        appended = _append(journal, "run-1", 5)
        _check_same(await _read(journal, "run-1", after=3), appended[3:])
        _check_same(await _read(journal, "run-1", after=5), [])

    @_with_journal
    async def test_a_long_run_is_read_whole(self, journal: Journal) -> None:
        """Reading in pieces neither loses nor repeats events."""
        _append(journal, "run-1", 500)
        seqs = [event.seq for event in await _read(journal, "run-1")]
        assert seqs == list(range(1, 501)), f"of 500 events {len(seqs)} were read, or not in order"

    @_with_journal
    async def test_a_run_that_is_not_there_has_no_events(self, journal: Journal) -> None:
        """Reading an unknown run is not an error."""
        _check_same(await _read(journal, "run-unknown"), [])

    @_with_journal
    async def test_runs_do_not_mix(self, journal: Journal) -> None:
        """Each run has its own log."""
        first, second = _append(journal, "run-1", 3), _append(journal, "run-2", 4)
        _check_same(await _read(journal, "run-1"), first)
        _check_same(await _read(journal, "run-2"), second)

    @_with_journal
    async def test_a_gap_is_refused(self, journal: Journal) -> None:
        """The next seq is one more than the last."""
        _append(journal, "run-1", 2)
        with pytest.raises(JournalError):
            journal.append(_step("run-1", 4))

    @_with_journal
    async def test_a_repeated_seq_is_refused(self, journal: Journal) -> None:
        """No event replaces another."""
        appended = _append(journal, "run-1", 2)
        with pytest.raises(JournalError):
            journal.append(_step("run-1", 2))
        _check_same(await _read(journal, "run-1"), appended)

    @_with_journal
    async def test_a_delta_is_refused(self, journal: Journal) -> None:
        """Deltas are for watchers only."""
        with pytest.raises(Misuse):
            journal.append(TextDelta(run_id="run-1", seq=1, part=1, text="x"))

    @_with_journal
    async def test_an_event_that_cannot_be_read_back_is_refused(self, journal: Journal) -> None:
        """A wrongly typed field is refused at once, or read back unchanged."""
        journal.append(_started("run-1"))
        wrong: Any = 5
        odd = StepStarted(run_id="run-1", seq=2, time=_START, key=wrong)
        try:
            journal.append(odd)
        except (Misuse, JournalError):
            # Nothing of it was stored, and its place is free.
            odd = _step("run-1", 2)
            journal.append(odd)
        try:
            read = await _read(journal, "run-1")
        except (Misuse, JournalError) as error:
            raise AssertionError(f"it took an event that it cannot read back: {error}") from error
        _check_same(read, [_started("run-1"), odd])

    @_with_journal
    async def test_claims_count_up(self, journal: Journal) -> None:
        """Every claim returns a higher epoch."""
        first, second = await journal.claim("run-1"), await journal.claim("run-1")
        assert second > first, f"the first claim gave {first!r} and the second {second!r}"

    @_with_journal
    async def test_an_old_epoch_can_no_longer_append(self, journal: Journal) -> None:
        """A holder that lost a run cannot write to it."""
        old = await journal.claim("run-1")
        journal.append(_started("run-1"), epoch=old)
        new = await journal.claim("run-1")
        with pytest.raises(JournalError):
            journal.append(_step("run-1", 2), epoch=old)
        journal.append(_step("run-1", 2), epoch=new)
        await journal.durable("run-1", 2)

    @_with_journal
    async def test_an_old_holder_is_told_of_its_own_events_alone(self, journal: Journal) -> None:
        """A holder that lost the run does not wait for what a later one appended."""
        if not takes_epoch(type(journal)):
            raise SkipTest("its durable() takes no epoch")
        old = await journal.claim("run-1")
        journal.append(_started("run-1"), epoch=old)
        new = await journal.claim("run-1")
        journal.append(_step("run-1", 2), epoch=new)
        await journal.durable("run-1", 2, epoch=new)
        await journal.durable("run-1", 1, epoch=old)
        with pytest.raises(JournalError):
            await journal.durable("run-1", 2, epoch=old)

    @_with_journal
    async def test_a_run_that_was_let_go_is_free(self, journal: Journal) -> None:
        """If ``claim_free`` leaves a run to its holder, ``release`` frees it."""
        claim_free = getattr(journal, "claim_free", None)
        if claim_free is None:
            raise SkipTest("it has no claim_free()")
        release = getattr(journal, "release", None)
        assert release is not None, "it has claim_free() and no release(): no run is ever free"
        epochs = [await claim_free("run-1")]
        release("run-1", epochs[0])
        epochs += [await claim_free("run-1"), await journal.claim("run-1")]
        assert epochs == sorted(set(epochs)), f"three claims gave the epochs {epochs}"

    @_with_journal
    async def test_many_may_wait_for_one_event(self, journal: Journal) -> None:
        """Barriers do not disturb one another."""
        _append(journal, "run-1", 3)
        await asyncio.gather(*(journal.durable("run-1", seq) for seq in (1, 3, 2, 3)))

    @_with_journal
    async def test_an_event_that_nobody_appended_is_never_safe(self, journal: Journal) -> None:
        """Waiting for it is an error, not an endless wait."""
        _append(journal, "run-1", 2)
        with pytest.raises(JournalError):
            await journal.durable("run-1", 3)

    @_with_journal
    async def test_the_list_of_runs_says_what_each_is(self, journal: Journal) -> None:
        """A summary is stored with the events."""
        _append(journal, "run-1", 3)
        runs = await journal.runs()
        assert len(runs) == 1, f"it lists {len(runs)} runs for one"
        run = runs[0]
        listed = (run.run_id, run.agent_id, run.events, run.status, run.ended, run.request)
        expected = ("run-1", "agent", 3, "running", False, "a question")
        assert listed == expected, f"it lists {listed} for {expected}"
        assert not run.parent_run_id, f"a root run is listed as one of {run.parent_run_id!r}"
        times = (run.started_at, run.updated_at)
        expected_times = (_START, _START + timedelta(seconds=2))
        assert times == expected_times, f"it lists the times {times} for {expected_times}"

    @_with_journal
    async def test_the_list_of_runs_says_who_started_each(self, journal: Journal) -> None:
        """A child run names its parent run, whatever follows its first event."""
        journal.append(_started("run-1", parent_run_id="run-0"))
        journal.append(_settled("run-1", 2))
        listed = [run.parent_run_id for run in await journal.runs()]
        assert listed == ["run-0"], f"run-1 was started by run-0; it lists {listed}"

    @_with_journal
    async def test_the_list_of_runs_follows_their_status(self, journal: Journal) -> None:
        """A settled run has the status of its result."""
        _append(journal, "run-1", 2)
        _append(journal, "run-2", 2)
        journal.append(_settled("run-2", 3))
        await journal.durable("run-2", 3)
        assert await _listed(journal, "completed") == ["run-2"], "run-2 alone is completed"
        assert await _listed(journal, "running") == ["run-1"], "run-1 alone is running"

    @_with_journal
    async def test_the_list_of_runs_has_the_newest_first(self, journal: Journal) -> None:
        """Newest by the time they started, whatever was appended first."""
        for run_id, day in (("run-2", 2), ("run-3", 3), ("run-1", 1)):
            journal.append(_started(run_id, _START + timedelta(days=day)))
        listed = await _listed(journal)
        assert listed == ["run-3", "run-2", "run-1"], f"the newest is run-3; it lists {listed}"

    @_with_journal
    async def test_the_list_of_runs_comes_in_pages(self, journal: Journal) -> None:
        """A page continues after the last run of the page before, even among runs of one moment."""
        for number in range(5):
            journal.append(_started(f"run-{number}", _START + timedelta(days=number // 2)))
        listed = [run.run_id for run in await journal.runs()]
        pages: list[str] = []
        while page := await journal.runs(limit=2, before=pages[-1] if pages else ""):
            assert len(page) <= 2, f"a page of at most 2 runs has {len(page)}"
            pages += [run.run_id for run in page]
            assert len(pages) <= len(listed), f"pages of 2 give {pages} for {listed}"
        assert pages == listed, f"pages of 2 give {pages}, and all at once {listed}"
        with pytest.raises(Misuse):
            await journal.runs(before="run-unknown")

    @_with_journal
    async def test_the_list_of_runs_says_what_each_did_and_cost(self, journal: Journal) -> None:
        """Runs can be filtered by effect and error, and sorted by effect, cost and tokens."""
        for n, (effect, cents) in enumerate([("applied", 5), ("unknown", 0), ("none", 7)]):
            run_id, status = f"run-{n}", Status.FAILED if n == 1 else Status.COMPLETED
            journal.append(_started(run_id, _START + timedelta(minutes=n)))
            settled = _settled(run_id, 2, status=status)
            usage = Usage(api_calls=1, input_tokens=cents, output_tokens=0)
            cost = Cost(total=Decimal(cents) / 100) if cents else None
            result = replace(settled.result, usage=usage, cost=cost)
            journal.append(replace(settled, result=result, effect=Effect(effect)))
            await journal.durable(run_id, 2)

        async def ids(**filters: Any) -> list[str]:
            return [run.run_id for run in await journal.runs(**filters)]

        known = {run.run_id: (run.effect, run.error_code) for run in await journal.runs()}
        assert known["run-1"] == (Effect.UNKNOWN, "input_required"), known
        assert await ids(effect="applied") == ["run-0"], "it gave others for an effect"
        assert await ids(effect="none", limit=1) == ["run-2"], "it gave others for an effect"
        assert await ids(error_code="input_required") == ["run-1"], "it gave others for an error"
        assert await ids(sort="effect") == ["run-1", "run-0"], "not by effect, unknown first"
        for sort in ("cost", "tokens"):
            assert await ids(sort=sort) == ["run-2", "run-0"], f"not by {sort}, the largest first"
            assert await ids(sort=sort, before="run-2") == ["run-0"], "not after the page before"
        with pytest.raises(Misuse):
            await journal.runs(sort="colour")

    @_with_journal
    async def test_runs_are_counted(self, journal: Journal) -> None:
        """Counts are by status, error, and day with cost; a run's cost includes its children's."""
        shared = needs_shared(journal)
        for n, status in enumerate((Status.COMPLETED, Status.FAILED, Status.COMPLETED)):
            started = _started(f"run-{n}", _START + timedelta(days=n // 2))
            is_child = {"parent_run_id": "run-0", "depth": 1} if n == 1 else {}
            journal.append(replace(started, attributes={"user": "ann"}, **is_child))
            settled = _settled(f"run-{n}", 2, status=status)
            usage = Usage(api_calls=1, input_tokens=5, total_tokens=5)
            cost = None if n == 2 else Cost(total=Decimal("0.1"), currency=("USD", "EUR")[n])
            result = replace(settled.result, usage=usage, cost=cost)
            journal.append(replace(settled, result=result))
            await journal.durable(f"run-{n}", 2)
        costs: list[dict[str, Decimal]] = [{}, {"USD": Decimal("0.1")}]
        days = (("2026-01-03", costs[0], 1), ("2026-01-02", costs[1], 1))
        for filters in ({}, {"owner": "ann"}, {"limit": 1, "sort": "tokens"}):
            found = await shared.counts(**cast("Any", filters))
            assert found.statuses == {"completed": 2, "failed": 1}, found
            assert found.errors == {"input_required": 1}, found
            assert tuple((one.day, one.costs, one.runs) for one in found.cost_by_day) == days, found
        failed = await shared.counts("failed")
        assert (failed.statuses, failed.cost_by_day) == ({"failed": 1}, ()), failed
        nobody = await shared.counts(owner="bob")
        assert not (nobody.statuses or nobody.errors or nobody.cost_by_day), nobody

    @_with_journal
    async def test_a_run_counts_once_however_often_it_resumes(self, journal: Journal) -> None:
        """Figures count runs by their start and their last end; nothing counts while it runs."""
        wanted = FigureQuery(_START.replace(minute=0, second=0, microsecond=0), HOUR, 1)

        async def counted() -> list[tuple[int, str, str, int]]:
            figures = await needs_shared(journal).figures(wanted)
            return [(one.part, one.name, one.mark, one.count) for one in figures.totals]

        for run_id, start in (("run-1", _START), ("run-2", _START), ("run-3", _START - HOUR)):
            journal.append(_started(run_id, start))
        assert await counted() == [], "it counts runs that have not ended"
        for run_id, status in (("run-1", Status.INPUT_REQUIRED), ("run-2", Status.COMPLETED)):
            journal.append(_settled(run_id, 2, status=status))
        journal.append(_settled("run-3", 2, status=Status.FAILED))
        first = [(-1, "failed", "input_required", 1), (0, "completed", "", 1)]
        found = await counted()
        assert found == [*first, (0, "input_required", "", 1)], f"it counts {found}"
        journal.append(RunResumed(run_id="run-1", seq=3, time=_START))
        found = await counted()
        assert found == first, f"it counts {found}; run-1 has resumed"
        journal.append(_settled("run-1", 4))
        found = await counted()
        assert found == [first[0], (0, "completed", "", 2)], f"it counts {found}; run-1 has ended"

    @_with_journal
    async def test_money_of_one_currency_is_never_held_against_that_of_another(
        self, journal: Journal
    ) -> None:
        """Each currency has its own sum and order by cost; a page may end between two of them."""
        spent = [("USD", "0.1"), ("EUR", "9"), ("USD", "0.3"), ("EUR", "0.2"), ("USD", "0")]
        for n, (currency, total) in enumerate(spent):
            journal.append(_started(f"run-{n}", _START + timedelta(minutes=n)))
            settled = _settled(f"run-{n}", 2, status=Status.COMPLETED)
            cost = Cost(total=Decimal(total), currency=currency)
            usage = Usage(api_calls=1, input_tokens=5, total_tokens=5)
            result = replace(settled.result, usage=usage, cost=cost)
            journal.append(replace(settled, result=result))
            await journal.durable(f"run-{n}", 2)

        async def ids(**filters: Any) -> list[str]:
            return [run.run_id for run in await journal.runs(**filters)]

        ranked = ["run-2", "run-0", "run-1", "run-3"]
        assert await ids(sort="cost") == ranked, "costs of two currencies are mixed"
        for at, run_id in enumerate(ranked):
            rest = await ids(sort="cost", before=run_id)
            assert rest == ranked[at + 1 :], f"after {run_id} comes {rest}"
        assert await ids(sort="cost", currency="EUR") == ["run-1", "run-3"], "not those in EUR"
        assert await ids(currency="USD") == ["run-2", "run-0"], "not those in USD"
        counts = await needs_shared(journal).counts()
        [day] = counts.cost_by_day
        assert day.costs == {"EUR": Decimal("9.2"), "USD": Decimal("0.4")}, counts
        assert day.runs == len(spent), counts

    @_with_journal
    async def test_the_list_of_runs_says_whose_each_is_and_what_it_answered(
        self, journal: Journal
    ) -> None:
        """Filters by owner, tenant, tool, model, text and time; sorts by duration."""
        for n, user in enumerate(("ann", "bob", "ann")):
            started = _started(f"run-{n}", _START + timedelta(minutes=n))
            owned = {"user": user, "tenant": f"t-{n % 2}"}
            journal.append(replace(started, attributes=owned))
            tools = ("send", "resend") if n else ("send_all",)
            calls = (CallCount(type="model", name=f"a:m-{n % 2}", calls=1),)
            facts: dict[str, Any] = {"tools": tools, "calls": calls, "took_s": n * 1.5}
            facts["answer"] = f"Ämter, {n} of them."
            journal.append(replace(_settled(f"run-{n}", 2), **facts))
            await journal.durable(f"run-{n}", 2)

        async def ids(**filters: Any) -> list[str]:
            return [run.run_id for run in await journal.runs(**filters)]

        [run] = await journal.runs(run_id="run-2")
        known = (run.owner, run.tenant, run.answer, run.took_s, run.tools)
        expected = ("ann", "t-0", "Ämter, 2 of them.", 3.0, ("send", "resend"))
        assert known == expected, f"it lists {known} for {expected}"
        ann = {"owner": "ann", "tenant": "t-0"}
        assert await ids(**ann) == ["run-2", "run-0"], "it gave others for an owner"
        assert await ids(**ann, limit=1, before="run-2") == ["run-0"], "not after the page"
        assert await ids(owner="ann") == [], "a user without a tenant has runs of one"
        assert await ids(tenant="t-1") == ["run-1"], "it gave others for a tenant"
        assert await ids(tool="send") == ["run-2", "run-1"], "it gave others for a tool"
        assert await ids(model="a:m-0") == ["run-2", "run-0"], "it gave others for a model"
        assert await ids(model="a:m") == [], "it gave others for the start of a model's name"
        assert await ids(text="äMTER, 1") == ["run-1"], "it gave others for a text"
        assert await ids(text=" RUN\n-1 ") == ["run-1"], "it gave others for an id with spaces"
        assert await ids(text="un-1") == [], "it gave runs for the middle of an id"
        assert await ids(text="no such") == [], "it gave runs without the text"
        minute = _START + timedelta(minutes=1)
        assert await ids(since=minute) == ["run-2", "run-1"], "it gave others since a moment"
        assert await ids(until=minute) == ["run-0"], "it gave others until a moment"
        assert await ids(sort="took") == ["run-2", "run-1"], "not by how long they took"
        with pytest.raises(Misuse):
            await journal.runs(since=datetime(2026, 1, 1))  # noqa: DTZ001  # what is refused

    @_with_journal
    async def test_a_conversation_belongs_to_the_user_of_its_first_run(
        self, journal: Journal
    ) -> None:
        """Other users start no turn of it; lists return to each user only their own."""
        shared = needs_shared(journal)

        async def submit(run_id: str, user: str, conversation: str) -> Submission:
            request = Request("a question", context_id=conversation)
            options: dict[str, Any] = {"attributes": {"user": user, "tenant": "t"}}
            return await shared.submit(
                Submission(run_id=run_id, agent_id="agent", request=request, options=options)
            )

        await submit("run-1", "ann", "talk")
        with pytest.raises(OtherUser):
            await submit("run-2", "bob", "talk")
        assert await journal.runs(run_id="run-2") == [], "a refused turn is in the list"
        await submit("run-3", "ann", "talk")
        await submit("run-4", "bob", "other")
        for run_id, user, conversation in (("run-1", "ann", "talk"), ("run-4", "bob", "other")):
            owned = {"user": user, "tenant": "t"}
            started = _started(run_id, context_id=conversation)
            journal.append(replace(started, attributes=owned))
            await journal.durable(run_id, 1)
        keeps = cast("Any", journal)
        found = [one.id for one in await keeps.conversations(owner="ann", tenant="t", limit=1)]
        assert found == ["talk"], f"it gives {found} for ann"
        assert not await keeps.conversations(owner="ann"), "it gives those of a tenant"
        assert not await keeps.conversations(tenant="no"), "it gives those of another tenant"

    @_with_journal
    async def test_the_list_of_runs_can_be_narrowed(self, journal: Journal) -> None:
        """Runs can be filtered by conversation, parent, id and prefix of ids."""
        journal.append(_started("run-1", context_id="talk"))
        journal.append(_started("run-12", parent_run_id="run-1"))
        journal.append(_started("other", context_id="talk-2"))
        found = {
            "context_id": await journal.runs(context_id="talk"),
            "parent_run_id": await journal.runs(parent_run_id="run-1"),
            "run_id": await journal.runs(run_id="run-1"),
        }
        ids = {name: [run.run_id for run in runs] for name, runs in found.items()}
        expected = {"context_id": ["run-1"], "parent_run_id": ["run-12"], "run_id": ["run-1"]}
        assert ids == expected, f"it gives {ids} for {expected}"
        assert found["run_id"][0].context_id == "talk", "run-1 is of the conversation 'talk'"
        roots = {run.run_id for run in await journal.runs(parent_run_id="")}
        assert roots == {"run-1", "other"}, f"two runs have no parent; it gives {sorted(roots)}"
        begun = {run.run_id for run in await journal.runs(prefix="run-1")}
        assert begun == {"run-1", "run-12"}, f"two ids begin with run-1; it gives {sorted(begun)}"

    @_with_journal
    async def test_a_conversation_has_one_turn_at_a_time(self, journal: Journal) -> None:
        """While one turn is open, a second claim is refused and names the first."""
        claim_turn = _turns_of(journal)
        epoch = await claim_turn("run-1", TurnClaim("talk", "run-1"))
        await journal.claim("other")
        taken = [await claim_turn(id, TurnClaim("talk", id)) for id in ("run-2", "run-2")]
        assert taken == [TurnInTheWay("run-1", "running")] * 2, f"run-1 has the turn; {taken}"
        elsewhere = await claim_turn("run-3", TurnClaim("talk-2", "run-3"))
        assert isinstance(elsewhere, int), f"another conversation is not concerned: {elsewhere}"
        journal.append(_turn("run-1", 1), epoch=epoch)
        journal.append(_settled("run-1", 2, status=Status.INPUT_REQUIRED), epoch=epoch)
        await journal.durable("run-1", 2)
        waiting = await claim_turn("run-2", TurnClaim("talk", "run-2"))
        assert waiting == TurnInTheWay("run-1", "input_required"), f"run-1 waits; {waiting}"
        passed = await claim_turn("run-2", TurnClaim("talk", "run-2", passes=True))
        assert isinstance(passed, int), f"a turn that may pass a waiting one was refused: {passed}"

    @_with_journal
    async def test_a_turn_that_was_let_go_has_died_once_it_began(self, journal: Journal) -> None:
        """Before its first event there is nothing to resume."""
        claim_turn, release = _turns_of(journal), cast("Any", journal).release
        release("run-1", await claim_turn("run-1", TurnClaim("talk", "run-1")))
        epoch = await claim_turn("run-2", TurnClaim("talk", "run-2"))
        assert isinstance(epoch, int), f"run-1 never began: {epoch}"
        journal.append(_turn("run-2", 1), epoch=epoch)
        release("run-2", epoch)
        died = await claim_turn("run-3", TurnClaim("talk", "run-3"))
        assert died == TurnInTheWay("run-2", "died"), (
            f"run-2 started and was released, so it has died; {died}"
        )
        again = await claim_turn("run-2", TurnClaim("talk", "run-2", passes=True))
        assert isinstance(again, int), f"run-2 itself may continue: {again}"

    @_with_journal
    async def test_a_turn_is_kept_for_the_run_that_it_is_handed_to(self, journal: Journal) -> None:
        """Between the end of a run and the first event of the next, no other run gets the turn."""
        claim_turn, release = _turns_of(journal), cast("Any", journal).release
        epoch = await claim_turn("run-1", TurnClaim("talk", "run-1"))
        started, settled = _turn("run-1", 1), _settled("run-1", 2)
        journal.append(replace(started, options={**started.options, CHAIN_OPTION: {}}), epoch=epoch)
        handed = HandoffEvent(to_agent_id="other")
        journal.append(replace(settled, result=replace(settled.result, handoff=handed)))
        await journal.durable("run-1", 2)
        following = child_id(CHAIN_OPTION, "run-1")
        kept = await claim_turn("run-2", TurnClaim("talk", "run-2"))
        assert kept == TurnInTheWay(following, "running"), f"the turn is handed on; {kept}"
        epoch = await claim_turn(following, TurnClaim("talk", "run-1"))
        assert isinstance(epoch, int), f"the run that it is handed to takes it: {epoch}"
        release(following, epoch)
        left = await claim_turn("run-2", TurnClaim("talk", "run-2"))
        assert left == TurnInTheWay(following, "died"), f"the next run has the turn; {left}"
        shared = needs_shared(journal)
        due = [one.run_id for one in await shared.due_runs()]
        assert due == [following], f"the next run must be due; due are {due}"
        new = await shared.submission(following)
        assert new is not None, "it was submitted"
        assert new.after == "run-1", f"by the run before; after is {new.after!r}"
        await shared.withdraw(following)
        taken = await claim_turn("run-2", TurnClaim("talk", "run-2"))
        assert isinstance(taken, int), f"the turn must be free: {taken}"
        assert await shared.due_runs(run_id=following) == [], "a run that is withdrawn is not due"

    @_with_journal
    async def test_turns_count_in_the_order_of_their_ends(self, journal: Journal) -> None:
        """Turns that were not committed do not count."""
        _turns_of(journal)
        for number in (1, 2, 3):
            journal.append(_turn(f"run-{number}", 1, _START + timedelta(days=number)))
        for run_id, committed in (("run-3", True), ("run-2", False), ("run-1", True)):
            journal.append(_settled(run_id, 2, committed=committed))
            await journal.durable(run_id, 2)
        revisions = {run.run_id: run.revision for run in await journal.runs()}
        expected = {"run-3": 1, "run-2": 0, "run-1": 2}
        assert revisions == expected, f"it counts {revisions} for {expected}"
        keeps = cast("Any", journal)
        talk = await keeps.conversation("talk")
        assert ([run.run_id for run in talk.runs], talk.revision) == (
            ["run-1", "run-2", "run-3"],
            2,
        )
        (line,) = await keeps.conversations(limit=5)
        listed = (line.id, line.title, line.revision, line.waiting)
        assert listed == ("talk", "a question", 2, 0), f"it lists {listed}"
        assert (await keeps.conversation("unknown")).runs == (), "an unknown conversation is empty"

    @_with_journal
    async def test_a_removed_run_is_gone_with_all_that_it_started(self, journal: Journal) -> None:
        """Nothing is left of a removed run and its child runs; other runs stay."""
        remove = _removal_of(journal)
        journal.append(_started("run-1"))
        journal.append(_started("run-2", parent_run_id="run-1"))
        appended = _append(journal, "run-3", 3)
        removed = await remove(["run-1"])
        assert set(removed.run_ids) == {"run-1", "run-2"}, f"it reported {removed.run_ids}"
        assert await _listed(journal) == ["run-3"], "run-3 alone is left"
        _check_same(await _read(journal, "run-2"), [])
        _check_same(await _read(journal, "run-3"), appended)
        again = _started("run-1")
        journal.append(again)
        _check_same(await _read(journal, "run-1"), [again])

    @_with_journal
    async def test_a_run_that_its_parent_reads_is_not_removed(self, journal: Journal) -> None:
        """The refusal names the run that reads it."""
        remove = _removal_of(journal)
        journal.append(_started("run-1"))
        journal.append(_started("run-2", parent_run_id="run-1"))
        try:
            await remove(["run-2"])
        except Misuse as refused:
            assert "run-1" in str(refused), f"the refusal does not name run-1: {refused}"
        else:
            raise AssertionError("run-2 was removed and its parent was not")
        assert set(await _listed(journal)) == {"run-1", "run-2"}, "a refused removal took a run"

    @_with_journal
    async def test_runs_that_ended_before_a_date_are_removed(self, journal: Journal) -> None:
        """Later runs stay, and those that have not ended."""
        remove = _removal_of(journal)
        for run_id, day in (("old", 0), ("new", 3), ("open", 0)):
            journal.append(_started(run_id, _START + timedelta(days=day)))
            if run_id != "open":
                journal.append(_settled(run_id, 2, _START + timedelta(days=day)))
        removed = await remove(ended_before=_START + timedelta(days=1))
        assert removed.run_ids == ("old",), (
            f"only 'old' ended before; it reported {removed.run_ids}"
        )
        left = set(await _listed(journal))
        assert left == {"new", "open"}, f"'new' and 'open' should be left; it lists {sorted(left)}"

    @_with_journal
    async def test_a_run_that_was_only_claimed_is_not_listed(self, journal: Journal) -> None:
        """A run starts with its first event."""
        await journal.claim("run-1")
        assert await _listed(journal) == [], "a run without an event is listed"

    async def test_what_was_exported_is_imported_equal(self) -> None:
        """Export and import change nothing."""
        with _export_file() as path:
            appended, runs = await self._export(path)
            async with self._empty() as other:
                run_id = await other.import_(path)
                assert run_id == "run-1", f"import_() gave {run_id!r} for run-1"
                _check_same(await _read(other, "run-1"), appended)
                found = list(await other.runs())
                assert found == runs, f"the import lists {found}; the export came from {runs}"

    @_with_journal
    async def test_an_import_never_changes_a_run(self, journal: Journal) -> None:
        """A run id that exists is refused."""
        appended = _append(journal, "run-1", 4)
        with _export_file() as path:
            await journal.export("run-1", path)
            with pytest.raises(JournalError):
                await journal.import_(path)
        _check_same(await _read(journal, "run-1"), appended)

    @_with_journal
    async def test_an_export_of_nothing_is_misuse(self, journal: Journal) -> None:
        """No file is created for an unknown run."""
        with _export_file() as path:
            with pytest.raises(Misuse):
                await journal.export("run-unknown", path)
            assert os.listdir(os.path.dirname(path)) == [], "a file was made for an unknown run"

    async def test_a_damaged_import_takes_nothing(self) -> None:
        """Nothing is imported, and the error names the line."""
        with _export_file() as path:
            await self._export(path)
            with open(path, "rb") as file:
                lines = file.readlines()
            lines[3] = lines[3][:-10] + b"\n"
            with open(path, "wb") as file:
                file.writelines(lines)
            async with self._empty() as other:
                with pytest.raises(JournalError, match="line 4"):
                    await other.import_(path)
                _check_same(await _read(other, "run-1"), [])

    @_with_journal
    async def test_a_closed_journal_takes_nothing(self, journal: Journal) -> None:
        """After the close every append is an error; closing again is not."""
        await journal.aclose()
        with pytest.raises(JournalError):
            journal.append(_started("run-1"))
        await journal.aclose()

    @asynccontextmanager
    async def _empty(self) -> AsyncGenerator[Journal]:
        async with self._made() as journal:
            held = await _listed(journal)
            assert not held, f"make() gave a journal that holds {held}: give an empty one each time"
            yield journal

    async def _close(self, subject: Journal) -> None:
        await subject.aclose()

    async def _export(self, path: str) -> tuple[list[Event], list[RunSummary]]:
        """Write a run to *path*; its journal is then closed, because a place may be one journal."""
        async with self._empty() as journal:
            appended = _append(journal, "run-1", 4)
            count = await journal.export("run-1", path)
            assert count == 4, f"export() gave {count!r} for 4 events"
            return appended, list(await journal.runs())


@contextmanager
def _export_file() -> Generator[str]:
    """Yield a path in a new folder, without a file."""
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.join(folder, "run.jsonl")


def _append(journal: Journal, run_id: str, count: int) -> list[Event]:
    appended = [_started(run_id), *(_step(run_id, seq) for seq in range(2, count + 1))]
    for event in appended:
        journal.append(event)
    return appended


def _removal_of(journal: Journal) -> Callable[..., Awaitable[Any]]:
    """Return the method that removes runs; skip the check if the journal has none."""
    remove = getattr(journal, "remove_runs", None)
    if remove is None:
        raise SkipTest("it has no remove_runs()")
    return remove


def _turns_of(journal: Journal) -> Callable[..., Awaitable[Any]]:
    """Return the method that claims turns; skip the check if the journal has none."""
    claim_turn = getattr(journal, "claim_turn", None)
    if claim_turn is None:
        raise SkipTest("it has no claim_turn()")
    return claim_turn


def _turn(run_id: str, seq: int, time: datetime = _START) -> RunStarted:
    options: dict[str, Any] = {TURN_OPTION: {}}
    started = _started(run_id, time, context_id="talk")
    return replace(started, seq=seq, options=options)


def _started(
    run_id: str, time: datetime = _START, *, parent_run_id: str = "", context_id: str = ""
) -> RunStarted:
    return RunStarted(
        run_id=run_id,
        seq=1,
        time=time,
        agent=AgentSpec(id="agent"),
        request=Request("a question", context_id=context_id),
        parent_run_id=parent_run_id,
    )


def _step(run_id: str, seq: int) -> Event:
    stamp: dict[str, Any] = {
        "run_id": run_id,
        "seq": seq,
        "attempt": 1,
        "time": _START + timedelta(seconds=seq - 1),
    }
    match seq % 3:
        case 0:
            return StepSettled(**stamp, key=f"step {seq}", value={"text": "ä\n\x00", "n": [1.5]})
        case 1:
            return BoardChanged(**stamp, messages=(Message("assistant", "text"),))
        case _:
            return ToolStarted(**stamp, call=ToolCall(f"call-{seq}", "tool", {"a": None}))


def _settled(
    run_id: str,
    seq: int,
    time: datetime = _START,
    *,
    status: Status = Status.COMPLETED,
    committed: bool = True,
) -> RunSettled:
    is_committed = committed and status is Status.COMPLETED
    result = AgentResult[Any](
        run_id=run_id,
        status=status,
        error=None if status is Status.COMPLETED else AgentError(ErrorCode.INPUT_REQUIRED),
        output="done",
        committed=is_committed,
    )
    return RunSettled(run_id=run_id, seq=seq, time=time, result=result)


async def _read(journal: Journal, run_id: str, after: int = 0) -> list[Any]:
    return [event async for event in journal.events(run_id, after)]


async def _listed(journal: Journal, status: str | None = None) -> list[str]:
    return [run.run_id for run in await journal.runs(status)]


def _check_same(read: list[Any], appended: list[Event]) -> None:
    kinds = [getattr(event, "kind", type(event).__name__) for event in read]
    expected = [event.kind for event in appended]
    assert kinds == expected, f"it gave the events {kinds} for {expected}"
    for event, wanted in zip(read, appended, strict=True):
        assert event == wanted, f"it gave {event!r} for {wanted!r}"
