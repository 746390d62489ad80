"""Events and exceptions of the Agent Development Kit."""

import pytest

from upshot.adapters import from_adk
from upshot.contract import PendingApproval, PendingExternal, ToolCall, ToolFailure

COUNTS = {
    "prompt_token_count": 100,
    "candidates_token_count": 50,
    "thoughts_token_count": 20,
    "total_token_count": 150,
}


def event(*parts, author="desk", reason="STOP", **fields):
    base = {"author": author, "content": {"parts": list(parts)}, "invocation_id": "e1"}
    if author == "desk":
        base |= {"finish_reason": reason, "usage_metadata": COUNTS, "model_version": "gemini-3"}
    return {**base, **fields}


ASKS = event({"function_call": {"id": "c1", "name": "add", "args": {"x": 1}}})
SAYS = event({"text": "three"})


def gave(**response):
    return event(
        {"function_response": {"id": "c1", "name": "add", "response": response}}, author="tool"
    )


def test_a_run_is_read():
    asked = event({"text": "Add"}, author="user")
    partial = event({"text": "thr"}, partial=True)
    result = from_adk([asked, ASKS, gave(result=3), partial, SAYS])
    assert (result.status, result.content, result.finish_reason) == ("completed", "three", "stop")
    assert [message.role for message in result.all_messages()] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert (result.usage.input_tokens, result.usage.api_calls) == (200, 2)
    assert (result.run_id, result.agent_id) == ("e1", "desk")
    assert result.tool_outcomes[0].output == {"result": 3}


def test_a_reply_with_calls_has_not_stopped():
    result = from_adk([ASKS])
    assert result.finish_reason == "tool_use"
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", {"x": 1}),)


@pytest.mark.parametrize(("total", "made"), [(150, 50), (170, 70)], ids=["included", "beside"])
def test_the_output_includes_reasoning(total, made):
    counts = {**COUNTS, "total_token_count": total}
    usage = from_adk(event({"text": "three"}, usage_metadata=counts)).usage
    assert (usage.output_tokens, usage.reasoning_tokens) == (made, 20)


def test_a_reply_at_its_limit_is_no_error():
    native = event({"text": "thr"}, reason="MAX_TOKENS", error_code="MAX_TOKENS")
    result = from_adk(native)
    assert (result.status, result.content, result.finish_reason) == ("completed", "thr", "length")


@pytest.mark.parametrize(
    ("code", "reason", "means"),
    [
        ("MODEL_RETURNED_NO_CONTENT", "STOP", "empty_reply"),
        ("SAFETY", "SAFETY", "content_filter"),
    ],
)
def test_an_error_in_an_event_fails_the_run(code, reason, means):
    result = from_adk([event(reason=reason, error_code=code, error_message="no")])
    assert (result.status, result.error.code, result.error.type) == ("failed", means, code)


def test_an_error_of_a_tool_is_a_failure():
    [outcome] = from_adk([ASKS, gave(error="no"), SAYS]).tool_outcomes
    assert isinstance(outcome, ToolFailure) and outcome.error == "no"


def test_a_confirmation_parks_the_run():
    made_up = event({"function_call": {"id": "x", "name": "adk_request_confirmation", "args": {}}})
    actions = {"requested_tool_confirmations": {"c1": {"hint": "sure?"}}}
    result = from_adk([ASKS, made_up, event(author="tool", actions=actions)])
    waits = PendingApproval(call_id="c1", tool_name="add", arguments={"x": 1})
    assert (result.status, result.pending) == ("input_required", (waits,))
    assert len(result.messages) == 1


def test_a_long_running_tool_parks_the_run():
    result = from_adk([{**ASKS, "long_running_tool_ids": {"c1"}}])
    assert result.pending == (PendingExternal(id="c1", description="add"),)
