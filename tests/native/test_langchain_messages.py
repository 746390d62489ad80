"""LangChain's AIMessage."""

import pytest

from upshot.contract import Reasoning, ToolCall
from upshot.native.langchain_messages import read_langchain_message


def ai(content="Hi", *, told=None, usage=None, **fields):
    return {
        "type": "ai",
        "content": content,
        "response_metadata": {"model_provider": "openai", "model_name": "gpt-5", **(told or {})},
        "usage_metadata": usage,
        **fields,
    }


def counts(given=100, made=50, **details):
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made, **details}


def test_a_reply_is_read():
    usage = counts(
        input_token_details={"cache_read": 40, "cache_creation": 7, "audio": 1},
        output_token_details={"reasoning": 20},
    )
    reply = read_langchain_message(ai(told={"finish_reason": "stop", "id": "r1"}, usage=usage))
    assert (reply.content, reply.finish_reason) == ("Hi", "stop")
    assert (reply.usage.input_tokens, reply.usage.total_tokens) == (100, 150)
    assert (reply.usage.cache_read_tokens, reply.usage.cache_write_tokens) == (40, 7)
    assert (reply.usage.reasoning_tokens, reply.usage.input_audio_tokens) == (20, 1)
    assert reply.provider_data == {
        "provider": "openai",
        "model": "gpt-5",
        "response_id": "r1",
        "finish_raw": "stop",
    }


def test_writes_to_a_cache_are_added_up_over_how_long_they_are_kept():
    details = {
        "cache_read": 0,
        "cache_creation": 0,
        "ephemeral_5m_input_tokens": 30,
        "ephemeral_1h_input_tokens": 12,
    }
    reply = read_langchain_message(ai(usage=counts(input_token_details=details)))
    assert reply.usage.cache_write_tokens == 42


def test_a_reply_without_usage_is_not_measured():
    reply = read_langchain_message(ai())
    assert (bool(reply.usage), reply.usage.unmeasured_calls) == (False, 1)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"stopReason": "tool_use"}, "tool_use"),
        ({"done_reason": "stop"}, "stop"),
        ({}, None),
    ],
)
def test_the_finish_is_read_under_the_name_of_each_provider(told, reason):
    assert read_langchain_message(ai(told=told)).finish_reason == reason


def test_calls_are_read_with_those_whose_arguments_are_broken():
    whole = {"name": "add", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
    broken = {"name": "add", "args": '{"x":', "id": "c2", "error": "not JSON"}
    reply = read_langchain_message(ai("", tool_calls=[whole], invalid_tool_calls=[broken]))
    assert reply.tool_calls == (ToolCall("c1", "add", {"x": 1}), ToolCall("c2", "add", '{"x":'))


def test_the_text_of_blocks_is_joined_and_their_calls_are_not_taken_twice():
    call = {"name": "add", "args": {}, "id": "c1"}
    blocks = [{"type": "text", "text": "He"}, "llo", {"type": "tool_use", "id": "c1", "input": {}}]
    reply = read_langchain_message(ai(blocks, tool_calls=[call]))
    assert (reply.content, len(reply.tool_calls)) == ("Hello", 1)


@pytest.mark.parametrize(
    ("block", "thought"),
    [
        (
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            Reasoning(text="hm", signature="sig", provider="openai"),
        ),
        (
            {"type": "redacted_thinking", "data": "sealed"},
            Reasoning(signature="sealed", provider="openai", redacted=True),
        ),
        (
            {"type": "reasoning", "summary": [{"text": "h"}, {"text": "m"}], "id": "rs_1"},
            Reasoning(text="hm", provider="openai", id="rs_1"),
        ),
        (
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "sig"}},
            Reasoning(text="hm", signature="sig", provider="openai"),
        ),
    ],
)
def test_thoughts_are_read(block, thought):
    reply = read_langchain_message(ai([block, {"type": "text", "text": "Hi"}]))
    assert (reply.reasoning, reply.content) == ((thought,), "Hi")


def test_a_thought_beside_the_content_is_read():
    reply = read_langchain_message(ai(additional_kwargs={"reasoning_content": "hm"}))
    assert reply.reasoning == (Reasoning(text="hm", provider="openai"),)


def test_a_refusal_is_read():
    assert read_langchain_message(ai("", additional_kwargs={"refusal": "no"})).refusal == "no"


def test_the_limits_in_its_headers_are_read():
    headers = {"x-ratelimit-remaining-requests": "9", "x-request-id": "req_1"}
    reply = read_langchain_message(ai(told={"headers": headers}))
    assert reply.rate_limit.windows[0].remaining == 9
    assert reply.provider_data["request_id"] == "req_1"
