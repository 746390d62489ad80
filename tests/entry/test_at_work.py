"""A run belongs to one at a time within a process too: who is at work on it, and who is not."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.answering import keep_answers
from tests.processes import run_python
from tests.runs.kit import Do, Witness, kinds, log_of
from upshot import (
    Agent,
    AgentResult,
    Approve,
    JournalError,
    Misuse,
    Parked,
    Request,
    RunResumed,
    RunSettled,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    open_journal,
    reopen,
    resume,
    run,
    start,
    tool,
)
from upshot.journal import MemoryJournal, SqliteJournal

REFUSED = (
    "^run r1 is being worked on in this process: wait for its result and then answer what it "
    "still waits for, or give take_over=True$"
)
GO = Request("Go.", run_id="r1")


class Own(MemoryJournal):
    """A journal of somebody's own."""


class Failing(MemoryJournal):
    """A journal that is lost after so many events."""

    left = 4

    def append(self, event: Any, *, epoch: int | None = None) -> None:
        self.left -= 1
        if self.left < 0:
            raise JournalError("the disk is full")
        super().append(event, epoch=epoch)


@pytest.fixture(params=["path", "file", "memory", "own"])
async def where(request: Any, tmp_path: Path) -> AsyncIterator[Any]:
    match request.param:
        case "path":
            yield tmp_path / "runs.db"
        case "own":
            yield Own()
        case kind:
            async with open_journal(tmp_path / "runs.db" if kind == "file" else "memory:") as one:
                yield one


class Worker:
    """An agent that works until it is told to go on, the first time that it begins."""

    def __init__(self) -> None:
        self.working = asyncio.Event()
        self.go_on = asyncio.Event()
        self.begun = 0
        self.agent: Agent[Any] = Agent("a", engine=Do(self._work))

    async def _work(self, run: Any, host: Any, board: Any) -> str:
        self.begun += 1
        # What is before a step that writes is on the disk when that begins.
        await host.once(f"begin {self.begun}", "write", lambda: None)
        self.working.set()
        if self.begun == 1:
            await self.go_on.wait()
        return "Done."


def replace_observers(agent: Agent[Any], observers: list[Any]) -> Agent[Any]:
    """*agent* with observers, or without any."""
    return Agent(agent.id, engine=agent.engine, observers=observers)


async def settle() -> None:
    """Let every other task go on until it waits for something outside."""
    for _ in range(100):
        await asyncio.sleep(0)


def clerk(done: list[str]) -> Agent[Any]:
    """An agent that makes two calls which have to be approved."""

    @tool(effect="write", approval=True)
    async def pay(to: str) -> str:
        done.append(to)
        await asyncio.sleep(0)
        return "paid"

    calls = [ToolCall(to, "pay", {"to": to}) for to in ("ann", "bob")]
    return Agent("a", model=ScriptedModel([calls, "Done."], per_conversation=True), tools=[pay])


def sorted_out(both: list[Any]) -> tuple[AgentResult[Any], JournalError]:
    """Of two that were begun at once, the result of one and the refusal of the other."""
    (result,) = (one for one in both if isinstance(one, AgentResult))
    (refused,) = (one for one in both if isinstance(one, JournalError))
    return result, refused


@pytest.mark.slow("path-[!2]", "own-[!2]")
@pytest.mark.parametrize("ahead", range(5))
async def test_of_two_approvals_at_the_same_moment_the_second_is_refused_whole(
    where: Any, ahead: int
) -> None:
    done: list[str] = []
    agent = clerk(done)
    assert (await run(agent, GO, journal=where)).status is Status.INPUT_REQUIRED

    async def approve(to: str, ahead: int = 0) -> Any:
        for _ in range(ahead):
            await asyncio.sleep(0)
        return await resume("r1", agent, journal=where, answers=[Approve(to)])

    both = await asyncio.gather(approve("ann"), approve("bob", ahead), return_exceptions=True)
    result, refused = sorted_out(both)
    with pytest.raises(JournalError, match=REFUSED):
        raise refused
    assert (result.status, done) == (Status.INPUT_REQUIRED, ["ann"])
    async with open_journal(where) as journal:
        events = await log_of(journal, "r1")
    assert kinds(events).count("run_resumed") == kinds(events).count("approval_answered") == 1
    assert (await approve("bob")).content == "Done."
    assert done == ["ann", "bob"]


