"""A result that is read again says what became known since of what was unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.places import Place
from upshot import Agent, ScriptedModel, Settlement, ToolCall, attach, resume, run, tool
from upshot.cli.lookup import read_activity
from upshot.cli.report import effect_lines
from upshot.contract import Effect, Journal
from upshot.contract.result import AgentResult
from upshot.journal import open_journal
from upshot.state.stored_events import result_of, seeds_of, states

DONE = Settlement(effect=Effect.APPLIED, by="ann", note="re_123 at the bank")
CALLS = [ToolCall("keyed", "pay", {"order_id": "7"}), ToolCall("bare", "tell", {"whom": "bob"})]


@tool(effect="write", once="order_id")
async def pay(order_id: str) -> str:
    raise TimeoutError("the bank did not answer")


@tool(effect="write")
async def tell(whom: str) -> str:
    raise TimeoutError("nobody answered")


def clerk() -> Agent[Any]:
    return Agent[Any]("clerk", model=ScriptedModel([CALLS, "Done."]), tools=[pay, tell])


async def logged(run_id: str, journal: Journal) -> AgentResult[Any]:
    """The result as the log has it."""
    found = None
    async for _, state in states(journal.events(run_id), seeds=seeds_of(journal)):
        found = result_of(state)
    assert found is not None
    return found


@pytest.fixture(params=["memory", "file"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    where = "memory:" if request.param == "memory" else Place.file(tmp_path).where
    async with open_journal(where) as opened:
        yield opened


@pytest.mark.parametrize("call_id", ["keyed", "bare"])
async def test_what_was_settled_since_is_told_by_whoever_reads_the_result(
    journal: Any, call_id: str
) -> None:
    first = await run(clerk(), "Pay.", journal=journal)
    stored = await logged(first.run_id, journal)
    assert await resume(first.run_id, clerk(), journal=journal) == stored
    entries = {one.call_id: one for one in await journal.effects(state="unknown")}
    known = (await journal.settle_effect(entries[call_id].id, DONE)).settled
    assert known == DONE

    expected = tuple(
        replace(one, settled=DONE) if one.call_id == call_id else one
        for one in stored.tool_outcomes
    )
    again = await resume(first.run_id, clerk(), journal=journal)
    async with attach(first.run_id, journal=journal) as handle:
        seen = await handle.result()
    shown = await read_activity(journal, first.run_id)
    assert seen is not None and shown.result is not None
    for one in (again, seen, shown.result):
        assert one.tool_outcomes == expected
        assert tuple(record.outcome for record in one.tool_records) == expected
        assert replace(one, tool_outcomes=(), tool_records=()) == replace(
            stored, tool_outcomes=(), tool_records=()
        )
    (line,) = effect_lines(shown, is_dead=True)
    assert ("pay" in line) == (call_id == "bare")
    # What the log says stays as it is.
    assert await logged(first.run_id, journal) == stored
