"""Ending one call, and what is left of calls that cannot be ended."""

import asyncio
import threading

import pytest

from upshot.contract import (
    Budget,
    Effect,
    Event,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolTimeout,
    Warned,
)
from upshot.tools import Toolbox, ToolContext, Workers, tool

PATIENCE_S = 60.0


async def test_one_call_is_ended_and_the_others_go_on():
    running, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait(a: int) -> int:
        running.set()
        await go_on.wait()
        return a

    box = Toolbox([wait])
    calls = [ToolCall(f"c{n}", "wait", {"a": n}) for n in range(3)]
    batch = asyncio.create_task(box.dispatch(calls))
    await running.wait()
    assert box.cancel_call("c1")
    go_on.set()
    first, second, third = await batch
    assert isinstance(first, ToolExecutionResult)
    assert isinstance(second, ToolFailure | ToolDenied)
    assert isinstance(third, ToolExecutionResult)
    # Nothing of it stays behind: the turn goes on.
    assert (await box.dispatch([ToolCall("c9", "wait", {"a": 9})]))[0].kind == first.kind


async def test_a_single_call_is_ended_without_its_caller():
    running = asyncio.Event()

    @tool(effect="write")
    async def wait() -> None:
        running.set()
        await asyncio.Event().wait()

    box = Toolbox([wait])
    batch = asyncio.create_task(box.dispatch([ToolCall("1", "wait")]))
    await running.wait()
    assert box.cancel_call("1")
    (outcome,) = await batch
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect) == ("cancelled", Effect.UNKNOWN)
    assert not batch.cancelled()


async def test_a_call_that_waits_for_another_is_ended_and_makes_room():
    go_on, running = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def put(a: int) -> int:
        running.set()
        await go_on.wait()
        return a

    box = Toolbox([put])
    calls = [ToolCall(f"c{n}", "put", {"a": n}) for n in range(3)]
    batch = asyncio.create_task(box.dispatch(calls))
    await running.wait()
    assert box.cancel_call("c1")
    go_on.set()
    first, second, third = await asyncio.wait_for(batch, PATIENCE_S)
    assert (first.effect, third.effect) == (Effect.APPLIED, Effect.APPLIED)
    assert isinstance(second, ToolDenied)
    assert second.reason == "cancelled"


async def test_a_call_that_is_ended_while_it_waits_uses_up_no_limit():
    go_on, running = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def put(a: int) -> int:
        running.set()
        await go_on.wait()
        return a

    box = Toolbox([put], budget=Budget(max_tool_calls=2))
    calls = [ToolCall(f"c{n}", "put", {"a": n}) for n in range(3)]
    batch = asyncio.create_task(box.dispatch(calls[:2]))
    await running.wait()
    assert box.cancel_call("c1")
    go_on.set()
    await asyncio.wait_for(batch, PATIENCE_S)
    outcomes = await box.dispatch([calls[2], ToolCall("c3", "put", {"a": 3})])
    assert [getattr(one, "reason", "") for one in outcomes] == ["", "budget"]


async def test_a_call_that_is_ended_before_it_began_makes_room():
    @tool(effect="write")
    async def put(a: int) -> int:
        return a

    events: list[Event] = []
    box = Toolbox([put])
    calls = [ToolCall(f"c{n}", "put", {"a": n}) for n in range(3)]
    batch = asyncio.create_task(box.dispatch(calls))
    # The batch has made its tasks, and none of them has run.
    await asyncio.sleep(0)
    assert box.cancel_call("c0")
    first, *others = await asyncio.wait_for(batch, PATIENCE_S)
    assert isinstance(first, ToolDenied)
    assert [other.effect for other in others] == [Effect.APPLIED] * 2
    assert not events


async def test_nothing_is_ended_where_there_is_no_such_call():
    @tool(effect="read")
    async def look() -> None: ...

    box = Toolbox([look])
    await box.dispatch([ToolCall("1", "look")])
    assert not box.cancel_call("1")
    assert not box.cancel_call("never")


async def test_hung_calls_do_not_grow_threads_past_the_cap():
    gate = threading.Event()

    @tool(effect="write", timeout_s=0.05, resources=lambda a: [str(a["n"])])
    def hang(n: int) -> None:
        gate.wait(PATIENCE_S)

    workers = Workers(cap=8)
    box = Toolbox([hang], workers=workers)
    before = threading.active_count()
    try:
        outcomes = await box.dispatch([ToolCall(f"c{n}", "hang", {"n": n}) for n in range(200)])
        assert threading.active_count() - before <= workers.cap
        assert workers.alive == box.abandoned == workers.cap
    finally:
        gate.set()
    assert all(isinstance(outcome, ToolTimeout) for outcome in outcomes)
    # Who got no thread did nothing, and may come again.
    effects = [outcome.effect for outcome in outcomes]
    assert (effects.count(Effect.UNKNOWN), effects.count(Effect.NONE)) == (8, 192)


@pytest.mark.parametrize("is_late", [False, True], ids=["still there", "ended after all"])
async def test_what_goes_on_unwatched_is_told_at_the_end(is_late: bool):
    gate, ended = threading.Event(), threading.Event()

    @tool(effect="read", timeout_s=0.01)
    def hang(context: ToolContext) -> None:
        gate.wait(PATIENCE_S)
        ended.set()

    events: list[Event] = []
    box = Toolbox([hang], emit=events.append, workers=Workers())
    try:
        await box.dispatch([ToolCall("1", "hang")])
        if is_late:
            gate.set()
            while not any(_code(event) == "late_result" for event in events):
                await asyncio.sleep(0.001)
        box.warn_of_leftovers()
    finally:
        gate.set()
    told = [event for event in events if _code(event) == "leftover_calls"]
    assert len(told) == (not is_late)


def _code(event: Event) -> str:
    return event.warning.code if isinstance(event, Warned) else ""


async def test_a_waiting_call_that_is_ended_says_that_the_call_was():
    running, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def put(a: int) -> None:
        running.set()
        await go_on.wait()

    box = Toolbox([put])
    batch = asyncio.create_task(box.dispatch([ToolCall(f"c{n}", "put", {"a": n}) for n in (0, 1)]))
    await running.wait()
    assert box.cancel_call("c1")
    go_on.set()
    _, second = await batch
    assert isinstance(second, ToolDenied)
    assert (second.reason, second.details) == ("cancelled", "the call was cancelled")
