"""Answers that anybody gives to a parked run: the first one stands, the others are told."""

from __future__ import annotations

import asyncio
import runpy
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.places import Place
from tests.processes import start_python
from upshot import (
    Agent,
    AgentResult,
    Answer,
    Graph,
    GraphEngine,
    Misuse,
    Outdated,
    PendingApproval,
    Request,
    ScriptedModel,
    ScriptEngine,
    Taken,
    ToolCall,
    answer,
    open_journal,
    resume,
    run,
    start,
    tool,
)
from upshot.engines import AgentTask


class Till:
    """A tool that pays, and asks before it does."""

    def __init__(self) -> None:
        self.paid: list[str] = []

        @tool(effect="destructive", approval=True)
        def pay(to: str) -> str:
            """Pay."""
            self.paid.append(to)
            return "paid"

        model = ScriptedModel([[ToolCall("p", "pay", {"to": "ann"})], "Done."])
        self.agent: Agent[Any] = Agent("till", model=model, tools=[pay])

    async def park(self, journal: Any, agent: Agent[Any] | None = None) -> PendingApproval:
        parked = await run(agent or self.agent, Request("Pay.", run_id="r"), journal=journal)
        (item,) = parked.pending
        assert isinstance(item, PendingApproval)
        return item


def outdated(result: AgentResult[Any]) -> list[str]:
    return [one.message for one in result.warnings if one.code == "answer_outdated"]


async def test_the_first_answer_stands_and_the_others_are_told(journal: Any) -> None:
    till = Till()
    item = await till.park(journal)
    no = item.deny("Too much.", by="ann")
    assert await answer("r", [no], journal=journal) == (Taken(answer=no),)
    assert await answer("r", [no], journal=journal) == (Taken(answer=no),)
    for late in (item.approve(by="bob"), item.deny("Too much.", by="bob"), item.approve(by="ann")):
        (told,) = await answer("r", [late], journal=journal)
        assert isinstance(told, Outdated)
        assert (told.answer, told.decision, told.by) == (late, no, "ann")
        assert told.at is not None
        assert told.reason.endswith("came too late: call p was answered before by ann")
    result = await resume("r", till.agent, journal=journal, answers=[item.approve(by="bob")])
    assert (till.paid, len(outdated(result))) == ([], 1)
    (told,) = await answer("r", [item.approve(by="bob")], journal=journal)
    assert isinstance(told, Outdated) and told.decision == no


async def test_an_answer_reaches_the_child_run_that_asks(journal: Any) -> None:
    till = Till()
    outer: Agent[Any] = Agent("outer", engine=GraphEngine(Graph({"a": AgentTask(till.agent)})))
    item = await till.park(journal, outer)
    assert item.run_id
    (told,) = await answer("r", [item.approve(by="ann")], journal=journal)
    assert isinstance(told, Taken)
    (told,) = await answer(item.run_id, [item.deny(by="bob")], journal=journal)
    assert isinstance(told, Outdated) and told.by == "ann"
    assert (await resume("r", outer, journal=journal)).success
    assert till.paid == ["ann"]


async def test_a_question_that_is_asked_again_is_answered_anew(journal: Any) -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return [await host.ask_user(f"{one} colour?") for one in ("First", "Second")]

    agent: Agent[Any] = Agent("asker", engine=ScriptEngine(ask))
    parked = await run(agent, Request("?", run_id="r"), journal=journal)
    for said in ("red", "blue"):
        yes = Answer(parked.pending[0].id, said, by="ann")
        assert await answer("r", [yes], journal=journal) == (Taken(answer=yes),)
        (told,) = await answer("r", [Answer(yes.id, "green")], journal=journal)
        assert isinstance(told, Outdated) and told.decision == yes
        parked = await resume("r", agent, journal=journal)
    assert parked.output == ["red", "blue"]


