"""Calls that came together: parallel bodies, order, cancels."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.leaping import Leaping
from upshot.contract import (
    Budget,
    DeniedReason,
    Event,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolSettled,
    ToolTimeout,
    Warned,
)
from upshot.errors import JournalError, Misuse
from upshot.testing import FakeClock
from upshot.tools import Circuit, Denial, Rate, Tool, Toolbox, Workers, tool


class Meeting:
    """Bodies that note who runs beside them."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.together: set[frozenset[str]] = set()
        self.order: list[str] = []

    def tool(self, **options: Any) -> Tool:
        async def work(who: str) -> str:
            self.now.add(who)
            self.order.append(who)
            for _ in range(3):
                self.together.add(frozenset(self.now))
                await asyncio.sleep(0)
            self.now.remove(who)
            return who

        return tool(**options)(work)

    @property
    def most(self) -> int:
        """How many ran at a time."""
        return max(map(len, self.together), default=0)


def calls(*pairs: tuple[str, str]) -> list[ToolCall]:
    return [ToolCall(who, name, {"who": who}) for name, who in pairs]


async def test_reads_run_together_and_their_results_come_in_call_order():
    meeting = Meeting()
    box = Toolbox([meeting.tool(name="read", effect="read")])
    outcomes = await box.dispatch(calls(*(("read", f"{n}") for n in range(5))))
    assert meeting.most == 5
    assert [outcome.call_id for outcome in outcomes] == ["0", "1", "2", "3", "4"]


