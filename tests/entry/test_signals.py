"""Signals: kept until the run waits for them, each taken once, whoever sends them and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fleet.test_worker import at_work
from tests.runs.kit import kinds, log_of
from tests.searching import examples
from upshot import (
    Agent,
    Answer,
    App,
    Failed,
    Graph,
    GraphEngine,
    Handoff,
    LoopEngine,
    MachineEngine,
    Misuse,
    Node,
    Parallel,
    Parked,
    PendingExternal,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    WaitSignal,
    attach,
    broadcast,
    fork,
    load_machine,
    replay,
    resume,
    run,
)
from upshot.journal import MemoryJournal, open_journal
from upshot.journal.shared import needs_shared


@pytest.fixture(params=["memory", "file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "postgres":
        yield request.getfixturevalue("postgres").url(request.getfixturevalue("database"))
    else:
        yield "memory:" if request.param == "memory" else tmp_path / "j.db"


def waiter(*names: str) -> Agent[Any]:
    """An agent that waits for signals one after the other, and returns what it got."""

    async def work(run: Any, host: Any, board: Any) -> Any:
        return [await host.wait_signal(name) for name in names]

    return Agent("waiter", engine=ScriptEngine(work))


async def test_a_signal_continues_the_run_that_waits_for_it(place: Any) -> None:
    async with open_journal(place) as journal:
        parked = await run(waiter("paid"), Request("?", run_id="r"), journal=journal)
        (waits,) = parked.pending
        assert isinstance(waits, PendingExternal)
        assert waits.signal == "paid"
        async with attach("r", journal=journal) as handle:
            assert await handle.signal("paid", {"euros": 5}) == "delivered"
            assert await needs_shared(journal).inbox() == ()
            assert [one.run_id for one in await needs_shared(journal).due_runs()] == ["r"]
            result = await resume("r", waiter("paid"), journal=journal)
            assert result.output == [{"euros": 5}]
            assert await handle.signal("paid", 6) == "ended"


async def test_signals_sent_before_the_run_starts_or_waits_are_kept_in_order(place: Any) -> None:
    agent = waiter("paid", "shipped", "paid")
    async with App([agent], journal=place) as app, asyncio.timeout(60):
        handle = await app.submit(agent, "?")
        for name, value in (("paid", 1), ("paid", 2), ("shipped", "x")):
            assert await handle.signal(name, value) == "delivered"
        async with at_work(app):
            result = await handle.result()
    assert result is not None and result.output == [1, "x", 2]


async def test_a_worker_continues_the_run_at_each_signal(place: Any) -> None:
    agent = waiter("a", "b", "a")
    async with App([agent], journal=place) as app, asyncio.timeout(60):
        handle = await app.submit(agent, "?")
        async with at_work(app):
            for number, name in enumerate(("a", "b", "a")):
                parked = await handle.result()
                assert parked is not None and parked.pending
                await handle.signal(name, number)
                while (now := await handle.result()) is not None and now == parked:
                    await asyncio.sleep(0)
            result = await handle.result()
    assert result is not None and result.output == [0, 1, 2]


async def test_a_signal_with_a_known_key_is_not_delivered_again(place: Any) -> None:
    async with open_journal(place) as journal:
        await run(waiter("paid", "paid"), Request("?", run_id="r"), journal=journal)
        async with attach("r", journal=journal) as handle:
            assert await handle.signal("paid", 1, key="evt_1") == "delivered"
            assert await handle.signal("paid", 1, key="evt_1") == "repeated"
            assert await handle.signal("paid", 1) == "delivered"
        result = await resume("r", waiter("paid", "paid"), journal=journal)
        assert result.output == [1, 1]


async def test_many_senders_at_once_deliver_each_signal_once(place: Any) -> None:
    agent = waiter(*["n"] * 12)
    async with open_journal(place) as journal:
        await run(agent, Request("?", run_id="r"), journal=journal)
        async with attach("r", journal=journal) as handle:
            sends = [handle.signal("n", n, key=f"k{n}") for n in range(12) for _ in range(2)]
            done = await asyncio.gather(*sends)
        assert sorted(done) == ["delivered"] * 12 + ["repeated"] * 12
        result = await resume("r", agent, journal=journal)
        assert isinstance(result.output, list)
        assert sorted(map(str, result.output)) == sorted(map(str, range(12)))


async def test_a_signal_between_the_look_and_the_park_is_not_missed(place: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        try:
            return await host.wait_signal("paid")
        finally:
            async with attach(run.id, journal=journal) as handle:
                await handle.signal("paid", 7, key="once")

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with open_journal(place) as journal:
        assert (await run(agent, Request("?", run_id="r"), journal=journal)).pending
        assert [one.run_id for one in await needs_shared(journal).due_runs()] == ["r"]
        assert (await resume("r", agent, journal=journal)).output == 7


async def test_a_wait_that_expires_fails_and_leaves_its_signal_to_the_next(place: Any) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)

    async def work(run: Any, host: Any, board: Any) -> Any:
        try:
            await host.wait_signal("paid", expires_at=past)
        except Failed as failed:
            return [str(failed.error.code), await host.wait_signal("paid")]

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with open_journal(place) as journal:
        parked = await run(agent, Request("?", run_id="r"), journal=journal)
        (waits,) = parked.pending
        async with attach("r", journal=journal) as handle:
            await handle.signal("paid", 1)
        result = await resume("r", agent, journal=journal)
        assert result.output == ["timeout", 1], waits


async def test_a_run_is_due_when_its_wait_expires(place: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        soon = run.started_at + timedelta(milliseconds=200)
        try:
            return await host.wait_signal("paid", expires_at=soon)
        except Failed:
            return "gave up"

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with App([agent], journal=place) as app, asyncio.timeout(60):
        handle = await app.submit(agent, "?")
        async with at_work(app):
            while (result := await handle.result()) is None or result.pending:
                await asyncio.sleep(0.005)
    assert result.output == "gave up"


async def test_steps_that_are_done_do_not_give_their_signals_away(place: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        first = await host.once("one", "read", lambda: host.wait_signal("n"))
        second = await host.wait_signal("n")
        third = await host.once("three", "read", lambda: host.wait_signal("n"))
        return [first, second, third]

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with open_journal(place) as journal:
        result = await run(agent, Request("?", run_id="r"), journal=journal)
        for number in (1, 2, 3):
            assert result.pending
            async with attach("r", journal=journal) as handle:
                await handle.signal("n", number)
            result = await resume("r", agent, journal=journal)
        assert result.output == [1, 2, 3]


async def test_child_runs_have_signals_of_their_own(place: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        first = await host.wait_signal("n")
        inner = await run.child(waiter("n"), "?", key="inner")
        if inner.pending:
            raise Parked(*inner.pending)
        return [first, inner.output]

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with App([agent], journal=place) as app, asyncio.timeout(60):
        handle = await app.submit(agent, "?")
        await handle.signal("n", "one")
        async with at_work(app):
            while (parked := await handle.result()) is None or not parked.pending:
                await asyncio.sleep(0)
            (waits,) = parked.pending
            assert waits.run_id
            inner = await app.run(waits.run_id)
            assert await inner.signal("n", "two") == "delivered"
            while (result := await handle.result()) is None or result.pending:
                await asyncio.sleep(0.005)
    assert result.output == ["one", ["two"]]


def _name(board: Any) -> str:
    return "n"


def _collect(board: Any) -> Any:
    return {"output": [board.get(name) for name in ("left", "right", "last")]}


async def test_nodes_of_a_graph_wait_for_signals(place: Any) -> None:
    both = Parallel({"left": WaitSignal("n"), "right": WaitSignal("m")})
    last = Node(WaitSignal(_name), output="last")
    nodes = {"both": both, "last": last, "end": _collect}
    graph = Graph(nodes, edges=[("both", "last"), ("last", "end")], start="both")
    agent = Agent[Any]("a", engine=GraphEngine(graph))
    async with open_journal(place) as journal:
        result = await run(agent, Request("?", run_id="r"), journal=journal)
        assert {one.signal for one in result.pending if isinstance(one, PendingExternal)} == {
            "n",
            "m",
        }
        for name, value in (("m", 1), ("n", 2), ("n", 3)):
            async with attach("r", journal=journal) as handle:
                await handle.signal(name, value)
            result = await resume("r", agent, journal=journal)
        assert result.output == [2, 1, 3]


MACHINE = """
name: desk
states:
  pay:
    type: initial
    wait: payment
    input: {signal: "'paid'", question: "'Has the customer paid?'"}
    transitions: [{to: done}]
  done: {type: final}
