"""AISuite's results and exceptions."""

from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_aisuite
from upshot.contract import ToolDenied, ToolExecutionResult


class LLMError(Exception):
    pass


def call(ident="c1", name="add"):
    return Object(id=ident, type="function", function=Object(name=name, arguments='{"x": 1}'))


def reply(content="Hi", *, finish="stop", tool_calls=None, usage=None):
    message = Object(role="assistant", content=content, tool_calls=tool_calls, refusal=None)
    choice = Object(finish_reason=finish, message=message, intermediate_messages=[])
    return Object(choices=[choice], usage=usage)


def tokens(prompt, completion, *, cached=None):
    details = None if cached is None else Object(cached_tokens=cached, audio_tokens=None)
    return Object(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=details,
        completion_tokens_details=None,
    )


def with_tools(*, events=()):
    first = reply(None, finish="tool_calls", tool_calls=[call()], usage=tokens(10, 5))
    last = reply("three", usage=tokens(20, 2))
    last.choices[0].intermediate_messages = [
        first.choices[0].message,
        {"role": "tool", "name": "add", "content": "3", "tool_call_id": "c1"},
        last.choices[0].message,
    ]
    last.intermediate_responses = [first]
    last.tool_events = list(events)
    return last


def test_a_reply_is_a_completed_run():
    result = from_aisuite(reply(usage=tokens(10, 5)))
    assert (result.content, result.finish_reason, result.usage.total_tokens) == ("Hi", "stop", 15)


def test_neither_cost_nor_cached_tokens_are_guessed():
    result = from_aisuite(reply(usage=tokens(10, 5)))
    assert (result.cost, result.usage.cache_read_tokens) == (None, None)
    assert {
        "cost",
        "usage.cache_read_tokens",
        "provider_data.provider",
        "provider_data.model",
        "rate_limit",
    }.issubset(result.metadata["unknown"])


@pytest.mark.parametrize(("prompt", "cached", "taken"), [(10, 2_000, None), (2_000, 1_500, 2_000)])
def test_cached_tokens_are_part_of_the_input_or_it_is_unknown(prompt, cached, taken):
    usage = from_aisuite(reply(usage=tokens(prompt, 5, cached=cached))).usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (taken, cached)


def test_turns_with_tools_become_messages_and_outcomes():
    result = from_aisuite(with_tools())
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.tools_used == ("add",)
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": 3}


def test_usage_is_that_of_all_turns():
    usage = from_aisuite(with_tools()).usage
    assert (usage.input_tokens, usage.output_tokens, usage.api_calls) == (30, 7, 2)


def test_a_call_that_its_policy_refused_is_denied():
    event = {"type": "tool_call", "tool_call_id": "c1", "allowed": False, "reason": "not today"}
    [outcome] = from_aisuite(with_tools(events=[event])).tool_outcomes
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, outcome.details) == ("policy", "not today")


def run_of_an_agent(**fields):
    last = with_tools()
    base = {
        "final_output": "three",
        "status": "completed",
        "last_agent": Object(name="adder", model="openai:gpt-5"),
        "new_items": last.choices[0].intermediate_messages,
        "raw_responses": [*last.intermediate_responses, reply("three", usage=tokens(20, 2))],
        "trace_id": "trace_1",
        "steps": [
            Object(
                type="agent",
                started_at="2026-01-01T00:00:00+00:00",
                ended_at="2026-01-01T00:00:01.500000+00:00",
                data={},
            )
        ],
    }
    return Object(**{**base, **fields})


def test_a_run_of_its_agents_is_read():
    result = from_aisuite(run_of_an_agent())
    assert (result.content, result.output, result.tools_used) == ("three", "three", ("add",))
    assert (result.run_id, result.agent_id, result.duration_ms) == ("trace_1", "adder", 1_500)
    assert result.provider_data["provider"] == "openai"
    assert result.usage.api_calls == 2


@pytest.mark.parametrize(
    ("status", "code", "mine"),
    [
        ("max_turns_exceeded", "max_turns", "failed"),
        ("requires_input", "input_required", "input_required"),
        ("failed", "internal", "failed"),
    ],
)
def test_a_run_that_did_not_complete_says_so(status, code, mine):
    result = from_aisuite(run_of_an_agent(status=status))
    assert (result.status, result.error.code) == (mine, code)


def test_an_exception_is_classified_by_its_text():
    error = from_aisuite(LLMError("An error occurred: Error code: 429 - rate limit")).error
    assert (error.code, error.retryable) == ("rate_limit", True)
