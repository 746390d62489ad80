"""Other forms of a result, and what a model reads of a tool outcome."""

import json
import math
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.contract.strategies import json_values, outcomes, responses, results, texts
from upshot.contract import (
    TOOL_MESSAGE_MAX_CHARS,
    AgentError,
    AgentResult,
    Cost,
    DeniedReason,
    Effect,
    ErrorCode,
    FinishReason,
    Json,
    JsonObject,
    Message,
    ModelResponse,
    RateLimitState,
    RateLimitWindow,
    Resource,
    Status,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    UnserializableError,
    Usage,
    encode,
    from_contract,
    outcome_to_model_content,
    outcome_to_object,
    to_contract,
    to_execution_result,
)
from upshot.errors import JournalError, Misuse, RunFailed
from upshot.native.returned import coerce_result, result_of_response

ERROR = AgentError(ErrorCode.RATE_LIMIT, "slow down", retryable=True, retry_after_s=2.5)

# ---- the flat contract dict


@pytest.mark.parametrize("value", [5, None, [("content", "x")]])
def test_what_is_no_mapping_is_no_contract_dict(value: Any) -> None:
    with pytest.raises(Misuse, match="a contract dict must be a mapping"):
        from_contract(value)


@given(results())
def test_the_flat_form_is_read_back_as_the_same_flat_form(result: AgentResult[Json]) -> None:
    form = to_contract(result)
    back = from_contract(form)
    again = to_contract(back)
    if not result.usage.is_measured:
        # Zeros are read as unknown.
        again["usage"] = form.get("usage")
        form["usage"] = form.get("usage")
    assert again == form
    assert back.warnings == ()
    assert back.success is result.success


@pytest.mark.parametrize(
    "cost",
    [0.25, Decimal("0.25"), {"total": 0.25}, {"total": "0.25"}, Cost(total="0.25")],
    ids=repr,
)
def test_cost_may_be_a_number_or_an_object(cost: Any) -> None:
    assert from_contract({"content": "x", "cost": cost}).cost == Cost(total="0.25")


def test_a_cost_in_parts_is_summed() -> None:
    cost = from_contract({"cost": {"input": 0.1, "output": 0.2}}).cost
    assert cost is not None
    assert cost.total == Decimal("0.3")


@pytest.mark.parametrize(
    ("error", "read"),
    [
        ("boom", AgentError(ErrorCode.INTERNAL, "boom")),
        ({"code": "dead_end", "message": "m"}, AgentError(ErrorCode.DEAD_END, "m")),
        ({"code": "mine", "message": "m"}, AgentError(ErrorCode("mine"), "m")),
        ({"error_type": "Busy", "message": "m"}, AgentError(message="m", type="Busy")),
        ({"message": "m", "type": None, "status_code": None, "new": 1}, AgentError(message="m")),
        (ERROR, ERROR),
        ("", None),
        ({}, None),
        (None, None),
    ],
    ids=repr,
)
def test_an_error_may_be_a_text_an_object_or_nothing(error: Any, read: AgentError | None) -> None:
    result = from_contract({"content": "x", "error": error})
    assert result.error == read
    assert result.status is (Status.FAILED if read else Status.COMPLETED)


@pytest.mark.parametrize(
    ("error", "is_retryable"),
    [
        ({"code": "rate_limit", "message": "m", "status_code": 429}, True),
        ({"code": "server_error", "message": "m", "status_code": 503}, True),
        ({"message": "m", "status_code": 425}, True),
        ({"message": "m", "code": None, "status_code": 404}, False),
        ({"code": "internal", "message": "m", "status_code": 500}, False),
        ({"code": "server_error", "message": "m", "status_code": 404}, False),
        ({"code": "context_length", "message": "m", "status_code": 500}, False),
        ({"code": "timeout", "message": "m", "retryable": None}, True),
        ({"code": "auth_error", "message": "m"}, False),
        ({"code": "rate_limit", "message": "m", "retryable": False}, False),
        ({"code": "auth_error", "message": "m", "retryable": True}, True),
        (AgentError(ErrorCode.RATE_LIMIT, "m"), False),
    ],
    ids=repr,
)
def test_whether_an_error_may_pass_is_decided_where_it_does_not_say(
    error: Any, is_retryable: bool
) -> None:
    for read in (from_contract({"error": error}), coerce_result({"error": error})):
        assert read.error is not None
        assert read.error.retryable is is_retryable


