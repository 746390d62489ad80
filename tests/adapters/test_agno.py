"""Runs, messages and exceptions of Agno."""

from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_agno
from upshot.contract import PendingApproval, PendingExternal, ToolExecutionResult, ToolFailure

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}}
ASKED = {"role": "user", "content": "Add"}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
SAYS = {"role": "assistant", "content": "three", "provider_data": {"id": "r1"}}
GAVE = {"role": "tool", "content": "3", "tool_call_id": "c1", "tool_name": "add"}
COUNTS = {"input_tokens": 100, "output_tokens": 50, "cache_read_tokens": 0, "duration": 1.5}


def run(*messages, **fields):
    base = {
        "run_id": "run-1",
        "agent_name": "adder",
        "content": "three",
        "model": "gpt-5",
        "model_provider": "OpenAI",
        "messages": list(messages),
        "metrics": COUNTS,
        "created_at": 1_790_000_000,
        "status": "COMPLETED",
    }
    return Object(**{**base, **fields})


def test_a_run_is_read():
    result = from_agno(run(ASKED, ASKS, GAVE, SAYS))
    assert (result.status, result.content, result.run_id) == ("completed", "three", "run-1")
    assert [message.role for message in result.all_messages()] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert (result.provider_data["model"], result.duration_ms) == ("gpt-5", 1500)
    assert (result.usage.input_tokens, result.usage.api_calls) == (100, 2)
    assert isinstance(result.tool_outcomes[0], ToolExecutionResult)


def test_a_zero_of_what_was_cached_may_be_unknown():
    result = from_agno(run(SAYS))
    assert result.usage.cache_read_tokens is None
    assert "usage.cache_read_tokens" in result.metadata["unknown"]


def test_earlier_messages_are_not_of_the_run():
    earlier = {**SAYS, "content": "two", "from_history": True}
    result = from_agno(run(ASKED, earlier, ASKED, SAYS))
    assert [message.text for message in result.seeded] == ["Add", "two", "Add"]
    assert [message.text for message in result.messages] == ["three"]


@pytest.mark.parametrize(
    ("status", "content", "ends", "code"),
    [
        ("ERROR", "Rate limit reached.", "failed", "rate_limit"),
        ("CANCELLED", "Run 1 was cancelled", "canceled", "canceled"),
    ],
)
def test_the_text_of_an_error_is_no_answer(status, content, ends, code):
    result = from_agno(run(ASKED, status=status, content=content))
    assert (result.status, result.error.code, result.content) == (ends, code, None)
    assert result.error.message == content


def test_a_call_that_failed_says_so():
    result = from_agno(run(ASKS, {**GAVE, "content": "no", "tool_call_error": True}, SAYS))
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolFailure) and outcome.error == "no"


def test_how_long_a_tool_ran_stands_beside_the_messages():
    ran = Object(tool_call_id="c1", result="3", metrics=Object(duration=0.25))
    result = from_agno(run(ASKS, GAVE, SAYS, tools=[ran]))
    assert result.tool_outcomes[0].elapsed_ms == 250
    assert "tool_outcomes.elapsed_ms" not in result.metadata["unknown"]


@pytest.mark.parametrize(
    ("field", "waits"),
    [
        ("requires_confirmation", PendingApproval(call_id="c1", tool_name="add", arguments={})),
        ("external_execution_required", PendingExternal(id="c1", description="add")),
    ],
)
def test_a_paused_run_is_parked(field, waits):
    tool = Object(tool_call_id="c1", tool_name="add", **{field: True})
    result = from_agno(run(ASKED, ASKS, status="PAUSED", content=None, tools=[tool]))
    assert (result.status, result.pending) == ("input_required", (waits,))


def test_structured_output_is_the_output():
    assert from_agno(run(SAYS, content={"sum": 3})).output == {"sum": 3}
