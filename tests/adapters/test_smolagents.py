"""smolagents' results, messages and exceptions."""

from datetime import UTC, datetime
from types import SimpleNamespace as Object

import pytest

from upshot.adapters import from_smolagents
from upshot.contract import (
    AgentResult,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    decode,
    encode,
)


class AgentError(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.message = message


class AgentMaxStepsError(AgentError):
    pass


class AgentGenerationError(AgentError):
    pass


def call(name="add", ident="c1", **arguments):
    return {
        "id": ident,
        "type": "function",
        "function": {"name": name, "arguments": arguments, "description": None},
    }


def step(*calls, number=1, text=None, observed=None, error=None, output=None, **fields):
    said = {
        "role": "assistant",
        "content": text,
        "tool_calls": list(calls),
        "raw": None,
        "token_usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }
    return {
        "step_number": number,
        "timing": {"start_time": 1.0, "end_time": 2.0, "duration": 1.0},
        "tool_calls": [],
        "error": error,
        "model_output_message": said,
        "model_output": text,
        "observations": observed,
        "action_output": output,
        "token_usage": said["token_usage"],
        "is_final_answer": False,
        **fields,
    }


def run(*steps, state="success", output="three", **fields):
    return Object(
        output=output,
        state=state,
        steps=[{"task": "Add", "task_images": None}, *steps],
        token_usage=Object(input_tokens=10 * len(steps), output_tokens=5 * len(steps)),
        timing=Object(start_time=1_760_000_000.0, end_time=1_760_000_001.5, duration=1.5),
        **fields,
    )


DONE = step(call("final_answer", "c9", answer="three"), number=2, observed="three")


def test_a_run_is_read():
    result = from_smolagents(run(step(call(x=1), observed="3"), DONE))
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert [message.text for message in result.all_messages()] == ["Add", "", "3", "three"]
    assert result.duration_ms == 1_500
    assert result.started_at == datetime.fromtimestamp(1_760_000_000, UTC)


def test_tokens_are_those_of_all_steps():
    usage = from_smolagents(run(step(call(x=1), observed="3"), DONE)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.api_calls) == (20, 10, 2)


def test_what_came_of_a_call_is_an_outcome_and_the_answer_is_none():
    result = from_smolagents(run(step(call(x=1), observed="3"), DONE))
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert (outcome.call_id, outcome.output) == ("c1", {"result": "3"})
    assert result.tools_used == ("add",)


def test_the_step_limit_is_length():
    limit = step(
        number=2,
        error={"type": "AgentMaxStepsError", "message": "Reached max steps."},
        output="best guess",
        model_output_message=None,
    )
    native = run(step(call(x=1), observed="3"), limit, state="max_steps_error", output="best guess")
    result = from_smolagents(native)
    assert (result.finish_reason, result.content) == ("length", "best guess")
    assert result.messages[-1].text == "best guess"
    assert result.warnings[0].code == "max_turns"


def test_a_raised_step_limit_is_length_and_a_failure():
    result = from_smolagents(AgentMaxStepsError("Reached max steps."))
    assert (result.error.code, result.finish_reason) == ("max_turns", "length")
    assert result.error.origin == "limit"


@pytest.mark.parametrize(
    ("kind", "text", "outcome"),
    [
        ("AgentToolExecutionError", "Unknown tool add, should be one of: x.", ToolDenied),
        ("AgentToolCallError", "Argument x has type str", ToolDenied),
        ("AgentToolExecutionError", "Error executing tool 'add' with arguments {}", ToolFailure),
        ("AgentExecutionError", "Code execution failed", ToolFailure),
    ],
)
def test_a_step_that_failed_says_what_came_of_its_call(kind, text, outcome):
    failed = step(call(x=1), error={"type": kind, "message": text})
    [found] = from_smolagents(run(failed, DONE)).tool_outcomes
    assert isinstance(found, outcome)


def test_of_several_calls_the_named_one_failed_and_of_the_others_nothing_is_known():
    text = "Error executing tool 'add' with arguments {}: broken"
    failed = step(
        call(x=1), call("mul", "c2"), error={"type": "AgentToolExecutionError", "message": text}
    )
    result = from_smolagents(run(failed, DONE))
    assert [outcome.error for outcome in result.tool_outcomes] == [
        text,
        "another call of the step failed: add",
    ]
    assert "tool_outcomes.output" in result.metadata["unknown"]


def test_a_reply_that_could_not_be_read_is_told_to_the_model():
    failed = step(text="gibberish", error={"type": "AgentParsingError", "message": "no call"})
    result = from_smolagents(run(failed, DONE))
    assert [(message.role, message.text) for message in result.messages[:2]] == [
        ("assistant", "gibberish"),
        ("user", "no call"),
    ]


def test_code_is_a_call_of_the_interpreter():
    code = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "python_interpreter", "arguments": "print(3)"},
    }
    coded = step(text="I add.", observed="3", tool_calls=[code])
    result = from_smolagents(run(coded, DONE))
    assert result.tools_used == ("python_interpreter",)
    assert result.messages[0].text == "I add."


