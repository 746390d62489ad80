"""Chat Completions replies, whole and streamed."""

import json
from decimal import Decimal

import pytest

from upshot.contract import ReasoningDelta, TextDelta, ToolCallDelta
from upshot.wire import StreamReader, read_response


def read(message=None, *, finish="stop", provider="openai", **document):
    choice = {"index": 0, "message": message or {"content": "hi"}, "finish_reason": finish}
    body = json.dumps({"id": "r1", "model": "m", "choices": [choice], **document}).encode()
    return read_response("chat", status=200, headers={}, body=body, provider=provider, mode="json")


def stream(*deltas, finish=None, done=True, provider="openai"):
    reader = StreamReader("chat", provider=provider)
    events = []
    for delta in deltas:
        chunk = {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        events += reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    if finish:
        chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
        reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    if done:
        reader.feed(b"data: [DONE]\n\n")
    return events, reader.close()


def call(name="f", arguments="{}", **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_text_finish_and_model_are_read():
    response = read()
    assert (response.content, response.finish_reason) == ("hi", "stop")
    assert (response.provider_data["model"], response.provider_data["finish_raw"]) == ("m", "stop")


CITED = {"type": "url_citation", "url_citation": {"url": "https://a.example"}}


@pytest.mark.parametrize(
    "message", [{"annotations": [CITED]}, {"executed_tools": [{"type": "search"}]}]
)
def test_what_the_provider_looked_up_is_told(message):
    assert read({"content": "hi", **message}).looked_up == "web_search"
    assert stream({"content": "hi"}, message, finish="stop")[1].looked_up == "web_search"


@pytest.mark.parametrize("name", ["citations", "search_results"])
def test_sources_beside_the_message_are_told(name):
    assert read(**{name: ["https://a.example"]}).looked_up == "web_search"
    assert not read({"content": "hi", "annotations": []}, **{name: []}).looked_up


def test_no_text_is_none():
    assert read({"content": None, "tool_calls": [call(id="a")]}).content is None


def test_content_parts_are_told_apart():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "4"},
    ]
    response = read({"content": parts})
    assert (response.content, response.reasoning[0].text) == ("4", "hm")


def test_calls_beside_stop_are_the_reason():
    response = read({"content": "", "tool_calls": [call(id="a")]}, finish="stop")
    assert (response.finish_reason, response.tool_calls[0].id) == ("tool_use", "a")


def test_length_wins_over_calls():
    assert read({"tool_calls": [call(id="a")]}, finish="length").finish_reason == "length"


def test_calls_without_ids_get_distinct_ones():
    first, second = read({"tool_calls": [call(), call()]}).tool_calls
    assert first.id
    assert first.id != second.id


def test_a_calls_signature_is_kept_with_its_owner():
    signed = call(id="a") | {"extra_content": {"google": {"thought_signature": "sig"}}}
    calls = read({"tool_calls": [signed, call(id="b")]}, provider="gw").tool_calls
    assert [(each.signature, each.provider) for each in calls] == [("sig", "gw"), (None, "")]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"function": {"name": "f", "arguments": ""}}, {}),
        ({"function": {"name": "f", "arguments": {"a": 1}}}, {"a": 1}),
        ({"function": {"name": "f", "arguments": '{"a": 1'}}, '{"a": 1'),
        ({"type": "custom", "custom": {"name": "f", "input": "ls -l"}}, {"input": "ls -l"}),
    ],
    ids=["missing", "object", "no-json", "custom"],
)
def test_arguments_are_kept_as_they_came(said, kept):
    (found,) = read({"tool_calls": [said]}).tool_calls
    assert (found.name, found.arguments) == ("f", kept)


def test_refusal_stands_beside_stop():
    response = read({"content": None, "refusal": "I cannot"})
    assert (response.refusal, response.finish_reason) == ("I cannot", "stop")


def usage(prompt, completion, total, **more):
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}
    return read(usage=told).usage


def test_usage_is_read_with_its_parts():
    found = usage(
        10, 5, 15, prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 1},
        completion_tokens_details={"reasoning_tokens": 3},
    )  # fmt: skip
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (10, 5, 15)
    assert (found.cache_read_tokens, found.cache_write_tokens, found.reasoning_tokens) == (4, 1, 3)
    assert found.api_calls == 1


def test_reasoning_is_added_where_only_that_makes_the_sum():
    found = usage(10, 5, 18, completion_tokens_details={"reasoning_tokens": 3})
    assert (found.output_tokens, found.total_tokens) == (8, 18)


def test_audio_is_added_where_only_that_makes_the_sum():
    assert usage(10, 5, 22, prompt_tokens_details={"audio_tokens": 7}).input_tokens == 17


def test_a_sum_that_nothing_explains_is_left_alone():
    found = usage(10, 5, 99, completion_tokens_details={"reasoning_tokens": 3})
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (10, 5, 15)


