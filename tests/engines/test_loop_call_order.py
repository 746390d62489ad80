"""Outcomes reach a model in the order of its calls, whenever they came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import (
    Agent,
    AgentResult,
    Approve,
    Deny,
    LoopEngine,
    Message,
    ModelResponse,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.contract import MessageList
from upshot.engines.loop import InCallOrder, in_call_order


@tool(effect="destructive")
def pay(amount: int) -> int:
    """Pay."""
    return amount


@tool(effect="read")
def look(name: str) -> str:
    """Look."""
    return name


def calls(*ids: str) -> Message:
    return Message("assistant", tool_calls=tuple(ToolCall(id, "t", {}) for id in ids))


def told(id: str) -> Message:
    return Message("tool", f"of {id}", tool_call_id=id)


async def answered_in_turn(*answers: Any) -> tuple[list[str | None], AgentResult[Any]]:
    """A run that parks at two calls of three; the ids of outcomes that its model was shown."""
    shown: list[str | None] = []

    def last(messages: Any) -> str:
        shown.extend(message.tool_call_id for message in messages if message.role == "tool")
        return "done"

    asked = [
        ToolCall("1", "pay", {"amount": 1}),
        ToolCall("2", "pay", {"amount": 2}),
        ToolCall("3", "look", {"name": "x"}),
    ]
    again = ToolCall("4", "look", {"name": "y"})
    agent = Agent[Any](
        "a",
        model=ScriptedModel([asked, ModelResponse(tool_calls=(again,)), last]),
        tools=[pay, look],
    )
    async with open_journal("memory:") as journal:
        result = await run(agent, "Pay.", journal=journal)
        for answer in answers:
            result = await resume(result.run_id, agent, journal=journal, answers=[answer])
    return shown, result


async def test_a_call_that_waited_for_people_is_told_at_its_place() -> None:
    shown, _ = await answered_in_turn(Approve("2"), Deny("1", "too dear"))
    assert shown == ["1", "2", "3", "4"]


async def test_the_result_keeps_the_order_in_which_it_happened() -> None:
    _, result = await answered_in_turn(Approve("2"), Deny("1", "too dear"))
    ids = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert ids == ["3", "2", "1", "4"]


async def test_a_history_is_shown_in_call_order_too() -> None:
    _, result = await answered_in_turn(Approve("2"), Deny("1", "too dear"))
    model = ScriptedModel(["yes"])
    await run(Agent[Any]("b", model=model), "Well?", history=result)
    ids = [message.tool_call_id for message in model.calls[0].messages if message.role == "tool"]
    assert ids == ["1", "2", "3", "4"]


def test_what_is_in_order_is_handed_back_as_it_is() -> None:
    messages = [
        Message("user", "Go."),
        calls("1", "2"),
        told("1"),
        told("2"),
        calls("3"),
        told("3"),
    ]
    assert in_call_order(messages) is messages


def test_ids_that_are_there_twice_stay_where_they_are() -> None:
    messages = [calls("1", "2", "1"), told("2"), told("1"), told("1")]
    assert in_call_order(messages) is messages


def test_what_comes_later_is_shown_behind() -> None:
    order, board = InCallOrder(), MessageList([calls("1", "2"), told("2"), told("1")])
    first = order.of(board.so_far())
    board.append(Message("assistant", "done"))
    second = order.of(board.so_far())
    assert first == [calls("1", "2"), told("1"), told("2")]
    assert second == [*first, Message("assistant", "done")]
    assert second.encoded is first.encoded


@given(st.lists(st.permutations(["a", "b", "c"]), max_size=4), st.booleans())
def test_nothing_is_lost_and_everything_stands_at_its_place(
    turns: list[list[str]], with_strays: bool
) -> None:
    messages: list[Message] = []
    for order in turns:
        stray = [told("?")] if with_strays else []
        messages += [calls("a", "b", "c"), *stray, *map(told, order)]
    ordered = in_call_order(messages)
    assert sorted(map(repr, ordered)) == sorted(map(repr, messages))
    ids = [message.tool_call_id for message in ordered if message.tool_call_id not in (None, "?")]
    assert ids == ["a", "b", "c"] * len(turns)


@pytest.mark.parametrize("messages", [[], [Message("user", "x")], [told("1")]], ids=len)
def test_messages_without_calls_are_in_order(messages: list[Message]) -> None:
    assert in_call_order(messages) is messages


async def test_a_script_for_each_conversation_keeps_its_place_in_another_order() -> None:
    replies = [[ToolCall("1", "pay", {"amount": 1}), ToolCall("2", "look", {"name": "x"})], "Done."]
    agent = Agent("a", model=ScriptedModel(replies, per_conversation=True), tools=[pay, look])
    async with open_journal("memory:") as journal:
        parked = await run(agent, "Pay.", journal=journal)
        result = await resume(parked.run_id, agent, journal=journal, answers=[Approve("1")])
    assert (result.content, len(result.tool_outcomes)) == ("Done.", 2)


async def test_a_loop_in_a_script_shows_them_in_order_though_it_was_parked_between() -> None:
    shown: list[Any] = []

    def last(messages: Any) -> str:
        shown.extend(message.tool_call_id for message in messages if message.role == "tool")
        return "done"

    async def script(run: Any, host: Any, board: Any) -> None:
        await LoopEngine().execute(run, host, board)

    first = ToolCall("0", "look", {"name": "w"})
    asked = [ToolCall("1", "pay", {"amount": 1}), ToolCall("2", "look", {"name": "x"})]
    agent = Agent(
        "a",
        engine=ScriptEngine(script),
        model=ScriptedModel([[first], asked, last]),
        tools=[pay, look],
    )
    async with open_journal("memory:") as journal:
        result = await run(agent, "Go.", journal=journal)
        await resume(result.run_id, agent, journal=journal, answers=[Approve("1")])
    assert shown == ["0", "1", "2"]