@pytest.mark.parametrize("begin", ["run", "start"])
async def test_a_run_at_work_is_not_begun_again(where: Any, begin: str) -> None:
    worker = Worker()

    async def watch(live: Any) -> Any:
        async with live as one:
            return await one.result()

    doors: dict[str, Callable[[], Awaitable[Any]]] = {
        "run": lambda: run(worker.agent, GO, journal=where),
        "start": lambda: watch(start(worker.agent, GO, journal=where)),
    }
    first = asyncio.ensure_future(doors[begin]())
    await worker.working.wait()
    for door in doors.values():
        with pytest.raises(Misuse, match="the journal already has a run 'r1'"):
            await door()
    worker.go_on.set()
    assert ((await first).output, worker.begun) == ("Done.", 1)


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "watched"])
async def test_who_goes_on_without_an_answer_gets_the_result_of_a_live_run(
    where: Any, *, watched: bool
) -> None:
    worker, other = Worker(), Worker()
    worker.agent = replace_observers(worker.agent, [Witness()] if watched else [])
    first = asyncio.ensure_future(run(worker.agent, GO, journal=where))
    await worker.working.wait()
    others = [asyncio.ensure_future(resume("r1", other.agent, journal=where)) for _ in range(2)]
    await settle()
    worker.go_on.set()
    results = [await first, *(await asyncio.gather(*others))]
    assert ([one.output for one in results], worker.begun, other.begun) == (["Done."] * 3, 1, 0)


async def test_of_two_that_go_on_at_the_same_moment_the_second_follows_the_first(
    where: Any,
) -> None:
    done: list[str] = []
    agent = clerk(done)
    await run(agent, GO, journal=where)
    await keep_answers("r1", [Approve("ann"), Approve("bob")], journal=where)
    both = [resume("r1", agent, journal=where) for _ in range(2)]
    results = await asyncio.gather(*both)
    assert ([one.content for one in results], done) == (["Done."] * 2, ["ann", "bob"])


async def test_a_live_run_has_several_readers_and_one_that_leaves_does_not_end_it(
    where: Any,
) -> None:
    worker, other = Worker(), Worker()
    async with start(worker.agent, GO, journal=where) as live:
        await worker.working.wait()
        async with reopen("r1", other.agent, journal=where) as leaver:
            assert leaver.run_id == "r1"
        async with reopen("r1", other.agent, journal=where) as reader:
            worker.go_on.set()
            seen = [event async for event in reader]
            assert (await reader.result()).output == "Done."
        assert isinstance(seen[-1], RunSettled)
        assert [event async for event in live][-len(seen) :] == seen
    assert (worker.begun, other.begun) == (1, 0)


async def test_who_stops_waiting_for_a_live_run_leaves_it_alone(where: Any) -> None:
    worker = Worker()
    first = asyncio.ensure_future(run(worker.agent, GO, journal=where))
    await worker.working.wait()
    waiting = asyncio.ensure_future(resume("r1", worker.agent, journal=where))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    worker.go_on.set()
    assert (await first).output == "Done."


async def test_a_run_does_not_wait_for_itself(where: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await host.once("first", "write", lambda: None)
        with pytest.raises(JournalError, match=REFUSED):
            await resume("r1", agent, journal=place)

    agent: Agent[Any] = Agent("a", engine=Do(work))
    async with open_journal(where) as place:
        assert (await run(agent, GO, journal=place)).success


async def test_who_is_told_to_takes_a_live_run_over(where: Any) -> None:
    worker, other = Worker(), Worker()
    first = asyncio.ensure_future(run(worker.agent, GO, journal=where))
    await worker.working.wait()
    second = asyncio.ensure_future(resume("r1", other.agent, journal=where, take_over=True))
    await other.working.wait()
    worker.go_on.set()
    lost = await first
    other.go_on.set()
    assert (lost.success, (await second).output) == (False, "Done.")


class Till:
    """Pays what was approved, and takes its time."""

    def __init__(self) -> None:
        self.working, self.go_on = threading.Event(), threading.Event()

        @tool(effect="write", approval=True)
        def pay(to: str) -> str:
            self.working.set()
            self.go_on.wait(60)
            return to

        calls = [ToolCall(to, "pay", {"to": to}) for to in ("ann", "bob")]
        model = ScriptedModel([calls, "Done."], per_conversation=True)
        self.agent: Agent[Any] = Agent("a", model=model, tools=[pay])


async def test_two_journals_on_one_file_are_one_place(tmp_path: Path) -> None:
    till = Till()
    (tmp_path / "link.db").symlink_to(tmp_path / "runs.db")
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    other = await SqliteJournal.open(tmp_path / "link.db")
    await run(till.agent, GO, journal=journal)
    answered = resume("r1", till.agent, journal=journal, answers=[Approve("ann")])
    first = asyncio.ensure_future(answered)
    assert await asyncio.to_thread(till.working.wait, 60)
    with pytest.raises(JournalError, match=REFUSED):
        await resume("r1", till.agent, journal=other, answers=[Approve("bob")])
    till.go_on.set()
    assert [item.id for item in (await first).pending] == ["bob"]
    await journal.aclose()
    await other.aclose()


async def test_runs_of_one_name_in_two_journals_are_two_runs() -> None:
    workers = [Worker(), Worker()]
    both = [
        asyncio.ensure_future(run(one.agent, GO, journal=journal))
        for one, journal in zip(workers, [Own(), Own()], strict=True)
    ]
    for one in workers:
        await one.working.wait()
        one.go_on.set()
    assert [result.output for result in await asyncio.gather(*both)] == ["Done.", "Done."]


async def test_a_run_in_the_loop_of_another_thread_is_left_to_it(tmp_path: Path) -> None:
    till, path = Till(), tmp_path / "runs.db"
    await run(till.agent, GO, journal=path)

    async def answer() -> AgentResult[Any]:
        return await resume("r1", till.agent, journal=path, answers=[Approve("ann")])

    first = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(answer())))
    assert await asyncio.to_thread(till.working.wait, 60)
    try:
        with pytest.raises(JournalError, match=REFUSED):
            await resume("r1", till.agent, journal=path, answers=[Approve("bob")])
    finally:
        till.go_on.set()
    assert [item.id for item in (await first).pending] == ["bob"]


