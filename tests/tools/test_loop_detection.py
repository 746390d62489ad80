"""The same call again and again: told, denied, ended."""

import itertools

from upshot.contract import (
    RunInfo,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
)
from upshot.tools import Toolbox, tool
from upshot.tools.repetition import NO_PROGRESS, LoopDetector


@tool(effect="read")
async def look(a: int = 0) -> int:
    return a


def result(value: int) -> ToolExecutionResult:
    return ToolExecutionResult("1", "look", output={"result": value})


async def ask(box: Toolbox, times: int, *, name: str = "look", a: int = 0) -> list[ToolOutcome]:
    found: list[ToolOutcome] = []
    for _ in range(times):
        reply = len(box.records)
        found += await box.dispatch([ToolCall(f"c{reply}", name, {"a": a})], turn=reply)
    return found


def is_denied(outcome: ToolOutcome) -> bool:
    return isinstance(outcome, ToolDenied) and outcome.reason == NO_PROGRESS


async def test_the_third_is_noted_the_fourth_denied_and_the_sixth_ends_it():
    box = Toolbox([look])
    stalled: list[bool] = []
    outcomes: list[ToolOutcome] = []
    for _ in range(6):
        outcomes += await ask(box, 1)
        stalled.append(bool(box.stalled))
    assert [is_denied(outcome) for outcome in outcomes] == [False] * 3 + [True] * 3
    told = ["Note: look" in box.content_of(outcome) for outcome in outcomes]
    assert told == [False, False, True, False, False, False]
    assert stalled == [False] * 5 + [True]


async def test_another_call_that_succeeds_begins_anew():
    box = Toolbox([look])
    for _ in range(4):
        outcomes = await ask(box, 2) + await ask(box, 1, a=7)
        assert not any(map(is_denied, outcomes))


async def test_another_call_is_let_pass_and_frees_the_first():
    box = Toolbox([look])
    await ask(box, 4)
    assert not is_denied((await ask(box, 1, a=7))[0])
    assert not is_denied((await ask(box, 1))[0])


async def test_progress_takes_the_word_of_no_progress_back():
    box = Toolbox([look])
    await ask(box, 6)
    await ask(box, 1, a=7)
    assert not box.stalled


async def test_a_result_that_changes_is_progress():
    numbers = itertools.count()

    @tool(effect="read")
    async def count() -> int:
        return next(numbers)

    box = Toolbox([count])
    outcomes = [(await box.dispatch([ToolCall("1", "count")]))[0] for _ in range(8)]
    assert not any(map(is_denied, outcomes))


async def test_a_tool_that_is_repeatable_is_exempt():
    box = Toolbox([look.but(repeatable=True)])
    assert not any(map(is_denied, await ask(box, 8)))
    assert not box.stalled


async def test_failures_may_be_tried_again():
    @tool(effect="read")
    async def fail() -> None:
        raise ValueError("busy")

    box = Toolbox([fail])
    outcomes = [(await box.dispatch([ToolCall("1", "fail")]))[0] for _ in range(8)]
    assert all(isinstance(outcome, ToolFailure) for outcome in outcomes)


async def test_duplicates_lead_nowhere_either():
    box = Toolbox([look.but(idempotent=True)])
    outcomes = await ask(box, 6)
    assert {outcome.reason for outcome in outcomes[1:]} == {"duplicate"}  # type: ignore[union-attr]
    assert box.stalled


async def test_of_equal_reads_in_one_reply_three_run_and_the_reply_ends_nothing():
    box = Toolbox([look])
    calls = [ToolCall(f"c{n}", "look") for n in range(10)]
    assert [is_denied(outcome) for outcome in await box.dispatch(calls)] == [False] * 3 + [True] * 7
    assert not box.stalled
    assert all(map(is_denied, await ask(box, 3)))
    assert box.stalled


async def test_equal_reads_in_one_reply_that_tell_news_all_run():
    numbers = itertools.count()

    @tool(effect="read")
    async def count() -> int:
        return next(numbers)

    calls = [ToolCall(f"c{n}", "count") for n in range(8)]
    assert not any(map(is_denied, await Toolbox([count], parallel=2).dispatch(calls)))


async def test_equal_writes_in_one_reply_count_once():
    box = Toolbox([look.but(effect=None)])
    calls = [ToolCall(f"c{n}", "look") for n in range(10)]
    assert not any(map(is_denied, await box.dispatch(calls)))
    assert not any(map(is_denied, await box.dispatch(calls)))
    assert not box.stalled


async def test_a_new_turn_begins_anew():
    box = Toolbox([look])
    await ask(box, 5)
    box.new_turn()
    assert not is_denied((await ask(box, 1))[0])


async def test_it_goes_on_where_a_log_stands():
    identity = RunInfo(run_id="r")
    first = Toolbox([look], identity=identity)
    outcomes = await ask(first, 4)
    second = Toolbox([look], identity=identity)
    second.restore(first.records)
    assert second.content_of(outcomes[2]) == first.content_of(outcomes[2])
    assert all(map(is_denied, await ask(second, 2)))
    assert second.stalled


async def test_equal_writes_in_one_reply_of_a_log_count_once():
    @tool(effect="write")
    async def put() -> str:
        return "put"

    first, second = Toolbox([put]), Toolbox([put])
    await first.dispatch([ToolCall(f"c{n}", "put") for n in range(4)], turn=1)
    second.restore(first.records)
    (outcome,) = await second.dispatch([ToolCall("c5", "put")], turn=2)
    assert isinstance(outcome, ToolExecutionResult)


def test_stored_outputs_are_told_apart_by_what_is_known_of_them():
    detector = LoopDetector()
    for size in (1, 2, 3, 4):
        stored = ToolArtifactReference("1", "look", artifact_id="a", summary="s", size_bytes=size)
        detector.count(stored, key="k", tool=look, reply=set())
    assert not detector.is_fourth("k")


def test_a_denial_for_another_reason_is_no_step():
    detector = LoopDetector()
    for _ in range(3):
        detector.count(result(1), key="k", tool=look, reply=set())
    for _ in range(9):
        detector.count(ToolDenied("1", "look", reason="budget"), key="k", tool=look, reply=set())  # type: ignore[arg-type]
    assert detector.is_fourth("k")
    assert not detector.stalled
