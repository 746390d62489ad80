"""A run belongs to one process at a time: who may take it, and from whom."""

from __future__ import annotations

import asyncio
import re
import runpy
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest

from tests.answering import keep_answers
from tests.places import Place
from tests.processes import start_python, suspend
from tests.runs.kit import kinds, log_of
from upshot import (
    Agent,
    AgentResult,
    Approve,
    Event,
    JournalError,
    Misuse,
    Parked,
    Request,
    RunSettled,
    RunStarted,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolFailure,
    open_journal,
    reopen,
    resume,
    run,
    start,
    tool,
)
from upshot.journal import MemoryJournal, SqliteJournal
from upshot.journal.lease_holder import this_process

PROGRAM = '''
import asyncio, pathlib, sys
from upshot import (
    Agent, JournalError, Request, ScriptedModel, ScriptEngine, ToolCall, open_journal, resume, run,
    tool,
)

def make(path, is_told=True):
    """An agent whose tool says that it works, and then waits for a line."""

    @tool(effect="read")
    async def work():
        if is_told:
            print("working", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        return "worked"

    return Agent("a", model=ScriptedModel([ToolCall("w", "work"), "Done."]), tools=[work])

def paying():
    """An agent whose tool says that it works, and pays after a line; a look tells what was paid."""
    paid = pathlib.Path(__file__).with_name("paid")

    @tool(effect="write", verify=lambda asked: "applied" if paid.exists() else "none")
    async def pay():
        print("working", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        with paid.open("a") as file:
            file.write("paid")
        return "paid"

    return Agent("p", model=ScriptedModel([ToolCall("w", "pay"), "Done."]), tools=[pay])

def asking():
    @tool(effect="read", approval=True)
    async def ask():
        return "asked"

    return Agent("a", model=ScriptedModel([ToolCall("a", "ask"), "Done."]), tools=[ask])

def around(inner):
    """An agent inside of which another one works."""

    async def work(run, host, board):
        return (await run.child(inner, "Go.", key="inner")).content

    return Agent("o", engine=ScriptEngine(work))

async def main(what, path):
    async with open_journal(path) as journal:
        if what == "ask":
            await run(asking(), Request("Go.", run_id="r1"), journal=journal)
            print("parked", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            return
        if what in ("run", "nested", "pay"):
            agent = paying() if what == "pay" else make(path)
            agent = around(agent) if what == "nested" else agent
            result = await run(agent, Request("Go.", run_id="r1"), journal=journal)
        else:
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            try:
                result = await resume("r1", make(path), journal=journal)
            except JournalError as error:
                print("refused", error, flush=True)
                return
    print(result.status, result.content, result.error and result.error.message, flush=True)

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
'''


