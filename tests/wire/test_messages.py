"""Messages replies, whole and streamed."""

import json

import pytest

from upshot.contract import ReasoningDelta, ServerToolBlock, TextDelta, ToolCallDelta
from upshot.wire import StreamReader, read_response

START = {"type": "message_start", "message": {"id": "m1", "model": "claude", "usage": {
    "input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 1}}}  # fmt: skip


def read(*blocks, stop="end_turn", **document):
    body = {
        "type": "message",
        "model": "claude",
        "content": blocks,
        "stop_reason": stop,
        **document,
    }
    return read_response(
        "messages", status=200, headers={}, body=json.dumps(body).encode(), provider="anthropic"
    )


def stream(*events):
    reader = StreamReader("messages", provider="anthropic")
    deltas = []
    for event in events:
        data = json.dumps(event).encode()
        deltas += reader.feed(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), data))
    return deltas, reader.close()


def block(index, start, *deltas):
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def end(stop="end_turn", **usage):
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
    yield {"type": "message_stop"}


def test_text_blocks_are_joined():
    response = read({"type": "text", "text": "a"}, {"type": "text", "text": "b"})
    assert (response.content, response.finish_reason) == ("ab", "stop")


def test_cache_is_added_to_the_input():
    usage = {
        "input_tokens": 4, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 1,
        "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2},
    }  # fmt: skip
    found = read(usage=usage).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (15, 5, 20)
    assert (found.cache_read_tokens, found.cache_write_tokens, found.reasoning_tokens) == (10, 1, 2)


def test_thoughts_are_kept_with_their_signatures():
    response = read(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "x"},
    )
    plain, hidden = response.reasoning
    assert (plain.text, plain.signature, plain.provider) == ("hm", "s", "anthropic")
    assert (hidden.signature, hidden.redacted) == ("d", True)


def test_calls_are_read():
    response = read(
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}, stop="tool_use"
    )
    (call,) = response.tool_calls
    assert (call.id, call.name, call.arguments) == ("t1", "f", {"a": 1})
    assert response.finish_reason == "tool_use"


def test_the_providers_own_tools_are_apart():
    response = read(
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    )
    assert response.tool_calls == ()
    assert response.provider_data["server_tools"] == ["server_tool_use", "web_search_tool_result"]


def test_calls_that_the_providers_code_has_settled_are_no_reason():
    code = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}}
    caller = {"type": "code_execution", "tool_id": "s1"}
    inner = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": caller}
    result = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {}}
    assert read(code, inner, result).finish_reason == "stop"
    assert read(code, inner).finish_reason == "tool_use"


def test_a_refusal_is_a_content_filter():
    assert read(stop="refusal").finish_reason == "content_filter"


KEPT = {"id": "container_1", "expires_at": "2026-11-22T12:00:00Z"}


@pytest.mark.parametrize(("stop", "goes_on"), [("pause_turn", True), ("end_turn", False)])
def test_where_code_ran_is_kept_with_a_reply_whose_turn_goes_on(stop: str, goes_on: bool):
    whole = read({"type": "text", "text": "a"}, stop=stop, container=KEPT)
    last = {"type": "message_delta", "delta": {"stop_reason": stop, "container": KEPT}}
    text = block(0, {"type": "text", "text": "a"})
    _, streamed = stream(START, *text, last, {"type": "message_stop"})
    part = ServerToolBlock({"type": "container", **KEPT}, "anthropic")
    for response in (whole, streamed):
        assert response.provider_data["container"] == KEPT
        assert (part in response.parts) is goes_on


def test_a_paused_turn_is_not_over():
    response = read(stop="pause_turn")
    assert (response.finish_reason, response.provider_data["finish_raw"]) == (None, "pause_turn")
    assert response.paused
    assert response.to_message().paused
    assert not read().paused


def test_a_stream_gives_deltas_and_the_same_response():
    deltas, response = stream(
        START,
        *block(0, {"type": "thinking", "thinking": ""},
               {"type": "thinking_delta", "thinking": "hm"},
               {"type": "signature_delta", "signature": "s"}),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}),
        *block(2, {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
               {"type": "input_json_delta", "partial_json": '{"a"'},
               {"type": "input_json_delta", "partial_json": ": 1}"}),
        *end("tool_use", output_tokens=9),
    )  # fmt: skip
    assert deltas == [
        ReasoningDelta(text="hm"),
        TextDelta(text="hi"),
        ToolCallDelta(index=0, call_id="t1", name="f"),
        ToolCallDelta(index=0, call_id="t1", name="f", arguments='{"a"'),
        ToolCallDelta(index=0, call_id="t1", name="f", arguments=": 1}"),
    ]
    assert (response.content, response.tool_calls[0].arguments) == ("hi", '{"a": 1}')
    assert (response.reasoning[0].text, response.reasoning[0].signature) == ("hm", "s")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (5, 9)
    assert response.provider_data["stream_done"] is True


def test_a_call_without_pieces_has_its_first_input():
    _, response = stream(
        START, *block(0, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}), *end()
    )
    assert response.tool_calls[0].arguments == {"a": 1}


def test_an_error_in_a_stream_keeps_the_text():
    _, response = stream(
        START,
        *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hal"}),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )
    assert (response.content, response.finish_reason) == ("hal", "error")
    assert (response.error.code, response.error.retryable) == ("server_error", True)


def test_a_cut_stream_keeps_what_came_and_says_so():
    _, response = stream(
        START, *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hal"})
    )
    assert (response.content, response.finish_reason) == ("hal", None)
    assert response.provider_data["stream_done"] is False


def test_a_delta_of_an_unknown_block_is_passed_over():
    _, response = stream(
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}
    )
    assert response.content is None


def test_a_reply_without_content_is_no_answer():
    response = read_response("messages", status=200, headers={}, body=b"{}")
    assert response.error.code == "server_error"
