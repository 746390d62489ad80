"""Reading replies of every surface: framing, errors, and that nothing raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import AgentError, ErrorCode, ModelResponse, decode, encode
from upshot.errors import Misuse
from upshot.wire import StreamReader, read_response
from upshot.wire.reader import SURFACES

CHAT = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
CHUNKS = (
    b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def test_an_unknown_surface_is_misuse():
    with pytest.raises(Misuse, match="chat, converse"):
        read_response("chatter", status=200, headers={}, body=b"")
    with pytest.raises(Misuse):
        StreamReader("chatter")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, CHAT),
        ({"content-type": "text/event-stream"}, CHUNKS),
        ({}, CHAT),
        ({}, CHUNKS),
        ({"content-type": "text/event-stream"}, CHAT),
        ({"content-type": "application/json"}, CHUNKS),
        ({}, b"\xef\xbb\xbf\n" + CHAT),
    ],
    ids=["json", "sse", "json-unsaid", "sse-unsaid", "json-as-sse", "sse-as-json", "bom"],
)
def test_the_framing_is_found_out(headers, body):
    response = read_response("chat", status=200, headers=headers, body=body)
    assert (response.content, response.finish_reason) == ("hi", "stop")


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("body", [b"", b"  ", b"<html>busy</html>", b"[]", b"7", b"null"])
def test_a_200_that_is_no_answer_is_a_server_error(surface, body):
    response = read_response(surface, status=200, headers={}, body=body, mode="json")
    assert (response.success, response.finish_reason) == (False, "error")
    assert response.error.code == "server_error"


@pytest.mark.parametrize("surface", SURFACES)
def test_a_bad_status_is_an_error_with_its_windows(surface):
    response = read_response(
        surface,
        status=429,
        headers={"retry-after": "7", "x-ratelimit-remaining-tokens": "5", "x-request-id": "r"},
        body=b'{"error": {"message": "slow down", "type": "tokens"}}',
        provider="p",
    )
    assert (response.error.code, response.error.retry_after_s) == ("rate_limit", 7)
    assert (response.rate_limit.limited, response.rate_limit.retry_after) == (True, 7)
    data = response.provider_data
    assert (data["request_id"], data["error_type_raw"], data["provider"]) == ("r", "tokens", "p")
    assert "stream_done" not in data


def test_the_error_of_a_refused_stream_may_be_an_event():
    body = b'event: error\ndata: {"error": {"code": "context_length_exceeded"}}\n\n'
    response = read_response("chat", status=400, headers={}, body=body, mode="sse")
    assert response.error.code == "context_length"


def test_raw_headers_are_lower_case_and_without_secrets():
    headers = {"X-A": "1", "Set-Cookie": "s"}
    response = read_response("chat", status=200, headers=headers, body=CHAT)
    assert response.provider_data["raw_headers"] == {"x-a": "1"}


def test_a_broken_connection_keeps_what_came():
    reader = StreamReader("chat")
    reader.feed(b'data: {"choices": [{"delta": {"content": "hal"}}]}\n\n')
    response = reader.fail(AgentError(ErrorCode.SERVER_ERROR, "reset", retryable=True))
    assert (response.content, response.error.message) == ("hal", "reset")


def test_a_closed_reader_gives_the_same_response_again():
    reader = StreamReader("chat")
    reader.feed(CHUNKS)
    assert reader.close() is reader.close()


keys = st.sampled_from(
    ["choices", "delta", "message", "content", "tool_calls", "function", "arguments", "name", "id",
     "index", "finish_reason", "usage", "prompt_tokens", "completion_tokens", "total_tokens",
     "prompt_tokens_details", "error", "reasoning_details", "reasoning", "text", "type", "model",
     "content_block", "input", "partial_json", "stop_reason", "cost", "cost_in_usd_ticks",
     "x_groq", "signature", "caller", "tool_id", "tool_use_id", "refusal", "thinking"]
)  # fmt: skip
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["message_start", "message_delta", "content_block_start", "tool_use",
                       "content_block_delta", "text_delta", "text", "thinking", "error"])
)  # fmt: skip
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=30,
)
bodies = st.binary() | documents.map(lambda document: json.dumps(document).encode())
events = st.lists(bodies.map(lambda body: b"data: " + body + b"\n\n")).map(b"".join)
statuses = st.sampled_from([200, 204, 400, 404, 429, 500, 529])
surfaces = st.sampled_from(sorted(SURFACES))


@given(
    surfaces, statuses, bodies | events, st.sampled_from([None, "json", "sse", "aws-eventstream"])
)
def test_any_body_gives_a_response_that_can_be_encoded(surface, status, body, mode):
    response = read_response(surface, status=status, headers={}, body=body, mode=mode)
    assert decode(encode(response), ModelResponse) == response


@given(surfaces, events | bodies, st.lists(st.integers(0, 50)))
def test_any_split_gives_the_same_response_and_deltas(surface, body, sizes):
    whole, split = StreamReader(surface, now=0.0), StreamReader(surface, now=0.0)
    wanted, found, rest = whole.feed(body), [], body
    for size in sizes:
        found += split.feed(rest[:size])
        rest = rest[size:]
    found += split.feed(rest)
    assert [encode(event) for event in found] == [encode(event) for event in wanted]
    assert split.close() == whole.close()


def test_what_is_not_known_is_not_in_the_provider_data():
    data = read_response("chat", status=200, headers={}, body=CHAT, mode="json").provider_data
    assert data == {"finish_raw": "stop"}


def test_a_stream_cut_within_an_event_is_cut_and_not_wrong():
    reader = StreamReader("chat")
    reader.feed(b'data: {"choices": [{"delta": {"content": "hal"}}]}\n\ndata: {"choices": [')
    response = reader.close()
    assert (response.content, response.error) == ("hal", None)
    assert response.provider_data["stream_done"] is False
