"""The inbox: rows that say what a fold of the logs says, whatever happened to the runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.searching import examples
from upshot import (
    Agent,
    Answer,
    Graph,
    GraphEngine,
    InboxItem,
    Misuse,
    PendingApproval,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    answer,
    cancel,
    fork,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.contract.pending import AnyAnswer, Pending
from upshot.engines import AgentTask
from upshot.entry.resume import read_past
from upshot.journal.sqlite.salvage import salvage_file
from upshot.state.child_runs import bare_id, origins_of
from upshot.state.run_state import RunState, item_of

SECRET = "hunter2-hunter2"


@tool(effect="destructive", approval=True)
def pay(to: str) -> str:
    """Pay."""
    return "paid"


@tool(effect="write", approval=True)
def send(to: str) -> str:
    """Send."""
    return "sent"


def payer() -> Agent[Any]:
    first = [ToolCall("p0", "pay", {"to": "ann"}), ToolCall("p1", "send", {"to": SECRET})]
    model = ScriptedModel([first, [ToolCall("p0", "pay", {"to": "bob"})], "Done."])
    return Agent("payer", model=model, tools=[pay, send])


def asker() -> Agent[Any]:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return [await host.ask_user(f"{one}?", key="same") for one in ("First", "Second")]

    return Agent("asker", engine=ScriptEngine(ask))


def around(*inner: Agent[Any], waits: bool = True) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        found = [await run.child(one, "?", key=f"in {n}") for n, one in enumerate(inner)]
        return [one.unwrap() if waits else str(one.status) for one in found]

    return Agent("around", engine=ScriptEngine(work))


def graph() -> Agent[Any]:
    nodes = {"a": AgentTask(asker()), "b": AgentTask(payer())}
    return Agent("graph", engine=GraphEngine(Graph(nodes)))


AGENTS: dict[str, Callable[[], Agent[Any]]] = {
    "payer": payer,
    "asker": asker,
    "around": lambda: around(asker(), around(payer())),
    "careless": lambda: around(asker(), waits=False),
    "graph": graph,
}


async def folded(journal: Any) -> set[tuple[str, str, str]]:
    """What the logs say that waits: the outermost run, the one that asks, the question."""
    pasts = {one.run_id: await read_past(one.run_id, journal) for one in await journal.runs()}
    found: set[tuple[str, str, str]] = set()
    for run_id, past in pasts.items():
        root = waiting_root(run_id, pasts)
        placed_answers = {one.item for one in await journal.placed_answers(run_id)}
        for one in past.pending:
            gone = one.run_id or one.id in past.answered or one.id in past.answers
            if root and not gone and item_of(past, one) not in placed_answers:
                found.add((root, run_id, one.id))
    return found


def waiting_root(run_id: str, pasts: dict[str, RunState]) -> str:
    """The outermost of the runs that wait for a run, "" where one of them does not wait."""
    past = pasts[run_id]
    if past.last_settled is None or past.last_settled.result.status is not Status.INPUT_REQUIRED:
        return ""
    assert past.started is not None
    outer = past.started.parent_run_id
    if past.started.depth and outer in pasts and not origins_of(past.started.options):
        return waiting_root(outer, pasts)
    return run_id


def named(item: InboxItem) -> tuple[str, str, str]:
    return item.run_id, item.pending.run_id or item.run_id, bare_id(item.pending)


def to_answer(pending: Pending, choice: int) -> AnyAnswer:
    if isinstance(pending, PendingApproval):
        if choice % 3 == 0:
            return pending.deny("No.")
        return pending.approve() if choice % 3 == 1 else pending.edit({"to": "eve"})
    return Answer(pending.id, "so")


class History:
    """What happens to the runs of a journal; each number chooses among what there is."""

    def __init__(self, journal: Any) -> None:
        self.journal = journal
        self.agents: dict[str, str] = {}

    async def start(self, choice: int) -> None:
        name = [*AGENTS][choice % len(AGENTS)]
        result = await run(AGENTS[name](), "Go.", journal=self.journal, secrets=[SECRET])
        self.agents[result.run_id] = name

    def chosen(self, choice: int) -> str:
        return [*self.agents][choice % len(self.agents)]

    async def go_on(self, choice: int, **more: Any) -> None:
        run_id = self.chosen(choice)
        agent = AGENTS[self.agents[run_id]]()
        await resume(run_id, agent, journal=self.journal, secrets=[SECRET], **more)

    async def take_over(self, choice: int) -> None:
        await self.go_on(choice, take_over=True)

    async def answer(self, choice: int) -> None:
        if items := await self.journal.inbox():
            item = items[choice % len(items)]
            await answer(item.run_id, [to_answer(item.pending, choice)], journal=self.journal)

    async def answer_and_go_on(self, choice: int) -> None:
        run_id = self.chosen(choice)
        items = await self.journal.inbox(run_id=run_id)
        await self.go_on(choice, answers=[to_answer(one.pending, choice) for one in items[:1]])

    async def stop(self, choice: int) -> None:
        await cancel(self.chosen(choice), journal=self.journal)

    async def hold(self, choice: int) -> None:
        """A process that takes a run and ends before it has done anything."""
        epoch = await self.journal.claim(self.chosen(choice))
        self.journal.release(self.chosen(choice), epoch)

    async def fork(self, choice: int) -> None:
        """A log that ends anywhere, as where a process was killed."""
        run_id = self.chosen(choice)
        seqs = await self.journal.runs(run_id=run_id)
        forked = await fork(run_id, at=1 + choice % seqs[0].events, journal=self.journal)
        self.agents[forked] = self.agents[run_id]

    async def remove(self, choice: int) -> None:
        await self.journal.remove_runs([run_id := self.chosen(choice)])
        del self.agents[run_id]


STEPS: list[Callable[[History, int], Awaitable[None]]] = [
    History.start,
    History.go_on,
    History.take_over,
    History.answer,
    History.answer_and_go_on,
    History.stop,
    History.hold,
    History.fork,
    History.remove,
]


@pytest.fixture(params=["memory", "file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        yield lambda: server.url(request.getfixturevalue("database"))
    elif request.param == "file":
        numbers = iter(range(10_000))
        yield lambda: tmp_path / f"{next(numbers)}.db"
    else:
        yield lambda: "memory:"


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 59)), max_size=12))
def test_the_inbox_holds_what_a_fold_of_the_logs_gives(place: Any, steps: list[Any]) -> None:
    async def play() -> None:
        async with open_journal(place()) as journal:
            history = History(journal)
            for n, (step, choice) in enumerate([(History.start, 0), *steps]):
                if history.agents or step is History.start:
                    # Such as a run that has ended, or that a fork reads.
                    with suppress(Misuse):
                        await step(history, choice)
                shown = await journal.inbox()
                assert {*map(named, shown)} == await folded(journal), (n, step.__name__)
                assert len({*map(named, shown)}) == len(shown)
                assert SECRET not in repr(shown) and "<secret" not in repr(shown)
            # The next one begins with an empty database.
            if history.agents:
                await journal.remove_runs([*history.agents])

    asyncio.run(play())


async def test_a_question_is_shown_where_it_can_be_answered(place: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        await run.child(around(asker(), waits=False), "?", key="in")
        return await host.ask_user("And you?", key="own")

    async with open_journal(place()) as journal:
        outer = Agent[Any]("outer", engine=ScriptEngine(work))
        await run(outer, Request("?", run_id="o"), journal=journal)
        # Nothing takes what the innermost run comes to, since the one round it has ended.
        assert [*map(named, await journal.inbox())] == [("o", "o", "own")]
        await run(asker(), Request("?", run_id="n"), journal=journal, parent_run_id="o")
        assert {*map(named, await journal.inbox())} == {("o", "o", "own"), ("n", "n", "same")}
        await run(around(asker()), Request("?", run_id="p"), journal=journal)
        (inner,) = await journal.runs(parent_run_id="p")
        forked = await fork(inner.run_id, at=inner.events, journal=journal)
        assert {*map(named, await journal.inbox())} == {
            ("o", "o", "own"),
            ("n", "n", "same"),
            ("p", inner.run_id, "same"),
            (forked, forked, "same"),
        }


async def test_the_inbox_is_filtered(place: Any) -> None:
    async with open_journal(place()) as journal:
        await run(payer(), Request("?", run_id="p", context_id="talk"), journal=journal)
        await run(asker(), Request("?", run_id="a"), journal=journal)
        await run(around(payer()), Request("?", run_id="o"), journal=journal)

        async def found(**filters: Any) -> list[tuple[str, str]]:
            items = await journal.inbox(**filters)
            return [(one.run_id, bare_id(one.pending)) for one in items]

        assert await found(tool="pay") == [("p", "p0"), ("o", "p0")]
        assert await found(tool="send", agent="payer") == [("p", "p1")]
        assert await found(agent="around") == [("o", "p0"), ("o", "p1")]
        assert await found(conversation="talk", limit=1) == [("p", "p0"), ("p", "p1")]
        assert await found(limit=1, before="p") == [("a", "same")]
        assert await found(run_id="nobody") == []
        at = (await journal.inbox(run_id="a"))[0].pending.asked_at
        assert [id for id, _ in await found(since=at)] == ["a", "o", "o"]
        assert [id for id, _ in await found(until=at)] == ["p", "p"]
        assert await journal.inbox_size(until=at, tool="pay") == 1
        with pytest.raises(Misuse, match="until is 5: give an aware moment"):
            await journal.inbox(until=5)


async def test_runs_that_were_taken_in_one_by_one_wait_together(place: Any, tmp_path: Path) -> None:
    async with open_journal("memory:") as first:
        await run(around(around(asker())), Request("?", run_id="o"), journal=first)
        runs = [one.run_id for one in await first.runs()]
        for run_id in runs:
            await first.export(run_id, tmp_path / run_id)
        shown = await first.inbox()
    async with open_journal(place()) as journal:
        for run_id in runs:
            await journal.import_(tmp_path / run_id)
            assert len(await journal.inbox()) == 1
        assert await journal.inbox() == shown


async def test_what_a_salvage_saves_has_its_inbox(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "a.db") as journal:
        await run(around(payer()), Request("?", run_id="o"), journal=journal)
        first, second = await journal.inbox()
        await answer("o", [to_answer(first.pending, 1)], journal=journal)
    salvage_file(str(tmp_path / "a.db"), str(tmp_path / "b.db"))
    async with open_journal(tmp_path / "b.db") as saved:
        assert await saved.inbox() == (second,)


async def test_what_a_removed_run_asked_stands_nowhere(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "a.db") as journal:
        await run(payer(), Request("?", run_id="p"), journal=journal)
        await journal.remove_runs(["p"])
        count: Any = await journal.read(lambda c: c.execute("SELECT * FROM inbox").fetchall())
    assert count == []


async def test_the_longest_wait_comes_first_whenever_the_runs_began(place: Any) -> None:
    async def late(run: Any, host: Any, board: Any) -> Any:
        await host.wait_for("first", "the bank")
        return await host.ask_user("And you?", key="late")

    async with open_journal(place()) as journal:
        slow = Agent[Any]("slow", engine=ScriptEngine(late))
        await run(slow, Request("?", run_id="s"), journal=journal)
        for run_id in ("b", "a", "c"):
            await run(asker(), Request("?", run_id=run_id), journal=journal)
        shown = [item.run_id for item in await journal.inbox()]
        assert shown == ["s", "b", "a", "c"]
        # It began first, and what it asks now it has asked last.
        await resume("s", slow, journal=journal, answers=[Answer("first", "paid")])
        items = await journal.inbox()
        assert [item.run_id for item in items] == ["b", "a", "c", "s"]
        moments = [item.pending.asked_at for item in items]
        assert None not in moments and moments == sorted(moments, key=str)
        for at in range(4):
            rest = await journal.inbox(limit=2, before=items[at].run_id)
            assert [*rest] == [*items[at + 1 : at + 3]]
        with pytest.raises(Misuse):
            await journal.inbox(before="nobody")
        # A page after what was answered meanwhile begins anew.
        await answer("b", [Answer("same", "x")], journal=journal)
        again = await journal.inbox(before="b")
        assert [item.run_id for item in again] == ["a", "c", "s"]


async def test_a_question_keeps_the_moment_at_which_it_was_first_asked(place: Any) -> None:
    async with open_journal(place()) as journal:
        await run(asker(), Request("?", run_id="a"), journal=journal)
        [first] = await journal.inbox()
        await resume("a", asker(), journal=journal)
        [again] = await journal.inbox()
        assert first.pending.asked_at is not None
        assert again == first
