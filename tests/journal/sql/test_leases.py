"""What becomes of a run, and of what is appended to it, while a claim is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.places import Place
from upshot.contract import AgentResult, Event, RunSettled, RunStarted
from upshot.errors import JournalError
from upshot.journal.run_list import TurnClaim, TurnInTheWay
from upshot.journal.sql.sql_journal import SqlJournal


def event(seq: int) -> Event:
    return RunStarted(run_id="r", seq=seq)


async def seqs(journal: SqlJournal) -> list[int]:
    return [event.seq async for event in journal.events("r")]


async def under_way(claim: Any) -> asyncio.Task[int]:
    """The claim, queued, with an outcome that the loop does not know yet."""
    task: asyncio.Task[int] = asyncio.create_task(claim)
    for _ in range(2):
        await asyncio.sleep(0)
    return task


@pytest.fixture
async def journal(place: Place) -> AsyncIterator[SqlJournal]:
    opened = await place.open()
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("steps", range(6))
async def test_a_claim_that_was_cancelled_is_let_go(place: Place, steps: int) -> None:
    journal = await place.open()
    claim = asyncio.create_task(journal.claim_free("r"))
    for _ in range(steps):
        await asyncio.sleep(0)
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    await journal.aclose()
    other = await place.open()
    assert all(holder.state == "gone" for holder in (await other.holders()).values())
    await other.aclose()


async def test_a_claim_that_was_cancelled_is_let_go_while_the_journal_stays_open(
    journal: SqlJournal,
) -> None:
    claim = await under_way(journal.claim_free("r"))
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    # One that comes later is behind all that the cancelled one still does.
    await journal.claim("other")
    assert (await journal.holders())["r"].state == "gone"


async def test_what_is_appended_while_a_claim_fails_is_written(
    journal: SqlJournal, place: Place
) -> None:
    epoch = await journal.claim("r")
    for seq in (1, 2, 3):
        journal.append(event(seq), epoch=epoch)
    await journal.durable("r", 3)
    place.do("UPDATE events SET body = 'x' WHERE id & 4294967295 = 2")
    claim = await under_way(journal.claim("r"))
    journal.append(event(4), epoch=epoch)
    await journal.durable("r", 4)
    with pytest.raises(JournalError):
        await claim
    journal.append(event(5), epoch=epoch)
    await journal.durable("r", 5)
    place.do("DELETE FROM events WHERE id & 4294967295 < 4")
    assert place.do("SELECT id & 4294967295 FROM events ORDER BY id") == [(4,), (5,)]


async def test_what_is_appended_while_a_claim_succeeds_comes_before_it(
    journal: SqlJournal,
) -> None:
    old = await journal.claim("r")
    journal.append(event(1), epoch=old)
    claim = await under_way(journal.claim("r"))
    journal.append(event(2), epoch=old)
    journal.append(event(3), epoch=old)
    await journal.durable("r", 3)
    new = await claim
    assert await journal.last_seq("r") == 3
    with pytest.raises(JournalError, match="has taken it"):
        journal.append(event(4), epoch=old)
    journal.append(event(4), epoch=new)
    await journal.durable("r", 4)
    assert await seqs(journal) == [1, 2, 3, 4]


async def test_who_reads_at_once_sees_what_came_while_the_run_was_taken(
    journal: SqlJournal,
) -> None:
    claim = await under_way(journal.claim("r"))
    journal.append(event(1))
    assert await seqs(journal) == [1]
    assert await claim == 1


async def test_a_run_that_settles_while_it_is_taken_is_held_by_who_took_it(
    journal: SqlJournal,
) -> None:
    old = await journal.claim("r")
    journal.append(event(1), epoch=old)
    claim = await under_way(journal.claim("r"))
    journal.append(RunSettled(run_id="r", seq=2, result=AgentResult(run_id="r")), epoch=old)
    await journal.durable("r", 2)
    new = await claim
    assert (await journal.holders())["r"].is_this_process
    journal.release("r", new)
    assert (await journal.holders())["r"].state == "gone"


@pytest.mark.parametrize("written", [[], [event(1)]])
async def test_what_comes_after_somebody_elses_claim_is_not_acknowledged(
    journal: SqlJournal, place: Place, written: list[Event]
) -> None:
    old = await journal.claim("r")
    other = await place.open()
    epoch = await other.claim("r")
    for one in written:
        other.append(one, epoch=epoch)
    await other.aclose()
    claim = await under_way(journal.claim("r"))
    journal.append(event(1), epoch=old)
    with pytest.raises(JournalError, match="no longer held with epoch 1: epoch 3"):
        await journal.durable("r", 1)
    journal.append(event(len(written) + 1), epoch=await claim)
    await journal.durable("r", len(written) + 1)
    assert await seqs(journal) == list(range(1, len(written) + 2))


async def test_what_comes_after_a_damage_that_is_cut_off_is_not_acknowledged(
    journal: SqlJournal, place: Place
) -> None:
    old = await journal.claim("r")
    for seq in (1, 2):
        journal.append(event(seq), epoch=old)
    await journal.durable("r", 2)
    place.do("UPDATE events SET body = 'x' WHERE id & 4294967295 = 2")
    claim = await under_way(journal.claim("r"))
    journal.append(event(3), epoch=old)
    with pytest.raises(JournalError, match="no longer held"):
        await journal.durable("r", 3)
    await claim
    assert await seqs(journal) == [1]


async def test_of_many_claims_at_once_none_loses_what_was_appended(
    journal: SqlJournal,
) -> None:
    old = await journal.claim("r")
    claims = await asyncio.gather(*(under_way(journal.claim("r")) for _ in range(3)))
    journal.append(event(1), epoch=old)
    await journal.durable("r", 1)
    epochs = [await claim for claim in claims]
    assert epochs == [old + 1, old + 2, old + 3]
    journal.append(event(2), epoch=epochs[-1])
    await journal.durable("r", 2)
    assert await seqs(journal) == [1, 2]


async def test_closing_writes_what_was_kept(place: Place) -> None:
    journal = await place.open()
    claim = await under_way(journal.claim("r"))
    journal.append(event(1))
    await journal.aclose()
    assert await claim == 1
    again = await place.open()
    assert await seqs(again) == [1]
    await again.aclose()


async def test_who_lost_a_run_that_came_back_is_not_told_that_anothers_event_is_safe(
    journal: SqlJournal, place: Place
) -> None:
    old = await journal.claim("r")
    journal.append(event(1), epoch=old)
    await journal.durable("r", 1, epoch=old)
    other = await place.open()
    epoch = await other.claim("r")
    other.append(event(2), epoch=epoch)
    await other.aclose()
    journal.append(event(2), epoch=old)
    new = await journal.claim("r")
    with pytest.raises(JournalError, match=f"no longer held with epoch {old}: epoch {new} has"):
        await journal.durable("r", 2, epoch=old)
    await journal.durable("r", 1, epoch=old)
    await journal.durable("r", 2, epoch=new)
    assert await seqs(journal) == [1, 2]


async def test_who_lost_a_run_to_its_own_process_is_told_of_what_it_had_appended(
    journal: SqlJournal,
) -> None:
    first = await journal.claim("r")
    journal.append(event(1), epoch=first)
    claim = await under_way(journal.claim("r"))
    journal.append(event(2), epoch=first)
    second, third = await claim, await journal.claim("r")
    journal.append(event(3), epoch=third)
    await journal.durable("r", 2, epoch=first)
    await journal.durable("r", 2, epoch=second)
    with pytest.raises(JournalError, match="no longer held"):
        await journal.durable("r", 3, epoch=first)


async def test_who_settled_a_run_may_ask_again_whether_that_is_safe(journal: SqlJournal) -> None:
    epoch = await journal.claim("r")
    journal.append(event(1), epoch=epoch)
    journal.append(RunSettled(run_id="r", seq=2, result=AgentResult(run_id="r")), epoch=epoch)
    for _ in range(2):
        await journal.durable("r", 2, epoch=epoch)
    with pytest.raises(JournalError, match="no longer held"):
        await journal.durable("r", 2, epoch=epoch + 1)


async def test_of_two_journals_that_want_a_turn_at_once_one_takes_it(place: Place) -> None:
    journals = [await place.open() for _ in range(2)]
    for n in range(20):
        claims = [
            journal.claim_turn(f"{n}-{number}", TurnClaim(f"talk {n}", f"{n}-{number}"))
            for number, journal in enumerate(journals)
        ]
        taken = await asyncio.gather(*claims)
        lost = [one for one in taken if isinstance(one, TurnInTheWay)]
        assert [one.status for one in lost] == ["running"]
    for journal in journals:
        await journal.aclose()
