"""Own objects of the OpenAI Agents SDK."""

import asyncio

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    Model,
    ModelResponse,
    Runner,
    Usage,
    function_tool,
    input_guardrail,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from upshot.adapters import from_openai_agents
from upshot.contract import ToolExecutionResult, ToolFailure


class Scripted(Model):
    """Gives the outputs that it is told to."""

    def __init__(self, *outputs):
        self.outputs = list(outputs)

    async def get_response(self, *args, **options):
        usage = Usage(
            requests=1,
            input_tokens=100,
            output_tokens=50,
            total_tokens=150,
            input_tokens_details=InputTokensDetails(cached_tokens=40, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=20),
        )
        output = self.outputs.pop(0)
        return ModelResponse(output=output, usage=usage, response_id="resp_1", request_id="req_1")

    def stream_response(self, *args, **options):
        raise NotImplementedError


@function_tool
def add(x: int, y: int) -> int:
    """Add two numbers."""
    if x < 0:
        raise ValueError("negative")
    return x + y


@function_tool(needs_approval=True)
def drop(name: str) -> str:
    """Drop a table."""
    return name


def said(text):
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=[part]
    )


def call(name="add", arguments='{"x": 1, "y": 2}', ident="c1"):
    return ResponseFunctionToolCall(
        call_id=ident, name=name, arguments=arguments, type="function_call"
    )


THOUGHT = ResponseReasoningItem(
    id="rs_1", type="reasoning", summary=[{"type": "summary_text", "text": "hm"}]
)


def run(*outputs, **options):
    fields = {name: options.pop(name) for name in ("input_guardrails",) if name in options}
    agent = Agent(name="adder", model=Scripted(*outputs), tools=[add, drop], **fields)
    return asyncio.run(Runner.run(agent, "Add", **options))


def test_a_run_is_read():
    result = from_openai_agents(run([THOUGHT, call()], [said("three")]))
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.messages[0].parts[0].text == "hm"
    assert (result.agent_id, result.provider_data["request_id"]) == ("adder", "req_1")
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": 3}


def test_usage_is_that_of_the_run():
    usage = from_openai_agents(run([call()], [said("three")])).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.total_tokens) == (200, 80, 300)
    assert (usage.reasoning_tokens, usage.api_calls) == (40, 2)


def test_a_tool_that_raised_is_a_failure():
    native = run([call(arguments='{"x": -1, "y": 2}')], [said("no")])
    [outcome] = from_openai_agents(native).tool_outcomes
    assert isinstance(outcome, ToolFailure)


def test_a_call_that_waits_for_approval_parks_the_run():
    result = from_openai_agents(run([call("drop", '{"name": "users"}')]))
    assert result.status == "input_required"
    [waits] = result.pending
    assert (waits.call_id, waits.tool_name, waits.arguments) == ("c1", "drop", {"name": "users"})


def test_a_spent_run_brings_what_it_did():
    with pytest.raises(MaxTurnsExceeded) as caught:
        run(*([call(ident=ident)] for ident in ("c1", "c2", "c3")), max_turns=2)
    result = from_openai_agents(caught.value)
    assert (result.error.code, len(result.tool_outcomes)) == ("max_turns", 2)
    assert result.usage.api_calls == 2


def test_a_guardrail_is_a_policy():
    @input_guardrail
    async def never(context, agent, given):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        run([said("Hi")], input_guardrails=[never])
    assert from_openai_agents(caught.value).error.code == "policy_denied"
