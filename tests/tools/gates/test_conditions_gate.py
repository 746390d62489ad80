"""Functions of the arguments that deny a call, or have the user asked."""

from typing import Any

import msgspec
import pytest

from upshot.contract import Approve, Edit, Json, ToolCall, ToolDenied, ToolExecutionResult
from upshot.errors import Misuse
from upshot.journal import MemoryJournal
from upshot.tools import Tool, Toolbox, tool

Arguments = dict[str, Json]


def is_large(arguments: Arguments) -> bool:
    return int(str(arguments["cents"])) > 5_000


def is_negative(arguments: Arguments) -> bool:
    return int(str(arguments["cents"])) < 0


def breaks(arguments: Arguments) -> bool:
    raise RuntimeError("no rate for this currency")


def mumbles(arguments: Arguments) -> Any:
    return "maybe"


class Written:
    text = "cents > 5000"

    def holds(self, values: Arguments) -> bool:
        return is_large(values)


@tool(effect="write")
async def refund(cents: int, note: str = "none") -> str:
    return f"{cents} {note}"


def call(cents: int, id: str = "1") -> ToolCall:
    return ToolCall(id, "refund", {"cents": cents})


def said(box: Toolbox) -> list[tuple[str, str]]:
    (record,) = box.records
    return [(one.verdict, one.detail) for one in record.trace if one.gate == "conditions"]


async def test_a_call_that_the_condition_denies_does_not_run_and_says_which_condition():
    box = Toolbox([refund.but(deny=is_negative)])
    (denied,) = await box.dispatch([call(-1)])
    assert isinstance(denied, ToolDenied)
    assert (denied.reason, denied.details) == ("deny_condition", "deny: is_negative is true")
    assert said(box) == [("deny", "deny: is_negative is true")]


async def test_what_each_condition_answered_stands_in_the_record_of_a_call_that_runs():
    box = Toolbox([refund.but(deny=is_negative, approval=is_large)])
    (done,) = await box.dispatch([call(1)])
    assert isinstance(done, ToolExecutionResult)
    answers = "deny: is_negative is false; approval: is_large is false"
    assert said(box) == [("pass", answers)]
    assert [one.gate for one in box.records[0].trace].count("arguments") == 1


@pytest.mark.parametrize(
    ("condition", "text"), [(is_large, "is_large"), (Written(), "cents > 5000")]
)
async def test_the_user_is_asked_where_the_condition_is_true(condition: Any, text: str):
    box = Toolbox([refund.but(approval=condition)])
    (done,) = await box.dispatch([call(9_000), call(1, "2")])
    assert done.call_id == "2"
    assert [one.reason for one in box.pending] == [text]
    (approved,) = await box.answer([Approve("1")])
    assert isinstance(approved, ToolExecutionResult)
    assert box.records[-1].approval is not None


async def test_a_condition_of_a_destructive_tool_decides_alone():
    box = Toolbox([refund.but(effect="destructive", approval=is_large)])
    (done,) = await box.dispatch([call(1)])
    assert isinstance(done, ToolExecutionResult)


@pytest.mark.parametrize("option", ["deny", "approval"])
@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (breaks, "breaks failed: RuntimeError: no rate for this currency"),
        (mumbles, "mumbles failed: TypeError: it returned str; it must return True or False"),
    ],
)
async def test_the_user_is_asked_where_a_condition_fails(option: str, condition: Any, why: str):
    box = Toolbox([refund.but(**{option: condition})])
    assert await box.dispatch([call(1)]) == []
    assert [one.reason for one in box.pending] == [f"{option}: {why}"]


async def test_a_condition_that_denies_is_asked_about_what_the_user_made_of_the_call():
    box = Toolbox([refund.but(deny=is_negative, approval=True)])
    assert await box.dispatch([call(1)]) == []
    (denied,) = await box.answer([Edit("1", {"cents": -1})])
    assert isinstance(denied, ToolDenied)
    assert denied.reason == "deny_condition"


async def test_a_tool_may_be_denied_altogether():
    (denied,) = await Toolbox([refund.but(deny=True)]).dispatch([call(1)])
    assert isinstance(denied, ToolDenied)
    assert denied.details == "deny: every call of refund"


async def test_conditions_see_defaults_and_a_journal_keeps_their_answers():
    seen: list[Arguments] = []

    def note(arguments: Arguments) -> bool:
        seen.append(arguments)
        return False

    journal = MemoryJournal()
    box = Toolbox([refund.but(deny=note)], journal=journal)
    await box.dispatch([ToolCall("1", "refund", {"cents": "5"})])
    await box.flush()
    assert seen == [{"cents": 5, "note": "none"}]
    kept = [msgspec.json.encode(one).decode() async for one in journal.events(box.run_id)]
    assert any("note is false" in one for one in kept)


@pytest.mark.parametrize("option", ["deny", "approval"])
def test_what_is_no_condition_is_misuse(option: str):
    async def slow(arguments: Arguments) -> bool:
        return True

    for wrong in ("cents > 5", 1, slow):
        with pytest.raises(Misuse, match=f"{option} must be True, False, a plain function"):
            refund.but(**{option: wrong})


async def test_a_tool_made_of_a_schema_takes_conditions():
    schema: dict[str, Any] = {"type": "object", "properties": {"cents": {"type": "integer"}}}

    def run(arguments: Arguments) -> str:
        return ""

    made = Tool.from_schema("refund", "Refund.", schema, run, effect="write", deny=is_negative)
    (denied,) = await Toolbox([made]).dispatch([call(-1)])
    assert isinstance(denied, ToolDenied)
