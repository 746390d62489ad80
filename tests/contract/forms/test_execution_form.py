"""The execution result, a view for applications."""

import json
from datetime import UTC, datetime

import jsonschema_rs
import pytest
from hypothesis import given

from tests.contract.strategies import results
from upshot.contract import (
    AgentError,
    AgentResult,
    Cost,
    Message,
    PendingApproval,
    RunWarning,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    Usage,
    decode,
    decode_execution_result,
    encode,
    execution_result_schema,
    to_execution_result,
)
from upshot.errors import Misuse
from upshot.native.returned import coerce_result

START = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
FITS = jsonschema_rs.validator_for(execution_result_schema())


def failed(code="rate_limit", *, status="failed", **fields):
    return AgentResult(status=status, error=AgentError(code, "slow down"), **fields)


def test_a_success_has_its_text_and_no_error():
    view = to_execution_result(AgentResult(output="Hi", content="Hi"))
    assert (view["content"], view["success"]) == ("Hi", True)
    assert "error" not in view


def test_structured_output_is_compact_json():
    view = to_execution_result(AgentResult(output={"a": [1, "ü"]}, content="Here it is"))
    assert view["content"] == '{"a":[1,"ü"]}'


def test_a_success_without_words_has_null_content():
    assert to_execution_result(AgentResult())["content"] is None


def test_a_failure_says_its_code_and_keeps_what_came_before():
    view = to_execution_result(failed(content="So far"))
    assert (view["content"], view["success"]) == (None, False)
    assert view["error"] == "rate_limit: slow down"
    assert view["metadata"]["partialContent"] == "So far"
    assert view["metadata"]["status"] == "failed"


def test_a_parked_run_says_what_it_waits_for():
    parked = failed("other", status="input_required", pending=(PendingApproval(call_id="c1"),))
    view = to_execution_result(parked)
    assert view["error"].startswith("input_required")
    assert view["metadata"]["status"] == "input_required"
    assert view["metadata"]["pending"][0]["call_id"] == "c1"


def test_the_whole_conversation_is_shown():
    seeded = (Message("user", "Hello"),)
    result = AgentResult(messages=[Message("assistant", "Hi")], seeded=seeded)
    view = to_execution_result(result)
    assert [message["role"] for message in view["messages"]] == ["user", "assistant"]


def test_tools_are_named_once_in_order_and_denied_ones_are_not():
    outcomes = (
        ToolExecutionResult("1", "b"),
        ToolDenied("2", "c", reason="blocked"),
        ToolFailure("3", "a", error="x"),
        ToolExecutionResult("4", "b"),
    )
    assert to_execution_result(AgentResult(tool_outcomes=outcomes))["toolsUsed"] == ["b", "a"]


def test_a_run_without_tools_has_no_such_key():
    assert "toolsUsed" not in to_execution_result(AgentResult())


def test_times_are_to_the_millisecond_and_the_end_is_the_start_and_the_duration():
    metadata = to_execution_result(AgentResult(started_at=START, duration_ms=2_345))["metadata"]
    assert metadata["executionTime"] == 2_345
    assert metadata["startTime"] == "2026-03-01T12:00:00.123Z"
    assert metadata["endTime"] == "2026-03-01T12:00:02.468Z"


def test_what_is_unknown_is_not_there():
    assert to_execution_result(AgentResult())["metadata"] == {"executionTime": 0}


def test_tokens_money_and_model_are_told():
    result = AgentResult(
        usage=Usage(input_tokens=10, output_tokens=5),
        cost=Cost(total="0.25"),
        finish_reason="stop",
        provider_data={"model": "gpt-5", "provider": "openai"},
        run_id="run-1",
        agent_id="support",
    )
    assert to_execution_result(result)["metadata"] == {
        "executionTime": 0,
        "tokensUsed": 15,
        "cost": 0.25,
        "model": "gpt-5",
        "provider": "openai",
        "finishReason": "stop",
        "runId": "run-1",
        "agentId": "support",
    }


def test_warnings_are_listed():
    result = AgentResult(warnings=(RunWarning(code="observer_failed", message="it raised"),))
    warnings = to_execution_result(result)["metadata"]["warnings"]
    assert warnings == [{"code": "observer_failed", "message": "it raised", "origin": "host"}]


@given(results())
def test_every_result_has_a_view_that_fits_its_schema_and_comes_back_equal(result):
    view = to_execution_result(result)
    FITS.validate(view)
    text = json.dumps(view)
    assert json.loads(text) == view
    assert decode_execution_result(text) == view


@given(results())
def test_the_view_of_a_result_that_was_read_back_has_the_same_messages(result):
    view = to_execution_result(result)
    assert to_execution_result(decode(encode(result))) == view
    assert to_execution_result(coerce_result(view))["messages"] == view["messages"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"content": 1, "messages": [], "metadata": {}, "success": true}']
)
def test_what_is_no_view_is_misuse(text):
    with pytest.raises(Misuse):
        decode_execution_result(text)


def test_what_it_tells_of_tools_requests_and_metadata_comes_back() -> None:
    view = {
        "content": "Hi.",
        "messages": [],
        "toolsUsed": ["look", "put"],
        "metadata": {"executionTime": 3, "requestId": "q1", "tenant": {"id": 7}},
        "success": True,
    }
    result = coerce_result(view)
    assert (result.metadata["tenant"], result.provider_data["request_id"]) == ({"id": 7}, "q1")
    assert to_execution_result(result) == view
    assert decode_execution_result(json.dumps(view)) == view


def test_a_success_without_metadata_is_no_data() -> None:
    result = coerce_result({"content": "Hi.", "messages": [], "success": True})
    assert (result.content, result.output) == ("Hi.", "Hi.")
