"""A run inside another one that went on without it."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import Agent, Answer, Request, ScriptEngine, resume, run
from upshot.journal import MemoryJournal
from upshot.state.child_runs import child_id


def asker() -> Agent[Any]:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("How many?", key="q")

    return Agent("asker", engine=ScriptEngine(ask))


def around(inner: Agent[Any], *, waits: bool) -> Agent[Any]:
    """Starts *inner*, and waits for it or is content."""

    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(inner, "?", key="in")
        return result.unwrap() if waits else str(result.status)

    return Agent("around", engine=ScriptEngine(work))


def inside(run_id: str) -> str:
    return child_id(run_id, "in")


async def gone_on(inner: str, journal: MemoryJournal, agent: Agent[Any] | None = None) -> Any:
    return await resume(inner, agent or asker(), journal=journal, answers=[Answer("q", 3)])


async def test_a_run_that_was_left_behind_goes_on_and_says_so() -> None:
    journal = MemoryJournal()
    agent = around(asker(), waits=False)
    outer = await run(agent, Request("Go.", run_id="out"), journal=journal)
    assert (outer.status, outer.output) == ("completed", "input_required")
    result = await gone_on(inside("out"), journal)
    assert (result.status, result.output) == ("completed", 3)
    assert [warning.code for warning in result.warnings] == ["outer_run_ended"]
    assert "run out, which started it, has ended" in result.warnings[0].message


async def test_a_run_is_left_behind_when_any_run_round_it_has_ended() -> None:
    journal = MemoryJournal()
    agent = around(around(asker(), waits=True), waits=False)
    await run(agent, Request("Go.", run_id="out"), journal=journal)
    result = await gone_on(inside(inside("out")), journal)
    assert [warning.code for warning in result.warnings] == ["outer_run_ended"]


async def test_a_run_whose_outer_run_waits_for_it_goes_on_as_ever() -> None:
    journal = MemoryJournal()
    agent = around(asker(), waits=True)
    outer = await run(agent, Request("Go.", run_id="out"), journal=journal)
    assert outer.status == "input_required"
    assert (await gone_on(inside("out"), journal)).warnings == ()
    again = await resume("out", agent, journal=journal)
    assert (again.output, again.warnings) == (3, ())


@pytest.mark.parametrize("parent", ["out", "nowhere"])
async def test_a_parent_that_was_only_named_is_none_that_could_wait(parent: str) -> None:
    journal = MemoryJournal()
    await run(
        Agent("a", engine=ScriptEngine(lambda run, host, board: 1)),
        Request("Go.", run_id="out"),
        journal=journal,
    )
    asked = Request("?", run_id="later")
    await run(asker(), asked, journal=journal, parent_run_id=parent)
    assert (await gone_on("later", journal)).warnings == ()