class Worker:
    """A process that works on run r1."""

    def __init__(self, folder: Path, where: str, what: str = "run") -> None:
        program = folder / "program.py"
        if not program.exists():
            # Another process may be reading it.
            program.write_text(PROGRAM)
        self.process = start_python(program, what, where, stdin=PIPE, stdout=PIPE, text=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        with self.process:
            self.process.kill()


@pytest.fixture
def worker(tmp_path: Path, place: Place) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(what: str = "run") -> Worker:
        made.append(Worker(tmp_path, place.where, what))
        return made[-1]

    yield make
    for one in made:
        one.end()


def agent_of(folder: Path) -> Agent[Any]:
    return runpy.run_path(str(folder / "program.py"))["make"]("", is_told=False)


async def go_on(folder: Path, place: Place, **options: Any) -> AgentResult[Any]:
    return await resume("r1", agent_of(folder), journal=place.where, **options)


def refusal(pid: int) -> str:
    return re.escape(
        f"run r1 is being worked on by process {pid} on this machine: wait for its end, stop that "
        "process, or give take_over=True / --take-over"
    )


def test_a_run_in_another_living_process_is_left_to_it(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker()
    assert other.line() == "working"

    async def watch() -> None:
        async with reopen("r1", agent_of(tmp_path), journal=place.where) as live:
            await live.result()

    with pytest.raises(JournalError, match=refusal(other.pid)) as caught:
        asyncio.run(go_on(tmp_path, place))
    assert caught.value.run_id == "r1"
    with pytest.raises(JournalError, match=refusal(other.pid)):
        asyncio.run(watch())
    other.go_on()
    assert other.line() == "completed Done. None"
    assert asyncio.run(go_on(tmp_path, place)).content == "Done."


async def all_logged(place: Place) -> None:
    """Wait until all is on the disk that a worker logs before it waits for a line."""
    async with open_journal(place.where) as journal, asyncio.timeout(60):
        while "tool_started" not in [event.kind async for event in journal.events("r1")]:
            await asyncio.sleep(0.01)


@pytest.mark.skipif(this_process().started is None, reason="nothing is told of processes here")
def test_from_a_suspended_process_a_run_is_taken_and_it_can_write_no_more(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker()
    assert other.line() == "working"
    # What is stopped while it writes keeps the file locked.
    asyncio.run(all_logged(place))
    suspend(other.process)
    assert asyncio.run(go_on(tmp_path, place)).content == "Done."
    other.process.send_signal(signal.SIGCONT)
    other.go_on()
    assert other.line().startswith("failed")


@pytest.mark.skipif(this_process().started is None, reason="nothing is told of processes here")
def test_who_was_suspended_and_has_lost_its_run_ends_what_it_does_in_it(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker()
    assert other.line() == "working"
    asyncio.run(all_logged(place))
    suspend(other.process)
    assert asyncio.run(go_on(tmp_path, place)).content == "Done."
    other.process.send_signal(signal.SIGCONT)
    # Its tool still waits for a line, which never comes.
    assert other.line().startswith("failed")


@pytest.mark.skipif(this_process().started is None, reason="nothing is told of processes here")
def test_that_nothing_was_paid_is_not_believed_of_a_process_that_is_only_suspended(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker("pay")
    assert other.line() == "working"
    asyncio.run(all_logged(place))
    suspend(other.process)
    agent = runpy.run_path(str(tmp_path / "program.py"))["paying"]()
    result = asyncio.run(resume("r1", agent, journal=place.where))
    (outcome,) = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert (outcome.effect, outcome.retryable) == ("unknown", False)
    other.process.send_signal(signal.SIGCONT)
    other.go_on()
    assert other.line().startswith("failed")
    assert (tmp_path / "paid").read_text() == "paid"


def test_a_killed_run_goes_on_at_once_though_nobody_waited_for_its_process(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker()
    assert other.line() == "working"
    other.process.send_signal(signal.SIGKILL)
    assert asyncio.run(go_on(tmp_path, place)).content == "Done."


def test_a_stopped_process_that_is_killed_is_gone(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker()
    assert other.line() == "working"
    other.process.send_signal(signal.SIGSTOP)
    other.process.send_signal(signal.SIGKILL)
    assert asyncio.run(go_on(tmp_path, place)).content == "Done."


def test_who_is_told_to_takes_a_run_over_and_the_other_process_fails(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker()
    assert other.line() == "working"
    assert asyncio.run(go_on(tmp_path, place, take_over=True)).content == "Done."
    other.go_on()
    assert other.line().startswith("failed None run r1 is no longer held with epoch 1")


def test_who_takes_a_run_over_takes_the_runs_inside_it_too(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker("nested")
    assert other.line() == "working"
    made = runpy.run_path(str(tmp_path / "program.py"))
    agent = made["around"](made["make"]("", is_told=False))
    again = resume("r1", agent, journal=place.where, take_over=True)
    assert asyncio.run(again).output == "Done."


def test_a_parked_run_is_free_though_its_process_lives_on(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    other = worker("ask")
    assert other.line() == "parked"
    asking = runpy.run_path(str(tmp_path / "program.py"))["asking"]()
    parked = asyncio.run(resume("r1", asking, journal=place.where))
    assert parked.status is Status.INPUT_REQUIRED


@pytest.mark.parametrize(
    "change",
    [
        {"started": 1},
        {"boot": "another", "host": "elsewhere"},
        {"space": "another"},
        None,
    ],
)
def test_who_cannot_be_the_living_holder_is_taken_over(
    tmp_path: Path, place: Place, worker: Callable[..., Worker], change: dict[str, Any] | None
) -> None:
    other = worker()
    assert other.line() == "working"
    ((text,),) = place.do("SELECT holder FROM runs")
    known = {**msgspec.json.decode(text), **(change or {})}
    # Whatever damage may have left there holds nothing.
    other_text = msgspec.json.encode(known).decode() if change else "{damaged"
    place.do(f"UPDATE runs SET holder = '{other_text}'")
    assert asyncio.run(go_on(tmp_path, place)).content == "Done."


def test_of_two_that_resume_a_dead_run_at_once_one_goes_on(
    tmp_path: Path, place: Place, worker: Callable[..., Worker]
) -> None:
    dead = worker()
    assert dead.line() == "working"
    dead.end()
    both = [worker("resume"), worker("resume")]
    assert [one.line() for one in both] == ["ready", "ready"]
    for one in both:
        one.go_on()
    said = {one.line(): one for one in both}
    assert "working" in said
    winner = said.pop("working")
    (refused,) = said
    assert re.fullmatch(f"refused {refusal(winner.pid)}", refused)
    winner.go_on()
    assert winner.line() == "completed Done. None"


CLAIMER = """
import asyncio, sys
from upshot import open_journal

async def main(where):
    opened = open_journal(where)
    journal = await opened.__aenter__()
    epoch = await journal.claim("r1")
    for act in ("claimed", "released", "claimed", "closed"):
        if act == "released":
            journal.release("r1", epoch)
            await journal.flush()
        elif act == "closed":
            await journal.aclose()
        else:
            epoch = await journal.claim("r1")
        print(act, flush=True)
        sys.stdin.readline()

asyncio.run(main(sys.argv[2]))
"""


def test_a_process_that_let_a_run_go_does_not_hold_it(
    tmp_path: Path, place: Place, worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_free() -> bool:
        journal = await place.open()
        try:
            # A look alone: a claim of ours would be over by the time that the other one acts.
            holder = (await journal.holders())["r1"]
            if holder.state == "gone":
                return True
            assert (holder.pid, holder.state) == (other.pid, "lives")
            with pytest.raises(JournalError):
                await journal.claim_free("r1")
            return False
        finally:
            await journal.aclose()

    monkeypatch.setitem(globals(), "PROGRAM", CLAIMER)
    other = worker()
    for act, is_now_free in zip(
        ["claimed", "released", "claimed", "closed"], [False, True] * 2, strict=True
    ):
        assert other.line() == act
        assert asyncio.run(is_free()) is is_now_free
        other.go_on()


async def test_a_claim_in_the_same_process_takes_over(place: Place) -> None:
    journal = await place.open()
    other = await place.open()
    first = await journal.claim_free("r1")
    assert await other.claim_free("r1") == first + 1
    # What was taken since is not let go by who had it before.
    journal.release("r1", first)
    await journal.aclose()
    assert (await other.holders())["r1"].is_this_process
    await other.aclose()


class Slow(SqliteJournal):
    """Takes its time to say that the end of a session is on disk."""

    has_end, waits, on = False, threading.Event(), threading.Event()

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        super().append(event, epoch=epoch)
        self.has_end = isinstance(event, RunSettled)

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        if self.has_end:
            self.waits.set()
            await asyncio.to_thread(self.on.wait)
        await super().durable(run_id, seq, epoch=epoch)


async def test_a_run_whose_end_is_not_on_disk_is_left_to_the_thread_that_writes_it(
    tmp_path: Path,
) -> None:
    @tool(effect="write", approval=True)
    async def pay() -> str:
        return "paid"

    agent = Agent("clerk", model=ScriptedModel([ToolCall("a", "pay"), "Done."]), tools=[pay])

    async def park() -> AgentResult[Any]:
        journal = await Slow.open(tmp_path / "runs.db")
        try:
            return await run(agent, asked("r1"), journal=journal)
        finally:
            await journal.aclose()

    parking = asyncio.create_task(asyncio.to_thread(asyncio.run, park()))
    await asyncio.to_thread(Slow.waits.wait)
    try:
        with pytest.raises(JournalError, match="is being worked on in this process"):
            await resume("r1", agent, journal=tmp_path / "runs.db")
    finally:
        Slow.on.set()
    assert (await parking).status is Status.INPUT_REQUIRED
    answers = [Approve("a")]
    done = await resume("r1", agent, journal=tmp_path / "runs.db", answers=answers)
    assert done.content == "Done."


class Outrun(SqliteJournal):
    """Another one begins and ends a run with the same id just before it is claimed."""

    async def claim_free(self, run_id: str) -> int:
        # As from another process: in this one, it is known who works on what.
        elsewhere, lines = MemoryJournal(), f"{self.path}.jsonl"
        await run(Agent("other", model=ScriptedModel(["Other."])), asked(run_id), journal=elsewhere)
        await elsewhere.export(run_id, lines)
        async with open_journal(self.path) as other:
            await other.import_(lines)
        return await super().claim_free(run_id)


def asked(run_id: str) -> Request:
    return Request("Go.", run_id=run_id)


@pytest.mark.parametrize("is_watched", [False, True])
async def test_who_begins_a_run_too_late_is_told_so_and_writes_nothing(
    tmp_path: Path, *, is_watched: bool
) -> None:
    journal = await Outrun.open(tmp_path / "runs.db")
    agent = Agent("late", model=ScriptedModel(["Late."]))
    with pytest.raises(Misuse, match="the journal already has a run 'r1'"):
        if is_watched:
            async with start(agent, asked("r1"), journal=journal) as live:
                await live.result()
        else:
            await run(agent, asked("r1"), journal=journal)
    events = await log_of(journal, "r1")
    assert {holder.state for holder in (await journal.holders()).values()} <= {"gone"}
    await journal.aclose()
    assert (kinds(events)[0], kinds(events)[-1]) == ("run_started", "run_settled")
    assert [event.agent.id for event in events if isinstance(event, RunStarted)] == ["other"]
    assert (await resume("r1", agent, journal=tmp_path / "runs.db")).content == "Other."


# -- runs inside runs, and answers


def outer() -> Agent[Any]:
    """An agent whose script has another one ask for a call."""

    @tool(effect="read", approval=True)
    async def ask() -> str:
        return "asked"

    inner = Agent("inner", model=ScriptedModel([ToolCall("a", "ask"), "Inner."]), tools=[ask])

    async def script(run: Any, host: Any, board: Any) -> str:
        child = await run.child(inner, "Go.", key="k")
        if child.pending:
            raise Parked(*child.pending)
        return f"Outer: {child.content}"

    return Agent("outer", engine=ScriptEngine(script))


async def test_who_only_answers_never_has_the_run(place: Place) -> None:
    async with open_journal(place.where) as journal:
        parked = await run(outer(), Request("Go.", run_id="r1"), journal=journal)
        await keep_answers("r1", [Approve(parked.pending[0].id)], journal=journal)
        assert await journal.holders() == {}
        assert (await resume("r1", outer(), journal=journal)).output == "Outer: Inner."
        assert await journal.holders() == {}


async def test_an_answer_for_a_run_inside_does_not_take_that_from_another_process(
    place: Place,
) -> None:
    path = place.where
    parked = await run(outer(), Request("Go.", run_id="r1"), journal=path)
    answers = [Approve(parked.pending[0].id)]
    other = start_python("-c", "input()", stdin=PIPE)
    with other:
        holder = msgspec.structs.replace(this_process(), pid=other.pid, started=None)
        text = msgspec.json.encode(holder).decode()
        place.do(f"UPDATE runs SET holder = '{text}' WHERE run_id <> 'r1'")
        with pytest.raises(JournalError, match=f"worked on by process {other.pid} "):
            await resume("r1", outer(), journal=path, answers=answers)
        other.kill()
        other.wait()
        done = await resume("r1", outer(), journal=path, answers=answers)
    assert done.output == "Outer: Inner."