async def test_an_answer_is_kept_without_the_secrets_in_it(journal: Any) -> None:
    seen: list[str] = []

    async def ask(run: Any, host: Any, board: Any) -> Any:
        seen.append(await host.ask_user("Which key?"))
        return await host.ask_user("And now?")

    agent: Agent[Any] = Agent("asker", engine=ScriptEngine(ask))
    more: Any = {"journal": journal, "secrets": ["hunter2-hunter2"]}
    parked = await run(agent, Request("?", run_id="r"), **more)
    key = Answer(parked.pending[0].id, "it is hunter2-hunter2")
    await resume("r", agent, answers=[key], **more)
    (kept,) = await journal.placed_answers("r")
    assert "hunter2" not in str(kept)
    assert seen == ["it is hunter2-hunter2"]


async def test_a_run_that_is_worked_on_is_answered_when_it_parks(journal: Any) -> None:
    till, working, go_on = Till(), asyncio.Event(), asyncio.Event()
    item = await till.park(journal)

    @tool(effect="destructive", approval=True)
    async def pay(to: str) -> str:
        """Pay."""
        working.set()
        await go_on.wait()
        return "paid"

    model = ScriptedModel([[ToolCall("p", "pay", {"to": "ann"})], "Done."])
    agent: Agent[Any] = Agent("till", model=model, tools=[pay])
    again = await run(agent, Request("Pay.", run_id="s"), journal=journal)
    (own,) = again.pending
    assert isinstance(own, PendingApproval)
    going = asyncio.ensure_future(
        resume("s", agent, journal=journal, answers=[own.approve(by="ann")])
    )
    await working.wait()
    (told,) = await answer("s", [own.deny(by="bob")], journal=journal)
    assert isinstance(told, Outdated) and told.by == "ann"
    assert isinstance((await answer("r", [item.approve()], journal=journal))[0], Taken)
    go_on.set()
    assert (await going).success


async def test_a_run_that_has_not_parked_is_not_answered(journal: Any) -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Which?")

    asked, go_on = asyncio.Event(), asyncio.Event()

    class User:
        async def ask_user(self, question: str) -> str:
            asked.set()
            await go_on.wait()
            return "mine"

    agent: Agent[Any] = Agent("asker", engine=ScriptEngine(ask))
    async with start(agent, Request("?", run_id="r"), journal=journal, host=User()) as live:
        await asked.wait()
        with pytest.raises(Misuse, match="run r does not wait for answers now"):
            await answer("r", [Answer("question-1-1", "yours")], journal=journal)
        go_on.set()
        assert (await live.result()).output == "mine"


async def test_answers_go_with_their_run(journal: Any) -> None:
    till = Till()
    item = await till.park(journal)
    await answer("r", [item.approve()], journal=journal)
    await journal.remove_runs(["r"])
    assert await journal.placed_answers("r") == []


class Own:
    """A journal of somebody's own, which keeps no answers."""

    def __init__(self, journal: Any) -> None:
        for name in ("claim", "append", "durable", "events", "runs", "export", "import_", "aclose"):
            setattr(self, name, getattr(journal, name))


async def test_a_journal_that_keeps_no_answers_takes_them_at_resume(journal: Any) -> None:
    till, own = Till(), Own(journal)
    item = await till.park(own)
    with pytest.raises(Misuse, match="Own cannot be shared by processes"):
        await answer("r", [item.approve()], journal=own)  # type: ignore[arg-type]
    assert (await resume("r", till.agent, journal=own, answers=[item.approve()])).success  # type: ignore[arg-type]