async def test_a_run_that_parked_is_free_before_its_block_is_left(where: Any) -> None:
    agent, free = clerk([]), list[AgentResult[Any]]()
    async with start(agent, GO, journal=where) as live:
        async for event in live:
            if isinstance(event, RunSettled):
                free.append(await resume("r1", agent, journal=where, answers=[Approve("ann")]))
        await keep_answers("r1", [Approve("bob")], journal=where)
        free.append(await resume("r1", agent, journal=where))
    assert [one.status for one in free] == [Status.INPUT_REQUIRED, Status.COMPLETED]


async def test_a_run_that_was_cancelled_is_free(where: Any) -> None:
    worker = Worker()
    first = asyncio.ensure_future(run(worker.agent, GO, journal=where))
    await worker.working.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await resume("r1", worker.agent, journal=where)).status is Status.CANCELED


@pytest.mark.parametrize("watched", [False, True])
async def test_a_run_that_lost_its_log_is_free(*, watched: bool) -> None:
    journal, worker = Failing(), Worker()
    worker.go_on.set()
    options: dict[str, Any] = {"observers": [Witness()]} if watched else {}
    worker.agent = Agent("a", engine=worker.agent.engine, **options)
    assert not (await run(worker.agent, GO, journal=journal)).success
    journal.left = 100
    assert (await resume("r1", worker.agent, journal=journal)).output == "Done."


@pytest.mark.parametrize("kind", ["memory", "own", "file"])
def test_what_was_left_behind_in_a_loop_that_does_not_run_goes_on(
    tmp_path: Path, kind: str
) -> None:
    where: Any = {"memory": MemoryJournal(), "own": Own(), "file": tmp_path / "runs.db"}[kind]
    left, loop = Worker(), asyncio.new_event_loop()

    async def begin() -> Any:
        task = asyncio.ensure_future(run(left.agent, GO, journal=where))
        await left.working.wait()
        return task

    async def go_on() -> AgentResult[Any]:
        worker = Worker()
        worker.go_on.set()
        return await resume("r1", worker.agent, journal=where)

    task = loop.run_until_complete(begin())
    assert asyncio.run(go_on()).output == "Done."
    left.go_on.set()
    lost = loop.run_until_complete(task)
    assert (lost.error or lost.warnings[-1]).code in ("taken_over", "journal_failed")
    loop.close()


# In a process of its own, for what was left behind complains when it is taken away.
CLOSED = """
import asyncio, sys
from upshot import Agent, Request, ScriptEngine, resume, run
from upshot.journal import MemoryJournal

async def wait(run, host, board):
    await asyncio.get_running_loop().create_future()

async def answer(run, host, board):
    return "Done."

async def begin():
    task = asyncio.ensure_future(
        run(Agent("a", engine=ScriptEngine(wait)), Request("Go.", run_id="r1"), journal=where)
    )
    while not [event async for event in where.events("r1")]:
        await asyncio.sleep(0)
    return task

class Own(MemoryJournal):
    pass

where = {"memory": MemoryJournal, "own": Own}[sys.argv[1]]()
loop = asyncio.new_event_loop()
task = loop.run_until_complete(begin())
loop.close()
again = resume("r1", Agent("a", engine=ScriptEngine(answer)), journal=where)
print(asyncio.run(again).output)
"""