def test_the_error_text_of_an_execution_result_may_pass_as_its_code_says() -> None:
    error = coerce_result({"success": False, "error": "server_error: down"}).error
    assert error == AgentError(ErrorCode.SERVER_ERROR, "down", retryable=True)


def test_a_limit_that_names_no_wait_has_that_of_its_exhausted_windows() -> None:
    window = {"name": "requests_per_minute", "remaining": 0, "resets_in": 45}
    form = {"error": {"code": "rate_limit", "message": "m"}, "rate_limit": {"windows": [window]}}
    made = coerce_result(form, now=100.0).rate_limit
    assert made is not None
    assert (made.limited, made.retry_after, made.windows[0].reset_at) == (True, 45, 145.0)
    live = coerce_result(form).rate_limit
    assert live is not None
    assert live.windows[0].reset_at is not None


def test_a_stored_dict_is_read_without_a_clock() -> None:
    form = {"content": "x", "rate_limit": {"limited": True, "windows": [{"resets_in": 45}]}}
    state = from_contract(form).rate_limit
    assert state is not None
    assert state.windows[0].reset_at is None


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("timeout", Status.FAILED),
        ("internal", Status.FAILED),
        ("interrupted", Status.INTERRUPTED),
        ("canceled", Status.CANCELED),
        ("input_required", Status.INPUT_REQUIRED),
    ],
)
def test_the_status_follows_from_the_error(code: str, status: Status) -> None:
    assert from_contract({"error": {"code": code}}).status is status


@pytest.mark.parametrize(
    ("word", "reason", "kept"),
    [
        ("stop", FinishReason.STOP, {}),
        ("TOOL_USE", FinishReason.TOOL_USE, {}),
        ("end_turn", FinishReason.STOP, {"finish_raw": "end_turn"}),
    ],
)
def test_an_unknown_finish_reason_is_stop_with_the_word_kept(
    word: str, reason: FinishReason, kept: JsonObject
) -> None:
    result = from_contract({"content": "x", "finish_reason": word})
    assert (result.finish_reason, result.provider_data) == (reason, kept)


def test_fields_that_are_none_count_as_absent() -> None:
    window = {"name": "tokens", "resource": "tokens", "limit": None, "remaining": 0}
    result = from_contract(
        {
            "content": None,
            "output": None,
            "usage": {"input_tokens": 1, "output_tokens": None},
            "rate_limit": {"limited": True, "retry_after": None, "windows": [window]},
            "metadata": None,
            "more": object(),
        }
    )
    windows = (RateLimitWindow(name="tokens", resource=Resource.TOKENS, remaining=0),)
    assert result.usage == Usage(input_tokens=1)
    assert result.rate_limit == RateLimitState(limited=True, windows=windows)
    assert (result.content, result.output, result.metadata) == (None, None, {})


@pytest.mark.parametrize(
    ("output", "content", "read"), [(None, "x", "x"), ({"a": 1}, "x", {"a": 1}), (None, None, None)]
)
def test_the_output_is_the_text_where_there_is_no_other(
    output: Json, content: str | None, read: Json
) -> None:
    assert from_contract({"output": output, "content": content}).output == read


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("content", 5),
        ("content", {"a": 1}),
        ("usage", [1]),
        ("usage", {"input_tokens": "many"}),
        ("cost", "free"),
        ("cost", True),
        ("cost", {"total": "NaN"}),
        ("error", 5),
        ("error", {"code": 5}),
        ("rate_limit", "yes"),
        ("rate_limit", {"windows": [{"limit": "x"}]}),
        ("finish_reason", 5),
        ("metadata", [1]),
        ("provider_data", "openai"),
    ],
)
def test_a_key_that_holds_another_form_is_misuse_that_names_it(key: str, value: Json) -> None:
    with pytest.raises(Misuse, match=key):
        from_contract({key: value})


