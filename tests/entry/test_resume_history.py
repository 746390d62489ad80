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


def told(*ids: str | None) -> list[Message]:
    return [Message("tool", f"told {id}", tool_call_id=id) for id in ids]


def reply(*numbers: int) -> Message:
    return Message("assistant", tool_calls=tuple(CALLS[number - 1] for number in numbers))


HURRY = Message("user", "Hurry.")


@pytest.mark.parametrize(
    "history",
    [
        [reply(1), HURRY, *told("1")],
        [reply(1), reply(2), *told("1", "2")],
        [reply(1), *told(None)],
        [reply(1, 2), *told(None, "1")],
        [reply(1, 2), HURRY, *told("2", None)],
    ],
    ids=["user between", "two replies", "no id", "one id", "later"],
)
async def test_a_call_that_a_later_message_answers_is_not_told_as_cancelled(
    history: list[Message],
) -> None:
    assert not any(blocked for _, blocked in outcomes(await shown(history)))


async def test_a_call_that_the_request_answers_is_not_told_as_cancelled() -> None:
    model = ScriptedModel(["yes"])
    request = Request(*told("1"))
    await run(Agent[Any]("b", model=model), request, history=[HURRY, reply(1, 2)])
    messages = [*model.calls[0].messages]
    assert sorted(outcomes(messages)) == [("1", False), ("2", True)]


async def test_an_outcome_is_of_the_nearest_call_of_its_id() -> None:
    messages = await shown([reply(1), HURRY, reply(1), *told("1")])
    assert outcomes(messages) == [("1", True), ("1", False)]


async def test_an_outcome_without_an_id_is_of_one_call() -> None:
    messages = await shown([reply(1, 2), *told(None)])
    assert sorted(outcomes(messages), key=str) == [("2", True), (None, False)]