PROGRAM = """
import asyncio, sys
from upshot import Agent, JournalError, Outdated, Request, ScriptedModel, ToolCall
from upshot import answer, open_journal, resume, run, tool
from upshot.entry.resume import read_past

journal, effects, name = sys.argv[1:]

@tool(effect="destructive", approval=True)
async def pay(order: int):
    with open(effects, "a") as file:
        file.write(f"{order}\\n")
    return "paid"

model = ScriptedModel([[ToolCall("p", "pay", {"order": 7})], "Done."])
agent = Agent("till", model=model, tools=[pay])

async def main():
    async with open_journal(journal) as log:
        if name == "first":
            await run(agent, Request("Pay.", run_id="r"), journal=log)
            return
        (item,) = (await read_past("r", log)).pending
        print("ready", flush=True)
        sys.stdin.readline()
        (told,) = await answer("r", [item.approve(by=name)], journal=log)
        print("late" if isinstance(told, Outdated) else "taken", getattr(told, "by", name))
        try:
            await resume("r", agent, journal=log)
        except JournalError:
            print("busy")

asyncio.run(main())
"""


def begin(program: Path, *arguments: str | Path) -> Any:
    return start_python(program, *arguments, stdin=PIPE, stdout=PIPE, text=True)


async def test_of_four_processes_that_approve_at_once_one_does_and_the_others_are_told(
    place: Place, tmp_path: Path
) -> None:
    program, effects = tmp_path / "program.py", tmp_path / "effects"
    program.write_text(PROGRAM)

    begin(program, place.where, effects, "first").communicate()
    processes = [begin(program, place.where, effects, f"person {n}") for n in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0].splitlines()[0] for process in processes]
    (winner,) = [one.removeprefix("taken ") for one in told if one.startswith("taken")]
    assert told.count(f"late {winner}") == 3
    assert effects.read_text() == "7\n"
    async with open_journal(place.where) as log:
        events = [event async for event in log.events("r")]
    answers = [one.answer for one in events if one.kind == "approval_answered"]  # type: ignore[union-attr]
    assert [one.by for one in answers] == [winner]


DYING = """
import asyncio, os, runpy, signal, sys
from upshot import Agent, ScriptedModel, ToolCall, reopen, tool

def make(effects):
    @tool(effect="destructive", approval=True, on_unknown="tell")
    async def pay(order: int):
        with open(effects, "a") as file:
            file.write(f"{order}\\n")
        return "paid"

    calls = [ToolCall(f"p{n}", "pay", {"order": n}) for n in range(2)]
    model = ScriptedModel([calls, "Done."])
    return Agent("till", model=model, tools=[pay])

async def main(journal, effects, kind):
    async with reopen("r", make(effects), journal=journal) as live:
        async for event in live:
            if event.kind == kind:
                os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""
DEATHS = ["run_resumed", "approval_answered", "tool_started", "tool_settled", "run_settled"]


# A database differs in how an answer is taken, and not in what comes of it.
@pytest.mark.parametrize(
    ("place", "kind"),
    [*(("sqlite", kind) for kind in DEATHS), ("postgres", "approval_answered")],
    indirect=["place"],
)
async def test_an_answer_is_taken_once_wherever_the_process_dies_that_takes_it(
    place: Place, tmp_path: Path, kind: str
) -> None:
    program, effects = tmp_path / "program.py", tmp_path / "effects"
    program.write_text(DYING)
    make = runpy.run_path(str(program))["make"]
    parked = await run(make(effects), Request("Pay.", run_id="r"), journal=place.where)
    items = [one for one in parked.pending if isinstance(one, PendingApproval)]
    yes = [item.approve(by="ann") for item in items]
    told = await answer("r", yes, journal=place.where)
    assert told == tuple(Taken(answer=one) for one in yes)
    process = begin(program, place.where, effects, kind)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    result = await resume("r", make(effects), journal=place.where)
    assert result.success
    async with open_journal(place.where) as log:
        events = [event async for event in log.events("r")]
    kinds = [one.kind for one in events]
    assert kinds.count("approval_answered") == 2
    # What had begun and has no outcome is not begun again.
    paid = effects.read_text().split() if effects.exists() else []
    assert len(set(paid)) == len(paid)
    assert kinds.count("tool_started") == 2
    (late,) = await answer("r", [items[0].deny(by="bob")], journal=place.where)
    assert isinstance(late, Outdated) and late.decision == yes[0]
