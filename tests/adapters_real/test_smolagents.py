"""smolagents' own objects."""

import pytest
from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents.monitoring import TokenUsage
from smolagents.utils import AgentGenerationError

from upshot.adapters import from_smolagents
from upshot.contract import ToolDenied, ToolExecutionResult, ToolFailure
from upshot.flat import from_smolagents as to_flat


class Scripted(Model):
    """Says what it is told to."""

    def __init__(self, *replies):
        super().__init__(model_id="scripted")
        self.replies = list(replies)

    def generate(self, messages, **options):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


@tool
def add(x: int, y: int) -> int:
    """Add two numbers.

    Args:
        x: One.
        y: The other.
    """
    if x < 0:
        raise ValueError("negative")
    return x + y


def says(text=None, *calls):
    return ChatMessage(
        role=MessageRole.ASSISTANT,
        content=text,
        tool_calls=list(calls) or None,
        token_usage=TokenUsage(input_tokens=10, output_tokens=5),
    )


def calls(name, ident, **arguments):
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return says(None, ChatMessageToolCall(function=function, id=ident, type="function"))


def run(*replies, kind=ToolCallingAgent, **options):
    agent = kind(tools=[add], model=Scripted(*replies), verbosity_level=0, **options)
    return agent.run("Add 1 and 2", return_full_result=True)


FINAL = calls("final_answer", "c9", answer="three")


def test_a_run_is_read():
    native = run(calls("add", "c1", x=1, y=2), FINAL)
    result = from_smolagents(native)
    assert (result.status, result.content) == ("completed", "three")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (20, 10)
    assert result.tools_used == ("add",)
    assert result.tool_outcomes[0].output == {"result": "3"}
    assert result.started_at.timestamp() == pytest.approx(native.timing.start_time)
    assert result.all_messages()[0].text.startswith("Add 1 and 2")


def test_its_dict_is_read_like_itself():
    native = run(calls("add", "c1", x=1, y=2), FINAL)
    assert from_smolagents(native.dict()) == from_smolagents(native)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (calls("add", "c1", x=1, y=2), ToolExecutionResult),
        (calls("add", "c1", x=-1, y=2), ToolFailure),
        (calls("add", "c1", x="one", y=2), ToolDenied),
        (calls("sub", "c1", x=1), ToolDenied),
    ],
    ids=["ran", "raised", "refused", "unknown"],
)
def test_what_came_of_a_call_is_an_outcome(call, kind):
    [outcome] = from_smolagents(run(call, FINAL)).tool_outcomes
    assert isinstance(outcome, kind)


def test_the_step_limit_is_length():
    native = run(calls("add", "c1", x=1, y=2), says("best guess"), max_steps=1)
    result = from_smolagents(native)
    assert native.state == "max_steps_error"
    assert (result.finish_reason, result.content) == ("length", "best guess")
    assert result.usage.api_calls == 2


def test_code_is_read():
    native = run(says("<code>\nfinal_answer(add(1, 2))\n</code>"), kind=CodeAgent)
    result = from_smolagents(native)
    assert result.output == 3
    assert result.tools_used == ("python_interpreter",)


def test_a_failed_call_of_the_model_is_classified():
    failure = RuntimeError("Error code: 429 - slow down")
    with pytest.raises(AgentGenerationError) as caught:
        run(failure)
    result = from_smolagents(caught.value)
    assert (result.error.code, result.error.retryable) == ("rate_limit", True)


def test_a_message_is_read():
    message = says("Hi")
    assert from_smolagents(message).usage.total_tokens == 15
    assert to_flat(message).usage.total_tokens == 15
