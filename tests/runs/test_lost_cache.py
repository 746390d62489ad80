"""A request that does not begin with the one before it is not in the provider's cache."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.runs.test_compaction import LONG, codes, said, step
from upshot import (
    Agent,
    AgentResult,
    Compaction,
    Decider,
    Handoff,
    Message,
    ModelSettings,
    ScriptedModel,
    ScriptEngine,
    fork,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal

CACHED = ModelSettings(cache=True)


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return f"{place} is fine"


def looker(*replies: Any, **fields: Any) -> Agent[Any]:
    model = ScriptedModel([*(replies or (step(1, 1), step(2, 2), said("Done.")))])
    fields = {"settings": CACHED, "instructions": "Look.", **fields}
    return Agent("looker", model=model, tools=[look], **fields)


def lost(result: AgentResult[Any]) -> list[str]:
    told = [one.message for one in result.warnings if one.code == "cache_lost"]
    return [message.rpartition(": ")[2] for message in told]


class Rewriter(Decider):
    """Shows the model each time how many messages there are, before all of them."""

    def before_model(self, info: Any, request: Any) -> Any:
        shown = [Message("user", f"{len(request.messages)} messages"), *request.messages]
        return replace(request, messages=shown)


@pytest.mark.parametrize("journal", [None, "memory:"], ids=["no log", "a log"])
async def test_messages_that_change_are_told_once(journal: Any) -> None:
    result = await run(looker(), "Look.", deciders=[Rewriter()], journal=journal)
    assert lost(result) == ["messages"]


async def test_a_request_that_only_grows_loses_nothing() -> None:
    assert codes(await run(looker(), "Look.", journal=MemoryJournal())) == []


async def test_without_caching_nothing_is_told() -> None:
    result = await run(looker(settings=ModelSettings(seed=1)), "Look.", deciders=[Rewriter()])
    assert codes(result) == []


async def test_tools_that_change_are_told() -> None:
    def is_first(_: Any, board: Any) -> bool:
        return len(board.messages()) < 2

    result = await run(looker(handoffs=[Handoff("other", filter=is_first)]), "Look.")
    assert lost(result) == ["tools"]


async def test_a_compaction_is_no_loss() -> None:
    agent = looker(*LONG, said("Done."), compaction=Compaction(at_tokens=100, keep_last=2))
    assert codes(await run(agent, "Look.")) == []


async def test_a_summary_in_between_is_no_loss() -> None:
    summariser = ScriptedModel([said("Fine.")] * 3)
    compaction = Compaction(at_tokens=100, keep_last=2, summarise=summariser)
    agent = looker(*LONG, said("Done."), compaction=compaction)
    assert codes(await run(agent, "Look.", journal=MemoryJournal())) == []


async def test_who_goes_on_with_other_instructions_is_told() -> None:
    journal = MemoryJournal()
    result = await run(looker(), "Look.", journal=journal)
    kinds = [event.kind async for event in journal.events(result.run_id)]
    cut = await fork(result.run_id, at=kinds.index("tool_settled") + 2, journal=journal)
    again = looker(step(2, 2), said("Done."), instructions="Look well.")
    assert lost(await resume(cut, again, journal=journal)) == ["instructions"]


async def test_who_goes_on_as_before_is_not_told() -> None:
    journal = MemoryJournal()
    result = await run(looker(), "Look.", journal=journal)
    kinds = [event.kind async for event in journal.events(result.run_id)]
    cut = await fork(result.run_id, at=kinds.index("tool_settled") + 2, journal=journal)
    again = looker(step(2, 2), said("Done."))
    assert lost(await resume(cut, again, journal=journal)) == []


async def test_a_script_may_ask_about_different_things() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        for text in ("a", "b"):
            await run.call_model(text)
        return "done"

    agent = Agent("a", engine=ScriptEngine(work), model=ScriptedModel(["x", "y"]), settings=CACHED)
    assert codes(await run(agent, "?")) == []
