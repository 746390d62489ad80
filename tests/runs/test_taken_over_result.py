"""What a session says that lost its run to another one while a write was under way."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from upshot import (
    Agent,
    AgentResult,
    Request,
    ScriptedModel,
    ToolCall,
    ToolFailure,
    open_journal,
    resume,
    run,
    tool,
)


async def lost(place: str) -> tuple[AgentResult[str], AgentResult[str]]:
    """The result of the session that lost the run, and that of the one that has taken it."""
    began, release = threading.Event(), threading.Event()

    @tool(effect="write")
    def pay(cents: int) -> str:
        """Pay."""
        began.set()
        release.wait(60)
        return "paid"

    model = ScriptedModel([ToolCall("c", "pay", {"cents": 1}), "Done."], per_conversation=True)
    agent = Agent("payer", model=model, tools=[pay])
    async with open_journal(place) as journal:
        first = asyncio.create_task(run(agent, Request("?", run_id="r"), journal=journal))
        assert await asyncio.to_thread(began.wait, 60)
        taken = await resume("r", agent, journal=journal, take_over=True)
        release.set()
        return await first, taken


@pytest.mark.parametrize("place", ["memory:", "runs.db"])
async def test_a_session_that_lost_its_run_says_so_and_names_the_write_that_it_had_begun(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result, taken = await lost(place)
    assert taken.success
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "taken_over")
    assert not result.error.retryable
    (outcome,) = result.tool_outcomes
    # What it was told itself is known, where it ended before the loss was seen.
    assert outcome.call_id == "c"
    assert outcome.effect == ("unknown" if isinstance(outcome, ToolFailure) else "applied")
    assert (result.effect, taken.effect) == (outcome.effect, "unknown")
