"""Between the flat structures and the contract."""

from types import SimpleNamespace as Object

import pytest
from hypothesis import given

from tests.contract.strategies import responses, results
from upshot.contract import (
    AgentError,
    AgentResult,
    Cost,
    Local,
    Message,
    ModelResponse,
    RateLimitState,
    RateLimitWindow,
    Usage,
)
from upshot.contract import ToolCall as Call
from upshot.flat import (
    AgentResponse,
    CostInfo,
    ErrorInfo,
    FinishReason,
    RateLimitInfo,
    ToolCall,
    UsageInfo,
    from_agent_response,
    from_pi_agent,
    from_smolagents,
    to_agent_response,
)

SLOW = AgentError("rate_limit", "slow down", type="RateLimitError", status_code=429, retryable=True)


def test_a_reply_becomes_flat():
    flat = to_agent_response(
        ModelResponse(
            content="Hi",
            usage=Usage(input_tokens=10, output_tokens=5, cache_read_tokens=4),
            cost=Cost(input="0.1", output="0.2"),
            finish_reason="stop",
            local=Local(raw="reply"),
        )
    )
    assert (flat.content, flat.finish_reason, flat.raw_response) == (
        "Hi",
        FinishReason.STOP,
        "reply",
    )
    assert flat.usage == UsageInfo(10, 5, 15, 4, 0, CostInfo(0.1, 0.2, 0.0, 0.0, 0.3))
    assert (flat.output, flat.tool_calls, flat.error, flat.rate_limit) == (None, None, None, None)


def test_an_unknown_usage_is_zeros_and_an_unknown_cost_none():
    assert to_agent_response(ModelResponse(content="Hi")).usage == UsageInfo()


def test_output_is_told_only_where_it_is_more_than_the_text():
    assert to_agent_response(AgentResult(output="Hi", content="Hi")).output is None
    assert to_agent_response(AgentResult(output={"a": 1}, content="Hi")).output == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "flat"),
    [({"x": 1}, {"x": 1}), ('{"x": 1}', {"x": 1}), ("", {}), ("not json", {"input": "not json"})],
)
def test_arguments_are_an_object(arguments, flat):
    reply = ModelResponse(tool_calls=(Call("c1", "add", arguments),))
    assert to_agent_response(reply).tool_calls == [ToolCall("c1", "", "add", flat)]


def test_calls_of_a_result_are_those_of_its_last_words():
    asked = Message("assistant", "", tool_calls=[Call("c1", "add")])
    assert to_agent_response(AgentResult(messages=[asked])).tool_calls[0].tool == "add"
    answered = AgentResult(messages=[asked, Message("assistant", "3")])
    assert to_agent_response(answered).tool_calls is None


def test_an_error_becomes_flat():
    flat = to_agent_response(ModelResponse(error=SLOW, finish_reason="error"))
    assert not flat.success
    assert flat.error == ErrorInfo("RateLimitError", "slow down", 429, True, "rate_limit")


def test_an_error_always_has_a_rate_limit_to_ask():
    error = AgentError("rate_limit", "slow down", retryable=True, retry_after_s=2.5)
    assert to_agent_response(ModelResponse(error=error)).rate_limit.get_retry_delay() == 3


def test_windows_become_one_figure_each():
    state = RateLimitState(
        windows=(
            RateLimitWindow(name="requests", limit=60, remaining=9, reset_at=5.0),
            RateLimitWindow(name="tokens", resource="tokens", remaining=7),
        )
    )
    reply = ModelResponse(
        content="Hi",
        rate_limit=state,
        provider_data={"raw_headers": {"x-ratelimit-remaining-requests": "9"}},
    )
    assert to_agent_response(reply).rate_limit == RateLimitInfo(
        remaining_requests=9,
        limit_requests=60,
        remaining_tokens=7,
        reset_at=5.0,
        raw_headers={"x-ratelimit-remaining-requests": "9"},
    )


def test_a_flat_reply_becomes_a_result():
    result = from_agent_response(
        AgentResponse(
            content="Hi",
            output={"a": 1},
            tool_calls=[ToolCall("c1", "", "add", {"x": 1})],
            usage=UsageInfo(10, 5, 15, cost=CostInfo(total=0.5)),
            finish_reason=FinishReason.TOOL_USE,
            raw_response="reply",
        )
    )
    assert (result.content, result.output, result.raw) == ("Hi", {"a": 1}, "reply")
    assert result.messages[0].tool_calls == (Call("c1", "add", {"x": 1}),)
    assert (result.usage.total_tokens, result.usage.cache_read_tokens) == (15, None)
    assert (float(result.cost), result.cost.input) == (0.5, None)


