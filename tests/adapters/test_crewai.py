"""Outputs and exceptions of CrewAI."""

import pytest

from upshot.adapters import from_crewai
from upshot.contract import ToolExecutionResult, ToolFailure


def asks(x, ident):
    call = {"id": ident, "function": {"name": "add", "arguments": f'{{"x": {x}}}'}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def gave(text, ident):
    return {"role": "tool", "name": "add", "content": text, "tool_call_id": ident}


ASKED = {"role": "user", "content": "Add"}
SAYS = {"role": "assistant", "content": "three"}
COUNTS = {"prompt_tokens": 100, "completion_tokens": 50, "successful_requests": 2}


def failure(x):
    why = {"message": "negative", "code": "ValueError"}
    return {"tool_name": "add", "tool_args": {"x": x}, "failure": why}


def crew(*messages, failures=(), **fields):
    task = {"agent": "clerk", "messages": list(messages), "tool_failures": list(failures)}
    return {"raw": "three", "tasks_output": [task], "token_usage": COUNTS, **fields}


def test_a_crew_is_read():
    result = from_crewai(crew(ASKED, asks(1, "c1"), gave("3", "c1"), SAYS))
    assert (result.status, result.content, result.agent_id) == ("completed", "three", "clerk")
    assert [message.role for message in result.all_messages()] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert (result.usage.input_tokens, result.usage.api_calls) == (100, 2)
    assert {"finish_reason", "provider_data.model"} <= set(result.metadata["unknown"])


def test_the_call_that_failed_is_found_by_its_arguments():
    messages = asks(1, "c1"), gave("3", "c1"), asks(-1, "c2"), gave("Error: no", "c2"), SAYS
    first, second = from_crewai(crew(*messages, failures=[failure(-1)])).tool_outcomes
    assert isinstance(first, ToolExecutionResult)
    assert isinstance(second, ToolFailure)
    assert (second.call_id, second.error) == ("c2", "negative")


def test_a_kickoff_of_one_agent_is_read():
    native = {"raw": "three", "agent_role": "clerk", "messages": [ASKED, SAYS]}
    result = from_crewai({**native, "usage_metrics": COUNTS})
    assert (result.content, result.agent_id) == ("three", "clerk")
    assert result.usage.output_tokens == 50


def test_structured_output_is_the_output():
    assert from_crewai(crew(SAYS, json_dict={"sum": 3})).output == {"sum": 3}


@pytest.mark.parametrize(
    ("text", "code"),
    [("Invalid response from LLM call - None or empty.", "empty_reply"), ("odd", "internal")],
)
def test_an_empty_reply_is_known_by_the_text_of_its_exception(text, code):
    assert from_crewai(ValueError(text)).error.code == code
