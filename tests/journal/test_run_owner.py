"""Whose a run is, what it answered and how long it took, as the list of runs has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from upshot import (
    Agent,
    App,
    Handoff,
    PendingApproval,
    Request,
    RunSummary,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    answer,
    fork,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.testing import FakeClock

OWNED = {"user": "ann", "tenant": "acme"}
SECRET = "hunter2-hunter2"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncGenerator[Any]:
    where: Any = {"memory": "memory:", "sqlite": tmp_path / "runs.db"}.get(request.param)
    if where is None:
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


@tool(effect="write", approval=True)
def send(to: str) -> str:
    """Send."""
    return "sent"


async def listed(journal: Any, run_id: str) -> RunSummary:
    [found] = await journal.runs(run_id=run_id)
    return found


def owner(run: RunSummary) -> tuple[str, str]:
    return run.owner, run.tenant


async def test_child_runs_and_forks_are_whose_the_run_is(journal: Any) -> None:
    inner = Agent("inner", model=ScriptedModel(["Hm."]))

    async def work(run: Any, host: Any, board: Any) -> Any:
        child = await run.child(inner, "?", key="in", attributes={"shop": 7})
        return child.unwrap()

    outer = Agent("outer", engine=ScriptEngine(work))
    result = await run(outer, "?", journal=journal, attributes=OWNED)
    forked = await fork(result.run_id, at=1, journal=journal)
    assert {owner(one) for one in await journal.runs()} == {("ann", "acme")}
    assert len(await journal.runs(owner="ann", tenant="acme")) == 3
    assert not await journal.runs(owner="ann")
    assert (await listed(journal, forked)).owner == "ann"


async def test_queued_runs_and_those_that_are_handed_over_have_an_owner(journal: Any) -> None:
    over = [ToolCall("t", "transfer_to_till", {"reason": "x"})]
    desk = Agent[Any]("desk", model=ScriptedModel([over]), handoffs=[Handoff("till")])
    till = Agent[Any]("till", model=ScriptedModel(["Done."]))
    app = App([desk, till], journal=journal)
    handle = await app.submit("desk", "?", attributes=OWNED)
    [queued] = await app.runs("queued", owner="ann", tenant="acme")
    assert queued.run_id == handle.id
    await app.activate(handle.id)
    assert [owner(one) for one in await app.runs()] == [("ann", "acme")] * 2


async def test_the_answer_is_short_and_without_secrets(journal: Any) -> None:
    text = f"It is {SECRET}. " + "x" * 186 + SECRET + "y"
    agent = Agent("a", model=ScriptedModel([text]))
    result = await run(agent, "?", journal=journal, secrets=[SECRET])
    found = (await listed(journal, result.run_id)).answer
    assert found == "It is ***. " + "x" * 186 + "***"


async def test_an_answer_that_is_no_text_is_listed_as_json(journal: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return {"order": 7}

    result = await run(Agent("a", engine=ScriptEngine(work)), "?", journal=journal)
    assert (await listed(journal, result.run_id)).answer == '{"order":7}'


async def test_a_run_is_listed_by_its_tools_and_the_time_it_worked(journal: Any) -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))

    @tool(effect="read")
    def look() -> str:
        """Look."""
        clock.advance(2)
        return "seen"

    calls = [[ToolCall("l", "look", {})], [ToolCall("s", "send", {"to": "bob"})], "Sent."]
    agent = Agent[Any]("sender", model=ScriptedModel(calls), tools=[look, send])
    parked = await run(agent, Request("?"), journal=journal, clock=clock)
    found = await listed(journal, parked.run_id)
    assert (found.tools, found.took_s, found.answer) == (("look", "send"), 2.0, "")
    # Nobody works on it meanwhile.
    clock.advance(3600)
    asked = parked.pending[0]
    assert isinstance(asked, PendingApproval)
    await answer(parked.run_id, [asked.approve()], journal=journal)
    await resume(parked.run_id, agent, journal=journal, clock=clock)
    found = await listed(journal, parked.run_id)
    assert (found.tools, found.took_s, found.answer) == (("look", "send"), 2.0, "Sent.")
    [one] = await journal.runs(sort="took", since=clock.now() - timedelta(hours=2))
    assert one == found
