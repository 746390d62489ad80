"""Which runs a dataset has: each filter leaves out what does not fit."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    Misuse,
    ModelResponse,
    Request,
    ScriptedModel,
    ToolCall,
    Usage,
    note,
    open_journal,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.lab import Dataset
from upshot.testing import FakeClock


@tool(effect="write")
def mail(to: str) -> str:
    """Mail."""
    return "sent"


def agent(id: str, tokens: int = 1_000, *, calls: bool = False, fails: bool = False) -> Agent[Any]:
    def reply(messages: Any) -> Any:
        if fails:
            raise ValueError("a bug")
        if calls and not any(one.tool_call_id for one in messages):
            return ToolCall("m", "mail", {"to": "ann"})
        return ModelResponse(content=f"By {id}.", usage=Usage(input_tokens=tokens, output_tokens=0))

    return Agent(id, model=ScriptedModel(reply, name="openai:gpt-5"), tools=[mail])


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: Any, tmp_path: Path) -> Any:
    clock = FakeClock()
    async with open_journal(
        MemoryJournal() if request.param == "memory" else tmp_path / "runs.db"
    ) as opened:
        for name, made in {
            "first": agent("desk"),
            "mails": agent("desk", calls=True),
            "fails": agent("desk", fails=True),
            "other": agent("clerk", tokens=9_000_000),
        }.items():
            options: Any = {"journal": opened, "clock": clock}
            if name == "other":
                options["conversation"] = "talk"
            await run(made, Request(f"The {name} one.", run_id=name), **options)
            clock.advance(3600)
        await note("first", "thumb", "down", by="ann", journal=opened)
        await note("mails", "thumb", "up", by="ann", journal=opened)
        yield opened


async def ids(journal: Any, **filters: Any) -> list[str]:
    return sorted(case.id for case in await Dataset.from_journal(journal, **filters))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["fails", "first", "mails", "other"]),
        ({"agent_id": "clerk"}, ["other"]),
        ({"status": "failed"}, ["fails"]),
        ({"status": "completed"}, ["first", "mails", "other"]),
        ({"effect": "applied"}, ["mails"]),
        ({"error_code": "internal"}, ["fails"]),
        ({"tool": "mail"}, ["mails"]),
        ({"note": "thumb"}, ["first", "mails"]),
        ({"note": "thumb=down"}, ["first"]),
        ({"min_cost": Decimal("1.5")}, ["other"]),
        ({"text": "THE FIRST"}, ["first"]),
        ({"context_id": "talk"}, ["other"]),
        ({"limit": 2}, ["fails", "other"]),
        ({"note": "thumb", "limit": 1}, ["mails"]),
        ({"sample": 2, "seed": 1}, ["fails", "mails"]),
        ({"sample": 2, "seed": 4}, ["fails", "first"]),
    ],
    ids=str,
)
async def test_a_filter_leaves_out_what_does_not_fit(
    journal: Any, filters: Any, expected: list[str]
) -> None:
    assert await ids(journal, **filters) == expected


async def test_a_time_leaves_out_what_started_before_or_after(journal: Any) -> None:
    started = {run.run_id: run.started_at for run in await journal.runs()}
    assert await ids(journal, since=started["fails"]) == ["fails", "other"]
    assert await ids(journal, until=started["mails"]) == ["first"]
    window: Any = {"since": started["mails"], "until": started["mails"] + timedelta(seconds=1)}
    assert await ids(journal, **window) == ["mails"]


@pytest.mark.parametrize("cost", [-1, float("nan")])
async def test_a_cost_that_is_no_amount_is_refused(cost: float) -> None:
    with pytest.raises(Misuse, match="min_cost"):
        await Dataset.from_journal(MemoryJournal(), min_cost=cost)
