"""Results and exceptions of the OpenAI Agents SDK."""

from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_openai_agents
from upshot.contract import (
    PendingApproval,
    Reasoning,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
)


class AgentsException(Exception):
    run_data = None


class MaxTurnsExceeded(AgentsException):
    pass


class InputGuardrailTripwireTriggered(AgentsException):
    pass


def asked(name="add", ident="c1", arguments='{"x": 1}'):
    raw = Object(type="function_call", call_id=ident, name=name, arguments=arguments)
    return Object(type="tool_call_item", raw_item=raw)


def gave(output, ident="c1"):
    raw = {"type": "function_call_output", "call_id": ident, "output": str(output)}
    return Object(type="tool_call_output_item", raw_item=raw, output=output)


def said(text):
    raw = Object(type="message", content=[Object(type="output_text", text=text)])
    return Object(type="message_output_item", raw_item=raw)


def thought(text):
    raw = Object(id="rs_1", summary=[Object(text=text)], encrypted_content="opaque")
    return Object(type="reasoning_item", raw_item=raw)


def usage(**fields):
    base = {
        "requests": 2,
        "input_tokens": 100,
        "output_tokens": 50,
        "total_tokens": 150,
        "input_tokens_details": Object(cached_tokens=40, cache_write_tokens=0),
        "output_tokens_details": Object(reasoning_tokens=20),
    }
    return Object(**{**base, **fields})


def run(*items, output="three", **fields):
    base = {
        "input": "Add",
        "new_items": list(items),
        "raw_responses": [Object(response_id="resp_1", request_id="req_1")],
        "final_output": output,
        "context_wrapper": Object(usage=usage()),
        "last_agent": Object(name="adder", model="gpt-5"),
        "interruptions": [],
    }
    return Object(**{**base, **fields})


def test_a_run_is_read():
    native = run(asked(), gave(3), said("three"))
    result = from_openai_agents(native)
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert [message.text for message in result.all_messages()] == ["Add", "", "3", "three"]
    assert result.raw is native


def test_the_items_of_one_reply_are_one_message():
    [first, *_] = from_openai_agents(
        run(thought("hm"), asked(), asked("mul", "c2"), gave(3), gave(9, "c2"))
    ).messages
    assert first.tool_calls == (
        ToolCall("c1", "add", '{"x": 1}'),
        ToolCall("c2", "mul", '{"x": 1}'),
    )
    assert first.parts[0] == Reasoning(text="hm", signature="opaque", provider="openai", id="rs_1")


def test_usage_ids_and_names_are_taken():
    result = from_openai_agents(run(said("three")))
    assert (result.usage.input_tokens, result.usage.cache_read_tokens) == (100, 40)
    assert (result.usage.reasoning_tokens, result.usage.api_calls) == (20, 2)
    assert (result.agent_id, result.provider_data["model"]) == ("adder", "gpt-5")
    assert result.provider_data["request_id"] == "req_1"


def test_what_it_does_not_say_is_listed():
    unknown = from_openai_agents(run(said("three"))).metadata["unknown"]
    assert {"cost", "finish_reason", "rate_limit", "duration_ms"}.issubset(unknown)


def test_a_usage_of_zeros_is_unknown():
    wrapper = Object(usage=usage(input_tokens=0, output_tokens=0, total_tokens=0))
    assert not from_openai_agents(run(said("three"), context_wrapper=wrapper)).usage


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (3, ToolExecutionResult),
        ("An error occurred while running the tool. Please try again.", ToolFailure),
        ("Tool execution was not approved.", ToolDenied),
    ],
)
def test_what_came_of_a_call_is_an_outcome(output, kind):
    [outcome] = from_openai_agents(run(asked(), gave(output), said("a"))).tool_outcomes
    assert isinstance(outcome, kind)
    assert (outcome.call_id, outcome.tool_name) == ("c1", "add")


def test_a_tool_that_the_provider_hosts_is_named_by_its_type():
    raw = Object(type="web_search_call", id="ws_1", status="completed")
    result = from_openai_agents(run(Object(type="tool_call_item", raw_item=raw), said("a")))
    assert result.messages[0].tool_calls == (ToolCall("ws_1", "web_search_call", {}),)


def test_structured_output_is_the_output():
    result = from_openai_agents(run(said('{"sum":3}'), output={"sum": 3}))
    assert (result.output, result.content) == ({"sum": 3}, '{"sum":3}')


def test_approvals_park_the_run():
    item = Object(raw_item=asked().raw_item, tool_name="add", type="tool_approval_item")
    result = from_openai_agents(run(asked(), output=None, interruptions=[item]))
    assert result.status == "input_required"
    assert result.pending == (PendingApproval(call_id="c1", tool_name="add", arguments={"x": 1}),)


def test_what_a_run_began_with_may_be_a_list():
    given = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Add"}]
    result = from_openai_agents(run(said("three"), input=given))
    assert [message.role for message in result.all_messages()] == ["system", "user", "assistant"]


def test_a_spent_run_brings_what_it_did():
    error = MaxTurnsExceeded("Max turns (2) exceeded")
    error.run_data = run(asked(), gave(3))
    result = from_openai_agents(error)
    assert (result.status, result.error.code, result.error.origin) == (
        "failed",
        "max_turns",
        "limit",
    )
    assert (len(result.tool_outcomes), result.usage.total_tokens) == (1, 150)
    assert "messages" not in result.metadata["unknown"]


def test_a_guardrail_is_a_policy():
    error = from_openai_agents(InputGuardrailTripwireTriggered("no")).error
    assert (error.code, error.retryable) == ("policy_denied", False)
