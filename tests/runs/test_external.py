"""A result from outside is waited for without holding anything, and delivered by resume."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.runs.kit import Do, kinds, log_of
from upshot import Agent, Answer, Misuse, Parked, PendingExternal, Request, resume, run
from upshot.journal import MemoryJournal
from upshot.testing import FakeClock


async def ship(run: Any, host: Any, board: Any) -> Any:
    return await host.wait_for("parcel-7", "the carrier's word")


def agent(work: Any = ship) -> Agent:
    return Agent("shop", engine=Do(work))


async def test_a_run_parks_until_the_result_is_delivered() -> None:
    journal = MemoryJournal()
    first = await run(agent(), Request("?", run_id="r"), journal=journal)
    (waits,) = first.pending
    assert isinstance(waits, PendingExternal)
    assert (waits.id, waits.description, waits.asked_at is None) == (
        "parcel-7",
        "the carrier's word",
        False,
    )
    second = await resume("r", agent(), journal=journal, answers=[Answer("parcel-7", {"ok": 1})])
    assert (second.output, second.started_at) == ({"ok": 1}, first.started_at)
    assert "question_answered" in kinds(await log_of(journal, "r"))


async def test_what_an_engine_parked_for_itself_can_be_answered() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        if board.get("asked"):
            return await host.wait_for("job-1")
        board.set("asked", True)
        raise Parked(PendingExternal(id="job-1"))

    journal = MemoryJournal()
    await run(agent(work), Request("?", run_id="r"), journal=journal)
    result = await resume("r", agent(work), journal=journal, answers=[Answer("job-1", "done")])
    assert result.output == "done"


async def test_one_inside_is_answered_through_the_outer_run() -> None:
    async def outer(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(agent(), "Ship.", key="ship")
        if result.pending:
            raise Parked(*result.pending)
        return result.output

    journal = MemoryJournal()
    first = await run(agent(outer), Request("?", run_id="o"), journal=journal)
    assert [one.id for one in first.pending] == ["parcel-7"]
    result = await resume("o", agent(outer), journal=journal, answers=[Answer("parcel-7", "there")])
    assert result.output == "there"


async def test_a_result_that_does_not_come_in_time_fails_the_wait() -> None:
    clock = FakeClock()

    async def work(run: Any, host: Any, board: Any) -> Any:
        until = run.started_at + timedelta(days=1)
        return await host.wait_for("parcel-7", expires_at=until)

    journal = MemoryJournal()
    await run(agent(work), Request("?", run_id="r"), journal=journal, clock=clock)
    await clock.sleep(timedelta(days=2).total_seconds())
    result = await resume("r", agent(work), journal=journal, clock=clock)
    assert (result.status, result.error and result.error.code) == ("failed", "timeout")


async def test_another_id_is_refused_with_what_is_waited_for() -> None:
    journal = MemoryJournal()
    await run(agent(), Request("?", run_id="r"), journal=journal)
    with pytest.raises(Misuse, match="parcel-7"):
        await resume("r", agent(), journal=journal, answers=[Answer("parcel-8", 1)])
