"""GenerateContent replies, whole and streamed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.absurd import check_reading, check_splitting, documents, sizes, to_bytes, to_event
from upshot.contract import ReasoningDelta, Text, TextDelta, ToolCallDelta
from upshot.wire import StreamReader, read_response

NAMES = {"modelVersion": "gemini-3", "responseId": "r1"}


def reply(*parts, finish="STOP", **document):
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish}
    return {**NAMES, "candidates": [candidate], **document}


def read(*parts, provider="gemini", **more):
    body = json.dumps(reply(*parts, **more)).encode()
    return read_response("generate", status=200, headers={}, body=body, provider=provider)


def stream(*chunks):
    reader = StreamReader("generate", provider="gemini", now=0.0)
    deltas = []
    for chunk in chunks:
        deltas += reader.feed(to_event(chunk))
    return deltas, reader.close()


def call(name="f", **more):
    return {"functionCall": {"name": name, **more}}


def test_text_parts_are_joined():
    response = read({"text": "a"}, {"text": "b"})
    assert (response.content, response.finish_reason) == ("ab", "stop")
    assert response.provider_data["model"] == "gemini-3"
    assert "stream_done" not in response.provider_data


@pytest.mark.parametrize(("model", "searches"), [("gemini-2.5-pro", 1), ("gemini-3-pro", 2)])
def test_searches_are_counted_as_they_are_charged(model, searches):
    found = {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP",
             "groundingMetadata": {"webSearchQueries": ["x", "y"]}}  # fmt: skip
    response = read(candidates=[found], modelVersion=model)
    assert response.provider_data["web_searches"] == searches


@pytest.mark.parametrize(
    "told",
    [
        {"groundingMetadata": {"groundingChunks": [{"web": {}}]}},
        {"urlContextMetadata": {"urls": 1}},
    ],
)
def test_pages_that_the_answer_stands_on_are_told(told):
    found = {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP", **told}
    assert read(candidates=[found]).looked_up == "web_search"
    assert not read({"text": "a"}).looked_up


def test_only_the_first_candidate_counts():
    other = {"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "SAFETY"}
    first = {"index": 0, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}
    response = read(candidates=[other, first])
    assert (response.content, response.finish_reason) == ("a", "stop")


def test_thoughts_and_prompts_of_tools_are_put_into_the_sums():
    usage = {
        "promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4, "cachedContentTokenCount": 6, "totalTokenCount": 22,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8},
                                {"modality": "AUDIO", "tokenCount": 2}],
    }  # fmt: skip
    response = read(usageMetadata=usage)
    found = response.usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (15, 7, 22)
    assert (found.cache_read_tokens, found.reasoning_tokens) == (6, 4)
    assert found.input_audio_tokens == 2
    assert response.provider_data["total_tokens_reported"] == 22


@pytest.mark.parametrize(
    ("usage", "given"),
    [({"thoughtsTokenCount": 4}, 4), ({"candidatesTokenCount": 3}, 3), ({}, None)],
)
def test_what_is_not_told_is_not_guessed(usage, given):
    assert read(usageMetadata={"promptTokenCount": 1, **usage}).usage.output_tokens == given


def test_usage_without_a_count_measures_nothing():
    response = read(usageMetadata={"trafficType": "ON_DEMAND"})
    assert response.usage.unmeasured_calls == 1
    assert response.provider_data["usage_raw"] == {"trafficType": "ON_DEMAND"}


def test_thoughts_are_apart():
    response = read({"text": "hm", "thought": True, "thoughtSignature": "s"}, {"text": "x"})
    (thought,) = response.reasoning
    assert (response.content, thought.text, thought.signature) == ("x", "hm", "s")
    assert (thought.provider, thought.redacted) == ("gemini", False)


def test_the_signature_of_a_text_is_kept():
    response = read({"text": "x", "thoughtSignature": "s"})
    assert response.parts == (Text("x", signature="s", provider="gemini"),)


def test_calls_are_the_reason_and_keep_their_signature():
    signed = {**call(args={"a": 1}, id="i"), "thoughtSignature": "s"}
    response = read(signed, call("g"))
    one, other = response.tool_calls
    assert response.finish_reason == "tool_use"
    assert (one.id, one.name, one.arguments) == ("i", "f", {"a": 1})
    assert (one.signature, one.provider) == ("s", "gemini")
    assert (other.arguments, other.signature) == ({}, None)


def test_calls_without_ids_get_different_ones():
    one, other = read(call(), call()).tool_calls
    assert one.id
    assert one.id != other.id


def test_what_the_service_did_itself_is_apart():
    response = read(
        {"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}, {"text": "1"}
    )
    assert response.provider_data["server_tools"] == ["executableCode", "codeExecutionResult"]
    assert (response.content, response.tool_calls) == ("1", ())


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("OTHER", "stop"),
        ("MISSING_THOUGHT_SIGNATURE", "error"),
        ("FINISH_REASON_UNSPECIFIED", None),
        (None, None),
        (1, "stop"),
        (2, "length"),
        (99, "stop"),
    ],
)
def test_the_finish_is_read(word, finish):
    assert read({"text": "x"}, finish=word).finish_reason == finish


@pytest.mark.parametrize(
    ("provider", "word"),
    [("gemini", "MALFORMED_FUNCTION_CALL"), ("gemini-vertex", "MODEL_ARMOR")],
)
def test_numbers_mean_what_the_service_means(provider, word):
    assert read(finish=10, provider=provider).provider_data["finish_raw"] == word


def test_a_malformed_call_is_an_invalid_output():
    response = read(finish="MALFORMED_FUNCTION_CALL")
    assert (response.finish_reason, response.error.code) == ("error", "invalid_output")


@pytest.mark.parametrize("word", ["SAFETY", "OTHER", "MODEL_ARMOR", "JAILBREAK", 1])
def test_a_prompt_that_is_blocked_is_a_content_filter(word):
    feedback = {"blockReason": word, "blockReasonMessage": "not that"}
    response = read(candidates=None, promptFeedback=feedback)
    assert (response.finish_reason, response.refusal) == ("content_filter", "not that")
    assert response.success


def test_the_message_of_a_filter_is_why_it_would_not_answer():
    candidate = {"finishReason": "SAFETY", "finishMessage": "not that"}
    assert read(candidates=[candidate]).refusal == "not that"


def test_a_reply_without_candidates_is_no_answer():
    assert read(candidates=[]).error.code == "server_error"


def test_an_error_in_a_200_keeps_the_text():
    _, response = stream(
        reply({"text": "hal"}, finish=None),
        {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}},
    )
    assert (response.content, response.finish_reason) == ("hal", "error")
    assert (response.error.code, response.error.retryable) == ("server_error", True)


def test_a_stream_gives_deltas_and_the_same_response():
    deltas, response = stream(
        reply({"text": "h", "thought": True}, finish=None, usageMetadata={"trafficType": "X"}),
        reply({"text": "m", "thought": True}, finish=None, usageMetadata={"promptTokenCount": 1}),
        reply({"text": "a"}, finish=None),
        reply(call(args={"x": 1}, id="i"), usageMetadata={"promptTokenCount": 2}),
        {"usageMetadata": {"trafficType": "X"}},
    )
    assert deltas == [
        ReasoningDelta(text="h"),
        ReasoningDelta(text="m"),
        TextDelta(text="a"),
        ToolCallDelta(index=0, call_id="i", name="f"),
        ToolCallDelta(index=0, call_id="i", name="f", arguments='{"x":1}'),
    ]
    assert (response.reasoning[0].text, response.content) == ("hm", "a")
    assert (response.finish_reason, response.usage.input_tokens) == ("tool_use", 2)
    assert response.provider_data["stream_done"] is True


def test_arguments_that_come_in_pieces_are_one_call():
    piece = {"jsonPath": "$.city", "stringValue": "Bos", "willContinue": True}
    rest = {"jsonPath": "$.city", "stringValue": "ton"}
    deltas, response = stream(
        reply(call(willContinue=True), finish=None),
        reply({"functionCall": {"partialArgs": [piece], "willContinue": True}}, finish=None),
        reply({"functionCall": {"partialArgs": [rest], "willContinue": True}}, finish=None),
        reply({"functionCall": {}}, finish=None),
        reply(call("g"), finish=None),
        reply({"functionCall": {}}),
    )
    one, other = response.tool_calls
    assert (one.name, one.arguments) == ("f", {"city": "Boston"})
    assert (other.name, other.arguments) == ("g", {})
    assert [delta.arguments for delta in deltas] == ["", '{"city":"Boston"}', "", "{}"]


def test_a_cut_stream_keeps_what_came_and_says_so():
    _, response = stream(reply({"text": "hal"}, finish=None))
    assert (response.content, response.finish_reason) == ("hal", None)
    assert response.provider_data["stream_done"] is False


def test_a_reason_that_is_not_specified_ends_nothing():
    _, response = stream(reply({"text": "hal"}, finish=0))
    assert (response.finish_reason, response.provider_data["stream_done"]) == (None, False)


def test_a_stream_may_be_an_array():
    chunks = [reply({"text": "a"}, finish=None), reply({"text": "b"})]
    body = json.dumps(chunks).encode()
    response = read_response("generate", status=200, headers={}, body=body)
    assert (response.content, response.finish_reason) == ("ab", "stop")
    reader = StreamReader("generate")
    assert reader.feed(body[: body.index(b"}, {") + 1]) == [TextDelta(text="a")]
    assert reader.close().finish_reason is None


@pytest.mark.parametrize("body", [b"[]", b"[7]", b"[ "])
def test_an_array_without_a_chunk_is_no_answer(body):
    response = read_response("generate", status=200, headers={}, body=body)
    assert response.error.code == "server_error"


KEYS = (
    "candidates content parts text thought thoughtSignature functionCall name args id partialArgs "
    "willContinue jsonPath stringValue finishReason finishMessage index promptFeedback blockReason "
    "usageMetadata promptTokenCount candidatesTokenCount thoughtsTokenCount error modelVersion "
    "executableCode promptTokensDetails modality tokenCount"
)
WORDS = "STOP SAFETY MAX_TOKENS AUDIO $.a $.b[0] 1 x"
absurd = documents(KEYS, WORDS)
parts = st.lists(absurd, max_size=3)
chunks = st.builds(
    lambda parts, finish: {"candidates": [{"content": {"parts": parts}, "finishReason": finish}]},
    parts,
    absurd,
)
arrays = st.lists(chunks | absurd, max_size=3).map(to_bytes)


@given((absurd | chunks).map(to_bytes) | arrays, st.sampled_from(["gemini", "vertex"]))
def test_any_reply_is_read(body, provider):
    check_reading("generate", body, provider=provider)


@given(st.lists((chunks | absurd).map(to_event)).map(b"".join) | arrays, sizes)
def test_any_split_gives_the_same_response(body, sizes):
    check_splitting("generate", body, sizes)