def test_a_usage_of_zeros_is_unknown():
    assert not from_agent_response(AgentResponse(content="Hi", usage=UsageInfo())).usage


@pytest.mark.parametrize(
    ("finish", "status"), [(FinishReason.ERROR, "failed"), (FinishReason.ABORTED, "canceled")]
)
def test_the_status_follows_from_the_error(finish, status):
    flat = AgentResponse(error=ErrorInfo("error", "it broke"), finish_reason=finish)
    assert from_agent_response(flat).status == status


@pytest.mark.parametrize(
    ("info", "code"),
    [
        (ErrorInfo("RateLimitError", "slow down", 429, True), "rate_limit"),
        (ErrorInfo("BadRequestError", "prompt is too long", 400), "context_length"),
        (ErrorInfo("AuthenticationError", "no", 401), "auth_error"),
        (ErrorInfo("RateLimitError", "slow down"), "rate_limit"),
        (ErrorInfo("Error", "x", code="max_turns"), "max_turns"),
    ],
)
def test_an_errors_code_is_concluded_where_it_has_none(info, code):
    error = from_agent_response(AgentResponse(error=info)).error
    assert (error.code, error.type, error.retryable) == (code, info.error_type, info.retryable)


def test_limits_are_read_again_from_the_headers():
    info = RateLimitInfo(raw_headers={"x-ratelimit-remaining-tokens-day": "0"}, retry_after=5)
    state = from_agent_response(AgentResponse(content="Hi", rate_limit=info)).rate_limit
    assert state.limited
    assert (state.windows[0].name, state.retry_after) == ("tokens_per_day", 5)


def test_limits_without_headers_are_the_figures():
    info = RateLimitInfo(remaining_requests=0, limit_requests=60, reset_at=9.0)
    [window] = from_agent_response(AgentResponse(content="Hi", rate_limit=info)).rate_limit.windows
    assert (window.name, window.limit, window.remaining, window.reset_at) == (
        "requests",
        60,
        0,
        9.0,
    )


@given(responses() | results())
def test_every_result_has_a_flat_form_that_can_be_taken_back(result):
    flat = to_agent_response(result)
    assert flat.success is result.success
    back = from_agent_response(flat)
    assert back.success is result.success
    assert back.content == result.content


def test_a_message_of_smolagents_that_does_not_say_why_it_stopped_counts_as_stop():
    message = Object(
        content="Hi",
        tool_calls=None,
        raw={"_response_headers": {"x-ratelimit-remaining-requests": "0"}},
        token_usage=Object(input_tokens=10, output_tokens=5, total_tokens=15),
    )
    flat = from_smolagents(message)
    assert (flat.content, flat.finish_reason) == ("Hi", FinishReason.STOP)
    assert flat.usage == UsageInfo(10, 5, 15)
    assert flat.rate_limit.is_limited()
    assert flat.raw_response is message.raw


def test_a_message_of_smolagents_with_calls_stopped_for_them():
    call = {"id": "c1", "function": {"name": "add", "arguments": "{}"}}
    flat = from_smolagents({"content": None, "tool_calls": [call]})
    assert flat.finish_reason is FinishReason.TOOL_USE
    assert flat.tool_calls == [ToolCall("c1", "", "add")]


def test_a_message_of_pi_has_the_cached_tokens_in_its_input():
    flat = from_pi_agent(
        {
            "content": [{"type": "text", "text": "Hi"}],
            "usage": {
                "input": 100,
                "output": 50,
                "cacheRead": 30,
                "cacheWrite": 20,
                "totalTokens": 200,
                "cost": {
                    "input": 0.1,
                    "output": 0.2,
                    "cacheRead": 0,
                    "cacheWrite": 0,
                    "total": 0.3,
                },
            },
            "stopReason": "toolUse",
        }
    )
    assert flat.usage == UsageInfo(150, 50, 200, 30, 20, CostInfo(0.1, 0.2, 0.0, 0.0, 0.3))
    assert flat.finish_reason is FinishReason.TOOL_USE


@pytest.mark.parametrize(("stop", "retryable"), [("error", True), ("aborted", False)])
def test_a_message_of_pi_names_its_error_by_why_it_stopped(stop, retryable):
    flat = from_pi_agent({"content": [], "stopReason": stop, "errorMessage": "it broke"})
    assert (flat.error.error_type, flat.error.message) == (stop, "it broke")
    assert flat.error.retryable is retryable
    assert flat.finish_reason == stop
