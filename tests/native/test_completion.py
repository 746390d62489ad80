"""Chat completions as objects of client libraries."""

from decimal import Decimal
from types import SimpleNamespace as Object

from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import FinishReason, ToolCall
from upshot.native.completion import read_completion


def completion(*, message=None, finish="stop", **more):
    choice = Object(finish_reason=finish, message=message or Object(role="assistant", content="Hi"))
    return Object(id="chatcmpl-1", model="gpt-5", choices=[choice], **more)


def test_text_model_and_finish_are_read():
    native = completion()
    found = read_completion(native)
    assert (found.content, found.finish_reason) == ("Hi", FinishReason.STOP)
    assert found.provider_data["model"] == "gpt-5"
    assert found.provider_data["response_id"] == "chatcmpl-1"
    assert found.raw is native


def test_the_json_form_is_read_like_the_object():
    form = {
        "id": "chatcmpl-1",
        "model": "gpt-5",
        "choices": [{"finish_reason": "stop", "message": {"content": "Hi"}}],
    }
    assert read_completion(form) == read_completion(completion())


def test_calls_are_read():
    call = Object(id="c1", function=Object(name="add", arguments='{"x": 1}'))
    found = read_completion(
        completion(message=Object(content=None, tool_calls=[call]), finish="tool_calls")
    )
    assert found.tool_calls == (ToolCall("c1", "add", '{"x": 1}'),)
    assert found.finish_reason is FinishReason.TOOL_USE


def test_cached_and_reasoning_tokens_are_parts():
    usage = Object(
        prompt_tokens=100,
        completion_tokens=50,
        total_tokens=150,
        prompt_tokens_details=Object(cached_tokens=40, cache_creation_tokens=7),
        completion_tokens_details=Object(reasoning_tokens=30),
    )
    found = read_completion(completion(usage=usage)).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (100, 50, 150)
    assert (found.cache_read_tokens, found.cache_write_tokens) == (40, 7)
    assert (found.reasoning_tokens, found.api_calls) == (30, 1)


def test_a_usage_of_zeros_is_none():
    usage = Object(prompt_tokens=0, completion_tokens=0, total_tokens=0)
    found = read_completion(completion(usage=usage)).usage
    assert not found
    assert (found.api_calls, found.unmeasured_calls) == (1, 1)


def test_a_reported_cost_wins_over_one_that_was_worked_out():
    hidden = {"response_cost": 0.5, "custom_llm_provider": "openrouter"}
    usage = Object(prompt_tokens=1, completion_tokens=1, total_tokens=2, cost=0.25)
    reported = read_completion(completion(usage=usage, _hidden_params=hidden)).cost
    worked_out = read_completion(completion(_hidden_params=hidden)).cost
    assert (reported.total, reported.estimated) == (Decimal("0.25"), False)
    assert (worked_out.total, worked_out.estimated) == (Decimal("0.5"), True)
    assert worked_out.source == "litellm"


def test_thoughts_keep_their_signatures():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
    ]
    message = Object(content="Hi", thinking_blocks=blocks, reasoning_content="hm")
    plain, redacted = read_completion(
        completion(message=message, _hidden_params={"custom_llm_provider": "anthropic"})
    ).reasoning
    assert (plain.text, plain.signature, plain.provider) == ("hm", "sig", "anthropic")
    assert (redacted.signature, redacted.redacted) == ("opaque", True)


def test_headers_become_windows():
    found = read_completion(
        completion(_response_headers={"x-ratelimit-remaining-tokens": "0", "x-request-id": "r1"})
    )
    assert found.rate_limit.limited
    assert found.provider_data["request_id"] == "r1"


def test_what_has_no_choices_is_an_error_value():
    assert read_completion(Object()).error is not None
    assert read_completion(None).error is not None


NAMES = [
    "choices",
    "message",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "usage",
    "prompt_tokens",
    "_hidden_params",
    "response_cost",
    "id",
    "thinking_blocks",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_shape_makes_it_raise(native):
    read_completion(native)
