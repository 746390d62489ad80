"""What an engine waits for by itself, without asking through its host, can be answered too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.answering import keep_answers
from upshot import (
    Agent,
    Answer,
    Graph,
    GraphEngine,
    Misuse,
    Parked,
    PendingQuestion,
    Request,
    ScriptEngine,
    Status,
    resume,
    run,
)
from upshot.engines import AgentTask
from upshot.journal import MemoryJournal


def self_asking(seen: list[Any], *, id: str = "seal") -> Agent[Any]:
    """Parks by itself, without its host, until it finds the answer there."""

    async def work(run: Any, host: Any, board: Any) -> Any:
        try:
            seen.append(await host.wait_for(id))
        except Parked:
            question = PendingQuestion(id=id, question="Seal it?", choices=("yes", "no"))
            raise Parked(question) from None
        return seen[-1]

    return Agent("sealer", engine=ScriptEngine(work))


async def test_what_an_engine_waits_for_by_itself_can_be_answered() -> None:
    seen: list[Any] = []
    journal = MemoryJournal()
    await run(self_asking(seen), Request("?", run_id="r"), journal=journal)
    answers = [Answer("seal", "yes")]
    result = await resume("r", self_asking(seen), journal=journal, answers=answers)
    assert (result.output, seen) == ("yes", ["yes"])


async def test_its_choices_hold_too() -> None:
    journal = MemoryJournal()
    await run(self_asking([]), Request("?", run_id="r"), journal=journal)
    with pytest.raises(Misuse, match="choose one of 'yes', 'no'"):
        await resume("r", self_asking([]), journal=journal, answers=[Answer("seal", "so")])


async def test_what_an_engine_inside_waits_for_by_itself_can_be_answered() -> None:
    seen: list[Any] = []
    graph = Graph({"a": AgentTask(self_asking(seen))})
    agent: Agent[Any] = Agent("outer", engine=GraphEngine(graph))
    journal = MemoryJournal()
    parked = await run(agent, Request("?", run_id="r"), journal=journal)
    answers = [Answer(parked.pending[0].id, "no")]
    result = await resume("r", agent, journal=journal, answers=answers)
    assert (result.status, seen) == (Status.COMPLETED, ["no"])


async def test_a_question_that_was_answered_is_answered_once() -> None:
    journal = MemoryJournal()
    await run(self_asking([]), Request("?", run_id="r"), journal=journal)
    await keep_answers("r", [Answer("seal", "yes")], journal=journal)
    with pytest.raises(Misuse, match="question seal was answered before"):
        await keep_answers("r", [Answer("seal", "no")], journal=journal)


async def test_one_that_is_asked_again_is_answered_anew() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        try:
            said = await host.wait_for("seal")
        except Parked:
            said = None
        if said != "yes":
            raise Parked(PendingQuestion(id="seal", question="Seal it?", choices=("yes", "no")))
        return said

    agent: Agent[Any] = Agent("sealer", engine=ScriptEngine(work))
    journal = MemoryJournal()
    await run(agent, Request("?", run_id="r"), journal=journal)
    for _ in range(2):
        parked = await resume("r", agent, journal=journal, answers=[Answer("seal", "no")])
        assert [one.id for one in parked.pending] == ["seal"]
    result = await resume("r", agent, journal=journal, answers=[Answer("seal", "yes")])
    assert result.output == "yes"
