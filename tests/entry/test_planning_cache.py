"""What is found out once of an agent: it never goes stale, and keeps nobody alive."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import Do, add
from upshot import Agent, Misuse, Request, ScriptedModel, Tool, run, tool
from upshot.journal import MemoryJournal, open_journal


class Inputs(dict[str, Any]):
    """A mapping that can be looked for."""


def offered(run: Any, host: Any, board: Any) -> list[str]:
    return [schema.name for schema in run.tools.schemas() if schema.name != "read_artifact"]


async def test_an_agent_that_was_run_can_be_forgotten() -> None:
    async def made() -> weakref.ref[Agent[Any]]:
        agent: Agent[Any] = Agent("a", engine=Do(lambda *_: agent.id), tools=[add])
        assert (await run(agent, "?")).output == "a"
        return weakref.ref(agent)

    forgotten = await made()
    # The loop lets go of the engine's task in its next round.
    await asyncio.sleep(0)
    gc.collect()
    assert forgotten() is None


async def test_an_agent_that_was_run_keeps_nothing_of_its_calls() -> None:
    agent = Agent("a", engine=Do(lambda *_: "fine"))

    async def asked() -> list[weakref.ref[Any]]:
        request, journal = Request("?", inputs=Inputs(one=1)), MemoryJournal()
        await run(agent, request, journal=journal)
        return [weakref.ref(request.inputs), weakref.ref(journal)]

    kept = [*await asked(), *await asked()]
    await asyncio.sleep(0)
    gc.collect()
    assert [one() for one in kept] == [None] * 4
    assert (await run(agent, "?")).output == "fine"


async def test_an_agent_that_was_run_can_be_copied_and_pickled() -> None:
    agent = Agent("a", model="scripted:none", tools=["add"])
    with pytest.raises(Misuse):
        await run(agent, "?")
    await run(agent, "?", model=ScriptedModel(["Hi."]), tools=[add])
    assert pickle.loads(pickle.dumps(agent)) == copy.deepcopy(agent) == agent


@pytest.mark.parametrize("name", ["observers", "deciders"])
async def test_a_hook_of_an_agent_that_is_none_is_misuse(name: str) -> None:
    agent = Agent("a", model=ScriptedModel(["Hi."]), **{name: [object()]})
    with pytest.raises(Misuse, match=name):
        await run(agent, "?")


async def test_a_changed_agent_is_looked_at_anew() -> None:
    agent = Agent("a", engine=Do(offered), tools=[add])
    assert (await run(agent, "?")).output == ["add"]
    assert (await run(agent.but(tools=[]), "?")).output == []


async def test_a_set_of_tools_is_asked_again_at_every_run() -> None:
    class Growing:
        def __init__(self) -> None:
            self.names = ["one"]

        def __iter__(self) -> Iterator[Tool]:
            return (tool(name=name, effect="read")(lambda: 1) for name in self.names)

    tools = Growing()
    agent = Agent("a", engine=Do(offered), tools=[tools])
    assert (await run(agent, "?")).output == ["one"]
    tools.names.append("two")
    assert (await run(agent, "?")).output == ["one", "two"]


async def test_tools_of_the_call_are_those_of_one_call() -> None:
    agent = Agent("a", engine=Do(offered))
    assert (await run(agent, "?", tools=[add])).output == ["add"]
    assert (await run(agent, "?")).output == []
    assert (await run(agent, "?", tools=[add])).output == ["add"]


async def test_a_run_is_logged_where_its_own_call_says(tmp_path: Path) -> None:
    agent = Agent("a", engine=Do(lambda *_: "fine"))
    places = [tmp_path / "one.db", tmp_path / "two.db", tmp_path / "one.db"]
    ids = [(await run(agent, "?", journal=place)).run_id for place in places]
    for place, own in ((places[0], ids[::2]), (places[1], ids[1:2])):
        async with open_journal(place) as journal:
            logged = [[event async for event in journal.events(id)] for id in ids]
        assert [id for id, events in zip(ids, logged, strict=True) if events] == own


async def test_each_run_is_told_that_its_log_outlives_nobody() -> None:
    async def ask(run: Any, host: Any, board: Any) -> None:
        await host.ask_user("Which?")

    agent = Agent("a", engine=Do(ask))
    for place in (None, "memory:", "memory:", None):
        result = await run(agent, "?", journal=place)
        assert [warning.code for warning in result.warnings] == ["no_journal"]
