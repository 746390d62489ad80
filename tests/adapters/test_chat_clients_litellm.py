"""LiteLLM's results and exceptions."""

from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_litellm
from upshot.contract import ToolCall


class RateLimitError(Exception):
    status_code = 429
    llm_provider = "openai"
    model = "gpt-5"
    litellm_response_headers = {"retry-after": "7"}


class BudgetExceededError(Exception):
    pass


class ContextWindowExceededError(Exception):
    status_code = 400


def response(**fields):
    message = Object(role="assistant", content="Hi", tool_calls=None)
    return Object(
        id="chatcmpl-1",
        model="gpt-5-2025",
        choices=[Object(index=0, finish_reason="stop", message=message)],
        usage=Object(prompt_tokens=10, completion_tokens=5, total_tokens=15),
        _hidden_params={
            "custom_llm_provider": "openai",
            "response_cost": 0.25,
            "additional_headers": {"llm_provider-x-ratelimit-remaining-requests": "9"},
        },
        _response_ms=812.4,
        **fields,
    )


def test_a_reply_is_a_completed_run():
    native = response()
    result = from_litellm(native)
    assert (result.status, result.content, result.output) == ("completed", "Hi", "Hi")
    assert (result.finish_reason, result.duration_ms) == ("stop", 812)
    assert result.messages[0].text == "Hi"
    assert result.raw is native


def test_tokens_money_and_limits_are_taken():
    result = from_litellm(response())
    assert (result.usage.total_tokens, result.usage.api_calls) == (15, 1)
    assert (float(result.cost), result.cost.estimated, result.cost.source) == (
        0.25,
        True,
        "litellm",
    )
    assert result.rate_limit.windows[0].remaining == 9
    assert result.provider_data["provider"] == "openai"
    assert result.provider_data["model"] == "gpt-5-2025"


def test_what_it_does_not_say_is_listed():
    result = from_litellm(response())
    assert result.usage.cache_read_tokens is None
    assert "usage.cache_read_tokens" in result.metadata["unknown"]
    assert "cost" not in result.metadata["unknown"]


def test_calls_are_in_the_message():
    native = response()
    native.choices[0].message = Object(
        content=None,
        tool_calls=[Object(id="c1", function=Object(name="add", arguments='{"x": 1}'))],
    )
    native.choices[0].finish_reason = "tool_calls"
    result = from_litellm(native)
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", '{"x": 1}'),)
    assert (result.content, result.finish_reason) == (None, "tool_use")


def test_a_refused_call_is_a_value():
    result = from_litellm(RateLimitError("litellm.RateLimitError: slow down"))
    assert (result.status, result.error.code, result.error.status_code) == (
        "failed",
        "rate_limit",
        429,
    )
    assert (result.error.retryable, result.rate_limit.retry_after) == (True, 7)
    assert result.provider_data["provider"] == "openai"
    assert result.provider_data["model"] == "gpt-5"


@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (BudgetExceededError("Budget has been exceeded"), "budget_exceeded"),
        (ContextWindowExceededError("too long"), "context_length"),
    ],
)
def test_its_own_exceptions_have_codes(exception, code):
    error = from_litellm(exception).error
    assert (error.code, error.retryable) == (code, False)
