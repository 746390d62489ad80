"""AISuite's own objects."""

import aisuite
import pytest
from aisuite.agents import Agent, DenyAllToolPolicy, Runner
from aisuite.framework.chat_completion_response import ChatCompletionResponse
from aisuite.framework.message import (
    ChatCompletionMessageToolCall,
    CompletionUsage,
    Function,
    Message,
    PromptTokensDetails,
)
from aisuite.provider import LLMError, Provider
from openai.types.chat import ChatCompletion

from upshot.adapters import from_aisuite
from upshot.contract import ToolDenied, ToolExecutionResult


class Scripted(Provider):
    """Gives the replies that it is told to."""

    def __init__(self, *replies):
        super().__init__()
        self.replies = list(replies)

    def chat_completions_create(self, model, messages, **options):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y


def reply(content=None, *, calls=None, finish="stop", cached=None):
    made = ChatCompletionResponse()
    made.choices[0].message = Message(content=content, tool_calls=calls, role="assistant")
    made.choices[0].finish_reason = finish
    made.usage = CompletionUsage(
        prompt_tokens=10,
        completion_tokens=5,
        total_tokens=15,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=cached) if cached else None,
    )
    return made


def asks():
    function = Function(name="add", arguments='{"x": 1, "y": 2}')
    call = ChatCompletionMessageToolCall(id="c1", function=function, type="function")
    return reply(calls=[call], finish="tool_calls")


def client(*replies):
    made = aisuite.Client()
    made.providers["openai"] = Scripted(*replies)
    return made


def ask(*replies, **options):
    return client(*replies).chat.completions.create(
        model="openai:gpt-5", messages=[{"role": "user", "content": "Add"}], **options
    )


def test_a_reply_is_read():
    result = from_aisuite(ask(reply("Hi")))
    assert (result.content, result.finish_reason, result.usage.total_tokens) == ("Hi", "stop", 15)
    assert {"cost", "usage.cache_read_tokens", "rate_limit"}.issubset(result.metadata["unknown"])


def test_the_input_of_anthropic_is_unknown_where_it_was_cached():
    usage = from_aisuite(ask(reply("Hi", cached=100))).usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (None, 100)


def test_turns_with_tools_are_read():
    result = from_aisuite(ask(asks(), reply("three"), tools=[add], max_turns=3))
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": 3}
    assert (result.usage.input_tokens, result.usage.api_calls) == (20, 2)


def test_the_completion_of_an_sdk_is_read():
    form = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "gpt-5-2025",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Hi"},
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    result = from_aisuite(ask(ChatCompletion.model_validate(form)))
    assert (result.content, result.provider_data["model"]) == ("Hi", "gpt-5-2025")


def test_a_run_of_its_agents_is_read():
    agent = Agent(name="adder", model="openai:gpt-5", tools=[add])
    result = from_aisuite(Runner.run_sync(agent, "Add", client=client(asks(), reply("three"))))
    assert (result.content, result.agent_id, result.tools_used) == ("three", "adder", ("add",))
    assert result.provider_data["provider"] == "openai"
    assert result.started_at is not None


def test_a_call_that_its_policy_refused_is_denied():
    agent = Agent(name="adder", model="openai:gpt-5", tools=[add])
    native = Runner.run_sync(
        agent, "Add", client=client(asks(), reply("no")), tool_policy=DenyAllToolPolicy()
    )
    [outcome] = from_aisuite(native).tool_outcomes
    assert isinstance(outcome, ToolDenied)


def test_an_exception_is_classified():
    with pytest.raises(LLMError) as caught:
        ask(LLMError("An error occurred: Error code: 429 - slow down"))
    assert from_aisuite(caught.value).error.code == "rate_limit"
