"""pi-agent's messages, runs and exceptions."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from upshot.adapters import from_pi_agent
from upshot.contract import Image, ToolExecutionResult, ToolFailure

COST = {"input": 0.1, "output": 0.2, "cacheRead": 0.01, "cacheWrite": 0.0, "total": 0.31}


def assistant(*parts, stop="stop", **fields):
    return {
        "role": "assistant",
        "content": [
            {"type": "text", "text": part} if isinstance(part, str) else part for part in parts
        ],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {
            "input": 100,
            "output": 50,
            "cacheRead": 30,
            "cacheWrite": 0,
            "totalTokens": 180,
            "cost": COST,
        },
        "stopReason": stop,
        "timestamp": 1_760_000_000_000,
        **fields,
    }


def answer(ident="c1", *, error=False):
    return {
        "role": "toolResult",
        "toolCallId": ident,
        "toolName": "add",
        "content": [{"type": "text", "text": "3"}],
        "isError": error,
        "timestamp": 1_760_000_001_000,
    }


CALL = {"type": "toolCall", "id": "c1", "name": "add", "arguments": {"x": 1}}


def test_a_message_is_a_completed_run():
    result = from_pi_agent(assistant("Hi"))
    assert (result.status, result.content, result.finish_reason) == ("completed", "Hi", "stop")
    assert result.provider_data["model"] == "claude-sonnet-4-5"
    assert result.started_at == datetime.fromtimestamp(1_760_000_000, UTC)


def test_cached_tokens_are_part_of_the_input():
    usage = from_pi_agent(assistant("Hi")).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.total_tokens) == (130, 30, 180)


def test_an_object_is_read_like_its_json():
    form = assistant("Hi")
    usage = SimpleNamespace(**{**form["usage"], "cost": SimpleNamespace(**COST)})
    native = SimpleNamespace(**{**form, "usage": usage})
    assert from_pi_agent(native) == from_pi_agent(form)


def test_aborted_is_canceled():
    result = from_pi_agent(assistant("So f", stop="aborted", errorMessage="Request aborted"))
    assert (result.status, result.finish_reason) == ("canceled", "aborted")
    assert (result.error.code, result.error.retryable) == ("canceled", False)
    assert result.content == "So f"


def test_an_error_is_classified():
    result = from_pi_agent(assistant(stop="error", errorMessage="529 overloaded"))
    assert (result.status, result.error.code) == ("failed", "server_error")
    assert (result.error.status_code, result.error.retryable) == (529, True)
    assert result.messages == ()


def test_what_it_does_not_say_is_listed():
    unknown = from_pi_agent(assistant("Hi")).metadata["unknown"]
    assert {"rate_limit", "usage.reasoning_tokens", "duration_ms"}.issubset(unknown)
    assert "cost" not in unknown


def test_the_messages_of_a_run_are_read():
    user = {"role": "user", "content": "Add", "timestamp": 0}
    event = {
        "type": "agent_end",
        "messages": [user, assistant(CALL, stop="toolUse"), answer(), assistant("three")],
    }
    result = from_pi_agent(event)
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.all_messages()[0].role == "user"
    assert (result.content, result.finish_reason) == ("three", "stop")
    assert (result.usage.api_calls, float(result.cost)) == (2, 0.62)


@pytest.mark.parametrize(("error", "kind"), [(False, ToolExecutionResult), (True, ToolFailure)])
def test_what_came_of_a_call_is_an_outcome(error, kind):
    [outcome] = from_pi_agent([assistant(CALL), answer(error=error)]).tool_outcomes
    assert isinstance(outcome, kind)
    assert (outcome.call_id, outcome.tool_name, outcome.effect) == ("c1", "add", "unknown")


def test_a_picture_in_a_result_is_a_part():
    shot = {**answer(), "content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}
    [_, said] = from_pi_agent([assistant(CALL), shot]).messages
    assert said.parts == (Image(url="data:image/png;base64,AAAA"),)
