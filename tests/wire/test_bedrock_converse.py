"""Converse replies of Bedrock, whole and streamed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.absurd import check_reading, check_splitting, documents, sizes, to_bytes
from tests.wire.exchange import load
from tests.wire.frames import frame
from upshot.contract import ReasoningDelta, TextDelta, ToolCallDelta
from upshot.wire import StreamReader, read_response

USAGE = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}


def read(*blocks, stop="end_turn", headers=None, **document):
    body = {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": stop,
        **document,
    }
    return read_response(
        "converse",
        status=200,
        headers=headers,
        body=json.dumps(body).encode(),
        provider="bedrock",
    )


def stream(*frames):
    reader = StreamReader("converse", provider="bedrock", mode="aws-eventstream", now=0.0)
    deltas = reader.feed(b"".join(frames))
    return deltas, reader.close()


def start(index, **block):
    return frame("contentBlockStart", {"contentBlockIndex": index, "start": block})


def delta(index, **piece):
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": piece})


def end(stop="end_turn", usage=USAGE):
    return frame("messageStop", {"stopReason": stop}) + frame("metadata", {"usage": usage})


def test_text_blocks_are_joined():
    response = read({"text": "a"}, {"text": "b"})
    assert (response.content, response.finish_reason) == ("ab", "stop")


def test_the_text_of_cited_blocks_is_said_too():
    assert read({"citationsContent": {"content": [{"text": "a"}]}}).content == "a"


@pytest.mark.parametrize("name", ["Tokens", "TokenCount"])
def test_cache_is_added_to_the_input(name):
    cached = {f"cacheReadInput{name}": 10, f"cacheWriteInput{name}": 5}
    usage = read(usage={**USAGE, **cached}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (18, 4, 22)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (10, 5)


def test_thoughts_are_kept_with_their_signatures():
    response = read(
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "d"}},
    )
    plain, hidden = response.reasoning
    assert (plain.text, plain.signature, plain.provider) == ("hm", "s", "bedrock")
    assert (hidden.signature, hidden.redacted) == ("d", True)


def test_calls_are_read():
    use = {"toolUseId": "t1", "name": "f", "input": {"a": 1}}
    response = read({"toolUse": use}, stop="tool_use")
    (call,) = response.tool_calls
    assert (call.id, call.name, call.arguments) == ("t1", "f", {"a": 1})
    assert response.finish_reason == "tool_use"


def test_the_providers_own_tools_are_apart():
    response = read(
        {"toolUse": {"toolUseId": "s1", "name": "code", "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "s1", "type": "code_result"}},
        {"image": {"format": "png"}},
    )
    assert response.tool_calls == ()
    assert response.provider_data["server_tools"] == ["server_tool_use", "code_result"]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("max_tokens", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "length"),
        ("malformed_tool_use", "error"),
        (None, None),
    ],
)
def test_the_stop_reason_is_the_finish(stop, finish):
    assert read(stop=stop).finish_reason == finish


def test_a_message_alone_is_an_exception():
    response = read_response(
        "converse",
        status=200,
        headers={"x-amzn-errortype": "ThrottlingException:http://x"},
        body=b'{"message": "slow down"}',
    )
    assert (response.error.code, response.error.message) == ("rate_limit", "slow down")


def test_a_stream_gives_deltas_and_the_same_response():
    deltas, response = stream(
        frame("messageStart", {"role": "assistant"}),
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "s"}),
        delta(1, text="hi"),
        frame("contentBlockStop", {"contentBlockIndex": 1}),
        start(2, toolUse={"toolUseId": "t1", "name": "f"}),
        delta(2, toolUse={"input": '{"a"'}),
        delta(2, toolUse={"input": ": 1}"}),
        end("tool_use"),
    )
    assert deltas == [
        ReasoningDelta(text="hm"),
        TextDelta(text="hi"),
        ToolCallDelta(index=0, call_id="t1", name="f"),
        ToolCallDelta(index=0, call_id="t1", name="f", arguments='{"a"'),
        ToolCallDelta(index=0, call_id="t1", name="f", arguments=": 1}"),
    ]
    assert (response.content, response.tool_calls[0].arguments) == ("hi", '{"a": 1}')
    assert (response.reasoning[0].text, response.reasoning[0].signature) == ("hm", "s")
    assert (response.finish_reason, response.usage.total_tokens) == ("tool_use", 7)
    assert response.provider_data["stream_done"] is True


def test_calls_of_the_provider_give_no_deltas():
    deltas, response = stream(
        start(0, toolUse={"toolUseId": "s1", "name": "code", "type": "server_tool_use"}),
        delta(0, toolUse={"input": "{}"}),
        start(1, toolResult={"toolUseId": "s1", "type": "code_result"}),
        delta(1, toolResult=[{"json": {}}]),
        end(),
    )
    assert (deltas, response.tool_calls) == ([], ())
    assert response.provider_data["server_tools"] == ["server_tool_use", "code_result"]


def test_an_exception_in_a_stream_keeps_the_text():
    error = frame("throttlingException", {"message": "slow"}, message_type="exception")
    _, response = stream(delta(0, text="hal"), error)
    assert (response.content, response.finish_reason) == ("hal", "error")
    assert (response.error.code, response.error.retryable) == ("rate_limit", True)
    assert response.error.type == "throttlingException"


def test_damage_keeps_the_text():
    _, response = stream(delta(0, text="hal"), b"\0" * 16, delta(0, text="lo"))
    assert (response.content, response.error.code) == ("hal", "server_error")
    assert response.error.retryable


def test_a_cut_stream_keeps_what_came_and_says_so():
    _, response = stream(delta(0, text="hal"), end()[:-5])
    assert response.content == "hal"
    assert response.provider_data["stream_done"] is False
    assert stream(delta(0, text="hal"), end()[:20])[1].finish_reason is None


def test_a_stream_without_a_content_type_is_known_by_its_first_byte():
    body = delta(0, text="hi") + end()
    assert read_response("converse", status=200, headers={}, body=body).content == "hi"


@pytest.mark.parametrize("surface", ["converse", "invoke"])
def test_recorded_streams_are_read_alike_in_pieces_and_unfinished_when_cut(corpus, surface):
    for item, _ in load(corpus, surface):
        data = item["bytes"]
        if item["mode"] != "aws-eventstream":
            continue
        check_splitting(surface, data, [1, 3, 700, 11, 90, 2], mode="aws-eventstream")
        for end in range(0, len(data) - 1, max(1, len(data) // 20)):
            response = read_response(
                surface, status=200, headers={}, body=data[:end], mode="aws-eventstream"
            )
            assert response.provider_data["stream_done"] is False


KEYS = (
    "output message content text toolUse toolUseId name input type reasoningContent reasoningText "
    "signature redactedContent stopReason usage inputTokens outputTokens cacheReadInputTokens "
    "contentBlockIndex start delta citationsContent toolResult error"
)
EVENTS = "messageStart contentBlockStart contentBlockDelta messageStop metadata validationException"
absurd = documents(KEYS, "server_tool_use tool_use end_turn max_tokens x")
frames = st.builds(
    frame,
    st.sampled_from(EVENTS.split()),
    absurd,
    message_type=st.sampled_from(["event", "exception"]),
)


@given(absurd.map(to_bytes) | st.lists(frames).map(b"".join))
def test_any_reply_is_read(body):
    check_reading("converse", body)


@given(st.lists(frames | st.binary(max_size=3)).map(b"".join), sizes)
def test_any_split_gives_the_same_response(body, sizes):
    check_splitting("converse", body, sizes, mode="aws-eventstream")