def test_a_value_that_is_no_json_is_misuse() -> None:
    with pytest.raises(Misuse, match="/output"):
        from_contract({"output": object()})


def test_what_is_lost_on_the_way_in_is_a_warning() -> None:
    result = from_contract({"output": {"a": math.nan}, "content": "\ud800", "cost": math.inf})
    assert (result.output, result.content, result.cost) == ({"a": None}, "\ufffd", None)
    assert [warning.code for warning in result.warnings] == ["lossy_value"]
    assert all(place in result.warnings[0].message for place in ("/output/a", "/content", "/cost"))


@given(responses())
def test_a_reply_becomes_a_run_of_one_call(response: ModelResponse) -> None:
    result = result_of_response(response)
    assert (result.status, result.error) == (response.status, response.error)
    assert (result.content, result.usage, result.cost) == (
        response.content,
        response.usage,
        response.cost,
    )
    assert result.messages == ((response.to_message(),) if response.success else ())


# ---- a result of anything


class Answer:
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Busy(Exception):
    error = ERROR


def test_a_result_stays_itself() -> None:
    result: AgentResult[str] = AgentResult(content="x")
    assert coerce_result(result) is result


def test_a_reply_becomes_a_result() -> None:
    assert coerce_result(ModelResponse(content="x")).content == "x"
    assert coerce_result(ModelResponse(error=ERROR)).error is ERROR


@pytest.mark.parametrize(
    ("value", "output", "content"),
    [
        ("text", "text", "text"),
        ("", "", ""),
        (None, None, None),
        (5, 5, None),
        (False, False, None),
        ([1, (2, 3)], [1, [2, 3]], None),
        ({}, {}, None),
        ({"title": "x", "content": "y"}, {"title": "x", "content": "y"}, None),
        ({"error": "none", "count": 3}, {"error": "none", "count": 3}, None),
        ({"usage": {"input_tokens": 1}}, {"usage": {"input_tokens": 1}}, None),
        ({"metadata": {}}, {"metadata": {}}, None),
        ({"content": {"html": "<p>"}}, {"content": {"html": "<p>"}}, None),
        ({"output": 1, "cost": "cheap"}, {"output": 1, "cost": "cheap"}, None),
        ({"kind": "agent_result", "status": 5}, {"kind": "agent_result", "status": 5}, None),
        ({"kind": "text", "text": "x"}, {"kind": "text", "text": "x"}, None),
        ({"content": "y"}, "y", "y"),
        ({"output": {"a": 1}, "content": "y"}, {"a": 1}, "y"),
        ({"output": {"output": {"content": 1}}}, {"output": {"content": 1}}, None),
        (MappingProxyType({"output": MappingProxyType({"a": 1})}), {"a": 1}, None),
    ],
    ids=repr,
)
def test_a_value_becomes_the_output_unless_it_is_a_contract_dict(
    value: object, output: Json, content: str | None
) -> None:
    result = coerce_result(value)
    assert (result.success, result.output, result.content) == (True, output, content)
    assert result.raw is value


@pytest.mark.parametrize(
    ("value", "status", "code", "message", "content"),
    [
        (
            {
                "content": None,
                "messages": [],
                "metadata": {"partialContent": "so far"},
                "success": False,
                "error": "auth_error: no key",
            },
            "failed",
            "auth_error",
            "no key",
            "so far",
        ),
        ({"success": False, "error": "bad: it is"}, "failed", "internal", "bad: it is", None),
        ({"success": False}, "failed", "internal", "It did not succeed.", None),
        (
            {"error": {"code": "x", "message": "m"}, "status": "completed"},
            "failed",
            "x",
            "m",
            None,
        ),
        ({"error": {"code": 429, "message": "m"}, "x": 1}, "failed", "internal", "m", None),
        (
            {"error": {"message": "m"}, "status": "aborted", "content": "c"},
            "aborted",
            "internal",
            "m",
            "c",
        ),
        ({"error": {"code": "canceled"}, "id": 1}, "canceled", "canceled", "", None),
    ],
    ids=repr,
)
def test_what_says_that_it_failed_is_a_failure(
    value: dict[str, Any], status: str, code: str, message: str, content: str | None
) -> None:
    result = coerce_result(value)
    assert result.error is not None
    assert (result.status, result.error.code, result.error.message) == (status, code, message)
    assert (result.content, result.raw) == (content, value)


