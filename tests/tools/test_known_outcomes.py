"""Outcomes that are known already are handed back instead of making their calls."""

import asyncio
import json

import pytest

from upshot.contract import (
    Event,
    PendingApproval,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolRecord,
    ToolSettled,
    ToolStarted,
    outcome_to_model_content,
)
from upshot.tools import Toolbox, tool
from upshot.tools.call_resumption import EarlierCalls, KnownCall, KnownOutcomes

ran: list[int] = []


@tool(effect="write", idempotent=True)
async def put(a: int) -> int:
    ran.append(a)
    return a


def call(a: int) -> ToolCall:
    return ToolCall(f"c{a}", "put", {"a": a})


def result(a: int) -> ToolExecutionResult:
    return ToolExecutionResult(f"c{a}", "put", output={"result": a})


async def test_a_log_that_is_re_executed_gives_its_outcomes_and_the_rest_is_made():
    ran.clear()
    known = KnownOutcomes(lambda one: KnownCall(result(1)) if one.id == "c1" else None)
    box = Toolbox([put], known_outcomes=known)
    outcomes = await box.dispatch([call(2), call(1)])
    assert [one.call_id for one in outcomes] == ["c2", "c1"]
    assert ran == [2]


async def test_a_call_that_had_started_is_taken_up_and_not_made_anew():
    ran.clear()
    start = ToolStarted(call=call(1), arguments={"a": 1}, effect="write")  # type: ignore[arg-type]
    known = KnownOutcomes(lambda _: KnownCall(earlier=EarlierCalls({"c1": start})))
    box = Toolbox([put.but(idempotent=False)], known_outcomes=known)
    (outcome,) = await box.dispatch([call(1)])
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, ran) == ("interrupted", [])


async def test_a_record_that_is_replayed_makes_no_call_and_tells_its_events_again():
    ran.clear()
    record = ToolRecord(
        run_id="r",
        call_id="c1",
        tool_name="put",
        arguments_given={"a": 1},
        arguments_validated={"a": 1},
        outcome=result(1),
    )
    waiting = PendingApproval(call_id="c2", tool_name="put")
    told: list[Event] = []
    known = KnownOutcomes(
        lambda one: (
            KnownCall(result(1), record, [ToolSettled(record=record, seq=7)])
            if one.id == "c1"
            else None
        ),
        pending=lambda: (waiting,),
    )
    box = Toolbox([put], known_outcomes=known, emit=told.append)
    assert await box.dispatch([call(1), call(2)]) == [result(1)]
    assert await box.resume([call(2)], EarlierCalls()) == []
    assert (ran, box.pending, box.records) == ([], (waiting,), [record])
    assert [event.kind for event in told] == ["tool_settled"]
    # What was handed back counts as done, and may be asked for no second time.
    box.known_outcomes = None
    (again,) = await box.dispatch([ToolCall("c3", "put", {"a": 1})])
    assert isinstance(again, ToolDenied)


@pytest.mark.parametrize(
    ("found", "said", "retryable"),
    [
        ("applied", "It was checked: the call has taken effect: do not make it again.", False),
        ("none", "It was checked: the call has not taken effect.", True),
        (
            None,
            "It may have taken effect: do not call it again with these arguments; say that it is "
            "being checked.",
            False,
        ),
    ],
)
async def test_the_model_reads_what_verify_found(found, said, retryable):
    start = ToolStarted(call=call(1), arguments={"a": 1}, effect="write")  # type: ignore[arg-type]
    found_call = KnownCall(earlier=EarlierCalls({"c1": start}))
    known = KnownOutcomes(lambda _: found_call)
    checked = put.but(idempotent=False, verify=lambda asked: found)
    (outcome,) = await Toolbox([checked], known_outcomes=known).dispatch([call(1)])
    read = json.loads(outcome_to_model_content(outcome))
    assert read["error"].endswith(said)
    assert read["retryable"] is retryable
    assert read["effect"] == (found or "unknown")


async def cut_off() -> Toolbox:
    """A toolbox whose call c1 had started when its process ended."""
    ran.clear()
    start = ToolStarted(call=call(1), arguments={"a": 1}, effect="write")  # type: ignore[arg-type]
    box = Toolbox([put.but(idempotent=False)])
    (outcome,) = await box.resume([call(1)], EarlierCalls({"c1": start}))
    assert isinstance(outcome, ToolFailure)
    return box


async def blocks_only_the_same(box: Toolbox) -> bool:
    again, other = await box.dispatch([ToolCall("c8", "put", {"a": 1}), call(2)])
    assert isinstance(again, ToolDenied)
    assert isinstance(other, ToolExecutionResult)
    return again.reason == "effect_unknown" and ran == [2]


async def test_a_call_that_a_crash_cut_off_blocks_only_the_same_arguments():
    assert await blocks_only_the_same(await cut_off())


async def test_so_does_one_that_was_cancelled():
    working = asyncio.Event()

    @tool(effect="write")
    async def put(a: int) -> int:
        if a == 1:
            working.set()
            await asyncio.get_running_loop().create_future()
        ran.append(a)
        return a

    ran.clear()
    box = Toolbox([put])
    first = asyncio.ensure_future(box.dispatch([call(1)]))
    await working.wait()
    assert box.cancel_call("c1")
    await first
    assert await blocks_only_the_same(box)


async def test_so_does_one_that_a_later_session_restores():
    box = Toolbox([put.but(idempotent=False)])
    box.restore((await cut_off()).records)
    assert await blocks_only_the_same(box)
