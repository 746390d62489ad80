"""Requests that are handed from agent to agent, and processes that die on the way."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.fleet.chaining import make, work
from tests.places import Place
from tests.processes import start_python
from upshot import (
    Agent,
    App,
    Handoff,
    Misuse,
    Policy,
    RunHandle,
    RunStarted,
    ScriptedModel,
    ToolCall,
    ToolSettled,
    run_with_handoffs,
)
from upshot.entry.stops import stop_of
from upshot.fleet.worker import Worker
from upshot.journal import MemoryJournal

IS_LARGE = bool(os.environ.get("UPSHOT_FLEET"))
# What a process appends and takes for the chain; the second and the third run are taken and begun
# at these.
DEATHS = range(1, 45) if IS_LARGE else [15, 16, 35]


def die(place: Place, effects: Path, at: int) -> Any:
    return start_python("-m", "tests.fleet.chaining", place.where, effects, at, stdout=PIPE)


async def seen_by(handle: RunHandle) -> list[Any]:
    return [event async for event in handle.events()]


@pytest.mark.parametrize("conversation", ["", "ada"])
@pytest.mark.parametrize("at", DEATHS)
async def test_a_chain_is_taken_up_wherever_its_process_dies(
    place: Place, tmp_path: Path, at: int, conversation: str
) -> None:
    effects = tmp_path / "effects"
    async with make(place.where, str(effects)) as app:
        handle = await app.submit("desk", "Pay order 7.", conversation=conversation or None)
        process = die(place, effects, at)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        watching = asyncio.ensure_future(seen_by(handle))
        await work(app)
        result = await handle.result(0)
        assert result is not None and (result.status, result.content) == ("completed", "Done.")
        assert result.state["path"] == ["desk", "till", "clerk"]
        events = await watching
        begun = [event.agent.id for event in events if isinstance(event, RunStarted)]
        assert begun == ["desk", "till", "clerk"]
        (paid,) = [one for one in events if isinstance(one, ToolSettled) and one.call_id == "p"]
        done = effects.read_text() if effects.exists() else ""
        assert done == "pay 7\n" or (paid.record.outcome.effect, done) == ("unknown", "")
        assert len(await app.runs()) == len(await app.runs("ended")) == 3
        if conversation:
            found = await app.conversation(conversation)
            assert (found.revision, found.messages[0].text) == (1, "Pay order 7.")
            assert found.messages[-1].text == "Done."


def handing(id: str, to: str) -> Agent[Any]:
    model = ScriptedModel([ToolCall(f"c-{id}", f"transfer_to_{to}", {})] * 2)
    return Agent(id, model=model, handoffs=[Handoff(to)])


def answering(id: str = "b") -> Agent[Any]:
    return Agent(id, model=ScriptedModel(["Done."]))


async def test_a_chain_in_a_ring_ends_there_and_leaves_nothing_to_take_up(journal: Any) -> None:
    async with App([handing("a", "b"), handing("b", "a")], journal=journal) as app:
        handle = await app.submit("a", "?", conversation="ada")
        await work(app)
        result = await handle.result(0)
        assert result is not None and result.error is not None
        assert result.error.details["dimension"] == "depth"
        assert result.state["path"] == ["a", "b"]
        assert len(await seen_by(handle)) > 0
        assert len(await app.runs()) == len(await app.runs("ended")) == 2
        other = await app.submit("b", "?", conversation="ada")
        assert await app.activate(other.id) is not None


async def unbegun(journal: Any, **options: Any) -> RunHandle:
    """A chain whose second agent this App cannot begin."""
    async with App([handing("a", "b"), Agent[Any]("b")], journal=journal) as app:
        handle = await app.submit("a", "?", **options)
        with pytest.raises(Misuse, match="model"):
            await app.activate(handle.id)
        return handle


async def test_a_receiver_that_could_not_begin_is_due_for_others(journal: Any) -> None:
    handle = await unbegun(journal, conversation="ada", policy=Policy(), priority=3)
    async with App([handing("a", "b"), answering()], journal=journal) as app:
        (due,) = await app.due()
        assert (due.has_begun, due.priority, due.conversation) == (False, 3, "ada")
        assert await handle.result(0) is None
        (waits,) = await app.runs("queued")
        assert waits.run_id == due.run_id != handle.id
        found = await journal.submission(due.run_id)
        assert (found.after, "policy" in found.options) == (handle.id, True)
        # It has the turn of its conversation.
        other = await app.submit("b", "And?", conversation="ada")
        assert await app.activate(other.id) is None
        await app.activate(due.run_id)
        result = await handle.result(0)
        assert result is not None and result.state["path"] == ["a", "b"]


async def test_a_receiver_that_has_not_begun_is_canceled_with_its_chain(journal: Any) -> None:
    handle = await unbegun(journal)
    await handle.cancel()
    result = await handle.result(0)
    assert result is not None and result.status == "canceled"
    assert await journal.due_runs() == []


async def test_a_stop_that_comes_when_the_request_was_handed_over_is_heard(journal: Any) -> None:
    handle = await unbegun(journal)
    await journal.place_stop(stop_of(handle.id, "user_cancel"))
    async with App([handing("a", "b"), answering()], journal=journal) as app:
        await work(app)
    result = await handle.result(0)
    assert result is not None and result.status == "interrupted"


class Slow(MemoryJournal):
    """Has whoever takes the second run of a chain wait."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def claim(self, run_id: str, *, cut: bool = False) -> int:
        if len(self._logs) > 1:
            self.reached.set()
            await self.go_on.wait()
        return await super().claim(run_id, cut=cut)


async def test_a_cancel_between_two_runs_ends_the_next_one() -> None:
    journal = Slow()
    chain = run_with_handoffs([handing("a", "b"), answering()], "?", journal=journal)
    task = asyncio.ensure_future(chain)
    await journal.reached.wait()
    journal.go_on.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [run.status for run in await journal.runs()] == ["canceled", "completed"]
    assert await journal.due_runs() == []


async def test_a_receiver_is_left_to_workers_with_the_code_that_began_the_chain(
    journal: Any,
) -> None:
    handle = await unbegun(journal)
    agents = [handing("a", "b"), answering()]
    async with App(agents, journal=journal, version="2") as app, asyncio.timeout(60):
        worker = Worker(app, only_same_version=True)
        working = asyncio.ensure_future(worker.work())
        while not worker.refused:
            await asyncio.sleep(0.001)
        worker.stop()
        assert await working
        assert "it began with version" in next(iter(worker.refused.values()))
        assert await handle.result(0) is None
