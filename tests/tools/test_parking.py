"""Calls that wait for people: one outcome for each, and a yes for what was shown only."""

import asyncio
from typing import Any

import pytest

from upshot.contract import Approve, Deny, Edit, ToolCall, ToolDenied, ToolOutcome
from upshot.errors import Misuse
from upshot.tools import Toolbox, tool
from upshot.tools.call_resumption import EarlierCalls


def make_box(**options: Any) -> tuple[Toolbox, list[int]]:
    done: list[int] = []

    @tool(effect="destructive", idempotent=True)
    async def wipe(a: int = 0) -> int:
        done.append(a)
        if a < 0:
            raise ValueError("no")
        return a

    @tool(effect="destructive")
    async def burn(a: int = 0) -> int:
        done.append(a)
        return a

    return Toolbox([wipe, burn], **options), done


def told(outcomes: list[ToolOutcome]) -> list[tuple[str, str]]:
    return [(one.call_id, str(getattr(one, "reason", one.kind))) for one in outcomes]


def asked(box: Toolbox) -> list[str]:
    return [pending.call_id for pending in box.pending]


@pytest.mark.parametrize("call_id", ["x", ""])
async def test_a_call_does_not_take_the_place_of_a_parked_one(call_id: str):
    box, done = make_box()
    assert await box.dispatch([ToolCall(call_id, "burn", {"a": 1})]) == []
    (second,) = await box.dispatch([ToolCall(call_id, "burn", {"a": 2})])
    assert isinstance(second, ToolDenied)
    assert second.reason == "duplicate"
    assert [pending.arguments for pending in box.pending] == [{"a": 1}]
    await box.answer([Approve(call_id)])
    assert done == [1]
    assert len(box.records) == 2


async def test_calls_of_one_reply_without_an_id_do_not_take_one_anothers_place():
    box, done = make_box()
    calls = [ToolCall("", "burn", {"a": 1}), ToolCall("", "burn", {"a": 2})]
    assert told(await box.dispatch(calls)) == [("", "duplicate")]
    await box.answer([Approve("")])
    assert done == [1]


async def test_a_call_may_use_the_id_again_once_it_was_answered():
    box, done = make_box()
    for number in (1, 2):
        await box.dispatch([ToolCall("x", "burn", {"a": number})])
        await box.answer([box.pending[0].approve()])
    assert done == [1, 2]


async def test_an_answer_to_an_earlier_question_of_the_id_is_told_and_not_taken():
    box, done = make_box()
    await box.dispatch([ToolCall("x", "burn", {"a": 1})])
    (first,) = box.pending
    await box.answer([first.deny()])
    await box.dispatch([ToolCall("x", "burn", {"a": 2})])
    for answer in (first.approve(), first.edit({"a": 3}), Approve("x"), Edit("x", {"a": 3})):
        assert await box.answer([answer]) == []
    assert (asked(box), done) == (["x"], [])
    await box.answer([box.pending[0].edit({"a": 4})])
    assert done == [4]


async def test_two_answers_for_one_call_are_misuse():
    box, done = make_box()
    await box.dispatch([ToolCall("x", "burn")])
    with pytest.raises(Misuse, match="answered twice"):
        await box.answer([Approve("x"), Deny("x")])
    assert (asked(box), done) == (["x"], [])


@pytest.mark.parametrize("together", [True, False])
async def test_people_are_asked_once_about_equal_calls(together: bool):
    box, done = make_box()
    x, y = ToolCall("x", "wipe", {"a": 1}), ToolCall("y", "wipe", {"a": 1})
    for reply in [[x, y]] if together else [[x], [y]]:
        assert await box.dispatch(reply) == []
    assert asked(box) == ["x"]
    assert told(await box.answer([Approve("x")])) == [
        ("x", "tool_execution_result"),
        ("y", "duplicate"),
    ]
    assert (asked(box), done, len(box.records)) == ([], [1], 2)


async def test_people_are_asked_once_where_an_approver_defers_both():
    async def defer(_: object) -> None:
        await asyncio.sleep(0)

    box, _ = make_box(approve=defer)
    calls = [ToolCall("x", "wipe", {"a": 1}), ToolCall("y", "wipe", {"a": 1})]
    assert await box.dispatch(calls) == []
    assert asked(box) == ["x"]


async def test_a_no_is_for_all_equal_calls():
    box, done = make_box()
    await box.dispatch([ToolCall("x", "wipe", {"a": 1}), ToolCall("y", "wipe", {"a": 1})])
    outcomes = await box.answer([Deny("x", reason="never")])
    assert told(outcomes) == [("x", "write_denied"), ("y", "write_denied")]
    assert done == []


@pytest.mark.parametrize("answer", [Edit("x", {"a": 5}), Approve("x")], ids=["edit", "failure"])
async def test_where_the_first_was_not_done_people_are_asked_about_the_second(answer: Any):
    box, _ = make_box()
    await box.dispatch([ToolCall("x", "wipe", {"a": -1}), ToolCall("y", "wipe", {"a": -1})])
    assert [one.call_id for one in await box.answer([answer])] == ["x"]
    assert asked(box) == ["y"]


