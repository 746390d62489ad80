"""A pi-agent AssistantMessage as a reply."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import ErrorCode, FinishReason, ToolCall
from upshot.native.framework_messages import read_pi_message

USAGE = {
    "input": 100,
    "output": 50,
    "cacheRead": 30,
    "cacheWrite": 20,
    "totalTokens": 200,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.01, "cacheWrite": 0.02, "total": 0.33},
}
ZEROS = {
    **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
    "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
}


def message(**fields):
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": "Hi"}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": USAGE,
        "stopReason": "stop",
        "timestamp": 1_760_000_000_000,
        **fields,
    }


def test_cached_tokens_become_part_of_the_input():
    found = read_pi_message(message()).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (150, 50, 200)
    assert (found.cache_read_tokens, found.cache_write_tokens) == (30, 20)


def test_google_counts_cached_tokens_in_the_input_already():
    usage = {**USAGE, "cacheWrite": 0, "totalTokens": 150}
    found = read_pi_message(message(api="google-generative-ai", usage=usage)).usage
    assert (found.input_tokens, found.total_tokens, found.cache_read_tokens) == (100, 150, 30)


def test_cost_is_taken_by_its_parts():
    found = read_pi_message(message()).cost
    assert (found.input, found.cache_read, found.total) == (
        Decimal("0.1"),
        Decimal("0.01"),
        Decimal("0.33"),
    )
    assert found.source == "pi-agent"


def test_a_cost_of_zero_is_unknown():
    assert read_pi_message(message(usage={**USAGE, "cost": ZEROS["cost"]})).cost is None


def test_a_usage_of_zeros_is_unknown():
    found = read_pi_message(message(usage=ZEROS))
    assert not found.usage
    assert found.cost is None


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("toolUse", FinishReason.TOOL_USE),
        ("error", FinishReason.ERROR),
        ("aborted", FinishReason.ABORTED),
    ],
)
def test_stop_reasons_are_finish_reasons(stop, reason):
    found = read_pi_message(message(stopReason=stop))
    assert found.finish_reason is reason
    assert found.provider_data["finish_raw"] == stop


def test_aborted_is_canceled_and_not_retryable():
    error = read_pi_message(message(stopReason="aborted", errorMessage="Request aborted")).error
    assert (error.code, error.type, error.retryable) == (ErrorCode.CANCELED, "aborted", False)
    assert error.message == "Request aborted"


@pytest.mark.parametrize(
    ("text", "code", "status", "retryable"),
    [
        (
            '429 {"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',
            ErrorCode.RATE_LIMIT,
            429,
            True,
        ),
        ("401 invalid x-api-key", ErrorCode.AUTH_ERROR, 401, False),
        ("prompt is too long: 210000 tokens", ErrorCode.CONTEXT_LENGTH, None, False),
        ("Connection error.", ErrorCode.SERVER_ERROR, None, True),
        ("", ErrorCode.SERVER_ERROR, None, True),
    ],
)
def test_an_error_is_classified_by_its_text(text, code, status, retryable):
    error = read_pi_message(message(stopReason="error", errorMessage=text)).error
    assert (error.code, error.status_code, error.retryable) == (code, status, retryable)


def test_thoughts_and_calls_are_read():
    found = read_pi_message(
        message(
            content=[
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                {"type": "text", "text": "a"},
                {"type": "toolCall", "id": "c1", "name": "add", "arguments": {"x": 1}},
                {"type": "text", "text": "b"},
            ],
            stopReason="toolUse",
        )
    )
    assert found.content == "ab"
    assert found.tool_calls == (ToolCall("c1", "add", {"x": 1}),)
    assert (found.reasoning[0].text, found.reasoning[0].signature) == ("hm", "sig")


JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "usage", "input", "cost", "stopReason", "errorMessage"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_shape_makes_it_raise(native):
    read_pi_message(native)