def test_a_plan_is_something_that_was_said():
    plan = {
        "model_output_message": {"role": "assistant", "content": "1. add", "tool_calls": None},
        "plan": "1. add",
        "timing": {},
        "token_usage": {"input_tokens": 7, "output_tokens": 1},
    }
    result = from_smolagents(run(plan, DONE))
    assert result.messages[0].text == "1. add"
    assert result.usage.input_tokens == 17


def test_an_answer_that_is_no_text_is_the_output():
    assert from_smolagents(run(DONE, output={"sum": 3})).output == {"sum": 3}


def test_what_it_does_not_say_is_listed():
    result = from_smolagents(run(DONE))
    assert result.finish_reason is None
    assert {"finish_reason", "cost", "rate_limit", "usage.cache_read_tokens"}.issubset(
        result.metadata["unknown"]
    )


def test_what_the_api_said_is_read_from_the_steps():
    raw = {
        "choices": [{"finish_reason": "stop", "message": {"content": "three"}}],
        "model": "gpt-5",
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }
    told = step(text="three")
    told["model_output_message"]["raw"] = raw
    result = from_smolagents(run(told))
    assert (result.usage.cache_read_tokens, result.finish_reason) == (4, "stop")
    assert result.provider_data["model"] == "gpt-5"


def test_a_message_is_a_run_of_one_call():
    message = Object(
        role="assistant",
        content="Hi",
        tool_calls=None,
        raw=Object(_response_headers={"x-ratelimit-remaining-requests": "0"}),
        token_usage=Object(input_tokens=10, output_tokens=5),
    )
    result = from_smolagents(message)
    assert (result.content, result.usage.total_tokens) == ("Hi", 15)
    assert result.rate_limit.limited


@pytest.mark.parametrize("answer", ["three", 3, {"sum": 3}, {"role": "admin"}, None])
def test_a_bare_answer_is_the_output(answer):
    assert from_smolagents(answer).output == answer


def test_a_failed_model_call_is_classified_by_its_cause():
    cause = RuntimeError("Error code: 401 - bad key")
    error = AgentGenerationError("Error while generating output:\nError code: 401 - bad key")
    error.__cause__ = cause
    assert from_smolagents(error).error.code == "auth_error"


def test_an_interrupted_run_is_canceled():
    result = from_smolagents(RuntimeError("Agent interrupted."))
    assert (result.status, result.error.code) == ("canceled", "canceled")


def test_an_answer_of_a_class_of_theirs_is_a_text():
    class AgentText(str):
        pass

    result = from_smolagents(AgentText("three"))
    assert (type(result.content), result.output) == (str, "three")
    assert decode(encode(result), AgentResult).content == "three"
