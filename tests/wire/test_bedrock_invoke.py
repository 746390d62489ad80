"""InvokeModel replies of Bedrock, in the form of each maker, whole and streamed.

Only those of Anthropic's models are recorded; the others are built from the documentation.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.absurd import check_reading, check_splitting, documents, sizes, to_bytes
from tests.wire.frames import chunk, frame
from upshot.contract import TextDelta
from upshot.wire import StreamReader, read_response

CLAUDE = {
    "type": "message",
    "model": "claude",
    "content": [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3},
}
NOVA = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
    "stopReason": "max_tokens",
    "usage": {"inputTokens": 3, "outputTokens": 3},
}
CHAT = {
    "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 3},
}
TITAN = {
    "inputTextTokenCount": 3,
    "results": [{"tokenCount": 3, "outputText": "hi", "completionReason": "LENGTH"}],
}
LLAMA = {
    "generation": "hi",
    "prompt_token_count": 3,
    "generation_token_count": 3,
    "stop_reason": "length",
}
MISTRAL = {"outputs": [{"text": "hi", "stop_reason": "length"}]}
COHERE = {"generations": [{"text": "hi", "finish_reason": "MAX_TOKENS"}]}
DEEPSEEK = {"choices": [{"text": "hi", "stop_reason": "length"}]}
COUNTS = {"x-amzn-bedrock-input-token-count": "3", "x-amzn-bedrock-output-token-count": "3"}
METRICS = {"inputTokenCount": 3, "outputTokenCount": 3}


def read(document, headers=None):
    body = json.dumps(document).encode()
    return read_response("invoke", status=200, headers=headers, body=body, provider="bedrock")


def stream(*documents):
    reader = StreamReader("invoke", provider="bedrock", mode="aws-eventstream", now=0.0)
    deltas = reader.feed(b"".join(map(chunk, documents)))
    return deltas, reader.close()


@pytest.mark.parametrize(
    ("document", "finish"),
    [
        (CLAUDE, "tool_use"),
        (NOVA, "length"),
        (CHAT, "stop"),
        (TITAN, "length"),
        (LLAMA, "length"),
        (MISTRAL, "length"),
        (COHERE, "length"),
        (DEEPSEEK, "length"),
        ({"completion": "hi", "stop_reason": "stop_sequence"}, "stop"),
    ],
    ids=["claude", "nova", "chat", "titan", "llama", "mistral", "cohere", "deepseek", "claude-2"],
)
def test_each_makers_reply_is_read(document, finish):
    response = read(document, COUNTS)
    assert (response.content, response.finish_reason) == ("hi", finish)
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 3)


def test_calls_in_the_form_of_cohere_are_read():
    call = {"name": "f", "parameters": {"a": 1}}
    response = read({"text": "", "tool_calls": [call], "finish_reason": "COMPLETE"})
    assert (response.tool_calls[0].name, response.tool_calls[0].arguments) == ("f", {"a": 1})
    assert response.finish_reason == "tool_use"


def test_what_is_no_makers_reply_is_no_answer():
    assert read({"x": 1}).error.code == "server_error"
    assert read({"message": "Too many requests"}).error.code == "rate_limit"


def test_a_stream_of_claude_is_read():
    deltas, response = stream(
        {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
         "usage": {"output_tokens": 3}},
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS},
    )  # fmt: skip
    assert deltas == [TextDelta(text="hi")]
    assert (response.content, response.finish_reason) == ("hi", "stop")
    assert (response.usage.total_tokens, response.provider_data["stream_done"]) == (6, True)


@pytest.mark.parametrize(
    "chunks",
    [
        [{"messageStart": {}}, {"contentBlockDelta": {"delta": {"text": "hi"}}},
         {"messageStop": {"stopReason": "end_turn"}}, {"metadata": {"usage": {}}}],
        [{"choices": [{"delta": {"content": "h"}}]},
         {"choices": [{"delta": {"content": "i"}, "finish_reason": "stop"}]}],
        [{"outputText": "h"}, {"outputText": "i", "completionReason": "FINISH"}],
        [{"generation": "h"}, {"generation": "i", "stop_reason": "stop"}],
        [{"outputs": [{"text": "hi", "stop_reason": "stop"}]}],
        [{"text": "hi", "event_type": "text-generation"},
         {"is_finished": True, "finish_reason": "COMPLETE", "response": {"text": "hi"}}],
    ],
    ids=["nova", "chat", "titan", "llama", "mistral", "cohere"],
)  # fmt: skip
def test_each_makers_stream_is_read(chunks):
    *first, last = chunks
    deltas, response = stream(*first, {**last, "amazon-bedrock-invocationMetrics": METRICS})
    assert "".join(delta.text for delta in deltas) == response.content == "hi"
    assert (response.finish_reason, response.usage.total_tokens) == ("stop", 6)
    assert response.provider_data["stream_done"] is True


def test_a_cut_stream_has_no_finish():
    _, response = stream({"generation": "h", "stop_reason": None})
    assert (response.content, response.finish_reason) == ("h", None)
    assert response.provider_data["stream_done"] is False


def test_an_exception_in_a_stream_keeps_the_text():
    reader = StreamReader("invoke", mode="aws-eventstream")
    reader.feed(chunk({"generation": "hal"}))
    reader.feed(frame("modelTimeoutException", {"message": "late"}, message_type="exception"))
    response = reader.close()
    assert (response.content, response.error.code) == ("hal", "timeout")


@pytest.mark.parametrize("data", ["!", "aGk="])
def test_a_chunk_that_is_no_json_is_an_error(data):
    reader = StreamReader("invoke", mode="aws-eventstream")
    reader.feed(frame("chunk", {"bytes": data}))
    assert reader.close().error.code == "server_error"


KEYS = (
    "type content text completion results outputs generations choices message delta stop_reason "
    "outputText generation usage inputTextTokenCount tool_calls name parameters output "
    "messageStart contentBlockDelta is_finished finish_reason amazon-bedrock-invocationMetrics "
    "inputTokenCount"
)
absurd = documents(KEYS, "message_start content_block_delta message error x")
frames = absurd.map(chunk) | absurd.map(lambda document: frame("chunk", document))


@given(absurd.map(to_bytes) | st.lists(frames).map(b"".join))
def test_any_reply_is_read(body):
    check_reading("invoke", body)


@given(st.lists(frames).map(b"".join), sizes)
def test_any_split_gives_the_same_response(body, sizes):
    check_splitting("invoke", body, sizes, mode="aws-eventstream")
