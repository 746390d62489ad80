"""Responses and exceptions of Microsoft Agent Framework."""

from types import SimpleNamespace as Object

from upshot.adapters import from_agent_framework
from upshot.contract import PendingApproval, ToolFailure


class RateLimitError(Exception):
    status_code = 429


class ChatClientException(Exception):
    pass


def message(role, *contents):
    return Object(role=role, author_name="adder", contents=list(contents))


CALL = Object(type="function_call", call_id="c1", name="add", arguments='{"x": 1}')
TEXT = Object(type="text", text="three")
COUNTS = {
    "input_token_count": 100,
    "output_token_count": 50,
    "cache_read_input_token_count": 40,
    "reasoning_output_token_count": 20,
}


def response(*messages, **fields):
    base = {
        "messages": list(messages),
        "usage_details": COUNTS,
        "finish_reason": "stop",
        "response_id": "r1",
        "raw_representation": Object(model="gpt-5"),
    }
    return Object(**{**base, **fields})


def gave(**fields):
    return message("tool", Object(type="function_result", call_id="c1", **fields))


def test_a_response_is_read():
    thought = Object(type="text_reasoning", text="hm")
    native = response(
        message("assistant", thought, CALL), gave(result="3"), message("assistant", TEXT)
    )
    result = from_agent_framework(native)
    assert (result.status, result.content, result.finish_reason) == ("completed", "three", "stop")
    assert [one.role for one in result.messages] == ["assistant", "tool", "assistant"]
    assert (result.usage.input_tokens, result.usage.api_calls) == (100, 2)
    assert (result.usage.cache_read_tokens, result.usage.reasoning_tokens) == (40, 20)
    assert (result.agent_id, result.provider_data["model"]) == ("adder", "gpt-5")


def test_a_tool_that_raised_is_a_failure():
    native = response(message("assistant", CALL), gave(result="no", exception="ValueError"))
    [outcome] = from_agent_framework(native).tool_outcomes
    assert isinstance(outcome, ToolFailure) and outcome.error == "no"


def test_an_approval_parks_the_run():
    request = Object(type="function_approval_request", function_call=CALL)
    result = from_agent_framework(response(message("assistant", request)))
    waits = PendingApproval(call_id="c1", tool_name="add", arguments={"x": 1})
    assert (result.status, result.pending) == ("input_required", (waits,))


def test_the_error_is_the_one_inside():
    try:
        try:
            raise RateLimitError("Slow down.")
        except RateLimitError as inner:
            raise ChatClientException("failed", inner) from inner
    except ChatClientException as error:
        result = from_agent_framework(error)
        assert (result.error.code, result.error.message) == ("rate_limit", "Slow down.")
        assert result.raw is error