async def test_results_keep_call_order_whoever_ends_first():
    @tool(effect="read")
    async def wait(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    box = Toolbox([wait])
    turns = [9, 1, 5, 0]
    outcomes = await box.dispatch([ToolCall(str(n), "wait", {"turns": n}) for n in turns])
    assert [outcome.call_id for outcome in outcomes] == ["9", "1", "5", "0"]
    assert [record.call_id for record in box.records] == ["9", "1", "5", "0"]


async def test_undeclared_writers_run_alone_with_one_warning():
    meeting, events = Meeting(), list[Event]()
    box = Toolbox(
        [meeting.tool(name="quiet"), meeting.tool(name="read", effect="read")], emit=events.append
    )
    for _ in range(2):
        await box.dispatch(calls(("quiet", "a"), ("read", "b"), ("quiet", "c")))
    assert meeting.most == 1
    assert meeting.order == ["a", "b", "c"] * 2
    warned = [event.warning for event in events if isinstance(event, Warned)]
    assert [warning.code for warning in warned] == ["undeclared_effect"]
    assert "quiet" in warned[0].message
    assert 'effect="read"' in warned[0].message


async def test_a_single_call_of_an_undeclared_tool_warns_nobody():
    events = list[Event]()
    box = Toolbox([Meeting().tool(name="quiet")], emit=events.append)
    await box.dispatch(calls(("quiet", "a")))
    assert not any(isinstance(event, Warned) for event in events)


async def test_writers_of_different_resources_run_together():
    meeting = Meeting()
    put = meeting.tool(
        name="put", effect="write", resources=lambda arguments: [arguments["who"][0]]
    )
    await Toolbox([put]).dispatch(calls(("put", "a1"), ("put", "b1"), ("put", "a2")))
    assert frozenset({"a1", "b1"}) in meeting.together
    assert not any({"a1", "a2"} <= group for group in meeting.together)


async def test_nothing_runs_together_when_that_is_switched_off():
    meeting = Meeting()
    box = Toolbox([meeting.tool(name="read", effect="read")], parallel=False)
    await box.dispatch(calls(("read", "a"), ("read", "b")))
    assert meeting.most == 1


async def test_a_tool_may_limit_how_many_of_it_run():
    meeting = Meeting()
    box = Toolbox([meeting.tool(name="read", effect="read", concurrency=2)])
    await box.dispatch(calls(*(("read", f"{n}") for n in range(6))))
    assert meeting.most == 2


async def test_all_tools_together_may_be_limited():
    meeting = Meeting()
    tools = [meeting.tool(name=name, effect="read", concurrency=3) for name in ("one", "two")]
    box = Toolbox(tools, parallel=2)
    await box.dispatch(calls(*((name, f"{n}") for n in range(4) for name in ("one", "two"))))
    assert meeting.most == 2


async def test_who_gives_up_waiting_for_room_leaves_it_to_others():
    @tool(effect="read", timeout_s=5)
    async def wait() -> str:
        await asyncio.sleep(0)
        return "done"

    box = Toolbox([wait], parallel=1)
    first = asyncio.create_task(box.dispatch([ToolCall(f"{n}", "wait") for n in range(3)]))
    await asyncio.sleep(0)
    assert box.cancel_call("1")
    await first
    outcomes = await box.dispatch([ToolCall("4", "wait")])
    assert [outcome.kind for outcome in outcomes] == ["tool_execution_result"]


@pytest.mark.parametrize("parallel", [0, -1])
def test_no_room_at_all_is_misuse(parallel: int):
    with pytest.raises(Misuse, match="parallel"):
        Toolbox([], parallel=parallel)


async def test_one_failure_cancels_nobody():
    @tool(effect="read")
    async def fail() -> None:
        raise ValueError

    meeting = Meeting()
    box = Toolbox([fail, meeting.tool(name="read", effect="read")])
    outcomes = await box.dispatch([ToolCall("1", "fail"), *calls(("read", "a"))])
    assert [type(outcome) for outcome in outcomes] == [ToolFailure, ToolExecutionResult]


async def test_a_free_body_does_not_wait_for_an_approver():
    thought = asyncio.Event()

    async def approve(request: Any) -> bool:
        await thought.wait()
        return True

    @tool(effect="read")
    async def free() -> None:
        thought.set()

    @tool(effect="read", approval=True)
    async def asked() -> None: ...

    box = Toolbox([free, asked], approve=approve)
    outcomes = await box.dispatch([ToolCall("1", "asked"), ToolCall("2", "free")])
    assert all(isinstance(outcome, ToolExecutionResult) for outcome in outcomes)


@pytest.mark.parametrize(
    ("limits", "budget", "reason"),
    [
        ({}, Budget(max_tool_calls=1), "budget"),
        ({"rate": Rate(1)}, None, "rate_limited"),
        ({"circuit": Circuit(failures=1)}, None, "circuit_open"),
    ],
    ids=["budget", "rate", "circuit"],
)
async def test_what_others_used_up_while_an_approver_thought_denies(
    limits: Any, budget: Budget | None, reason: str
):
    thought, ran = asyncio.Event(), list[str]()

    async def approve(request: Any) -> bool:
        if request.arguments["who"] == "slow":
            await thought.wait()
        return True

    @tool(effect="read", approval=True, **limits)
    async def look(who: str) -> None:
        ran.append(who)
        thought.set()
        raise ValueError("down")

    box = Toolbox([look], approve=approve, budget=budget)
    slow, _ = await box.dispatch(calls(("look", "slow"), ("look", "quick")))
    assert isinstance(slow, ToolDenied)
    assert (slow.reason, ran) == (reason, ["quick"])


async def test_a_call_that_is_ended_while_all_tools_are_full_gives_its_tools_place_back():
    go_on = asyncio.Event()

    @tool(effect="read")
    async def hold() -> None:
        await go_on.wait()

    box = Toolbox([hold, Meeting().tool(name="read", effect="read", concurrency=1)], parallel=1)
    batch = asyncio.create_task(box.dispatch([ToolCall("1", "hold"), *calls(("read", "a"))]))
    for _ in range(3):
        await asyncio.sleep(0)
    assert box.cancel_call("a")
    go_on.set()
    await batch
    async with asyncio.timeout(60):
        (again,) = await box.dispatch(calls(("read", "b")))
    assert isinstance(again, ToolExecutionResult)


async def test_the_twin_of_a_call_that_is_refused_at_its_start_goes_on():
    denials: list[Denial | None] = [Denial(DeniedReason.POLICY, "not now"), None]
    twins = Meeting().tool(name="read", effect="read", idempotent=True)
    box = Toolbox([twins], at_start=lambda case: denials.pop(0))
    async with asyncio.timeout(60):
        outcomes = await box.dispatch([ToolCall(id, "read", {"who": "a"}) for id in "12"])
    assert [type(outcome) for outcome in outcomes] == [ToolDenied, ToolExecutionResult]


async def test_a_log_that_refuses_events_ends_the_other_bodies():
    ended = asyncio.Event()

    @tool(effect="read")
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def emit(event: Event) -> None:
        if isinstance(event, ToolSettled):
            raise JournalError("the disk is full")

    box = Toolbox([hang, Meeting().tool(name="read", effect="read")], emit=emit)
    with pytest.raises(JournalError, match="disk is full"):
        await box.dispatch([ToolCall("1", "hang"), *calls(("read", "a"))])
    assert ended.is_set()


async def test_a_call_id_that_stands_twice_runs_once():
    meeting = Meeting()
    box = Toolbox([meeting.tool(name="read", effect="read")])
    outcomes = await box.dispatch(
        [ToolCall("x", "read", {"who": "a"}), ToolCall("x", "read", {"who": "b"})]
    )
    assert meeting.order == ["a"]
    assert isinstance(outcomes[1], ToolDenied)
    assert outcomes[1].reason == "duplicate"


async def test_calls_without_an_id_are_no_duplicates():
    meeting = Meeting()
    box = Toolbox([meeting.tool(name="read", effect="read")])
    await box.dispatch([ToolCall("", "read", {"who": who}) for who in "ab"])
    assert meeting.order == ["a", "b"]


def test_a_body_that_waits_for_its_resource_past_the_deadline_is_denied():
    @tool(effect="write", timeout_s=5)
    def hold() -> None:
        loop.call_soon_threadsafe(at_work.set)
        release.wait(60)

    @tool(effect="write")
    async def next_in_line() -> None: ...

    async def main() -> list[ToolOutcome]:
        calls = [ToolCall("1", "hold"), ToolCall("2", "next_in_line")]
        told = asyncio.ensure_future(box.dispatch(calls))
        await at_work.wait()
        loop.leap(60)
        return await told

    loop, at_work, release = Leaping(), asyncio.Event(), threading.Event()
    box = Toolbox([hold, next_in_line], budget=Budget(deadline_s=30), workers=Workers())
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        outcomes = runner.run(main())
    release.set()
    assert isinstance(outcomes[0], ToolTimeout)
    assert isinstance(outcomes[1], ToolDenied)
    assert outcomes[1].reason == "deadline"
    assert outcomes[1].effect == "none"


async def test_a_body_does_not_start_where_the_one_before_it_took_all_the_time():
    clock = FakeClock()

    @tool(effect="write")
    async def put(who: str) -> str:
        clock.advance(10)
        return who

    box = Toolbox([put], budget=Budget(deadline_s=10), clock=clock)
    outcomes = await box.dispatch(calls(("put", "a"), ("put", "b")))
    assert isinstance(outcomes[1], ToolDenied)
    assert (outcomes[1].reason, outcomes[1].effect) == ("deadline", "none")


def hanging(mode: str, effect: str, started: Callable[[], None]) -> Tool:
    async def hang() -> None:
        started()
        await asyncio.Event().wait()

    return tool(name=mode, effect=effect)(hang)  # type: ignore[call-overload]


async def test_a_cancelled_caller_leaves_one_record_for_every_call():
    started = asyncio.Event()
    box = Toolbox(
        [
            hanging("read", "read", started.set),
            hanging("write", "write", started.set),
            tool(effect="read", approval=True, name="asked")(lambda: 1),
        ]
    )
    ids = ["read", "write", "write2", "asked", "nope"]
    batch = [ToolCall(id, id.rstrip("2")) for id in ids]
    task = asyncio.create_task(box.dispatch(batch))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.call_id for record in box.records] == ids
    by_id = {record.call_id: record.outcome for record in box.records}
    assert isinstance(by_id["read"], ToolFailure)
    assert (by_id["read"].code, by_id["read"].effect) == ("cancelled", "none")
    # The writers wait for the reader, so they never began.
    for id in ("write", "write2", "asked"):
        outcome = by_id[id]
        assert isinstance(outcome, ToolDenied)
        assert outcome.reason == "cancelled"
    assert box.pending == ()


