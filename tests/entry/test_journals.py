"""What the doors do with journals: what is logged, and what cannot be taken up."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import ADD, add, kinds, log_of, measured
from upshot import Agent, Approve, Misuse, Request, ToolCall, resume, run, tool
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


async def test_a_run_is_logged_from_its_start_to_its_end() -> None:
    journal = MemoryJournal()
    agent = Agent("a", model=ScriptedModel([measured(None, ADD), "3"]), tools=[add])
    result = await run(agent, "?", journal=journal)
    log = await log_of(journal, result.run_id)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert kinds(log) == [
        "run_started",
        "attempt_started",
        "board_changed",
        "model_started",
        "model_replied",
        "board_changed",
        "tool_started",
        "tool_settled",
        "board_changed",
        "model_started",
        "model_replied",
        "board_changed",
        "attempt_ended",
        "committed",
        "run_settled",
    ]


async def test_a_chosen_id_that_the_journal_has_is_misuse() -> None:
    journal = MemoryJournal()
    await run(hello(), Request("?", run_id="run-1"), journal=journal)
    with pytest.raises(Misuse, match="already has a run 'run-1'"):
        await run(hello(), Request("?", run_id="run-1"), journal=journal)


async def test_the_log_says_what_is_needed_to_resume_and_no_key() -> None:
    journal = MemoryJournal()
    result = await run(
        hello(), "?", journal=journal, launch={"agent": "a.py:agent"}, max_attempts=3
    )
    first = (await log_of(journal, result.run_id))[0]
    assert first.kind == "run_started"
    assert first.options == {  # type: ignore[union-attr]
        "max_attempts": 3,
        "engine": "LoopEngine",
        "model": "scripted:script",
        "launch": {"agent": "a.py:agent"},
    }


async def test_resuming_an_unknown_run_names_the_nearest() -> None:
    journal = MemoryJournal()
    await run(hello(), Request("?", run_id="run-abcd"), journal=journal)
    with pytest.raises(Misuse, match="did you mean 'run-abcd'"):
        await resume("run-abce", hello(), journal=journal)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (Approve("w"), r"answers is one Approve: give a list"),
        (["yes"], "answers must be Approve, Deny, Edit or Answer, got str"),
        ([Approve("v")], "no question 'v' waits for an answer: the run waits for w"),
    ],
)
async def test_an_answer_to_nothing_is_misuse_and_the_run_waits_on(answers: Any, said: str) -> None:
    @tool(effect="destructive")
    def wipe() -> None: ...

    agent = Agent("a", model=ScriptedModel([ToolCall("w", "wipe")]), tools=[wipe])
    journal = MemoryJournal()
    await run(agent, Request("?", run_id="r"), journal=journal)
    with pytest.raises(Misuse, match=said):
        await resume("r", agent, journal=journal, answers=answers)
    (summary,) = await journal.runs()
    assert summary.status == "input_required"


async def test_resuming_in_a_file_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse):
        await resume("run-1", hello(), journal=tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


async def test_a_path_is_opened_and_closed_by_the_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    result = await run(hello(), "?", journal=path)
    assert await resume(result.run_id, hello(), journal=str(path)) == result


async def test_a_run_whose_events_are_gone_is_not_taken_for_a_misspelt_one(tmp_path: Path) -> None:
    where = tmp_path / "runs.db"
    done = await run(Agent("a", model=ScriptedModel(["Hi."])), "Hi", journal=where)
    with sqlite3.connect(where) as connection:
        connection.execute("DELETE FROM events")
    connection.close()
    with pytest.raises(Misuse, match=f"lists the run '{done.run_id}', but has no events of it"):
        await resume(done.run_id, Agent("a", model=ScriptedModel(["Hi."])), journal=where)
