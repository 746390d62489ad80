"""A run that nobody works on is ended without its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from upshot import (
    Agent,
    Misuse,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    cancel,
    open_journal,
    run,
    start,
    tool,
)
from upshot.errors import JournalError
from upshot.journal import SqliteJournal
from upshot.journal.shared import Stop, needs_shared


def payer(*replies: Any, approval: bool) -> tuple[Agent[Any], ScriptedModel, list[int]]:
    paid: list[int] = []

    @tool(effect="write", approval=approval)
    def pay(order: int) -> str:
        """Pay."""
        paid.append(order)
        return "paid"

    model = ScriptedModel([*replies])
    return Agent("payer", model=model, tools=[pay]), model, paid


CALL = [ToolCall("c", "pay", {"order": 7})]


async def cut(journal: Any, run_id: str, new_id: str, last: str) -> None:
    """Log a run up to its last event of a kind, as if its process had died then."""
    events = [event async for event in journal.events(run_id)]
    seq = max(event.seq for event in events if event.kind == last)
    for event in events[:seq]:
        journal.append(replace(event, run_id=new_id))
    await journal.durable(new_id, seq)


async def test_a_turn_that_waits_is_ended_and_in_the_way_no_more(journal: Any) -> None:
    agent, _, paid = payer(CALL, approval=True)
    parked = await run(agent, "Pay 7.", journal=journal, conversation="ada")
    assert parked.status == "input_required"
    result = await cancel(parked.run_id, journal=journal)
    assert (result.status, result.run_id, paid) == ("canceled", parked.run_id, [])
    assert not result.committed
    agent, model, _ = payer("Fine.", approval=True)
    done = await run(agent, "And now?", journal=journal, conversation="ada")
    assert done.success
    assert [one.text for one in model.calls[0].messages] == ["And now?"]
    with pytest.raises(Misuse, match=f"run {parked.run_id} has ended: it is canceled"):
        await cancel(parked.run_id, journal=journal)


async def test_what_a_dead_turn_was_about_to_write_is_told_to_the_next(journal: Any) -> None:
    agent, _, _ = payer(CALL, "Paid.", approval=False)
    whole = await run(agent, "Pay 7.", journal=journal, conversation="bob")
    await cut(journal, whole.run_id, "dead", "tool_started")
    result = await cancel("dead", journal=journal)
    (record,) = result.tool_records
    assert (result.status, record.effect) == ("canceled", "unknown")
    agent, model, paid = payer("I see.", approval=False)
    await run(agent, "Did you?", journal=journal, conversation="bob")
    said = [one.text for one in model.calls[0].messages]
    assert any('pay({"order":7}) may have been applied' in text for text in said)
    assert paid == []


async def test_a_read_that_was_cut_is_told_to_nobody(journal: Any) -> None:
    @tool(effect="read")
    def look(room: int) -> str:
        """Look."""
        return "empty"

    model = ScriptedModel([ToolCall("c", "look", {"room": 1}), "Empty."])
    agent = Agent("looker", model=model, tools=[look])
    whole = await run(agent, "Look.", journal=journal, conversation="bob")
    await cut(journal, whole.run_id, "dead", "tool_started")
    (record,) = (await cancel("dead", journal=journal)).tool_records
    assert record.effect == "none"
    assert not (await journal.read_turns("bob")).undone


async def test_a_run_that_is_not_there_cannot_be_ended(journal: Any) -> None:
    with pytest.raises((Misuse, JournalError), match="nobody"):
        await cancel("nobody", journal=journal)


class Flaky(SqliteJournal):
    """Cannot be read at the first poll for requests to stop."""

    reads = 0

    async def stops(self, run_ids: Sequence[str]) -> Sequence[Stop]:
        self.reads += 1
        if self.reads == 2:
            raise JournalError("the disk is away")
        return await super().stops(run_ids)


async def test_a_request_to_stop_is_seen_after_a_read_that_failed(tmp_path: Path) -> None:
    async def wait(run: Any, host: Any, board: Any) -> None:
        await asyncio.Event().wait()

    journal = await Flaky.open(tmp_path / "runs.db")
    agent = Agent[Any]("a", engine=ScriptEngine(wait))
    async with start(agent, Request("?", run_id="r"), journal=journal) as live:
        # As another process asks for it.
        async with open_journal(tmp_path / "runs.db") as other:
            asked = Stop(run_id="r", kind="cancel", at=datetime.now(UTC))
            await needs_shared(other).place_stop(asked)
        result = await live.result()
    assert result.status == "canceled" and journal.reads > 2
    await journal.aclose()