async def test_equal_writes_of_one_reply_are_asked_about_and_made_once():
    box, done = make_box()
    await box.dispatch([ToolCall("x", "burn"), ToolCall("y", "burn")])
    assert asked(box) == ["x"]
    first, second = await box.answer([Approve("x")])
    assert done == [0]
    assert (first.call_id, second.call_id) == ("x", "y")
    assert second.repeats is not None and second.repeats.call_id == "x"
    assert (first.effect, second.effect) == ("applied", "none")


async def test_an_equal_write_of_a_later_reply_is_asked_about_again():
    box, done = make_box()
    await box.dispatch([ToolCall("x", "burn")])
    await box.dispatch([ToolCall("y", "burn")])
    assert asked(box) == ["x", "y"]
    await box.answer([Approve("y"), Approve("x")])
    assert done == [0, 0]


async def test_of_a_cancelled_reply_no_call_waits_for_people_any_more():
    box, _ = make_box()
    begun = asyncio.Event()

    @tool(effect="read")
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    box = Toolbox([hang, box.find("wipe")])
    calls = [ToolCall("h", "hang"), ToolCall("x", "wipe"), ToolCall("y", "wipe")]
    task = asyncio.create_task(box.dispatch(calls))
    await begun.wait()
    assert await box.dispatch([ToolCall("z", "wipe")]) == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.call_id for record in box.records] == ["h", "x", "y"]
    assert asked(box) == ["z"]
    assert told(await box.answer([Approve("z")])) == [("z", "tool_execution_result")]


async def test_of_a_cancelled_reply_no_call_waits_for_what_is_asked_about_another():
    begun = asyncio.Event()

    @tool(effect="read")
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    box = Toolbox([hang, make_box()[0].find("wipe")])
    await box.dispatch([ToolCall("first", "wipe")])
    task = asyncio.create_task(box.dispatch([ToolCall("h", "hang"), ToolCall("twin", "wipe")]))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.call_id for record in box.records] == ["h", "twin"]
    assert told(await box.answer([Approve("first")])) == [("first", "tool_execution_result")]
    assert await box.dispatch([ToolCall("twin", "wipe", {"a": 1})]) == []
    assert asked(box) == ["twin"]


async def test_a_read_after_a_write_of_the_same_reply_is_no_duplicate():
    stored = [0]

    @tool(effect="read", idempotent=True)
    async def look() -> int:
        return stored[0]

    @tool(effect="write")
    async def put(a: int) -> None:
        stored[0] = a

    box = Toolbox([look, put])
    calls = [ToolCall("1", "look"), ToolCall("2", "put", {"a": 7}), ToolCall("3", "look")]
    outcomes = await box.dispatch(calls)
    assert [getattr(one, "output", None) for one in outcomes] == [
        {"result": 0},
        {"result": None},
        {"result": 7},
    ]


async def test_the_last_of_equal_writes_with_another_between_decides():
    stored = [0]

    @tool(effect="write", idempotent=True)
    async def set_to(a: int) -> None:
        stored[0] = a

    box = Toolbox([set_to])
    await box.dispatch([ToolCall(str(a), "set_to", {"a": a % 2}) for a in (1, 2, 3)])
    assert stored == [1]
    (again,) = await box.dispatch([ToolCall("4", "set_to", {"a": 1})])
    assert told([again]) == [("4", "duplicate")]


async def test_calls_that_are_called_off_are_settled_and_nobody_is_asked_any_more():
    box, done = make_box()
    calls = [ToolCall("1", "burn", {"a": 1}), ToolCall("2", "burn", {"a": 2})]
    await box.dispatch(calls[:1])
    assert told(await box.call_off(calls)) == [("1", "cancelled"), ("2", "cancelled")]
    assert (box.pending, done, len(box.records)) == ((), [], 2)


async def test_a_resume_that_is_cancelled_leaves_the_questions_of_other_replies_open():
    started = asyncio.Event()

    @tool(effect="destructive")
    async def hang() -> None:
        started.set()
        await asyncio.sleep(60)

    box = Toolbox([hang])
    await box.dispatch([ToolCall("earlier", "hang")])
    calls = [ToolCall("1", "hang"), ToolCall("2", "hang")]
    then = {one.call_id: one for one in await questions(calls, hang)}
    running = asyncio.create_task(
        box.resume(calls, EarlierCalls(asked=then, answers={"1": Approve("1")}))
    )
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [record.call_id for record in box.records] == ["1", "2"]
    assert asked(box) == ["earlier"]


async def questions(calls: list[ToolCall], of: Any) -> tuple[Any, ...]:
    """What people are asked about *calls* in an earlier process."""
    earlier = Toolbox([of])
    await earlier.dispatch(calls)
    return earlier.pending
