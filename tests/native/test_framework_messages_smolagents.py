"""A smolagents ChatMessage as a reply."""

from types import SimpleNamespace as Object

from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import FinishReason, ToolCall
from upshot.native.framework_messages import read_smolagents_message


def message(*, content="Hi", tool_calls=None, raw=None, token_usage=None):
    return Object(
        role="assistant",
        content=content,
        tool_calls=tool_calls,
        raw=raw,
        token_usage=token_usage,
    )


def test_text_and_usage_are_read():
    found = read_smolagents_message(message(token_usage=Object(input_tokens=10, output_tokens=5)))
    assert found.content == "Hi"
    assert (found.usage.input_tokens, found.usage.output_tokens) == (10, 5)
    assert found.usage.total_tokens == 15


def test_parts_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert read_smolagents_message(message(content=parts)).content == "ab"


def test_calls_are_read():
    call = Object(id="c1", function=Object(name="add", arguments={"x": 1}), type="function")
    found = read_smolagents_message(message(content=None, tool_calls=[call]))
    assert found.tool_calls == (ToolCall("c1", "add", {"x": 1}),)
    assert found.content is None


def test_nothing_is_said_of_why_it_stopped():
    assert read_smolagents_message(message()).finish_reason is None


def test_what_the_api_said_is_read_from_raw():
    raw = Object(
        choices=[Object(finish_reason="length", message=Object(content="Hi"))],
        model="gpt-5",
        usage=Object(
            prompt_tokens=10,
            completion_tokens=5,
            total_tokens=15,
            prompt_tokens_details=Object(cached_tokens=4),
        ),
        _response_headers={"x-ratelimit-remaining-requests": "9"},
    )
    found = read_smolagents_message(
        message(raw=raw, token_usage=Object(input_tokens=10, output_tokens=5))
    )
    assert found.finish_reason is FinishReason.LENGTH
    assert found.usage.cache_read_tokens == 4
    assert found.provider_data["model"] == "gpt-5"
    assert found.rate_limit.windows[0].remaining == 9
    assert found.raw is raw


def test_a_raw_of_another_shape_gives_its_headers():
    raw = Object(_response_headers={"retry-after": "3"}, output="text")
    found = read_smolagents_message(message(raw=raw))
    assert found.rate_limit.retry_after == 3
    assert found.error is None
    assert found.usage.unmeasured_calls == 1


JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "tool_calls", "raw", "token_usage", "text", "choices"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_shape_makes_it_raise(native):
    read_smolagents_message(native)
