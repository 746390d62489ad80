"""Pydantic AI's results, messages and exceptions."""

from decimal import Decimal
from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_pydantic_ai
from upshot.contract import (
    PendingApproval,
    PendingExternal,
    Reasoning,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
)


class AgentRunError(RuntimeError):
    pass


class UnexpectedModelBehavior(AgentRunError):
    pass


class OutputTokenLimitExceeded(UnexpectedModelBehavior):
    pass


class UsageLimitExceeded(AgentRunError):
    pass


class ModelHTTPError(AgentRunError):
    def __init__(self, status, body):
        super().__init__(f"status_code: {status}, model_name: gpt-5, body: {body}")
        self.status_code, self.model_name, self.body = status, "gpt-5", body


class RunCancelled(AgentRunError):
    pass


class FallbackExceptionGroup(ExceptionGroup):
    pass


def part(kind, content=None, **fields):
    return Object(part_kind=kind, content=content, **fields)


def request(*parts):
    return Object(kind="request", parts=list(parts))


def reply(*parts, finish="stop", **fields):
    return Object(
        kind="response",
        parts=list(parts),
        model_name="gpt-5-2025",
        provider_name="openai",
        provider_response_id="resp_1",
        provider_details=None,
        finish_reason=finish,
        **fields,
    )


def usage(**fields):
    base = {
        "requests": 2,
        "input_tokens": 100,
        "output_tokens": 50,
        "cache_read_tokens": 40,
        "cache_write_tokens": 0,
        "output_reasoning_tokens": 20,
        "details": {},
        "cost": Decimal("0.25"),
    }
    return Object(**{**base, **fields})


CALL = part("tool-call", tool_name="add", tool_call_id="c1", args='{"x": 1}')
PROMPT = request(part("system-prompt", "Be brief."), part("user-prompt", "Add"))


def run(*messages, output="three", earlier=(), **fields):
    base = {
        "output": output,
        "run_id": "run-7",
        "conversation_id": "conv-7",
        "usage": usage(),
        "_output_tool_name": None,
    }
    return Object(
        **{**base, **fields},
        new_messages=lambda: list(messages),
        all_messages=lambda: [*earlier, *messages],
    )


def answered(**fields):
    base = {"tool_name": "add", "tool_call_id": "c1", "outcome": "success"}
    content = fields.pop("content", 3)
    return request(part("tool-return", content, **{**base, **fields}))


def test_a_run_is_read():
    native = run(PROMPT, reply(CALL), answered(), reply(part("text", "three")))
    result = from_pydantic_ai(native)
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", '{"x": 1}'),)
    assert (result.run_id, result.context_id) == ("run-7", "conv-7")
    assert result.raw is native


def test_the_request_and_what_came_before_are_seeded():
    earlier = (request(part("user-prompt", "Hello")), reply(part("text", "Hi")))
    result = from_pydantic_ai(run(PROMPT, reply(part("text", "three")), earlier=earlier))
    assert [message.text for message in result.all_messages()] == [
        "Hello",
        "Hi",
        "Be brief.",
        "Add",
        "three",
    ]


def test_usage_and_cost_are_those_of_the_run():
    result = from_pydantic_ai(run(PROMPT, reply(part("text", "three"))))
    assert (result.usage.input_tokens, result.usage.cache_read_tokens) == (100, 40)
    assert (result.usage.reasoning_tokens, result.usage.api_calls) == (20, 2)
    assert (result.cost.total, result.cost.estimated) == (Decimal("0.25"), True)


def test_an_older_usage_is_a_method_and_has_reasoning_among_its_details():
    old = Object(requests=1, input_tokens=9, output_tokens=3, details={"reasoning_tokens": 2})
    result = from_pydantic_ai(run(reply(part("text", "three")), usage=lambda: old))
    assert (result.usage.total_tokens, result.usage.reasoning_tokens) == (12, 2)
    assert "cost" in result.metadata["unknown"]


def test_a_usage_of_zeros_is_unknown():
    native = run(reply(part("text", "Hi")), usage=usage(input_tokens=0, output_tokens=0))
    result = from_pydantic_ai(native)
    assert (bool(result.usage), result.usage.unmeasured_calls) == (False, 2)


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", "stop"), ("tool_call", "tool_use"), ("length", "length"), (None, None)],
)
def test_the_finish_is_that_of_the_last_reply(word, reason):
    assert from_pydantic_ai(run(reply(part("text", "a"), finish=word))).finish_reason == reason


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ("success", ToolExecutionResult),
        ("failed", ToolFailure),
        ("retried", ToolFailure),
        ("denied", ToolDenied),
        ("interrupted", ToolDenied),
    ],
)
def test_what_came_of_a_call_is_an_outcome(outcome, kind):
    native = run(PROMPT, reply(CALL), answered(outcome=outcome), reply(part("text", "a")))
    [found] = from_pydantic_ai(native).tool_outcomes
    assert isinstance(found, kind)


