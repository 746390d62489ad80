"""What is believed of a call whose run was taken from a process that may still work on it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from upshot import (
    Agent,
    Request,
    ScriptedModel,
    ToolCall,
    ToolFailure,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.entry.run_lease import may_be_at_work
from upshot.journal import MemoryJournal
from upshot.journal.lease_holder import LeaseHolder, this_process


@pytest.mark.parametrize("place", ["memory:", "runs.db"])
async def test_that_nothing_happened_is_not_believed_while_the_other_session_works(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    began, release, paid = threading.Event(), threading.Event(), list[int]()

    @tool(effect="write", verify=lambda asked: "applied" if paid else "none")
    def pay(cents: int) -> str:
        """Pay."""
        began.set()
        release.wait(60)
        paid.append(cents)
        return "paid"

    model = ScriptedModel([ToolCall("c", "pay", {"cents": 1}), "Done."], per_conversation=True)
    agent = Agent("payer", model=model, tools=[pay])
    async with open_journal(place) as journal:
        first = asyncio.create_task(run(agent, Request("?", run_id="r"), journal=journal))
        assert await asyncio.to_thread(began.wait, 60)
        taken = await resume("r", agent, journal=journal, take_over=True)
        release.set()
        await first
    (outcome,) = taken.tool_outcomes
    assert paid == [1]
    assert isinstance(outcome, ToolFailure)
    assert (outcome.effect, outcome.retryable) == ("unknown", False)


class Held(MemoryJournal):
    """Says who held its runs before."""

    def __init__(self) -> None:
        super().__init__()
        self.holder = this_process()

    async def holders(self) -> dict[str, LeaseHolder]:
        return {"r": self.holder}


@pytest.mark.parametrize(
    ("change", "may_be"),
    [({}, False), ({"pid": 0}, False), ({"pid": 1, "started": None}, True), ({"boot": "?"}, True)],
    ids=["this process", "gone", "alive", "another machine"],
)
async def test_an_earlier_session_is_gone_only_if_that_is_certain(
    change: dict[str, Any], may_be: bool
) -> None:
    journal = Held()
    journal.holder = replace(journal.holder, **change)
    assert await may_be_at_work("r", journal) is may_be
