"""The gate of people: asked, answered, parked, answered later."""

import asyncio
from typing import Any

import pytest

from upshot.contract import (
    Answer,
    Approve,
    Deny,
    Edit,
    Event,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
)
from upshot.errors import Misuse
from upshot.tools import ApprovalRequest, EditArguments, Toolbox, tool


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


@pytest.mark.parametrize(
    "answer", [Approve("nope"), Answer("1", 7), Approve("1", always="tool")], ids=repr
)
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