@given(results())
def test_an_execution_result_is_read_with_its_status_and_its_error(
    result: AgentResult[Json],
) -> None:
    again = coerce_result(to_execution_result(result))
    assert (again.status, again.success) == (result.status, result.success)


@given(results())
def test_an_execution_result_that_was_read_is_shown_as_before(result: AgentResult[Json]) -> None:
    assume(result.error is None or result.error.code.isidentifier())
    told = to_execution_result(result)
    again = to_execution_result(coerce_result(json.loads(json.dumps(told))))
    assert again == told


def test_what_was_asked_is_not_what_an_execution_result_produced() -> None:
    asked, said = Message("user", "Hi"), Message("assistant", "Hello.")
    messages = [json.loads(encode(one)) for one in (asked, said, asked)]
    told = {"content": "Hello.", "messages": messages, "metadata": {}, "success": True}
    result = coerce_result(told)
    assert (result.messages, result.all_messages()) == ((said, asked), (asked, said, asked))


@pytest.mark.parametrize(
    "told",
    [
        {
            "metadata": {
                "startTime": "today",
                "cost": "free",
                "tokensUsed": -1.5,
                "executionTime": {},
            }
        },
        {"metadata": {"startTime": "2026-01-01T00:00:00", "model": 5, "warnings": "none"}},
        {"metadata": {"finishReason": ["stop"], "pending": [{"kind": "lunch"}], "runId": 7}},
        {"messages": [{"role": "narrator", "content": "Once upon a time"}]},
        {"metadata": "none", "messages": 5},
    ],
    ids=str,
)
def test_somebody_elses_view_is_read_as_far_as_it_is_understood(told: dict[str, Any]) -> None:
    view = {"content": "Hello.", "messages": [], "metadata": {}, "success": True} | told
    result = coerce_result(view)
    assert (result.success, result.content, result.raw) == (True, "Hello.", view)
    assert (result.messages, result.cost, result.started_at) == ((), None, None)


def test_data_with_an_error_of_its_own_is_data() -> None:
    data: dict[str, Any] = {"error": {"count": 1}, "success": True}
    assert coerce_result(data).output == data


@given(json_values())
def test_any_json_is_kept_or_read_as_a_contract_dict(value: Json) -> None:
    result = coerce_result(value)
    assert result.output == value or isinstance(value, dict)


@given(results())
def test_the_encoded_form_of_a_result_is_that_result(result: AgentResult[Json]) -> None:
    assert coerce_result(json.loads(encode(AgentResult(content="x")))).content == "x"
    again = coerce_result(json.loads(encode(result)))
    assert (again.status, again.messages) == (result.status, result.messages)