@pytest.mark.parametrize("kind", ["memory", "own"])
def test_what_was_left_behind_in_a_closed_loop_goes_on(kind: str) -> None:
    done = run_python("-c", CLOSED, kind, text=True)
    assert done.stdout == "Done.\n", done.stderr


@pytest.mark.parametrize("kind", [MemoryJournal, Own])
async def test_a_run_whose_task_is_gone_is_free(kind: type[MemoryJournal]) -> None:
    working, journal, told = asyncio.Event(), kind(), list[str]()

    async def work(run: Any, host: Any, board: Any) -> None:
        working.set()
        # Nobody holds this, and so nobody holds the run.
        await asyncio.get_running_loop().create_future()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, facts: told.append(facts["message"]))
    task = asyncio.ensure_future(run(Agent("a", engine=Do(work)), GO, journal=journal))
    await working.wait()
    del task
    # Outside of any task, as the loop would mostly do it.
    loop.call_soon(gc.collect)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "Task was destroyed but it is pending!" in told
    loop.set_exception_handler(None)
    worker = Worker()
    worker.go_on.set()
    assert isinstance(await resume("r1", worker.agent, journal=journal), AgentResult)


async def test_who_claims_a_run_takes_it_over(where: Any) -> None:
    worker, other = Worker(), Worker()
    other.go_on.set()
    async with open_journal(where) as journal:
        first = asyncio.ensure_future(run(worker.agent, GO, journal=journal))
        await worker.working.wait()
        epoch = await journal.claim("r1")
        seq = len(await log_of(journal, "r1")) + 1
        journal.append(RunResumed(run_id="r1", seq=seq), epoch=epoch)
        worker.go_on.set()
        assert not (await first).success
        assert (await resume("r1", other.agent, journal=journal)).output == "Done."


async def test_a_run_that_cannot_write_any_more_is_free_though_it_goes_on() -> None:
    journal, worker, lost, end = Own(), Worker(), asyncio.Event(), asyncio.Event()
    worker.go_on.set()

    async def work(run: Any, host: Any, board: Any) -> None:
        await journal.claim("r1")
        with pytest.raises(JournalError):
            await host.once("late", "write", lambda: None)
        lost.set()
        await end.wait()

    first = asyncio.ensure_future(run(Agent("a", engine=Do(work)), GO, journal=journal))
    await lost.wait()
    assert (await resume("r1", worker.agent, journal=journal)).output == "Done."
    end.set()
    await first


# -- runs inside


class Outer:
    """An agent whose script has two others pay, of which each waits until it is told to go on."""

    def __init__(self) -> None:
        self.working = asyncio.Event()
        self.go_on = asyncio.Event()
        self.done: list[str] = []
        self.agent: Agent[Any] = Agent("outer", engine=ScriptEngine(self._both))
        self.inner = {key: self._payer(key) for key in ("one", "two")}

    def _payer(self, key: str) -> Agent[Any]:
        @tool(effect="write", approval=True)
        async def pay(to: str) -> str:
            self.done.append(to)
            self.working.set()
            await self.go_on.wait()
            return "paid"

        calls = [ToolCall(f"{key} {to}", "pay", {"to": f"{key} {to}"}) for to in ("ann", "bob")]
        return Agent(key, model=ScriptedModel([calls, "Done."], per_conversation=True), tools=[pay])

    async def _both(self, run: Any, host: Any, board: Any) -> list[str]:
        children = [await run.child(inner, "Pay.", key=key) for key, inner in self.inner.items()]
        waiting = [item for child in children for item in child.pending]
        if waiting:
            raise Parked(*waiting)
        return [child.content for child in children]


async def test_where_one_of_two_runs_inside_is_at_work_no_answer_is_kept(where: Any) -> None:
    outer = Outer()
    parked = await run(outer.agent, GO, journal=where)
    one, _, two, _ = (item.run_id for item in parked.pending)
    first = [Approve("two ann")]
    second = asyncio.ensure_future(resume(two, outer.inner["two"], journal=where, answers=first))
    await outer.working.wait()
    answers = [Approve("one ann"), Approve("one bob"), Approve("two bob")]
    async with open_journal(where) as journal:
        before = {id: await log_of(journal, id) for id in ("r1", one, two)}
        with pytest.raises(JournalError, match=f"run {two} is being worked on in this process"):
            await resume("r1", outer.agent, journal=journal, answers=answers)
        assert before == {id: await log_of(journal, id) for id in before}
    outer.go_on.set()
    assert (await second).status is Status.INPUT_REQUIRED
    result = await resume("r1", outer.agent, journal=where, answers=answers)
    assert result.output == ["Done.", "Done."]
    assert sorted(outer.done) == ["one ann", "one bob", "two ann", "two bob"]