"""


async def test_a_state_of_a_machine_waits_for_a_signal(place: Any, tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text(MACHINE)
    agent = Agent[Any]("desk", engine=MachineEngine(load_machine(file), agents={}))
    async with open_journal(place) as journal:
        parked = await run(agent, Request("?", run_id="r"), journal=journal)
        (waits,) = parked.pending
        assert isinstance(waits, PendingExternal)
        assert (waits.signal, waits.description) == ("paid", "Has the customer paid?")
        async with attach("r", journal=journal) as handle:
            await handle.signal("paid", {"euros": 5})
        result = await resume("r", agent, journal=journal)
    assert result.output == {"euros": 5}


async def test_staff_may_answer_the_wait_instead(place: Any) -> None:
    async with open_journal(place) as journal:
        parked = await run(waiter("paid", "paid"), Request("?", run_id="r"), journal=journal)
        (waits,) = parked.pending
        answers = [Answer(waits.id, "by hand")]
        await resume("r", waiter("paid", "paid"), journal=journal, answers=answers)
        async with attach("r", journal=journal) as handle:
            await handle.signal("paid", "by signal")
        result = await resume("r", waiter("paid", "paid"), journal=journal)
        assert result.output == ["by hand", "by signal"]


async def test_replay_and_fork_use_the_signals_of_the_log(place: Any) -> None:
    agent = waiter("a", "b")
    async with open_journal(place) as journal:
        await run(agent, Request("?", run_id="r"), journal=journal)
        async with attach("r", journal=journal) as handle:
            await handle.signal("a", 1)
            await handle.signal("b", 2)
        await resume("r", agent, journal=journal)
        replayed = await replay("r", agent, journal=journal)
        assert (replayed.result.output, replayed.difference) == ([1, 2], None)
        log = await log_of(journal, "r")
        at = 1 + kinds(log).index("question_answered")
        copy = await fork("r", at=at, journal=journal)
        forked = await resume(copy, agent, journal=journal)
        (waits,) = forked.pending
        assert isinstance(waits, PendingExternal)
        assert waits.signal == "b"


async def test_a_fork_takes_the_next_signal_that_is_sent_to_it(place: Any) -> None:
    agent = waiter("a", "a", "a")
    async with open_journal(place) as journal:
        await run(agent, Request("?", run_id="r"), journal=journal)
        async with attach("r", journal=journal) as handle:
            await handle.signal("a", "first")
        await resume("r", agent, journal=journal)
        copy = await fork("r", at=len(await log_of(journal, "r")), journal=journal)
        async with attach(copy, journal=journal) as handle:
            for value in ("second", "third"):
                assert await handle.signal("a", value) == "delivered"
        result = await resume(copy, agent, journal=journal)
        assert result.output == ["first", "second", "third"]


async def test_a_signal_after_the_deadline_is_for_the_next_wait_in_every_session(
    place: Any,
) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=50)
    mails: list[str] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        try:
            return ["in time", await host.wait_signal("paid", expires_at=soon)]
        except Failed:
            await host.once("remind", "write", lambda: mails.append("reminder"))
            return ["reminded", await host.wait_signal("paid")]

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with open_journal(place) as journal:
        await run(agent, Request("?", run_id="r"), journal=journal)
        while datetime.now(UTC) < soon:
            await asyncio.sleep(0.01)
        async with attach("r", journal=journal) as handle:
            await handle.signal("paid", "late")
        result = await resume("r", agent, journal=journal)
        assert (result.output, mails) == (["reminded", "late"], ["reminder"])
    mails.clear()
    async with open_journal("memory:") as journal:
        await run(agent, Request("?", run_id="r"), journal=journal)
        await resume("r", agent, journal=journal)
        async with attach("r", journal=journal) as handle:
            await handle.signal("paid", "late")
        result = await resume("r", agent, journal=journal)
        assert (result.output, mails) == (["reminded", "late"], ["reminder"])


def chain_that_waits() -> list[Agent[Any]]:
    """An agent that hands over to one that waits for a signal."""
    hand_over = [ToolCall("h", "transfer_to_waiter", {})]
    handing = Agent[Any]("desk", model=ScriptedModel([hand_over]), handoffs=[Handoff("waiter")])
    return [handing, waiter("paid", "paid")]


async def test_signals_that_come_before_a_handoff_are_for_the_run_that_waits(place: Any) -> None:
    async with App(chain_that_waits(), journal=place) as app:
        handle = await app.submit("desk", "?")
        assert await handle.signal("paid", 1, key="evt_1") == "delivered"
        assert await handle.signal("paid", 2) == "delivered"
        await app.activate(handle.id)
        result = await handle.result(0)
        assert result is not None and result.output == [1, 2]


class Acting(MemoryJournal):
    """Does something before it stores a signal, or right after."""

    before: Any = None
    after: Any = None

    async def place_answer(self, *given: Any, **more: Any) -> Any:
        act, self.before = self.before, None
        await (act() if act else asyncio.sleep(0))
        standing = await super().place_answer(*given, **more)
        act, self.after = self.after, None
        await (act() if act else asyncio.sleep(0))
        return standing


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_signal_during_a_handoff_is_for_the_next_run(moment: str) -> None:
    journal = Acting()
    async with App(chain_that_waits(), journal=journal) as app:
        handle = await app.submit("desk", "?")
        setattr(journal, moment, lambda: app.activate(handle.id))
        assert await handle.signal("paid", 1, key="evt_1") == "delivered"
        assert await handle.signal("paid", 1, key="evt_1") == "repeated"
        await handle.signal("paid", 2)
        for due in await app.due():
            await app.activate(due.run_id)
        result = await handle.result(0)
        assert result is not None and result.output == [1, 2]


async def test_a_signal_that_a_run_read_is_not_delivered_again_after_its_handoff() -> None:
    async def read(run: Any, host: Any, board: Any) -> Any:
        await host.wait_signal("paid")
        return await LoopEngine().execute(run, host, board)

    desk, waits = chain_that_waits()
    async with App([desk.but(engine=ScriptEngine(read)), waits], journal="memory:") as app:
        handle = await app.submit("desk", "?")
        assert await handle.signal("paid", 1, key="evt_1") == "delivered"
        await app.activate(handle.id)
        assert (await handle.last_run()).id != handle.id
        assert await handle.signal("paid", 1, key="evt_1") == "repeated"


async def test_a_signal_that_comes_as_the_run_ends_is_not_called_delivered() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        return "Done."

    journal = Acting()
    async with App([Agent[Any]("a", engine=ScriptEngine(work))], journal=journal) as app:
        handle = await app.submit("a", "?")
        journal.before = lambda: app.activate(handle.id)
        assert await handle.signal("paid", 1) == "ended"


async def test_a_broadcast_reaches_every_open_run_of_the_agent_once(place: Any) -> None:
    async with open_journal(place) as journal:
        for run_id in ("a", "b"):
            await run(waiter("stop"), Request("?", run_id=run_id), journal=journal)
        idle = Agent[Any]("x", engine=ScriptEngine(_idle))
        await run(idle, Request("?", run_id="x"), journal=journal)
        sent = await broadcast("stop", "now", journal=journal, key="k", agent_id="waiter")
        assert sorted(sent) == ["a", "b"]
        sent = await broadcast("stop", "now", journal=journal, key="k", agent_id="waiter")
        assert sorted(sent) == ["a", "b"]
        for run_id in ("a", "b"):
            result = await resume(run_id, waiter("stop"), journal=journal)
            assert result.output == ["now"]


async def _idle(run: Any, host: Any, board: Any) -> None:
    return None


@pytest.mark.parametrize("name", ["", " ", "a#b", "a@b", "a\nb", 5])
async def test_a_name_that_cannot_be_one_is_refused(name: Any) -> None:
    async with open_journal("memory:") as journal:
        await run(waiter("paid"), Request("?", run_id="r"), journal=journal)
        async with attach("r", journal=journal) as handle:
            with pytest.raises(Misuse, match="a signal's name is a line of text"):
                await handle.signal(name)


MOVES = st.lists(st.sampled_from(["a", "b", "resume"]), max_size=14)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from("ab"), min_size=1, max_size=5), moves=MOVES)
def test_each_wait_gets_the_next_signal_of_its_name(names: list[str], moves: list[str]) -> None:
    async def play() -> None:
        agent, sent = waiter(*names), dict[str, list[int]](a=[], b=[])
        async with open_journal("memory:") as journal:
            result = await run(agent, Request("?", run_id="r"), journal=journal)
            async with attach("r", journal=journal) as handle:
                for number, move in enumerate([*moves, "resume"]):
                    if move == "resume":
                        result = await resume("r", agent, journal=journal)
                    elif await handle.signal(move, number) == "delivered":
                        sent[move].append(number)
        left = {name: iter(numbers) for name, numbers in sent.items()}
        expected = [next(left[name], None) for name in names]
        if None in expected:
            waits = names[expected.index(None)]
            assert [one.signal for one in result.pending if isinstance(one, PendingExternal)] == [
                waits
            ]
        else:
            assert result.output == expected

    asyncio.run(play())


async def test_a_park_with_a_wait_that_is_over_does_not_continue_by_itself(place: Any) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)

    async def work(run: Any, host: Any, board: Any) -> Any:
        raise Parked(PendingExternal(id="x", expires_at=past))

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with open_journal(place) as journal:
        await run(agent, Request("?", run_id="r"), journal=journal)
        assert await needs_shared(journal).due_runs() == []
