"""LiteLLM's own objects."""

import httpx
import litellm
import pytest
from litellm.types.utils import Choices, Message, ModelResponse, Usage

from upshot.adapters import from_litellm
from upshot.contract import ToolCall
from upshot.flat import extract_headers_from_response
from upshot.native.completion import read_completion

HEADERS = {"x-ratelimit-remaining-requests": "9", "x-request-id": "req_1"}


def reply(message=None, *, finish="stop", usage=None, **fields):
    native = ModelResponse(
        id="chatcmpl-1",
        model="gpt-5-2025",
        choices=[Choices(finish_reason=finish, message=message or Message(content="Hi"))],
        usage=usage or Usage(prompt_tokens=10, completion_tokens=5, total_tokens=15),
        **fields,
    )
    native._hidden_params = {"custom_llm_provider": "openai", "response_cost": 0.25}
    native._response_headers = HEADERS
    return native


def refusal(status, text="slow down"):
    request = httpx.Request("POST", "https://api.openai.com/v1/chat/completions")
    headers = {"retry-after": "7", "x-ratelimit-remaining-requests": "0"}
    return httpx.Response(status, headers=headers, request=request, text=text)


def test_a_reply_is_read():
    result = from_litellm(reply())
    assert (result.content, result.finish_reason, result.usage.total_tokens) == ("Hi", "stop", 15)
    assert (float(result.cost), result.provider_data["provider"]) == (0.25, "openai")
    assert result.provider_data["request_id"] == "req_1"
    assert result.rate_limit.windows[0].remaining == 9
    assert extract_headers_from_response(reply()) == HEADERS


def test_its_own_mock_is_read():
    native = litellm.completion(
        model="gpt-4o", messages=[{"role": "user", "content": "Hello"}], mock_response="Hi there"
    )
    result = from_litellm(native)
    assert (result.content, result.finish_reason) == ("Hi there", "stop")
    assert result.usage.total_tokens == native.usage.total_tokens


def test_calls_are_read():
    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    result = from_litellm(reply(Message(content=None, tool_calls=calls), finish="tool_calls"))
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", "{}"),)
    assert result.finish_reason == "tool_use"


def test_cached_tokens_of_anthropic_are_in_the_input_already():
    usage = litellm.AnthropicConfig().calculate_usage(
        usage_object={
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
        },
        reasoning_content=None,
    )
    found = from_litellm(reply(usage=usage)).usage
    assert (found.input_tokens, found.cache_read_tokens, found.cache_write_tokens) == (130, 100, 20)
    assert found.total_tokens == 135


def test_thoughts_are_read_with_their_signatures():
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    message = Message(content="Hi", reasoning_content="hm", thinking_blocks=blocks)
    [thought] = read_completion(reply(message)).reasoning
    assert (thought.text, thought.signature) == ("hm", "sig")


@pytest.mark.parametrize(
    ("kind", "status", "code", "retryable"),
    [
        (litellm.RateLimitError, 429, "rate_limit", True),
        (litellm.InternalServerError, 500, "server_error", True),
        (litellm.ServiceUnavailableError, 503, "server_error", True),
        (litellm.AuthenticationError, 401, "auth_error", False),
        (litellm.NotFoundError, 404, "invalid_request", False),
        (litellm.ContextWindowExceededError, 400, "context_length", False),
        (litellm.ContentPolicyViolationError, 400, "content_filter", False),
        (litellm.BadRequestError, 400, "invalid_request", False),
    ],
)
def test_its_exceptions_are_classified(kind, status, code, retryable):
    made = kind(message="it failed", llm_provider="openai", model="gpt-5", response=refusal(status))
    result = from_litellm(made)
    assert (result.error.code, result.error.retryable) == (code, retryable)
    assert result.provider_data["provider"] == "openai"


def test_limits_come_from_the_headers_of_the_exception():
    made = litellm.RateLimitError(
        message="slow down", llm_provider="openai", model="gpt-5", response=refusal(429)
    )
    state = from_litellm(made).rate_limit
    assert (state.limited, state.retry_after) == (True, 7)


def test_a_timeout_and_a_lost_connection_may_be_tried_again():
    late = litellm.Timeout(message="too late", model="gpt-5", llm_provider="openai")
    lost = litellm.APIConnectionError(message="gone", model="gpt-5", llm_provider="openai")
    assert from_litellm(late).error.code == "timeout"
    assert from_litellm(lost).error.code == "server_error"
    assert from_litellm(late).error.retryable
    assert from_litellm(lost).error.retryable


def test_a_spent_budget_is_one():
    made = litellm.BudgetExceededError(current_cost=2.0, max_budget=1.0)
    assert from_litellm(made).error.code == "budget_exceeded"
