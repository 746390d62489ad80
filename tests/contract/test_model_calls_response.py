"""ModelResponse: what came of one model call."""

import inspect
from typing import Any

import pytest
from hypothesis import given

from tests.contract.strategies import responses
from upshot.contract import (
    AgentError,
    ErrorCode,
    FinishReason,
    Local,
    Message,
    ModelResponse,
    Reasoning,
    ServerToolBlock,
    Status,
    Text,
    ToolCall,
)
from upshot.errors import Misuse, RunFailed


@given(responses())
def test_success_is_to_have_no_error(response: ModelResponse) -> None:
    assert response.success is (response.error is None)
    assert response.status is (Status.COMPLETED if response.success else Status.FAILED)


def test_a_cost_that_is_no_cost_is_refused_in_one_sentence() -> None:
    with pytest.raises(Misuse, match=r"^ModelResponse\(cost=3\): expected .*, got int$"):
        ModelResponse(cost=3)  # type: ignore[arg-type]  # untyped callers


@pytest.mark.parametrize(("content", "text"), [("x", "x"), (None, "")])
def test_unwrap_gives_the_text(content: str | None, text: str) -> None:
    assert ModelResponse(content=content).unwrap() == text


def test_unwrap_of_a_failed_call_raises_with_the_response() -> None:
    response = ModelResponse(content="par", error=AgentError(ErrorCode.TIMEOUT, "too slow"))
    with pytest.raises(RunFailed, match="timeout: too slow") as caught:
        response.unwrap()
    assert caught.value.result is response


def test_a_finish_reason_given_as_text_becomes_a_member_or_is_misuse() -> None:
    good: Any = "stop"
    bad: Any = "end_turn"
    assert ModelResponse(finish_reason=good).finish_reason is FinishReason.STOP
    with pytest.raises(Misuse):
        ModelResponse(finish_reason=bad)


def test_the_native_reply_stays_in_the_process() -> None:
    raw = object()
    assert ModelResponse(local=Local(raw=raw)).raw is raw
    assert ModelResponse().raw is None


def test_the_message_of_a_reply_holds_text_and_calls() -> None:
    call = ToolCall("c1", "look")
    response = ModelResponse(content="I look.", tool_calls=(call,))
    assert response.to_message() == Message("assistant", "I look.", tool_calls=(call,))


def test_the_message_of_a_reply_keeps_reasoning_before_the_text() -> None:
    thought = Reasoning(text="hm", signature="s", provider="anthropic")
    said = ModelResponse(content="Yes.", reasoning=(thought,)).to_message()
    silent = ModelResponse(reasoning=(thought,)).to_message()
    assert said.content == (thought, Text("Yes."))
    assert silent.content == (thought,)


def test_a_message_holds_what_a_reply_said_in_its_order() -> None:
    block = ServerToolBlock({"type": "server_tool_use"}, "anthropic")
    call = ToolCall("c1", "look")
    parts = (Text("I look."), block, call, Reasoning(text="hm"), Text("And so on."))
    message = ModelResponse(parts=parts, paused=True).to_message()
    assert (message.content, message.paused) == (parts, True)
    assert (message.text, message.tool_calls) == ("I look.And so on.", (call,))


def test_a_text_with_more_to_it_stays_a_part() -> None:
    cited = Text("x", citations=({"url": "https://example.org"},), provider="anthropic")
    assert ModelResponse(parts=(cited,)).to_message().content == (cited,)
    assert ModelResponse(parts=(Text("x"),)).to_message().content == "x"


def test_parts_and_their_views_at_once_are_misuse() -> None:
    with pytest.raises(Misuse, match="a view of them"):
        ModelResponse(parts=(Text("x"),), content="x")


def test_a_reply_says_what_it_takes() -> None:
    taken = inspect.signature(ModelResponse).parameters
    assert {"parts", "content", "tool_calls", "reasoning", "usage"} <= taken.keys()


def test_lists_are_frozen() -> None:
    calls: Any = [ToolCall("c1", "look")]
    assert ModelResponse(tool_calls=calls).tool_calls == tuple(calls)
