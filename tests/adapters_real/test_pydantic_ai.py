"""Pydantic AI's own objects."""

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, UsageLimits
from pydantic_ai.exceptions import (
    ModelHTTPError,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
)
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from upshot.adapters import from_pydantic_ai
from upshot.contract import Reasoning, ToolExecutionResult, ToolFailure


class Sum(BaseModel):
    sum: int


def scripted(*replies):
    """A model that gives *replies*, one a call."""
    left = list(replies)

    def answer(messages, info):
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return FunctionModel(answer)


def says(*parts, **fields):
    usage = RequestUsage(input_tokens=100, output_tokens=50, cache_read_tokens=40)
    return ModelResponse(parts=list(parts), usage=usage, **fields)


def adder(model, **options):
    agent = Agent(model, **options)

    @agent.tool_plain
    def add(x: int, y: int) -> int:
        if x < 0:
            raise ModelRetry("x must not be negative")
        return x + y

    return agent


def call(x):
    return says(ToolCallPart("add", {"x": x, "y": 2}, tool_call_id="c1"))


def test_a_run_is_read():
    native = adder(
        scripted(call(1), says(TextPart("three"), finish_reason="stop")), instructions="Brief."
    ).run_sync("Add")
    result = from_pydantic_ai(native)
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.all_messages()[0].text == "Add"
    assert (result.finish_reason, result.run_id) == ("stop", native.run_id)
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": 3}


def test_usage_is_that_of_the_run():
    native = adder(scripted(call(1), says(TextPart("three")))).run_sync("Add")
    usage = from_pydantic_ai(native).usage
    assert (usage.input_tokens, usage.output_tokens) == (
        native.usage.input_tokens,
        native.usage.output_tokens,
    )
    assert (usage.cache_read_tokens, usage.api_calls) == (80, 2)


def test_a_call_to_be_made_again_is_a_failure_that_may_be_retried():
    native = adder(scripted(call(-1), call(1), says(TextPart("three")))).run_sync("Add")
    first, second = from_pydantic_ai(native).tool_outcomes
    assert isinstance(first, ToolFailure)
    assert first.retryable
    assert isinstance(second, ToolExecutionResult)


def test_structured_output_is_read_and_its_call_is_no_tool():
    result = from_pydantic_ai(Agent(TestModel(), output_type=Sum).run_sync("Add"))
    assert result.output == {"sum": 0}
    assert result.tool_outcomes == ()


def test_what_came_before_is_seeded():
    first = Agent(TestModel(custom_output_text="Hi")).run_sync("Hello")
    second = Agent(TestModel(custom_output_text="Fine")).run_sync(
        "How are you?", message_history=first.all_messages()
    )
    result = from_pydantic_ai(second)
    assert [message.text for message in result.messages] == ["Fine"]
    assert [message.text for message in result.all_messages()] == [
        "Hello",
        "Hi",
        "How are you?",
        "Fine",
    ]


def test_thoughts_are_kept():
    thought = ThinkingPart("hm", signature="sig", provider_name="anthropic")
    result = from_pydantic_ai(Agent(scripted(says(thought, TextPart("Hi")))).run_sync("Hello"))
    assert result.messages[0].parts[0] == Reasoning(
        text="hm", signature="sig", provider="anthropic"
    )


def test_a_call_that_waits_for_approval_parks_the_run():
    agent = Agent(scripted(call(1)), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def add(x: int, y: int) -> int:
        return x + y

    result = from_pydantic_ai(agent.run_sync("Add"))
    assert result.status == "input_required"
    assert result.pending[0].arguments == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (ModelHTTPError(429, "gpt-5", {"message": "slow down"}), "rate_limit", True),
        (ModelHTTPError(503, "gpt-5", None), "server_error", True),
        (ModelHTTPError(401, "gpt-5", {"message": "bad key"}), "auth_error", False),
        (UnexpectedModelBehavior("no answer"), "invalid_output", False),
    ],
)
def test_a_failed_run_is_classified(error, code, retryable):
    with pytest.raises(type(error)) as caught:
        Agent(scripted(error)).run_sync("Hello")
    found = from_pydantic_ai(caught.value).error
    assert (found.code, found.retryable) == (code, retryable)


def test_a_spent_limit_is_a_budget():
    agent = adder(scripted(call(1), call(1), says(TextPart("three"))))
    with pytest.raises(UsageLimitExceeded) as caught:
        agent.run_sync("Add", usage_limits=UsageLimits(request_limit=1))
    assert from_pydantic_ai(caught.value).error.code == "budget_exceeded"
