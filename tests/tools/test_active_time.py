"""Working time: people's time is no part of it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from upshot import Budget, ToolCall, tool
from upshot.testing import FakeClock
from upshot.tools import Toolbox
from upshot.tools.rate_limiter import ActiveTime


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12))
def test_only_time_in_which_nobody_is_asked_counts(steps: list[tuple[bool, int]]):
    clock = FakeClock()
    outer = ActiveTime(clock, 1000)
    inner = ActiveTime(clock, 100, outer=outer)
    worked = 0
    for is_asked, seconds in steps:
        if is_asked:
            with inner.asking(), inner.asking():
                clock.advance(seconds)
                assert inner.rests
                assert inner.left_s() == 100 - worked
        else:
            clock.advance(seconds)
            worked += seconds
    assert (inner.left_s(), outer.left_s()) == (100 - worked, 1000 - worked)


def test_the_lesser_of_both_limits_holds():
    clock = FakeClock()
    inner = ActiveTime(clock, 100, outer=ActiveTime(clock, 10))
    clock.advance(4)
    assert inner.left_s() == 6


def test_who_watches_is_told_when_it_counts_again():
    told: list[float] = []
    time = ActiveTime(FakeClock(), 10)
    time.watch(lambda: told.append(time.left_s()))
    with time.asking():
        with time.asking():
            pass
        assert told == []
    assert told == [10]


async def test_a_person_may_take_longer_than_the_work_may():
    clock = FakeClock()

    @tool(effect="write", approval=True)
    async def send() -> str:
        return "sent"

    async def approve(call: object) -> bool:
        clock.advance(60)
        await asyncio.sleep(0)
        return True

    box = Toolbox([send], budget=Budget(working_s=5), approve=approve, clock=clock)
    (outcome,) = await box.dispatch([ToolCall("1", "send", {})])
    assert outcome.kind == "tool_execution_result"


async def test_spent_working_time_denies_as_any_budget():
    clock = FakeClock()

    @tool(effect="read")
    async def look(n: int) -> int:
        clock.advance(6)
        return n

    box = Toolbox([look], budget=Budget(working_s=5), clock=clock)
    await box.dispatch([ToolCall("1", "look", {"n": 1})])
    (outcome,) = await box.dispatch([ToolCall("2", "look", {"n": 2})])
    assert (outcome.reason, "working_s" in outcome.details) == ("budget", True)


async def test_a_body_is_stopped_when_the_working_time_is_over():
    @tool(effect="read")
    async def hang() -> None:
        await asyncio.Event().wait()

    box = Toolbox([hang], budget=Budget(working_s=0.05))
    (outcome,) = await box.dispatch([ToolCall("1", "hang", {})])
    assert outcome.kind == "tool_timeout"