async def test_a_write_that_was_cancelled_after_its_start_is_unknown_and_final():
    started = asyncio.Event()
    box = Toolbox([hanging("write", "write", started.set)])
    task = asyncio.create_task(box.dispatch([ToolCall("1", "write")]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    outcome = box.records[0].outcome
    assert isinstance(outcome, ToolFailure)
    assert (outcome.effect, outcome.retryable) == ("unknown", False)
    # Says nothing of a call with other arguments.
    assert box.blocked_tool_names == frozenset()
    (again,) = await box.dispatch([ToolCall("2", "write")])
    assert isinstance(again, ToolDenied)


async def test_a_cancel_before_anything_ran_denies_all():
    box = Toolbox([hanging("read", "read", lambda: None)])
    task = asyncio.create_task(box.dispatch([ToolCall("1", "read"), ToolCall("2", "nope")]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.call_id for record in box.records] == ["1", "2"]


async def test_the_box_can_be_cancelled_and_its_dispatch_returns():
    started = asyncio.Event()
    box = Toolbox([hanging("read", "read", started.set), hanging("write", "write", started.set)])
    task = asyncio.create_task(box.dispatch([ToolCall("1", "read"), ToolCall("2", "write")]))
    await started.wait()
    box.cancel()
    outcomes = await task
    assert isinstance(outcomes[0], ToolFailure)
    assert isinstance(outcomes[1], ToolDenied)
    assert outcomes[1].reason == "cancelled"


async def test_a_box_that_is_cancelled_twice_cancels_nobody_else():
    started = asyncio.Event()
    box = Toolbox([hanging("read", "read", started.set)])

    async def dispatch_and_go_on() -> str:
        outcome = (await box.dispatch([ToolCall("1", "read")]))[0]
        await asyncio.sleep(0)
        return outcome.kind

    task = asyncio.create_task(dispatch_and_go_on())
    await started.wait()
    box.cancel()
    box.cancel()
    assert await task == "tool_failure"


@pytest.mark.parametrize("kind", ["tool_started", "tool_settled"])
async def test_who_hears_of_a_call_may_cancel_the_box(kind: str):
    @tool(effect="read")
    async def quick() -> None: ...

    def emit(event: Event) -> None:
        if event.kind == kind:
            box.cancel()

    box = Toolbox([quick], emit=emit)
    assert len(await box.dispatch([ToolCall("1", "quick")])) == 1
    await asyncio.sleep(0)
    assert len(box.records) == 1


async def test_a_finished_body_keeps_its_result_when_the_caller_is_cancelled():
    done = asyncio.Event()

    @tool(effect="read")
    async def quick() -> str:
        done.set()
        return "kept"

    box = Toolbox([quick, hanging("read", "read", lambda: None)])
    task = asyncio.create_task(box.dispatch([ToolCall("1", "quick"), ToolCall("2", "read")]))
    await done.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(box.records[0].outcome, ToolExecutionResult)
    assert isinstance(box.records[1].outcome, ToolFailure)


async def test_no_calls_give_no_outcomes():
    assert await Toolbox([]).dispatch([]) == []


async def test_a_tool_may_dispatch_on_its_own_box():
    @tool(effect="write")
    async def outer() -> Any:
        return [outcome.kind for outcome in await box.dispatch([ToolCall("i", "inner")])]

    @tool(effect="write")
    async def inner() -> int:
        return 1

    box = Toolbox([outer, inner])
    outcome = (await box.dispatch([ToolCall("o", "outer")]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": ["tool_execution_result"]}


async def test_a_reply_of_a_thousand_calls_lets_other_tasks_run():
    turns = [0]
    seen: list[int] = []

    @tool(effect="read")
    async def note(a: int) -> None:
        seen.append(turns[0])

    async def tick() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    budget = Budget(max_tool_calls=None, max_calls_per_tool=None)
    await Toolbox([note], budget=budget).dispatch(
        [ToolCall(str(a), "note", {"a": a}) for a in range(1_000)]
    )
    ticking.cancel()
    # While the gates were asked, before any body.
    assert seen[0] >= 10
