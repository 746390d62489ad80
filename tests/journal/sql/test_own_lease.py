"""The lease of a process on the runs that it holds: when it is renewed, and what it is worth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.places import Place
from upshot import Agent, Request, ScriptedModel, ToolCall, run, tool
from upshot.contract import RunStarted
from upshot.errors import JournalError
from upshot.journal.lease_holder import LEASE_S, MARGIN_S, boot_s, lease_left_s, this_process
from upshot.journal.sql.connection import WriteConnection
from upshot.journal.sql.own_lease import OwnLease, this_holder
from upshot.journal.sql.sql_journal import SqlJournal


class Rows:
    """A database that holds some runs for this process."""

    def __init__(self, *run_ids: str) -> None:
        self.run_ids = run_ids
        self.sent_at: list[float] = []

    def execute(self, statement: str, values: object) -> list[tuple[str]]:
        return [(run_id,) for run_id in self.run_ids]

    def keep_lease(self, holder: str) -> None:
        assert holder == this_holder()
        self.sent_at.append(boot_s())


def sent(rows: Rows) -> WriteConnection:
    return cast("WriteConnection", rows)


def test_many_runs_that_are_taken_one_after_another_send_the_lease_once() -> None:
    own, rows = OwnLease(), Rows("r")
    for _ in range(3):
        own.keep(sent(rows))
        own.commit()
    assert len(rows.sent_at) == 1


def test_a_lease_holds_once_it_is_committed_and_counts_from_before_it_was_sent() -> None:
    own, rows = OwnLease(), Rows("r")
    own.keep(sent(rows))
    assert own.until == 0
    own.commit()
    assert own.until <= rows.sent_at[0] + LEASE_S
    assert own.safe_until == own.until - MARGIN_S


def test_the_lease_of_who_holds_no_run_is_not_renewed() -> None:
    own, rows = OwnLease(), Rows()
    own.keep(sent(rows))
    own.commit()
    assert own.due_s is not None
    assert own.renew(sent(rows)) == frozenset()
    assert (own.due_s, len(rows.sent_at)) == (None, 1)


def test_a_renewal_that_failed_is_tried_again_soon_and_not_at_once() -> None:
    own = OwnLease()
    own.keep(sent(Rows("r")))
    own.begin_renewal()
    assert own.due_s is not None and 0 < own.due_s <= 0.5


@given(st.none() | st.floats(allow_nan=False), st.text())
def test_no_lease_of_another_start_of_the_machine_holds(until: float | None, boot: str) -> None:
    here = this_process().boot
    if here and here not in boot:
        assert lease_left_s(f'{{"boot":"{boot}"}}', until) < 0


@pytest.fixture
async def journal(place: Place) -> AsyncIterator[SqlJournal]:
    opened = await place.open()
    yield opened
    await opened.aclose()


async def test_what_is_left_of_a_lease_is_told_with_its_holder(journal: SqlJournal) -> None:
    await journal.claim("r")
    holder = (await journal.holders())["r"]
    assert holder.lease_s is not None and 9 < holder.lease_s <= LEASE_S
    assert holder.is_this_process


async def test_a_lease_that_lapses_is_renewed_before_anything_is_started(
    journal: SqlJournal,
) -> None:
    await journal.claim("r")
    journal.lease.safe_until = 0
    await journal.renew_lease("r")
    assert journal.lease.safe_until > boot_s()


async def test_who_renews_the_lease_of_a_run_that_was_taken_is_told(
    journal: SqlJournal, place: Place
) -> None:
    epoch = await journal.claim("r")
    journal.append(RunStarted(run_id="r", seq=1), epoch=epoch)
    await journal.durable("r", 1)
    lost: list[str] = []
    journal.on_lost["r"] = lambda: lost.append("r")
    steal(place)
    journal.lease.safe_until = 0
    with pytest.raises(JournalError, match="has taken it"):
        await journal.renew_lease("r")
    assert lost == ["r"]


def steal(place: Place) -> None:
    """What another process does that takes run r."""
    place.do("UPDATE runs SET epoch = epoch + 1, holder = 'another' WHERE run_id = 'r'")


async def test_a_body_is_not_started_where_the_run_was_taken_after_its_intent_was_safe(
    journal: SqlJournal, place: Place
) -> None:
    paid: list[str] = []

    class Overtaken:
        """The journal in a process that is suspended as soon as an intent is on disk."""

        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
            await journal.durable(run_id, seq, epoch=epoch)
            if [event.kind async for event in journal.events(run_id)][-1] == "tool_started":
                steal(place)
                journal.lease.safe_until = 0

    @tool(effect="write")
    async def pay() -> str:
        paid.append("paid")
        return "paid"

    agent = Agent("a", model=ScriptedModel([ToolCall("p", "pay"), "Done."]), tools=[pay])
    result = await run(agent, Request("Go.", run_id="r"), journal=cast("Any", Overtaken()))
    assert (paid, result.status) == ([], "failed")
    assert result.error is not None and "has taken it" in result.error.message
