"""A run that is left to another session before its end, as by a worker that is drained."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import kinds, log_of
from tests.searching import examples
from upshot import (
    Agent,
    AgentResult,
    ModelResponse,
    Request,
    RunReleased,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolSettled,
    open_journal,
    resume,
    start,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.runs.live_run import LiveRun


class Witness:
    """An observer that says what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_run_start(self, info: Any, request: Any) -> None:
        self.told.append("start")

    def on_run_end(self, info: Any, result: Any) -> None:
        self.told.append("end")


class Desk:
    """Tools that work on a desk, and a run that one of them leaves to another session."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.live: LiveRun[Any] | None = None
        self.grace_s = 60.0
        self.waits = asyncio.Event()

        @tool(effect="write")
        async def leave(name: str) -> str:
            self.release()
            self.done.append(name)
            return name

        @tool(effect="write")
        async def write(name: str) -> str:
            self.done.append(name)
            return name

        @tool(effect="write")
        async def hang(name: str) -> str:
            self.done.append(name)
            self.release()
            await self.waits.wait()
            return name

        @tool(effect="read")
        async def look(name: str) -> str:
            self.done.append(name)
            self.release()
            await self.waits.wait()
            return name

        self.tools = [leave, write, hang, look]

    def release(self) -> None:
        """Leave the run, in the first session."""
        if self.live is not None:
            self.live.release("drain", grace_s=self.grace_s)

    def agent(self, *calls: str) -> Agent[Any]:
        """Makes these calls in one reply, and is done."""
        asked = [ToolCall(f"c{n}", name, {"name": f"{name} {n}"}) for n, name in enumerate(calls)]
        return Agent("a", model=ScriptedModel([asked, "Done."]), tools=self.tools)

    async def leave(self, agent: Agent[Any], journal: Any, **options: Any) -> AgentResult[Any]:
        """Begin run r, and leave it."""
        async with start(agent, Request("?", run_id="r"), journal=journal, **options) as live:
            self.live = live
            result = await live.result()
        self.live = None
        self.waits.set()
        return result


async def test_steps_in_hand_end_and_nothing_is_begun_any_more() -> None:
    desk, journal, witness = Desk(), MemoryJournal(), Witness()
    agent = desk.agent("leave", "write")
    left = await desk.leave(agent, journal, observers=[witness])
    assert (left.status, left.cause) == ("interrupted", "released")
    assert desk.done == ["leave 0"]
    logged = await log_of(journal, "r")
    assert kinds(logged)[-3:] == ["tool_started", "tool_settled", "run_released"]
    result = await resume("r", agent, journal=journal, observers=[witness])
    assert (result.content, desk.done) == ("Done.", ["leave 0", "write 1"])
    assert witness.told == ["start", "start", "end"]


async def test_a_body_that_may_write_and_does_not_end_is_logged_as_unknown() -> None:
    desk, journal = Desk(), MemoryJournal()
    desk.grace_s = 0
    agent = desk.agent("hang")
    await desk.leave(agent, journal)
    (settled,) = [one for one in await log_of(journal, "r") if isinstance(one, ToolSettled)]
    assert settled.record.effect == "unknown"
    result = await resume("r", agent, journal=journal)
    assert (result.content, desk.done) == ("Done.", ["hang 0"])
    assert result.tool_outcomes[0].effect == "unknown"


async def test_a_read_that_does_not_end_is_made_again() -> None:
    desk, journal = Desk(), MemoryJournal()
    desk.grace_s = 0
    agent = desk.agent("look")
    await desk.leave(agent, journal)
    assert "tool_settled" not in kinds(await log_of(journal, "r"))
    result = await resume("r", agent, journal=journal)
    assert desk.done == ["look 0", "look 0"]
    assert result.tool_outcomes[0].effect == "none"


async def test_a_model_call_that_does_not_end_is_made_again() -> None:
    journal, asked = MemoryJournal(), list[str]()

    class Slow:
        async def call(self, request: Any) -> ModelResponse:
            asked.append("?")
            if len(asked) == 1:
                live.release("drain")
                await asyncio.Event().wait()
            return ModelResponse(content="Done.")

    agent = Agent("a", model=Slow())
    async with start(agent, Request("?", run_id="r"), journal=journal) as live:
        assert (await live.result()).cause == "released"
    assert kinds(await log_of(journal, "r"))[-2:] == ["model_started", "run_released"]
    assert (await resume("r", agent, journal=journal)).content == "Done."
    assert len(asked) == 2


async def test_a_child_run_goes_on_where_it_was_left() -> None:
    desk, journal = Desk(), MemoryJournal()
    desk.grace_s = 0
    inner = desk.agent("write", "look")

    async def work(run: Any, host: Any, board: Any) -> str:
        return (await run.child(inner, "Go.", key="inner")).content

    agent = Agent("o", engine=ScriptEngine(work))
    await desk.leave(agent, journal)
    (child,) = [one.run_id for one in await journal.runs() if one.parent_run_id]
    for run_id in ("r", child):
        last = (await log_of(journal, run_id))[-1]
        assert isinstance(last, RunReleased)
    result = await resume("r", agent, journal=journal)
    assert (result.output, desk.done) == ("Done.", ["write 0", "look 1", "look 1"])


async def leave_until(at: datetime, run_id: str, journal: Any) -> None:
    class Slow:
        async def call(self, request: Any) -> ModelResponse:
            live.release("due", at=at)
            await asyncio.Event().wait()
            raise AssertionError("it is cancelled")

    agent = Agent("a", model=Slow())
    async with start(agent, Request("?", run_id=run_id), journal=journal) as live:
        await live.result()


@pytest.mark.parametrize("place", ["memory", "file"])
async def test_a_run_that_was_released_is_due_from_its_moment_on(
    place: str, tmp_path: Path
) -> None:
    where = "memory:" if place == "memory" else tmp_path / "j.db"
    async with open_journal(where) as opened:
        journal: Any = opened
        for run_id, hours in (("past", -1), ("later", 1)):
            at = datetime.now(UTC) + timedelta(hours=hours)

            await leave_until(at, run_id, journal)
        (due,) = await journal.due_runs()
        assert (due.run_id, due.reason, due.has_begun) == ("past", "due", True)


async def test_a_run_that_is_released_at_its_end_ends() -> None:
    journal = MemoryJournal()

    class Late:
        def on_run_end(self, info: Any, result: Any) -> None:
            live.release("drain")

    agent, asked = Agent("a", model=ScriptedModel(["Done."])), Request("?", run_id="r")
    async with start(agent, asked, journal=journal, observers=[Late()]) as live:
        assert (await live.result()).status is Status.COMPLETED
    assert kinds(await log_of(journal, "r"))[-1] == "run_settled"


@given(
    calls=st.lists(st.sampled_from(["write", "leave", "hang", "look"]), min_size=1, max_size=4),
    grace_s=st.sampled_from([0.0, 0.001]),
)
@examples(40)
def test_wherever_a_run_is_left_each_write_is_made_once_or_told_as_unknown(
    calls: list[str], grace_s: float
) -> None:
    async def live() -> None:
        desk, journal = Desk(), MemoryJournal()
        desk.grace_s = grace_s
        agent = desk.agent(*calls)
        result = await desk.leave(agent, journal)
        if result.cause == "released":
            result = await resume("r", agent, journal=journal)
        assert result.status is Status.COMPLETED
        for outcome, (number, name) in zip(result.tool_outcomes, enumerate(calls), strict=True):
            made = desk.done.count(f"{name} {number}")
            if name != "look":
                assert made == 1 or (made == 0 and outcome.effect == "unknown")
            if outcome.effect == "applied":
                assert made == 1

    asyncio.run(live())
