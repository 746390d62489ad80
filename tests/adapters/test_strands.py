"""Results, messages and exceptions of Strands Agents."""

from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_strands
from upshot.contract import PendingQuestion, Reasoning, ToolCall, ToolExecutionResult, ToolFailure


class MaxTokensReachedException(Exception):
    pass


class EventLoopException(Exception):
    original_exception = MaxTokensReachedException("too long")


ASKS = {
    "role": "assistant",
    "content": [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"x": 1}}},
    ],
}
SAYS = {"role": "assistant", "content": [{"text": "three"}]}


def gave(*content, status="success"):
    result = {"toolUseId": "c1", "status": status, "content": list(content)}
    return {"role": "user", "content": [{"toolResult": result}]}


def trace(message, *, start=100.0, end=101.5):
    return Object(message=message, start_time=start, end_time=end, children=[])


def usage(**fields):
    return {"inputTokens": 100, "outputTokens": 50, "totalTokens": 150, **fields}


def run(*messages, reason="end_turn", counts=None, **fields):
    cycle = Object(message=None, start_time=100.0, end_time=103.0)
    cycle.children = [trace(message) for message in messages]
    spent = Object(usage=counts or usage(), cycles=[1])
    metrics = Object(traces=[cycle], agent_invocations=[spent])
    base = {"stop_reason": reason, "message": messages[-1], "metrics": metrics}
    return Object(**{**base, **fields})


def test_the_messages_are_those_of_the_traces():
    result = from_strands(run(ASKS, gave({"text": "3"}), SAYS))
    assert (result.status, result.content, result.finish_reason) == ("completed", "three", "stop")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.messages[0].parts[0] == Reasoning(text="hm", signature="s")
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", {"x": 1}),)
    assert result.duration_ms == 3000


def test_a_call_has_its_outcome_and_its_time():
    [outcome] = from_strands(run(ASKS, gave({"json": {"sum": 3}}), SAYS)).tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert (outcome.output, outcome.tool_name, outcome.elapsed_ms) == ({"sum": 3}, "add", 1500)
    [failed] = from_strands(run(ASKS, gave({"text": "no"}, status="error"), SAYS)).tool_outcomes
    assert isinstance(failed, ToolFailure)


@pytest.mark.parametrize(("total", "taken"), [(150, 100), (190, 140)], ids=["included", "beside"])
def test_the_input_includes_what_was_cached(total, taken):
    counts = usage(totalTokens=total, cacheReadInputTokens=40)
    result = from_strands(run(SAYS, counts=counts))
    assert (result.usage.input_tokens, result.usage.cache_read_tokens) == (taken, 40)


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        ("cancelled", "canceled", "canceled"),
        ("limit_turns", "failed", "max_turns"),
        ("limit_total_tokens", "failed", "budget_exceeded"),
        ("guardrail_intervened", "failed", "content_filter"),
    ],
)
def test_a_stop_of_the_agent_is_no_answer(reason, status, code):
    result = from_strands(run(SAYS, reason=reason))
    assert (result.status, result.error.code, result.error.type) == (status, code, reason)


def test_interrupts_park_the_run():
    wait = Object(id="i1", name="approve", reason={"sum": 3})
    result = from_strands(run(ASKS, reason="interrupt", interrupts=[wait]))
    question = PendingQuestion(id="i1", question='approve: {"sum":3}')
    assert (result.status, result.pending) == ("input_required", (question,))


def test_of_a_history_the_last_turn_is_the_run():
    asked = {"role": "user", "content": [{"text": "Add"}]}
    result = from_strands([asked, SAYS, asked, ASKS, gave({"text": "3"}), SAYS])
    assert [message.role for message in result.seeded] == ["user", "assistant", "user"]
    assert (len(result.messages), len(result.tool_outcomes)) == (3, 1)


def test_a_reply_that_was_too_long_says_so_inside_another_exception():
    result = from_strands(EventLoopException("x"))
    assert (result.finish_reason, result.error.code) == ("length", "invalid_output")
    assert isinstance(result.raw, EventLoopException)
