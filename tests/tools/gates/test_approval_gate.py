"""The gate of people: asked, answered, parked, answered later."""

import asyncio
from typing import Any

import pytest

from upshot.contract import (
    Answer,
    Approve,
    Budget,
    Deny,
    Edit,
    Event,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
)
from upshot.errors import Misuse
from upshot.testing import FakeClock
from upshot.tools import ApprovalRequest, EditArguments, Policy, Toolbox, tool
from upshot.tools.call_resumption import EarlierCalls


@tool(effect="destructive")
async def remove(path: str) -> str:
    return path


@tool(effect="read", approval=True)
async def peek(path: str) -> str:
    return path


@tool(effect="destructive", approval=False)
async def prune(path: str) -> str:
    return path


@tool(effect="read")
async def look(path: str = "") -> str:
    return path


def call(name: str = "remove", id: str = "1", path: str = "/a") -> ToolCall:
    return ToolCall(id, name, {"path": path})


@pytest.mark.parametrize(
    ("name", "asked"), [("remove", True), ("peek", True), ("prune", False), ("look", False)]
)
async def test_destructive_tools_and_those_that_say_so_are_asked_about(name: str, asked: bool):
    box = Toolbox([remove, peek, prune, look])
    outcomes = await box.dispatch([call(name)])
    assert len(box.pending) == asked
    assert len(outcomes) == (not asked)


