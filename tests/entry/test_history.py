"""What a run begins with: no provider takes a call without an outcome."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    AgentResult,
    Message,
    Request,
    ScriptedModel,
    ToolCall,
    run,
    tool,
)


@tool(effect="destructive")
def pay(amount: int) -> int:
    """Pay."""
    return amount


@tool(effect="read")
def look(name: str) -> str:
    """Look."""
    return name


CALLS = [
    ToolCall("1", "pay", {"amount": 1}),
    ToolCall("2", "look", {"name": "x"}),
    ToolCall("3", "pay", {"amount": 3}),
]


async def parked(**options: Any) -> AgentResult[Any]:
    agent = Agent[Any]("a", model=ScriptedModel([CALLS, "done"]), tools=[pay, look])
    return await run(agent, Request("Pay.", context_id="c"), **options)


async def shown(history: Any, **options: Any) -> list[Message]:
    """What a model is asked after *history*."""
    model = ScriptedModel(["yes"])
    result = await run(
        Agent[Any]("b", model=model), Request("Well?", context_id="c"), history=history, **options
    )
    assert result.success
    return [*model.calls[0].messages]


def outcomes(messages: list[Message]) -> list[tuple[str | None, bool]]:
    """Each outcome's call, and whether it says that it was not made."""
    return [(m.tool_call_id, "Blocked" in m.text) for m in messages if m.role == "tool"]


async def test_a_call_that_waits_for_approval_is_told_as_cancelled() -> None:
    messages = await shown(await parked())
    assert outcomes(messages) == [("1", True), ("2", False), ("3", True)]
    assert [message.role for message in messages] == [
        "user", "assistant", "tool", "tool", "tool", "user",
    ]  # fmt: skip


async def test_it_is_so_for_messages_too() -> None:
    result = await parked()
    assert await shown([*result.all_messages()]) == await shown(result)


async def test_it_is_so_where_a_reply_was_the_last_that_came() -> None:
    cut = [Message("user", "Pay."), Message("assistant", tool_calls=tuple(CALLS))]
    assert outcomes(await shown(cut)) == [("1", True), ("2", True), ("3", True)]


async def test_the_result_does_not_count_them_as_produced() -> None:
    model = ScriptedModel(["yes"])
    result = await run(Agent[Any]("b", model=model), "Well?", history=await parked())
    assert [message.text for message in result.messages] == ["yes"]


@pytest.mark.parametrize(
    "history",
    [
        [],
        [Message("user", "Hi"), Message("assistant", "Hello")],
        [
            Message("assistant", tool_calls=(CALLS[0],)),
            Message("tool", "1", tool_call_id="1"),
            Message("assistant", "done"),
        ],
    ],
    ids=len,
)
async def test_a_whole_history_is_shown_as_it_is(history: list[Message]) -> None:
    assert (await shown(history))[:-1] == history
