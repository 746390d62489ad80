"""Stopping a run from anywhere: whoever works on it takes the wish up, or it is ended at once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.places import Place
from tests.processes import start_python
from upshot import (
    Agent,
    App,
    Interrupted,
    Misuse,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    attach,
    cancel,
    resume,
    run,
    start,
    tool,
)
from upshot.journal import MemoryJournal, open_journal
from upshot.journal.shared import Stop


def asker(paid: list[str]) -> Agent[Any]:
    @tool(effect="destructive", approval=True)
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    return Agent(
        "till", model=ScriptedModel([[ToolCall("p", "pay", {"to": "ann"})], "Paid."]), tools=[pay]
    )


class Waiter:
    """An agent that works until it is stopped."""

    def __init__(self) -> None:
        self.working = asyncio.Event()
        self.agent: Agent[Any] = Agent("waiter", engine=ScriptEngine(self.work))

    async def work(self, run: Any, host: Any, board: Any) -> Any:
        self.working.set()
        while (said := await host.interrupts()) is None:
            await asyncio.sleep(0.01)
        raise Interrupted(said.cause, said.detail)


async def test_a_queued_run_is_canceled_without_a_worker(journal: Any) -> None:
    async with App([asker([])], journal=journal, secrets=["hunter2-hunter2"]) as app:
        handle = await app.submit("till", "It is hunter2-hunter2.", conversation="c")
        await handle.cancel()
        result = await handle.result(0)
        assert result is not None and result.status == Status.CANCELED
        assert await app.due() == []
        assert await app.activate(handle.id) is not None
        started = (await handle.state()).started
        assert started is not None and started.request.text == "It is ***."
        assert started.agent.id == "till"
        await handle.cancel()
        with pytest.raises(Misuse, match=f"run {handle.id} has ended: it is canceled"):
            await cancel(handle.id, journal=journal)
        # It is no turn that would be in the way.
        assert (await journal.conversation("c")).revision == 0


async def test_a_parked_run_is_canceled_without_a_worker(journal: Any) -> None:
    paid: list[str] = []
    parked = await run(asker(paid), "Pay.", journal=journal)
    async with attach(parked.run_id, journal=journal) as handle:
        await handle.cancel()
        result = await handle.result(0)
    assert result is not None and (result.status, paid) == (Status.CANCELED, [])


@pytest.mark.parametrize("is_cancel", [True, False], ids=["cancel", "interrupt"])
async def test_a_run_that_is_worked_on_is_stopped_by_whoever_asks(
    journal: Any, *, is_cancel: bool
) -> None:
    waiter = Waiter()
    async with start(waiter.agent, "Wait.", journal=journal) as live:
        await waiter.working.wait()
        async with attach(live.run_id, journal=journal) as handle:
            if is_cancel:
                await handle.cancel()
            else:
                await handle.interrupt("user_input", "wrong number")
        result = await live.result()
    assert result.status == (Status.CANCELED if is_cancel else Status.INTERRUPTED)
    told = [event async for event in journal.events(live.run_id) if event.kind == "interrupted"]
    said = [] if is_cancel else [("user_input", "wrong number")]
    assert [(one.interrupt.cause, one.interrupt.detail) for one in told] == said


async def test_a_parked_run_that_is_interrupted_is_due_and_ends_when_it_is_taken_up(
    journal: Any,
) -> None:
    paid: list[str] = []
    async with App([asker(paid)], journal=journal) as app:
        handle = await app.submit("till", "Pay.")
        parked = await app.activate(handle.id)
        assert parked is not None
        await handle.interrupt()
        item: Any = parked.pending[0]
        await handle.answer(item.approve(by="ann"))
        ((due),) = await app.due()
        assert (due.run_id, due.reason) == (handle.id, "interrupt")
        result = await app.activate(handle.id)
        assert result is not None and (result.status, paid) == (Status.INTERRUPTED, [])
        assert await app.due() == []


@pytest.mark.parametrize("waits_for", ["wait_signal", "wait_for", "ask_user"])
async def test_a_run_whose_own_engine_waits_ends_when_it_is_interrupted(
    journal: Any, waits_for: str
) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return await getattr(host, waits_for)("paid")

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    async with App([agent], journal=journal) as app:
        handle = await app.submit("a", "Wait.")
        parked = await app.activate(handle.id)
        assert parked is not None and parked.pending
        await handle.interrupt("user_input", "wrong number")
        result = await app.activate(handle.id)
        assert result is not None
        assert (result.status, result.detail) == (Status.INTERRUPTED, "wrong number")
        assert await app.inbox() == ()


async def test_a_queued_run_that_is_interrupted_ends_when_it_is_taken_up(journal: Any) -> None:
    model = ScriptedModel(["Never."])
    async with App([Agent("a", model=model)], journal=journal) as app:
        handle = await app.submit("a", "Hi?")
        await handle.interrupt()
        result = await app.activate(handle.id)
        assert result is not None and result.status == Status.INTERRUPTED
        assert model.calls == []


async def test_a_run_that_goes_on_although_it_was_stopped_is_not_stopped_again(
    journal: Any,
) -> None:
    paid: list[str] = []
    agent = asker(paid)
    parked = await run(agent, "Pay.", journal=journal)
    async with attach(parked.run_id, journal=journal) as handle:
        await handle.interrupt()
    ended = await resume(parked.run_id, agent, journal=journal)
    assert ended.status == Status.INTERRUPTED
    again: Agent[Any] = Agent("till", model=ScriptedModel(["?", "Well."]), tools=agent.tools)
    result = await resume(parked.run_id, again, journal=journal, continue_stopped=True)
    assert result.success, result.error
    assert await journal.stops([parked.run_id]) == []


async def test_a_run_that_has_ended_stays_as_it_is(journal: Any) -> None:
    done = await run(Agent("a", model=ScriptedModel(["Hi."])), "Hi?", journal=journal)
    async with attach(done.run_id, journal=journal) as handle:
        await handle.interrupt()
        await handle.cancel()
        result = await handle.result(0)
        assert result is not None and result.success
        with pytest.raises(Misuse, match="the cause of an interrupt must be a text"):
            await handle.interrupt(5)  # type: ignore[arg-type]
    assert await journal.stops([done.run_id]) == []


class Late(MemoryJournal):
    """Lets a run end just before a cancel is stored."""

    end: Any = None

    async def place_stop(self, stop: Stop) -> None:
        await self.end()
        await super().place_stop(stop)


async def test_a_run_that_ends_by_itself_at_that_moment_was_not_canceled() -> None:
    journal = Late()
    async with App([Agent[Any]("a", model=ScriptedModel(["Hi."]))], journal=journal) as app:
        handle = await app.submit("a", "Hi?")
        journal.end = lambda: app.activate(handle.id)
        with pytest.raises(Misuse, match=f"run {handle.id} has ended: it is completed"):
            await cancel(handle.id, journal=journal)


async def test_of_several_wishes_the_first_of_a_kind_stands(journal: Any) -> None:
    parked = await run(asker([]), "Pay.", journal=journal)
    async with attach(parked.run_id, journal=journal) as handle:
        await handle.interrupt("user_input", "one")
        await handle.interrupt("host_shutdown", "two")
    (stop,) = await journal.stops([parked.run_id, "another"])
    assert isinstance(stop, Stop) and (stop.cause, stop.detail) == ("user_input", "one")


PROGRAM = """
import asyncio, os, signal, sys
from upshot import Agent, Interrupted, Request, ScriptEngine, attach, open_journal, run

