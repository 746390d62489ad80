"""Events of tool calls, handed on or logged."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.runs.kit import Safe
from upshot.contract import Event, RunInfo, ToolCall, ToolStarted
from upshot.errors import JournalError
from upshot.journal import open_journal
from upshot.tools import Toolbox, ToolContext, tool


@tool(effect="read")
async def look(context: ToolContext, a: int) -> int:
    context.progress("half", {"done": a})
    return a


@tool(effect="write")
async def change(a: int) -> int:
    return a


@pytest.fixture
async def journal() -> AsyncIterator[Any]:
    async with open_journal("memory:") as journal:
        yield journal


async def logged(journal: Any, run_id: str) -> list[Event]:
    return [event async for event in journal.events(run_id)]


async def test_a_bare_toolbox_logs_started_and_settled_with_dense_numbers(journal: Any):
    box = Toolbox([look, change], journal=journal, attempt=2)
    await box.dispatch([ToolCall("1", "look", {"a": 1})])
    await box.dispatch([ToolCall("2", "nope")])
    events = await logged(journal, box.run_id)
    assert [event.kind for event in events] == ["tool_started", "tool_settled", "tool_settled"]
    assert [getattr(event, "seq", 0) for event in events] == [1, 2, 3]
    assert {getattr(event, "attempt", 0) for event in events} == {2}


async def test_a_second_toolbox_of_the_run_goes_on_counting(journal: Any):
    for call_id in ("1", "2"):
        box = Toolbox([look], journal=journal, identity=RunInfo(run_id="run-1"))
        await box.dispatch([ToolCall(call_id, "look", {"a": 1})])
    events = await logged(journal, "run-1")
    assert [getattr(event, "seq", 0) for event in events] == [1, 2, 3, 4]


async def test_a_toolbox_whose_run_was_taken_since_runs_nothing(journal: Any):
    ran: list[int] = []

    @tool(effect="write")
    async def put(a: int) -> None:
        ran.append(a)

    box = Toolbox([put], journal=journal, identity=RunInfo(run_id="run-1"))
    await box.dispatch([ToolCall("1", "put", {"a": 1})])
    await journal.claim("run-1")
    with pytest.raises(JournalError, match="no longer held"):
        await box.dispatch([ToolCall("2", "put", {"a": 2})])
    assert ran == [1]


async def test_the_intent_is_on_disk_before_a_writing_body_runs():
    journal, seen = Safe(), list[str]()

    @tool(effect="write")
    async def peek() -> None:
        seen.extend(event.kind for event in journal.safe)

    await Toolbox([peek], journal=journal).dispatch([ToolCall("1", "peek")])
    assert seen == ["tool_started"]


async def test_the_barrier_is_awaited_for_writes_only():
    steps: list[str] = []

    async def barrier() -> None:
        steps.append("barrier")

    @tool(effect="write")
    async def write() -> None:
        steps.append("body")

    box = Toolbox([look, write], emit=lambda event: steps.append(event.kind), barrier=barrier)
    await box.dispatch([ToolCall("1", "write")])
    assert steps == ["tool_started", "barrier", "body", "tool_settled"]
    steps.clear()
    await box.dispatch([ToolCall("2", "look", {"a": 1})])
    assert steps == ["tool_started", "tool_progress", "tool_settled"]


async def test_a_log_that_refuses_keeps_the_body_from_running():
    ran: list[int] = []

    async def barrier() -> None:
        raise OSError("disk full")

    @tool(effect="write")
    async def write() -> None:
        ran.append(1)

    with pytest.raises(OSError, match="disk full"):
        await Toolbox([write], barrier=barrier).dispatch([ToolCall("1", "write")])
    assert ran == []


async def test_started_says_what_a_resume_needs():
    events: list[Event] = []
    await Toolbox([look], emit=events.append).dispatch([ToolCall("1", "look", '{"a":"1"}')])
    started = events[0]
    assert isinstance(started, ToolStarted)
    assert started.call == ToolCall("1", "look", '{"a":"1"}')
    assert (started.arguments, started.effect, started.idempotent) == ({"a": 1}, "read", False)
    assert started.tool_version == look.version
    assert len(started.idempotency_key) == 64
