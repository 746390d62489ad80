"""Messages and exceptions of the Claude Agent SDK."""

from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_claude_agent_sdk
from upshot.contract import ToolDenied, ToolFailure

USAGE = {"input_tokens": 60, "output_tokens": 50, "cache_read_input_tokens": 40}
USAGE["cache_creation_input_tokens"] = 0


class ResultError(Exception):
    def __init__(self, data):
        super().__init__("the program failed")
        self.data = data


def reply(*parts, ident="m1", **fields):
    base = {"content": list(parts), "model": "claude", "message_id": ident, "usage": USAGE}
    return Object(**{**base, **fields})


def call(ident="c1", x=1):
    return Object(id=ident, name="add", input={"x": x})


def gave(text, ident="c1", *, error=None):
    part = Object(tool_use_id=ident, content=[{"type": "text", "text": text}], is_error=error)
    return Object(content=[part])


def ended(**fields):
    base = {
        "subtype": "success",
        "duration_ms": 900,
        "is_error": False,
        "session_id": "s1",
        "stop_reason": "end_turn",
        "total_cost_usd": 0.002,
        "usage": USAGE,
        "result": "three",
    }
    return {**base, **fields}


SAYS = reply(Object(text="three"), ident="m2")


def test_a_query_is_read():
    thought = Object(thinking="hm", signature="s")
    asked = reply(thought, call()), reply(call("c2", 2)), gave("3"), gave("4", "c2")
    result = from_claude_agent_sdk([*asked, SAYS, Object(**ended())])
    assert (result.status, result.content, result.finish_reason) == ("completed", "three", "stop")
    assert [message.role for message in result.messages] == [
        *("assistant", "tool", "tool", "assistant")
    ]
    assert [one.id for one in result.messages[0].tool_calls] == ["c1", "c2"]
    assert [one.output for one in result.tool_outcomes] == [{"result": "3"}, {"result": "4"}]
    assert (result.context_id, result.duration_ms) == ("s1", 900)


def test_the_input_includes_what_was_cached_and_the_cost_is_an_estimate():
    result = from_claude_agent_sdk([SAYS, Object(**ended())])
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 50)
    assert (float(result.cost), result.cost.estimated) == (0.002, True)


def test_without_the_result_the_output_is_unknown():
    usage = from_claude_agent_sdk([reply(call()), gave("3"), SAYS]).usage
    assert (usage.input_tokens, usage.output_tokens, usage.api_calls) == (200, None, 2)


def test_messages_of_an_agent_that_a_tool_started_are_left_out():
    inner = reply(Object(text="inner"), ident="m9", parent_tool_use_id="c1")
    result = from_claude_agent_sdk([reply(call()), inner, gave("3"), SAYS])
    assert [message.text for message in result.messages] == ["", "3", "three"]


@pytest.mark.parametrize(
    ("word", "status", "text", "code"),
    [
        ("rate_limit", 429, "API Error: Request rejected (429)", "rate_limit"),
        ("server_error", 500, "API Error: 500 down", "server_error"),
        ("billing_error", None, "API Error: no credit", "budget_exceeded"),
    ],
)
def test_an_error_of_the_api_is_no_answer(word, status, text, code):
    made_up = reply(Object(text=text), model="<synthetic>", error=word)
    failed = ended(is_error=True, result=text, api_error_status=status, total_cost_usd=0, usage={})
    result = from_claude_agent_sdk([made_up, Object(**failed)])
    assert (result.status, result.error.code, result.content) == ("failed", code, None)
    assert (result.error.type, result.messages, result.cost) == (word, (), None)


def test_an_exception_carries_its_result():
    text = "API Error: the response exceeded the 32000 output token maximum."
    result = from_claude_agent_sdk(ResultError(ended(is_error=True, result=text)))
    assert (result.finish_reason, result.error.code) == ("length", "invalid_output")
    assert result.usage.output_tokens == 50


@pytest.mark.parametrize(
    ("subtype", "code"),
    [("error_max_turns", "max_turns"), ("error_max_budget_usd", "budget_exceeded")],
)
def test_a_limit_is_a_limit(subtype, code):
    failed = ended(subtype=subtype, is_error=True, result=None, terminal_reason="max_turns")
    error = from_claude_agent_sdk([Object(**failed)]).error
    assert (error.code, error.origin) == (code, "limit")


def test_a_call_that_was_not_permitted_is_denied():
    denials = [{"tool_name": "add", "tool_use_id": "c1", "tool_input": {"x": 1}}]
    asked = reply(call()), gave("not allowed", error=True)
    native = [*asked, SAYS, Object(**ended(permission_denials=denials))]
    [outcome] = from_claude_agent_sdk(native).tool_outcomes
    assert isinstance(outcome, ToolDenied) and outcome.details == "not allowed"
    [failed] = from_claude_agent_sdk([*asked, SAYS]).tool_outcomes
    assert isinstance(failed, ToolFailure)