journal, step = sys.argv[1:]

async def work(run, host, board):
    await log.flush()
    print("working", flush=True)
    while not await host.interrupts():
        await asyncio.sleep(0.01)
    raise Interrupted("user_input")

async def main():
    global log
    if step == "work":
        agent = Agent("a", engine=ScriptEngine(work))
        async with open_journal(journal) as log:
            print((await run(agent, Request("?", run_id="r"), journal=log)).status)
        return
    async with attach("r", journal=journal) as handle:
        if step == "cancel":
            await handle.cancel()
            print((await handle.result()).status)
        else:
            await handle.interrupt("user_input", "by hand")
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def begin(program: Path, *arguments: str) -> Any:
    return start_python(program, *arguments, stdout=PIPE, text=True)


@pytest.mark.parametrize(("step", "told"), [("cancel", "canceled"), ("interrupt", "interrupted")])
async def test_a_run_of_another_process_is_stopped(
    place: Place, tmp_path: Path, step: str, told: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    working = begin(program, place.where, "work")
    assert working.stdout.readline() == "working\n"
    stopping = begin(program, place.where, step)
    said = stopping.communicate()[0].strip()
    if step == "cancel":
        assert said == "canceled"
    assert working.communicate()[0].strip() == told


async def test_a_wish_outlives_the_holder_that_dies_before_it_takes_it(
    place: Place, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    working = begin(program, place.where, "work")
    assert working.stdout.readline() == "working\n"
    # Suspended, it takes nothing.
    working.send_signal(signal.SIGSTOP)
    begin(program, place.where, "interrupt").communicate()
    working.kill()
    working.communicate()
    waiter = Waiter()
    async with open_journal(place.where) as journal:
        assert len(await journal.stops(["r"])) == 1
        agent: Agent[Any] = Agent("a", engine=waiter.agent.engine)
        result = await resume("r", agent, journal=journal)
    assert result.status == Status.INTERRUPTED
