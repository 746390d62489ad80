"""The messages, states and exceptions of LangChain and LangGraph."""

from types import SimpleNamespace as Object

import msgspec
import pytest

from upshot.adapters import from_langchain, from_langgraph
from upshot.contract import (
    PendingApproval,
    PendingQuestion,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
)


class GraphRecursionError(RecursionError):
    pass


class GraphInterrupt(Exception):
    pass


class ModelCallLimitExceededError(Exception):
    pass


class StructuredOutputError(Exception):
    pass


class APIStatusError(Exception):
    def __init__(self, status, body):
        super().__init__(f"Error code: {status} - {body}")
        self.status_code, self.body = status, body


def human(text="Add"):
    return {"type": "human", "content": text}


def ai(text="three", *calls, finish="stop"):
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    told = {"finish_reason": finish, "model_provider": "openai", "model_name": "gpt-5"}
    return {
        "type": "ai",
        "content": text,
        "tool_calls": list(calls),
        "usage_metadata": usage,
        "response_metadata": told,
    }


def call(ident="c1", name="add", **arguments):
    return {"name": name, "args": arguments or {"x": 1}, "id": ident, "type": "tool_call"}


def answer(text="3", ident="c1", name="add", **fields):
    return {"type": "tool", "content": text, "tool_call_id": ident, "name": name, **fields}


def state(*messages, **fields):
    return {"messages": list(messages), **fields}


WHOLE = state(human(), ai("", call(), finish="tool_calls"), answer(), ai())


def waiting(value, ident="i1"):
    return Object(value=value, id=ident, response_schema=None)


@pytest.mark.parametrize("read", [from_langchain, from_langgraph])
def test_a_run_is_read(read):
    result = read(WHOLE)
    assert (result.status, result.content, result.output) == ("completed", "three", "three")
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", {"x": 1}),)
    assert (result.usage.total_tokens, result.usage.api_calls) == (30, 2)
    assert (result.finish_reason, result.raw) == ("stop", WHOLE)
    [outcome] = result.tool_outcomes
    assert isinstance(outcome, ToolExecutionResult)
    assert outcome.output == {"result": 3}


def test_what_came_before_the_last_message_of_the_user_is_seeded():
    earlier = [{"type": "system", "content": "Brief."}, human("Hello"), ai("Hi")]
    result = from_langgraph(state(*earlier, human("Add"), ai()))
    assert [message.text for message in result.messages] == ["three"]
    assert [message.role for message in result.all_messages()] == [
        *["system", "user", "assistant"],
        *["user", "assistant"],
    ]
    assert result.usage.api_calls == 1


def test_the_facts_that_are_missing_are_listed():
    unknown = from_langgraph(WHOLE).metadata["unknown"]
    assert {"cost", "rate_limit", "started_at", "provider_data.request_id"} <= set(unknown)
    assert {"tool_outcomes.effect", "tool_outcomes.elapsed_ms"} <= set(unknown)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error: ValueError('negative')\n Please fix your mistakes.", ToolFailure),
        ("Error: nope is not a valid tool, try one of [add].", ToolDenied),
        ("Error invoking tool 'add' with kwargs {} with error:\n x: Field required", ToolDenied),
        ("User rejected the tool call for `add` with id c1", ToolDenied),
    ],
)
def test_a_call_that_failed_is_no_success(text, kind):
    native = state(human(), ai("", call()), answer(text, status="error"), ai())
    [outcome] = from_langgraph(native).tool_outcomes
    assert isinstance(outcome, kind)


OURS = ToolExecutionResult("c1", "add", output={"sum": 3}, effect="read")


@pytest.mark.parametrize("artifact", [OURS, msgspec.to_builtins(OURS)], ids=["itself", "JSON"])
def test_the_outcome_of_a_tool_of_ours_is_taken_as_it_is(artifact):
    native = state(human(), ai("", call()), answer(artifact=artifact), ai())
    assert from_langgraph(native).tool_outcomes == (OURS,)


