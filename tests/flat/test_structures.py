"""The flat metrics structures."""

import dataclasses

import pytest

from upshot.flat import (
    AgentResponse,
    CostInfo,
    ErrorInfo,
    FinishReason,
    RateLimitInfo,
    ToolCall,
    UsageInfo,
)


def test_what_is_not_known_is_zero():
    assert dataclasses.astuple(CostInfo()) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert dataclasses.astuple(UsageInfo()) == (0, 0, 0, 0, 0, None)


def test_a_response_starts_empty_and_is_a_success():
    response = AgentResponse()
    assert all(value is None for value in vars(response).values())
    assert response.success


def test_an_error_makes_it_no_success():
    assert not AgentResponse(error=ErrorInfo("RateLimitError", "slow down", 429, True)).success


def test_the_estimated_cost_is_the_total_or_zero():
    assert UsageInfo().estimated_cost == 0.0
    assert UsageInfo(cost=CostInfo(total=0.5)).estimated_cost == 0.5


def test_an_error_needs_only_its_type_and_message():
    error = ErrorInfo(error_type="TimeoutError", message="too late")
    assert (error.status_code, error.retryable) == (None, False)


def test_a_call_is_known_by_tool_and_by_name():
    call = ToolCall("c1", "files", "read", {"path": "a"})
    assert (call.id, call.server, call.tool, call.name) == ("c1", "files", "read", "read")
    assert ToolCall("c2", tool="read").arguments == {}


def test_structures_can_be_assigned_to_and_taken_apart():
    response = AgentResponse(content="Hi", usage=UsageInfo())
    response.output = {"a": 1}
    response.usage.total_tokens = 3
    assert dataclasses.asdict(response)["usage"]["total_tokens"] == 3


@pytest.mark.parametrize(
    "word", ["stop", "length", "tool_use", "error", "aborted", "content_filter"]
)
def test_finish_reasons_equal_their_words(word):
    assert FinishReason(word) == word
    assert FinishReason[word.upper()] is FinishReason(word)


def test_a_limit_is_reached_at_zero():
    assert not RateLimitInfo().is_limited()
    assert RateLimitInfo(remaining_tokens=0).is_limited()


@pytest.mark.parametrize(
    ("info", "delay"),
    [
        (RateLimitInfo(), None),
        (RateLimitInfo(retry_after=7, reset_at=5_000.0), 7),
        (RateLimitInfo(reset_at=1_000.2), 1),
        (RateLimitInfo(reset_at=900.0), 0),
    ],
)
def test_the_delay_is_what_was_said_else_until_the_reset(info, delay):
    assert info.get_retry_delay(now=1_000.0) == delay