def test_unknown_usage_is_none_and_counted():
    found = read().usage
    assert (found.input_tokens, found.unmeasured_calls) == (None, 1)


@pytest.mark.parametrize(
    ("told", "total"),
    [
        ({"cost": 0.0000717}, "0.0000717"),
        ({"cost": {"total_cost": 0.005}}, "0.005"),
        ({"cost_in_usd_ticks": 739000}, "0.0000739"),
        ({"cost": -1}, None),
        ({"cost": True}, None),
    ],
)
def test_a_reported_cost_is_kept_exactly(told, total):
    cost = read(usage=told).cost
    assert (cost and cost.total) == (total and Decimal(total))
    assert cost is None or (cost.source, cost.estimated) == ("reported", False)


def test_the_way_of_serving_is_kept():
    assert read(service_tier="flex").provider_data["service_tier"] == "flex"
    assert "service_tier" not in read(service_tier=None).provider_data


def test_an_error_inside_a_200_is_an_error():
    response = read(error={"code": 502, "message": "upstream"})
    assert (response.finish_reason, response.error.code) == ("error", "server_error")
    assert response.content == "hi"


def test_a_reply_without_choices_is_no_answer():
    response = read_response("chat", status=200, headers={}, body=b'{"id": "x"}', mode="json")
    assert (response.error.code, response.error.retryable) == ("server_error", True)


def test_a_malformed_call_is_invalid_output():
    response = read({"content": ""}, finish="MALFORMED_FUNCTION_CALL")
    assert (response.finish_reason, response.error.code) == ("error", "invalid_output")


def test_a_gateways_reasoning_is_kept_as_it_came():
    detail = {"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}
    (part,) = read({"content": "x", "reasoning_details": [detail]}, provider="gw").reasoning
    assert (part.text, part.provider, json.loads(part.signature)) == ("hm", "gw", detail)


def test_only_the_first_choice_is_read():
    choices = [
        {"index": 1, "message": {"content": "other"}, "finish_reason": "length"},
        {"index": 0, "message": {"content": "mine"}, "finish_reason": "stop"},
    ]
    response = read(choices=choices)
    assert (response.content, response.finish_reason) == ("mine", "stop")


def test_deltas_come_as_they_are_said():
    events, response = stream(
        {"reasoning_content": "hm"}, {"content": "he"}, {"content": "llo"}, {"content": ""},
        finish="stop",
    )  # fmt: skip
    assert events == [ReasoningDelta(text="hm"), TextDelta(text="he"), TextDelta(text="llo")]
    assert (response.content, response.reasoning[0].text) == ("hello", "hm")
    assert response.provider_data["stream_done"] is True


def test_a_call_is_put_together_from_its_pieces():
    events, response = stream(
        {"tool_calls": [{"index": 0, **call("f", "", id="a")}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        finish="tool_calls",
    )
    assert events[1] == ToolCallDelta(index=0, call_id="a", name="f", arguments='{"x":')
    (found,) = response.tool_calls
    assert (found.id, found.name, found.arguments) == ("a", "f", '{"x":1}')


def test_calls_that_share_an_index_are_told_apart_by_id():
    _, response = stream(
        {"tool_calls": [{"index": 0, **call("f", "{}", id="a")}]},
        {"tool_calls": [{"index": 0, **call("g", "{}", id="b")}]},
    )
    assert [found.name for found in response.tool_calls] == ["f", "g"]


def test_pieces_without_an_index_belong_to_the_open_call():
    _, response = stream(
        {"tool_calls": [call("f", "{", id="a")]},
        {"tool_calls": [{"function": {"arguments": "}"}}]},
    )
    assert [found.arguments for found in response.tool_calls] == ["{}"]


def test_pieces_of_a_gateways_reasoning_are_joined():
    def detail(**more):
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **more}]}

    _, response = stream(detail(text="a"), detail(text="b"), detail(signature="s"), finish="stop")
    (part,) = response.reasoning
    assert part.text == "ab"
    assert json.loads(part.signature)["signature"] == "s"


def test_a_cut_stream_keeps_what_came_and_says_so():
    _, response = stream({"content": "hal"}, done=False)
    assert (response.content, response.finish_reason) == ("hal", None)
    assert response.provider_data["stream_done"] is False


def test_an_error_in_a_stream_keeps_the_text():
    reader = StreamReader("chat")
    reader.feed(b'data: {"choices": [{"delta": {"content": "hal"}}]}\n\n')
    reader.feed(b'data: {"error": {"message": "slow", "code": "rate_limit_exceeded"}}\n\n')
    response = reader.close()
    assert (response.content, response.finish_reason) == ("hal", "error")
    assert (response.error.code, response.rate_limit.limited) == ("rate_limit", True)


def test_a_chunk_that_is_no_json_is_an_error():
    reader = StreamReader("chat")
    reader.feed(b'data: {"choices": [}\n\n')
    assert reader.close().error.code == "server_error"
