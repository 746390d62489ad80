"""The gate of the caller's own hook."""

import asyncio
from typing import Any

import pytest

from upshot.contract import Budget, Effect, ToolCall, ToolDenied, ToolExecutionResult, ToolOutcome
from upshot.tools import Allow, ApprovalRequest, Ask, EditArguments, Refuse, Toolbox, tool


@tool(effect="write")
async def put(a: int, b: str = "x") -> dict[str, Any]:
    return {"a": a, "b": b}


async def run(hook: Any, **options: Any) -> tuple[ToolOutcome | None, Toolbox]:
    box = Toolbox([put], on_pre_tool_use=hook, **options)
    outcomes = await box.dispatch([ToolCall("1", "put", '{"a":"1"}')])
    return outcomes[0] if outcomes else None, box


def later(answer: Any) -> Any:
    async def hook(request: ApprovalRequest) -> Any:
        await asyncio.sleep(0)
        return answer

    return hook


async def test_the_hook_sees_the_valid_call():
    seen: list[ApprovalRequest] = []
    await run(seen.append)
    assert (seen[0].tool_name, seen[0].call_id, seen[0].effect) == ("put", "1", Effect.WRITE)
    assert seen[0].arguments == {"a": 1, "b": "x"}
    assert len(seen[0].digest) == 64


@pytest.mark.parametrize("answer", [None, Allow()], ids=repr)
@pytest.mark.parametrize("make", [lambda answer: lambda request: answer, later])
async def test_allow_and_nothing_let_it_run(make: Any, answer: Any):
    outcome, _ = await run(make(answer))
    assert isinstance(outcome, ToolExecutionResult)


@pytest.mark.parametrize("make", [lambda answer: lambda request: answer, later])
async def test_refuse_denies_with_its_reason(make: Any):
    outcome, box = await run(make(Refuse("not today")))
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.details) == ("pre_hook", "not today")
    assert box.records[0].gate == "pre_hook"


async def test_an_edit_is_validated_and_runs():
    outcome, box = await run(lambda request: EditArguments({"a": "7"}))
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"a": 7, "b": "x"}
    record = box.records[0]
    assert record.arguments_given == '{"a":"1"}'
    assert record.arguments_executed == {"a": 7, "b": "x"}
    assert [verdict.verdict for verdict in record.trace].count("edit") == 1


async def test_an_edit_that_does_not_fit_is_denied_and_counts_not_against_the_model():
    box = Toolbox([put], on_pre_tool_use=lambda request: EditArguments({"a": "x"}))
    for id in "123":
        outcome = (await box.dispatch([ToolCall(id, "put", {"a": 1})]))[0]
        assert isinstance(outcome, ToolDenied)
        assert outcome.reason == "validation"
    assert box.blocked_tool_names == frozenset()


async def test_ask_parks_a_call_that_needs_no_approval_itself():
    outcome, box = await run(lambda request: Ask("odd hour"))
    assert outcome is None
    assert box.pending[0].reason == "odd hour"


async def raises_later(request: ApprovalRequest) -> None:
    raise RuntimeError("hook broke")


def raises(request: ApprovalRequest) -> None:
    raise RuntimeError("hook broke")


@pytest.mark.parametrize("hook", [raises, raises_later])
async def test_a_hook_that_raises_denies(hook: Any):
    outcome, _ = await run(hook)
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "pre_hook"
    assert "on_pre_tool_use" in outcome.details
    assert "hook broke" in outcome.details


async def test_a_hook_that_answers_nonsense_denies():
    outcome, _ = await run(lambda request: "yes")
    assert isinstance(outcome, ToolDenied)
    assert "returned str" in outcome.details


async def test_a_hook_that_hangs_is_ended_by_the_deadline():
    async def hang(request: ApprovalRequest) -> None:
        await asyncio.Event().wait()

    outcome, _ = await run(hang, budget=Budget(deadline_s=0.1))
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "deadline"
