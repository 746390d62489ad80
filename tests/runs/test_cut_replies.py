"""Replies that a filter or the limit on tokens cut off, and refusals, in every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from upshot import (
    Agent,
    AgentError,
    ModelResponse,
    Text,
    ToolCall,
    run_sync,
    start,
    to_execution_result,
    tool,
)
from upshot.contract.result import AgentResult
from upshot.models import Fallback, ScriptedModel

paid: list[str] = []


@tool(effect="write")
def pay(to: str = "nobody") -> str:
    """Pay."""
    paid.append(to)
    return "paid"


class City(msgspec.Struct):
    name: str


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    paid.clear()


def reply(finish: str, *calls: ToolCall, text: str = "Here is h", **more: Any) -> ModelResponse:
    said = (Text(text),) if text else ()
    return ModelResponse(parts=(*said, *calls), finish_reason=finish, **more)  # pyright: ignore[reportArgumentType]


WHOLE = ToolCall("c1", "pay", {"to": "ada"})


def alone(agent: Agent[Any]) -> AgentResult[Any]:
    return run_sync(agent, "Hi")


def watched(agent: Agent[Any]) -> AgentResult[Any]:
    async def watch() -> AgentResult[Any]:
        async with start(agent, "Hi") as live:
            async for _ in live:
                pass
            return await live.finish()

    return asyncio.run(watch())


WAYS = pytest.mark.parametrize("way", [alone, watched])
Way = Callable[[Agent[Any]], AgentResult[Any]]


@WAYS
def test_a_reply_that_a_filter_cut_off_fails_with_its_text(way: Way) -> None:
    result = way(Agent("a", model=ScriptedModel([reply("content_filter")])))
    assert (result.status, result.committed) == ("failed", False)
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("content_filter", False)
    assert result.content == "Here is h"


@WAYS
def test_its_calls_are_denied_and_told_of(way: Way) -> None:
    model = ScriptedModel([reply("content_filter", WHOLE), "never"])
    result = way(Agent("a", model=model, tools=[pay]))
    assert paid == []
    assert result.error is not None
    assert result.error.code == "content_filter"
    assert [(one.kind, one.call_id) for one in result.tool_outcomes] == [("tool_denied", "c1")]
    assert result.content == "Here is h"


@WAYS
def test_a_typed_answer_that_a_filter_cut_off_fails_too(way: Way) -> None:
    cut = reply("content_filter", text='{"name": "Rome"}')
    result = way(Agent("a", model=ScriptedModel([cut]), output_type=City))
    assert result.error is not None
    assert result.error.code == "content_filter"


@WAYS
def test_an_agent_may_allow_it(way: Way) -> None:
    model = ScriptedModel([reply("content_filter")])
    result = way(Agent("a", model=model, allow_filtered=True))
    assert (result.status, result.content) == ("completed", "Here is h")
    assert [one.code for one in result.warnings] == ["filtered"]


def test_a_fallback_goes_on_after_one_only_if_it_is_told_to() -> None:
    def models() -> tuple[ScriptedModel, ScriptedModel]:
        return ScriptedModel([reply("content_filter")]), ScriptedModel(["Rome."])

    plain = run_sync(Agent("a", model=Fallback(*models())), "Hi")
    assert plain.error is not None
    assert plain.error.code == "content_filter"
    assert run_sync(Agent("a", model=Fallback(*models(), on=["content_filter"])), "Hi").success


@WAYS
@pytest.mark.parametrize("arguments", ['{"to": "eve', "", {}])
def test_a_call_whose_arguments_are_cut_at_the_limit_is_not_made(way: Way, arguments: Any) -> None:
    cut = ToolCall("c2", "pay", arguments)
    model = ScriptedModel([reply("length", WHOLE, cut), "Done."])
    result = way(Agent("a", model=model, tools=[pay]))
    assert (result.status, paid) == ("completed", ["ada"])
    assert [one.kind for one in result.tool_outcomes] == ["tool_execution_result", "tool_denied"]
    assert "truncated" in [one.code for one in result.warnings]


@WAYS
def test_a_refusal_is_the_content(way: Way) -> None:
    model = ScriptedModel([ModelResponse(refusal="I will not.", finish_reason="stop")])
    result = way(Agent("a", model=model))
    assert (result.status, result.content, result.finish_reason) == (
        "completed",
        "I will not.",
        "refusal",
    )
    assert [one.code for one in result.warnings] == ["refusal"]
    assert to_execution_result(result)["content"] == "I will not."


@WAYS
def test_a_refusal_that_was_cut_off_by_a_fault_is_none(way: Way) -> None:
    down = AgentError("connection", "the line is down")
    model = ScriptedModel([ModelResponse(refusal="I will", error=down)])
    result = way(Agent("a", model=model, retry=None))
    assert result.error is not None
    assert (result.error.code, result.warnings) == ("connection", ())


@WAYS
def test_a_refusal_of_a_typed_answer_fails(way: Way) -> None:
    model = ScriptedModel([ModelResponse(refusal="I will not.", finish_reason="stop")])
    result = way(Agent("a", model=model, output_type=City))
    assert result.error is not None
    assert (result.error.code, result.content) == ("refusal", "I will not.")
