"""What an engine can read of its run, and cannot set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import (
    Agent,
    Answer,
    Misuse,
    Parked,
    PendingQuestion,
    ToolCall,
    open_journal,
    resume,
    run,
    start,
)

FACTS = [
    "id",
    "identity",
    "parent_run_id",
    "depth",
    "attributes",
    "dependencies",
    "budget",
    "resume_from",
    "attempt",
    "feedback",
]


@pytest.mark.parametrize("name", FACTS)
async def test_an_engine_sets_no_fact_of_its_run(name: str) -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        before = getattr(run, name)
        # As of anything in Python that cannot be set, and in upshot's own words.
        for kind in (AttributeError, Misuse):
            with pytest.raises(kind, match=rf"run\.{name} cannot be set"):
                setattr(run, name, "forged")
            with pytest.raises(kind, match=rf"run\.{name} cannot be deleted"):
                delattr(run, name)
        assert getattr(run, name) == before
        return "fine"

    result = await run(Agent("a", engine=Do(work)), "?", attributes={"run_id": "forged"})
    assert (result.output, result.error) == ("fine", None)


@pytest.mark.parametrize("watched", [True, False])
async def test_an_engine_sees_whether_replies_are_watched(watched: bool) -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        return str(run.is_watched)

    agent = Agent("a", engine=Do(work))
    if not watched:
        assert (await run(agent, "?")).output == "False"
        return
    async with start(agent, "?") as live:
        assert [event.result.output async for event in live if event.kind == "run_settled"] == [
            "True"
        ]


async def test_an_engine_finds_the_calls_that_earlier_sessions_settled() -> None:
    found: list[list[str]] = []

    async def work(run: Any, host: Any, board: Any) -> str:
        found.append([record.call_id for record in run.earlier_records])
        await run.tools.dispatch([ToolCall(f"c{len(found)}", "add", {"x": 1})])
        if len(found) == 1:
            raise Parked(PendingQuestion(id="q", question="Go on?"))
        return "done"

    def add(x: int) -> int:
        return x + 2

    agent = Agent("a", engine=Do(work), tools=[add])
    async with open_journal("memory:") as journal:
        parked = await run(agent, "?", journal=journal)
        await resume(parked.run_id, agent, journal=journal, answers=[Answer("q", "yes")])
    assert found == [[], ["c1"]]