def test_the_outcome_of_a_tool_of_ours_is_taken_as_it_is():
    ours = ToolExecutionResult("c1", "add", output={"sum": 3}, effect="read")
    native = run(PROMPT, reply(CALL), answered(metadata=ours), reply(part("text", "a")))
    assert from_pydantic_ai(native).tool_outcomes == (ours,)


def test_a_retry_of_a_call_may_be_made_again_and_one_without_a_call_is_told():
    asked = request(part("retry-prompt", "x is missing", tool_name="add", tool_call_id="c1"))
    told = request(part("retry-prompt", "answer in JSON", tool_name=None))
    result = from_pydantic_ai(run(PROMPT, reply(CALL), asked, reply(), told))
    assert result.tool_outcomes[0].retryable
    assert (result.messages[-1].role, result.messages[-1].text) == ("user", "answer in JSON")


def test_the_call_that_gives_the_answer_is_no_tool():
    final = part("tool-call", tool_name="final_result", tool_call_id="c9", args={"sum": 3})
    done = answered(tool_name="final_result", tool_call_id="c9", content="Final result processed.")
    native = run(PROMPT, reply(final), done, output={"sum": 3}, _output_tool_name="final_result")
    result = from_pydantic_ai(native)
    assert (result.output, result.tool_outcomes) == ({"sum": 3}, ())


def test_thoughts_keep_their_signatures():
    thought = part("thinking", "hm", signature="sig", provider_name=None, id="rs_1")
    [said] = from_pydantic_ai(run(reply(thought, part("text", "three")))).messages
    assert said.parts[0] == Reasoning(text="hm", signature="sig", provider="openai", id="rs_1")
    assert said.text == "three"


def test_deferred_calls_park_the_run():
    waiting = part("tool-call", tool_name="search", tool_call_id="c2", args=None)
    native = run(PROMPT, reply(CALL), output=Object(approvals=[CALL], calls=[waiting]))
    result = from_pydantic_ai(native)
    assert result.status == "input_required"
    assert result.pending == (
        PendingApproval(call_id="c1", tool_name="add", arguments={"x": 1}),
        PendingExternal(id="c2", description="search"),
    )


def test_a_reply_alone_is_a_run_of_one_call():
    result = from_pydantic_ai(reply(part("text", "Hi"), usage=usage(requests=1)))
    assert (result.content, result.usage.api_calls) == ("Hi", 1)
    assert result.provider_data["response_id"] == "resp_1"


def test_a_refused_call_is_classified():
    error = ModelHTTPError(429, {"error": {"code": "insufficient_quota", "message": "pay first"}})
    result = from_pydantic_ai(error)
    assert (result.error.code, result.error.retryable) == ("rate_limit", False)
    assert result.provider_data["model"] == "gpt-5"


@pytest.mark.parametrize(
    ("exception", "code", "finish"),
    [
        (UsageLimitExceeded("request_limit of 50"), "budget_exceeded", None),
        (UnexpectedModelBehavior("Exceeded maximum retries"), "invalid_output", None),
        (OutputTokenLimitExceeded("token limit"), "invalid_output", "length"),
        (ModelHTTPError(503, None), "server_error", None),
        (ModelHTTPError(503, "the model is loading"), "model_unavailable", None),
        (
            ModelHTTPError(404, {"message": "The model `x` does not exist"}),
            "model_unavailable",
            None,
        ),
    ],
)
def test_its_own_exceptions_have_codes(exception, code, finish):
    result = from_pydantic_ai(exception)
    assert (result.error.code, result.finish_reason) == (code, finish)


def test_a_cancelled_run_brings_what_it_did():
    error = RunCancelled("cancelled")
    native = run(PROMPT, reply(CALL), answered())
    vars(error).update(vars(native))
    result = from_pydantic_ai(error)
    assert (result.status, result.usage.total_tokens) == ("canceled", 150)
    assert len(result.tool_outcomes) == 1
    assert "messages" not in result.metadata["unknown"]


def test_a_refused_call_without_a_body_keeps_its_own_words():
    assert from_pydantic_ai(ModelHTTPError(500, None)).error.message.startswith("status_code: 500")


def test_of_several_models_the_last_failure_counts():
    group = FallbackExceptionGroup("all failed", [ModelHTTPError(500, None), TimeoutError("late")])
    result = from_pydantic_ai(group)
    assert (result.error.code, result.raw) == ("timeout", group)
