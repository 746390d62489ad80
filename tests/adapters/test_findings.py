"""What was found, and the result that it makes."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import adapters
from upshot.adapters.findings import Findings
from upshot.contract import (
    AgentError,
    Cost,
    Message,
    ModelResponse,
    PendingExternal,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    Usage,
    decode,
    encode,
)

ADAPTERS = [getattr(adapters, name) for name in adapters.__all__ if name.startswith("from_")]
NAMES = [
    *["role", "content", "parts", "part_kind", "kind", "tool_name", "tool_call_id", "outcome"],
    *["choices", "message", "messages", "usage", "input_tokens", "cost", "stopReason", "steps"],
    *["state", "new_items", "raw_item", "type", "output", "final_output", "raw_responses"],
    *["intermediate_messages", "tool_calls", "function", "name", "arguments", "timing", "error"],
]

KINDS = [
    *["response", "request", "tool-return", "tool-call", "text", "user", "assistant", "tool"],
    *["tool_call_item", "tool_call_output_item", "message_output_item", "toolResult", "error"],
]


def test_what_is_not_found_is_listed():
    result = Findings(raw=None).to_result()
    assert result.metadata["unknown"] == [
        "cost",
        "duration_ms",
        "finish_reason",
        "provider_data.model",
        "provider_data.provider",
        "provider_data.request_id",
        "rate_limit",
        "started_at",
        "usage",
        "usage.cache_read_tokens",
        "usage.cache_write_tokens",
        "usage.input_tokens",
        "usage.output_tokens",
        "usage.reasoning_tokens",
    ]


def test_what_is_found_is_not_listed():
    findings = Findings(raw=None, duration_ms=0)
    findings.add_reply(
        ModelResponse(
            content="Hi",
            usage=Usage(input_tokens=1, output_tokens=0),
            cost=Cost(total=0),
            finish_reason="stop",
            provider_data={"model": "m"},
        )
    )
    unknown = findings.to_result().metadata["unknown"]
    assert {"cost", "finish_reason", "usage", "usage.output_tokens"}.isdisjoint(unknown)
    assert {"duration_ms", "provider_data.model"}.isdisjoint(unknown)


def test_calls_are_added_up_and_the_last_one_tells_the_rest():
    findings = Findings(raw=None)
    for number, finish in ((1, "tool_use"), (2, "stop")):
        findings.add_reply(
            ModelResponse(
                content=f"{number}",
                usage=Usage(input_tokens=number, output_tokens=1, api_calls=1),
                cost=Cost(total=number),
                finish_reason=finish,
            )
        )
    result = findings.to_result()
    assert (result.usage.input_tokens, result.usage.api_calls, float(result.cost)) == (3, 2, 3.0)
    assert (result.content, result.output, result.finish_reason) == ("2", "2", "stop")


def test_an_error_that_was_overcome_is_none():
    findings = Findings(raw=None)
    findings.add_reply(ModelResponse(error=AgentError("rate_limit", "slow down")))
    findings.add_reply(ModelResponse(content="Hi"))
    assert findings.to_result().success


@pytest.mark.parametrize(("code", "status"), [("rate_limit", "failed"), ("canceled", "canceled")])
def test_the_status_follows_from_the_error(code, status):
    assert Findings(raw=None, error=AgentError(code, "x")).to_result().status == status


def test_what_is_pending_parks_the_run():
    result = Findings(raw=None, pending=[PendingExternal(id="c1")]).to_result()
    assert (result.status, result.error.code) == ("input_required", "input_required")


def test_every_outcome_has_a_record_with_what_the_model_asked_for():
    findings = Findings(raw=None)
    findings.messages.append(Message("assistant", tool_calls=[ToolCall("c1", "add", {"x": 1})]))
    findings.outcomes = [
        ToolExecutionResult("c1", "add"),
        ToolDenied("c2", "drop", reason="blocked"),
    ]
    result = findings.to_result()
    assert [record.outcome for record in result.tool_records] == list(result.tool_outcomes)
    assert result.tool_records[0].arguments_given == {"x": 1}
    assert result.tools_used == ("add",)
    assert "tool_outcomes.elapsed_ms" in result.metadata["unknown"]


def test_the_native_object_stays_in_the_process_and_what_was_seeded_does_not():
    raw = object()
    result = Findings(raw=raw, seeded=[Message("user", "Hello")]).to_result()
    assert result.raw is raw
    again = decode(encode(result))
    assert again.raw is None
    assert [message.text for message in again.all_messages()] == ["Hello"]


def json_like():
    leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    words = st.sampled_from(KINDS)
    return st.recursive(
        leaf | words,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
        ),
        max_leaves=20,
    )


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.__name__)
@given(native=json_like())
def test_no_shape_makes_an_adapter_raise(adapter, native):
    result = adapter(native)
    assert decode(encode(result)) == result


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.__name__)
@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (TimeoutError("too late"), "timeout"),
        (asyncio.CancelledError(), "canceled"),
        (ValueError("a bug"), "internal"),
        (ConnectionResetError("gone"), "server_error"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_exception_is_a_failure_with_a_code(adapter, exception, code):
    result = adapter(exception)
    assert (result.success, result.error.code) == (False, code)
    assert result.raw is exception
    assert "messages" in result.metadata["unknown"]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.__name__)
def test_limits_of_a_refused_call_come_from_the_headers_of_the_cause(adapter):
    cause = RuntimeError("Error code: 429 - slow down")
    cause.status_code = 429
    cause.headers = {"retry-after": "9", "x-ratelimit-remaining-requests": "0"}
    wrapped = RuntimeError("the agent failed")
    wrapped.__cause__ = cause
    result = adapter(wrapped)
    assert (result.error.code, result.error.retryable) == ("rate_limit", True)
    assert (result.rate_limit.limited, result.rate_limit.retry_after) == (True, 9)
    assert result.error.retry_after_s == 9