@pytest.mark.parametrize(
    ("exception", "kind", "message"),
    [
        (KeyError("x"), "KeyError", "'x'"),
        (ValueError(), "ValueError", "ValueError"),
        (RuntimeError("late\nvery"), "RuntimeError", "late very"),
        (OSError("\udcff"), "OSError", "\ufffd"),
        (Mute(), "Mute", "Mute"),
        (JournalError("torn"), "JournalError", "torn"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_becomes_a_failed_result(
    exception: BaseException, kind: str, message: str
) -> None:
    result = coerce_result(exception)
    assert result.error is not None
    assert result.status is Status.FAILED
    assert (result.error.code, result.error.type, result.error.message) == (
        ErrorCode.INTERNAL,
        kind,
        message,
    )
    assert result.raw is exception


def test_an_exception_that_brings_its_error_keeps_it() -> None:
    assert coerce_result(Busy()).error is ERROR
    assert coerce_result(ERROR).error is ERROR


@pytest.mark.parametrize("kind", [AgentResult, ModelResponse])
def test_run_failed_becomes_the_result_it_carries(kind: Any) -> None:
    status = {"status": Status.FAILED} if kind is AgentResult else {}
    value = kind(**status, error=ERROR, content="half")
    result = coerce_result(RunFailed(value))
    assert (result.error, result.content) == (ERROR, "half")


def test_a_value_that_is_no_json_is_a_failure() -> None:
    thing = Answer()
    result = coerce_result(thing)
    assert result.error is not None
    assert (result.error.code, result.error.type) == (ErrorCode.INVALID_OUTPUT, "Answer")
    assert result.raw is thing


def test_a_value_that_holds_itself_is_a_failure() -> None:
    ring: dict[str, Any] = {}
    ring["output"] = ring
    assert coerce_result(ring).error is not None


def test_what_is_lost_of_a_value_is_a_warning() -> None:
    result = coerce_result(["\ud800", {"n": math.nan}])
    assert result.output == ["\ufffd", {"n": None}]
    assert "/0, /1/n" in result.warnings[0].message


@given(st.recursive(st.floats() | st.text(max_size=3) | st.binary(max_size=2), st.lists))
def test_a_result_of_anything_can_be_written(value: Any) -> None:
    encode(coerce_result(value))
    encode(coerce_result({"output": value}))


# ---- what the model reads


def as_object(outcome: ToolOutcome, *, rich: bool = False) -> Any:
    return json.loads(outcome_to_model_content(outcome, rich=rich))


def denied(reason: DeniedReason, details: str = "", hint: str = "") -> ToolDenied:
    return ToolDenied("c1", "look", reason=reason, details=details, hint=hint)


@pytest.mark.parametrize(
    ("outcome", "keys"),
    [
        (ToolTimeout("c1", "look", effect="none"), "status error timed_out retryable"),
        (ToolFailure("c1", "look", effect="none"), "status error retryable"),
        (ToolTimeout("c1", "look"), "status error timed_out retryable effect"),
        (ToolFailure("c1", "look"), "status error retryable effect"),
        (denied(DeniedReason.DUPLICATE), "warning skipped"),
        (denied(DeniedReason.BLOCKED), "warning skipped"),
        (denied(DeniedReason.VALIDATION), "error details hint"),
        (denied(DeniedReason.DEADLINE), "error timed_out"),
        *((denied(DeniedReason(r)), "error blocked") for r in ("pre_hook", "policy", "mine", "")),
        (ToolArtifactReference("c1", "look"), "artifact_reference summary hint"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_each_outcome_has_exactly_its_keys(outcome: ToolOutcome, keys: str) -> None:
    assert list(as_object(outcome)) == keys.split()


def test_a_result_is_its_output() -> None:
    output: JsonObject = {"b": 1, "a": [None, "é", {"x": 0.5}]}
    text = outcome_to_model_content(ToolExecutionResult("c1", "look", output=output))
    assert text == '{"b":1,"a":[null,"é",{"x":0.5}]}'


@pytest.mark.parametrize("retryable", [True, False])
def test_a_timeout_says_so(retryable: bool) -> None:
    outcome = ToolTimeout("c1", "look", timeout_s=2.0, retryable=retryable, effect="none")
    assert as_object(outcome) == {
        "status": "error",
        "error": "look did not finish within 2 s.",
        "timed_out": True,
        "retryable": retryable,
    }


@pytest.mark.parametrize("retryable", [True, False])
def test_a_failure_says_why(retryable: bool) -> None:
    outcome = ToolFailure("c1", "look", error="no such file", retryable=retryable, effect="none")
    assert as_object(outcome) == {
        "status": "error",
        "error": "no such file",
        "retryable": retryable,
    }


@pytest.mark.parametrize(
    ("outcome", "form"),
    [
        (
            denied(DeniedReason.DUPLICATE, "as c0"),
            {"warning": "duplicate_tool_call", "skipped": True},
        ),
        (
            denied(DeniedReason.BLOCKED),
            {"warning": "non_retryable_tool_failure", "skipped": True},
        ),
        (
            denied(DeniedReason.VALIDATION, "/n: not an integer", "Give a whole number."),
            {
                "error": "argument_validation_failed",
                "details": "/n: not an integer",
                "hint": "Give a whole number.",
            },
        ),
        (
            denied(DeniedReason.DEADLINE),
            {"error": "Turn deadline expired; cannot execute tool.", "timed_out": True},
        ),
        (
            denied(DeniedReason.POLICY, "no network"),
            {"error": "Blocked: no network", "blocked": True},
        ),
        (denied(DeniedReason.BUDGET), {"error": "Blocked: budget", "blocked": True}),
    ],
    ids=lambda value: value.reason if isinstance(value, ToolDenied) else "",
)
def test_a_denial_says_what_the_table_says(outcome: ToolDenied, form: JsonObject) -> None:
    assert as_object(outcome) == form


def test_a_validation_denial_always_has_a_hint() -> None:
    assert as_object(denied(DeniedReason.VALIDATION))["hint"]


def test_an_artifact_says_how_to_read_it() -> None:
    outcome = ToolArtifactReference("c1", "dump", artifact_id="a-7", summary="10 rows")
    form = as_object(outcome)
    assert (form["artifact_reference"], form["summary"]) == ("a-7", "10 rows")
    assert "read_artifact" in form["hint"]
    assert "a-7" in form["hint"]


@given(outcomes())
def test_what_the_model_reads_is_json_without_escapes(outcome: ToolOutcome) -> None:
    text = outcome_to_model_content(outcome)
    assert json.loads(text) == json.loads(json.dumps(outcome_to_object(outcome)))
    assert text == outcome_to_model_content(outcome)


@given(texts().filter(str.isprintable))
def test_no_letter_is_escaped(text: str) -> None:
    content = outcome_to_model_content(ToolExecutionResult("c1", "look", output={"t": text}))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    assert content == f'{{"t":"{escaped}"}}'


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (math.nan, "null"),
        (-math.inf, "null"),
        ("\ud800", '"\ufffd"'),
        (Decimal("0.10"), "0.10"),
        ({"\udfff": (1, 2)}, '{"\ufffd":[1,2]}'),
        ({1}, "[1]"),
        (Effect.READ, '"read"'),
    ],
    ids=repr,
)
def test_what_a_hand_made_output_holds_beyond_json_is_made_json(value: Any, read: str) -> None:
    outcome = ToolExecutionResult("c1", "look", output={"v": value})
    assert outcome_to_model_content(outcome) == f'{{"v":{read}}}'


@pytest.mark.parametrize("text", ["\ud800", "\udc00 and \ud800"])
def test_lone_surrogates_in_any_outcome_are_replaced(text: str) -> None:
    for outcome in (
        ToolFailure("c1", "look", error=text),
        ToolTimeout("c1", text),
        denied(DeniedReason.POLICY, text),
        ToolArtifactReference("c1", "look", summary=text),
    ):
        assert "\ufffd" in outcome_to_model_content(outcome).encode("utf-8").decode("utf-8")


def test_an_output_that_cannot_be_json_is_refused() -> None:
    ring: dict[str, Any] = {}
    ring["me"] = ring
    for output in (ring, {"thing": Answer()}):
        with pytest.raises(UnserializableError):
            outcome_to_model_content(ToolExecutionResult("c1", "look", output=output))


@given(outcomes())
def test_the_richer_form_says_more_and_nothing_else(outcome: ToolOutcome) -> None:
    plain, rich = as_object(outcome), as_object(outcome, rich=True)
    assert plain.items() <= rich.items() if isinstance(plain, dict) else plain == rich
    more = {"code", "reason", "details", "hint", "effect"}
    more |= {"retry_after_s", "timeout_s", "size_bytes"}
    if not isinstance(outcome, ToolExecutionResult):
        assert set(rich) - set(plain) <= more


def test_the_richer_form_tells_code_and_effect_of_a_failure() -> None:
    failure = ToolFailure(
        "c1", "pay", error="lost", code=ErrorCode("interrupted"), retry_after_s=1.5
    )
    form = as_object(failure, rich=True)
    assert (form["code"], form["effect"], form["retry_after_s"]) == ("interrupted", "unknown", 1.5)
    said = "lost. It may have taken effect."
    assert outcome_to_object(failure, rich=True)["error"] == said


def test_the_limit_of_a_message_is_twelve_thousand_characters() -> None:
    assert TOOL_MESSAGE_MAX_CHARS == 12_000