@pytest.mark.parametrize("artifact", [{"kind": "tool_box"}, {"kind": "tool_denied"}, ["page"]])
def test_an_artifact_of_anybody_else_is_no_outcome(artifact):
    native = state(human(), ai("", call()), answer(artifact=artifact), ai())
    assert from_langgraph(native).tool_outcomes[0].output == {"result": 3}


def test_a_structured_answer_is_the_output_and_its_call_is_no_tool():
    said = answer("Returning structured response: sum=3", name="Sum")
    native = state(human(), ai("", call(name="Sum")), said, structured_response={"sum": 3})
    result = from_langgraph(native)
    assert (result.output, result.tool_outcomes) == ({"sum": 3}, ())


def test_a_state_without_messages_is_the_output():
    result = from_langgraph({"total": 3, "__interrupt__": []})
    assert (result.status, result.output) == ("completed", {"total": 3})


def test_an_interrupt_is_a_question():
    native = state(human(), __interrupt__=[waiting("How many?"), waiting({"pick": ["a"]}, "i2")])
    result = from_langgraph(native)
    assert result.status == "input_required"
    assert result.pending == (
        PendingQuestion(id="i1", question="How many?"),
        PendingQuestion(id="i2", question='{"pick":["a"]}'),
    )


def test_an_interrupt_of_the_middleware_is_the_approval_of_the_calls():
    asked = {"action_requests": [{"name": "add", "args": {"x": 1}}], "review_configs": []}
    native = state(human(), ai("", call()), __interrupt__=[waiting(asked)])
    assert from_langgraph(native).pending == (
        PendingApproval(call_id="c1", tool_name="add", arguments={"x": 1}),
    )


def test_a_snapshot_tells_its_thread_and_what_it_waits_for():
    snapshot = Object(
        values=state(human(), ai()),
        interrupts=(waiting("How many?"),),
        config={"configurable": {"thread_id": "t7"}},
    )
    result = from_langgraph(snapshot)
    assert (result.context_id, result.pending[0].question) == ("t7", "How many?")


def test_an_output_of_the_newer_form_is_unpacked():
    result = from_langgraph(Object(value=WHOLE, interrupts=()))
    assert result.content == "three"


def test_a_message_alone_is_a_run_of_one_call():
    result = from_langchain(ai())
    assert (result.content, result.usage.api_calls) == ("three", 1)


def test_stored_messages_are_read():
    stored = [{"type": kind, "data": inner} for kind, inner in (("human", human()), ("ai", ai()))]
    assert from_langchain(stored).content == "three"


def test_structured_output_with_its_message_is_read():
    result = from_langchain({"raw": ai("{}"), "parsed": {"sum": 3}, "parsing_error": None})
    assert (result.output, result.content) == ({"sum": 3}, "{}")
    failed = from_langchain({"raw": ai("{}"), "parsed": None, "parsing_error": ValueError("no")})
    assert (failed.status, failed.usage.api_calls) == ("failed", 1)


def test_any_other_value_is_the_output():
    assert from_langchain("three").output == "three"


@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (GraphRecursionError("Recursion limit of 25 reached"), "max_turns"),
        (ModelCallLimitExceededError("run limit (3/3)"), "budget_exceeded"),
        (StructuredOutputError("no such field"), "invalid_output"),
        (
            APIStatusError(429, {"message": "slow down", "code": "rate_limit_exceeded"}),
            "rate_limit",
        ),
        (APIStatusError(500, {"message": "oops"}), "server_error"),
    ],
)
def test_exceptions_have_codes(exception, code):
    result = from_langgraph(exception)
    assert (result.error.code, "messages" in result.metadata["unknown"]) == (code, True)


def test_a_reply_that_an_exception_carries_is_kept():
    error = StructuredOutputError("no such field")
    error.ai_message = ai("{}")
    result = from_langgraph(error)
    assert (result.error.code, result.content, result.usage.api_calls) == (
        "invalid_output",
        "{}",
        1,
    )


def test_an_interrupt_that_is_raised_parks_the_run():
    result = from_langgraph(GraphInterrupt((waiting("How many?"),)))
    assert (result.status, result.pending[0].id) == ("input_required", "i1")