async def slow_yes(request: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


@pytest.mark.parametrize("approve", [lambda request: True, slow_yes])
async def test_yes_lets_it_run_and_is_recorded(approve: Any):
    box = Toolbox([remove], approve=approve)
    outcome = (await box.dispatch([call()]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    approval = box.records[0].approval
    assert approval is not None
    assert (approval.decision, len(approval.digest)) == ("approved", 64)


async def test_no_denies():
    box = Toolbox([remove], approve=lambda request: False)
    outcome = (await box.dispatch([call()]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "write_denied"
    approval = box.records[0].approval
    assert approval is not None
    assert approval.decision == "denied"


def raises(request: ApprovalRequest) -> bool:
    raise RuntimeError("nobody there")


async def raises_later(request: ApprovalRequest) -> bool:
    raise RuntimeError("nobody there")


@pytest.mark.parametrize("approve", [raises, raises_later, lambda request: "sure"])
async def test_an_approver_that_fails_or_talks_nonsense_denies(approve: Any):
    outcome = (await Toolbox([remove], approve=approve).dispatch([call()]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "write_denied"
    assert "approve" in outcome.details


@pytest.mark.parametrize("approve", [None, lambda request: None])
async def test_a_call_without_an_answer_is_parked_and_the_others_run(approve: Any):
    events: list[Event] = []
    box = Toolbox([remove, look], approve=approve, emit=events.append)
    outcomes = await box.dispatch([call(), call("look", "2")])
    assert [outcome.call_id for outcome in outcomes] == ["2"]
    pending = box.pending[0]
    assert (pending.call_id, pending.tool_name, pending.arguments) == (
        "1",
        "remove",
        {"path": "/a"},
    )
    assert pending.effect == "destructive"
    assert [event.kind for event in events].count("approval_requested") == 1
    assert [record.call_id for record in box.records] == ["2"]


async def test_an_approver_who_thinks_past_the_deadline_is_told_to_stop():
    stopped = asyncio.Event()

    async def approve(request: Any) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return True

    @tool(effect="write", approval=True)
    async def put() -> None: ...

    box = Toolbox([put], approve=approve, budget=Budget(deadline_s=0.02))
    (outcome,) = await box.dispatch([ToolCall("1", "put")])
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "deadline"
    await asyncio.wait_for(stopped.wait(), 60)


async def test_approve_lets_a_parked_call_run():
    events: list[Event] = []
    box = Toolbox([remove], emit=events.append)
    await box.dispatch([call()], turn=3)
    outcomes = await box.answer([Approve("1", by="ann")])
    assert isinstance(outcomes[0], ToolExecutionResult)
    assert box.pending == ()
    record = box.records[0]
    assert record.approval is not None
    assert (record.approval.decision, record.approval.by, record.turn) == ("approved", "ann", 3)
    assert [event.kind for event in events][1:3] == ["approval_answered", "tool_started"]


async def test_deny_is_final_for_the_same_arguments():
    box = Toolbox([remove])
    await box.dispatch([call()])
    outcome = (await box.answer([Deny("1", "keep it")]))[0]
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.details) == ("write_denied", "keep it")
    again = (await box.dispatch([call(id="2")]))[0]
    assert isinstance(again, ToolDenied)
    assert again.details == "keep it"
    assert await box.dispatch([call(id="3", path="/b")]) == []


async def test_edit_runs_with_the_persons_arguments():
    box = Toolbox([remove])
    await box.dispatch([call()])
    outcome = (await box.answer([Edit("1", {"path": "/data/x"})]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": "/data/x"}
    record = box.records[0]
    assert record.approval is not None
    assert record.approval.decision == "edited"
    assert record.arguments_given == {"path": "/a"}


async def test_an_edit_that_does_not_fit_is_denied():
    box = Toolbox([remove])
    await box.dispatch([call()])
    outcome = (await box.answer([Edit("1", {"path": 7})]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "validation"


async def test_what_a_hook_changed_stays_changed_while_it_is_parked():
    box = Toolbox([remove], on_pre_tool_use=lambda request: EditArguments({"path": "/safe"}))
    await box.dispatch([call()])
    assert box.pending[0].arguments == {"path": "/safe"}
    outcome = (await box.answer([Approve("1")]))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": "/safe"}


async def test_partial_answers_keep_the_rest_parked_and_call_order():
    box = Toolbox([remove])
    await box.dispatch([call(id=id, path=id) for id in "123"])
    outcomes = await box.answer([Approve("3"), Approve("1")])
    assert [outcome.call_id for outcome in outcomes] == ["1", "3"]
    assert [pending.call_id for pending in box.pending] == ["2"]


@pytest.mark.parametrize("answer", [Approve("nope"), Answer("1", 7)], ids=repr)
async def test_answers_that_are_for_no_parked_call_are_misuse(answer: Any):
    box = Toolbox([remove])
    await box.dispatch([call()])
    with pytest.raises(Misuse):
        await box.answer([answer])
    assert len(box.pending) == 1


async def test_gates_are_asked_again_after_an_answer():
    box = Toolbox([remove])
    await box.dispatch([call()])
    box.cancel()
    outcome = (await box.answer([Approve("1")]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "cancelled"


@pytest.mark.parametrize(("always", "asked"), [("tool", 0), ("arguments", 1), ("", 2)])
async def test_a_yes_for_good_covers_what_its_scope_says(always: str, asked: int):
    box = Toolbox([remove])
    await box.dispatch([call(path="/a")])
    await box.answer([Approve("1", always=always, by="ann")])
    again = await box.dispatch([call(id="2", path="/a"), call(id="3", path="/b")])
    assert len(box.pending) == asked
    assert [outcome.kind for outcome in again] == ["tool_execution_result"] * (2 - asked)


async def test_a_yes_for_good_does_not_count_while_nobody_can_say_whether_it_stands():
    async def unreadable() -> list[str]:
        raise OSError("disk gone")

    box = Toolbox([remove])
    await box.dispatch([call()])
    await box.answer([Approve("1", always="tool")])
    box.recheck_approvals_with(unreadable)
    (outcome,) = await box.dispatch([call(id="2")])
    assert isinstance(outcome, ToolDenied)
    assert outcome.code == "internal"
    assert outcome.details == "the gate approval failed: OSError: disk gone"


async def test_a_yes_for_good_is_recorded_and_restored_from_records():
    box = Toolbox([remove])
    await box.dispatch([call()])
    await box.answer([Approve("1", always="tool", by="ann")])
    box.new_turn()
    await box.dispatch([call(id="2", path="/b")])
    approvals = [record.approval for record in box.records]
    assert [(one.decision, one.scope, one.by) for one in approvals if one is not None] == [
        ("approved", "tool", "ann"),
        ("always", "tool", "ann"),
    ]
    again = Toolbox([remove])
    again.restore(box.records)
    assert len(await again.dispatch([call(id="3", path="/c")])) == 1


async def test_a_yes_for_the_tool_does_not_hold_for_another_version_of_it():
    box = Toolbox([remove])
    await box.dispatch([call()])
    await box.answer([Approve("1", always="tool")])
    changed = Toolbox([remove.but(about="Removes even more.")])
    changed.restore(box.records)
    assert await changed.dispatch([call(id="2")]) == []


async def test_a_no_is_final_over_a_restart_and_an_approvers_is_not():
    box = Toolbox([remove])
    await box.dispatch([call()])
    await box.answer([Deny("1", "keep it")])
    again = Toolbox([remove])
    again.restore(box.records)
    outcome = (await again.dispatch([call(id="2")]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.details == "keep it"
    answers = iter([False, True])
    box = Toolbox([remove], approve=lambda request: next(answers))
    kinds = [(await box.dispatch([call(id=id)]))[0].kind for id in "12"]
    assert kinds == ["tool_denied", "tool_execution_result"]


async def test_an_answer_after_its_time_is_not_taken_and_the_call_is_asked_anew():
    clock, events = FakeClock(), list[Event]()
    box = Toolbox([remove.but(approval_expires_s=60)], clock=clock, emit=events.append)
    await box.dispatch([call(), call(id="2", path="/b")])
    first = box.pending[0]
    assert first.expires_at is not None
    await clock.sleep(60)
    assert await box.answer([Approve("1")]) == []
    assert box.pending[-1].call_id == "1"
    assert box.pending[-1].expires_at > first.expires_at  # type: ignore[operator]
    assert [event.kind for event in events].count("approval_requested") == 3
    # A no is safe at any time.
    assert len(await box.answer([Deny("2")])) == 1
    assert len(await box.answer([box.pending[-1].approve()])) == 1


async def test_the_policy_says_when_a_question_expires_unless_the_tool_does():
    box = Toolbox([remove, peek.but(approval_expires_s=1)], policy=Policy(approval_expires_s=9))
    await box.dispatch([call(), call("peek", "2")])
    lasts = [(one.expires_at - one.asked_at).total_seconds() for one in box.pending]  # type: ignore[operator]
    assert lasts == [9, 1]


async def test_a_question_that_still_counts_is_not_asked_twice_over_a_restart():
    box, events = Toolbox([remove]), list[Event]()
    await box.dispatch([call()])
    asked = {"1": box.pending[0]}
    again = Toolbox([remove], emit=events.append)
    assert await again.resume([call()], EarlierCalls(asked=asked)) == []
    assert again.pending == box.pending
    assert events == []


@pytest.mark.parametrize("answer", [Approve("1"), Edit("1", {"path": "/b"})], ids=repr)
async def test_an_answer_is_void_when_the_tool_has_changed_since(answer: Any):
    box, events = Toolbox([remove]), list[Event]()
    await box.dispatch([call()])
    asked = {"1": box.pending[0]}
    changed = Toolbox([remove.but(about="Removes even more.")], emit=events.append)
    earlier = EarlierCalls(asked=asked, answers={"1": answer})
    assert await changed.resume([call()], earlier) == []
    assert changed.pending[0].digest != asked["1"].digest
    assert [event.kind for event in events] == ["approval_requested", "warning"]


async def test_what_a_person_answered_goes_before_a_callback():
    box = Toolbox([remove])
    await box.dispatch([call()])
    again = Toolbox([remove], approve=lambda request: True)
    asked, answers = {"1": box.pending[0]}, {"1": Edit("1", {"path": "/safe"})}
    outcome = (await again.resume([call()], EarlierCalls(asked=asked, answers=answers)))[0]
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": "/safe"}
