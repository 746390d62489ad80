"""Responses replies, whole and streamed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.absurd import check_reading, check_splitting, documents, sizes, to_bytes, to_event
from upshot.contract import ReasoningDelta, TextDelta, ToolCallDelta
from upshot.wire import StreamReader, read_response

HEAD = {"id": "resp_1", "model": "gpt", "status": "in_progress"}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "output_tokens": 6,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 16,
}


def message(*texts):
    parts = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": parts}


def call(name="f", call_id="c1", arguments='{"a": 1}', **more):
    return {
        "type": "function_call",
        "id": "fc_" + call_id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **more,
    }


def read(*output, **document):
    body = {"id": "resp_1", "model": "gpt", "status": "completed", "output": output, **document}
    return read_response(
        "responses", status=200, headers={}, body=json.dumps(body).encode(), provider="openai"
    )


def event(kind, **fields):
    return {"type": f"response.{kind}", **fields}


def end(kind="completed", *output, **more):
    return event(kind, response={**HEAD, "status": kind, "output": output, **more})


def stream(*events):
    reader = StreamReader("responses", provider="openai", now=0.0)
    deltas = []
    for one in events:
        deltas += reader.feed(b"event: x\n" + to_event(one))
    return deltas, reader.close()


def test_text_of_all_messages_is_joined():
    response = read(message("a", "b"), message("c"))
    assert (response.content, response.finish_reason) == ("abc", "stop")
    assert response.provider_data["model"] == "gpt"


def test_sources_in_a_message_are_told():
    cited = {"type": "url_citation", "url": "https://a.example"}
    said = message("hi")
    said["content"][0]["annotations"] = [cited]
    reply = read(said)
    assert (reply.content, reply.looked_up) == ("hi", "web_search")
    assert not read(message("hi")).looked_up
    reader = StreamReader("responses", provider="openai")
    for event in (
        {"type": "response.created", "response": HEAD},
        {"type": "response.output_item.added", "output_index": 0, "item": message()},
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "delta": "hi",
        },
        {"type": "response.output_item.done", "output_index": 0, "item": said},
        {"type": "response.completed", "response": {**HEAD, "status": "completed"}},
    ):
        reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    reply = reader.close()
    assert (reply.content, reply.looked_up) == ("hi", "web_search")


def test_usage_is_read():
    response = read(message("a"), usage=USAGE)
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 6, 16)
    assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (4, 3, 2)
    assert response.provider_data["total_tokens_reported"] == 16


@pytest.mark.parametrize(("total", "given"), [(18, 8), (16, 6), (None, 6), (99, 6)])
def test_reasoning_that_was_left_out_is_put_back_where_it_makes_the_sum(total, given):
    assert read(usage={**USAGE, "total_tokens": total}).usage.output_tokens == given


def test_a_reported_cost_is_kept():
    cost = read(usage={**USAGE, "cost_in_usd_ticks": 10**10}).cost
    assert (cost.total, cost.source, cost.estimated) == (1, "reported", False)


def test_calls_beside_completed_are_the_reason():
    response = read(message("hm"), call(), call("g", "c2", ""))
    assert response.finish_reason == "tool_use"
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [
        ("c1", "f", '{"a": 1}'),
        ("c2", "g", {}),
    ]


def test_the_free_text_of_a_custom_call_is_kept_under_one_key():
    (found,) = read({**call(), "type": "custom_tool_call", "input": "ls"}).tool_calls
    assert found.arguments == {"input": "ls"}


def test_calls_without_an_id_get_different_ones():
    bare = {"type": "function_call", "name": "f"}
    one, other = read(bare, bare).tool_calls
    assert one.id != other.id


def test_thoughts_keep_their_encrypted_form():
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "xyz"}
    (thought,) = read(item).reasoning
    assert (thought.text, thought.signature, thought.id) == ("a\n\nb", "xyz", "rs_1")
    assert (thought.provider, thought.redacted) == ("openai", False)


def test_a_thought_that_is_not_shown_is_redacted():
    (thought,) = read({"type": "reasoning", "summary": [], "encrypted_content": "xyz"}).reasoning
    assert (thought.text, thought.redacted) == ("", True)


def test_a_thought_that_is_shown_wins_over_its_summary():
    item = {"type": "reasoning", "summary": [{"text": "s"}], "content": [{"text": "t"}]}
    (thought,) = read(item).reasoning
    assert (thought.text, thought.signature) == ("t", None)


def test_the_providers_own_tools_are_apart():
    response = read({"type": "web_search_call"}, {"type": "mcp_list_tools"}, message("x"))
    assert response.provider_data["server_tools"] == ["web_search_call", "mcp_list_tools"]
    assert (response.tool_calls, response.finish_reason) == ((), "stop")


def test_searches_that_are_charged_are_counted():
    kinds = ["search", "open_page", "find_in_page", "search"]
    found = [{"type": "web_search_call", "action": {"type": kind}} for kind in kinds]
    data = read(*found, {"type": "web_search_call"}, service_tier="flex").provider_data
    assert (data["web_searches"], data["service_tier"]) == (3, "flex")
    assert "web_searches" not in read(message("a")).provider_data


def test_the_searches_of_xai_are_its_own():
    item = {"type": "custom_tool_call", "call_id": "xs_1", "name": "x_keyword_search", "input": "q"}
    reader = StreamReader("responses", provider="xai")
    deltas = reader.feed(
        to_event(event("output_item.added", output_index=0, item=item))
        + to_event(event("custom_tool_call_input.delta", output_index=0, delta="q"))
        + to_event(end("completed", item, message("x")))
    )
    response = reader.close()
    assert (deltas, response.tool_calls, response.finish_reason) == ([], (), "stop")
    assert response.provider_data["server_tools"] == ["custom_tool_call"]


def test_a_refusal_beside_completed_stays_a_stop():
    item = {**message(), "content": [{"type": "refusal", "refusal": "no"}]}
    response = read(item)
    assert (response.refusal, response.content, response.finish_reason) == ("no", None, "stop")


@pytest.mark.parametrize(
    ("fields", "finish", "raw"),
    [
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length", "max_output_tokens"),
        ({"incomplete_details": {"reason": "content_filter"}}, "content_filter", "content_filter"),
        ({"incomplete_details": None}, None, "incomplete"),
        ({"status": "queued"}, None, "queued"),
        ({"status": "in_progress"}, None, "in_progress"),
        ({"status": "cancelled"}, "aborted", "cancelled"),
        ({"status": "failed"}, "error", "failed"),
    ],
)
def test_the_status_tells_the_finish(fields, finish, raw):
    response = read(call(), **{"status": "incomplete", **fields})
    assert response.finish_reason == finish
    assert response.provider_data["finish_raw"] == raw


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", "server_error", True),
        ("invalid_image_url", "invalid_request", False),
        ("vector_store_timeout", "timeout", True),
        ("image_content_policy_violation", "content_filter", False),
        ("a_new_code", "server_error", True),
        (None, "server_error", True),
    ],
)
def test_the_code_of_a_failed_reply_is_classified(code, kind, retryable):
    error = read(status="failed", error={"code": code, "message": "x"}).error
    assert (error.code, error.retryable) == (kind, retryable)


def test_an_error_in_a_200_keeps_the_text():
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    response = read(message("hal"), status="failed", error=error)
    assert (response.content, response.finish_reason) == ("hal", "error")
    assert (response.error.code, response.error.message) == ("rate_limit", "slow down")


def test_a_reply_without_output_is_no_answer():
    response = read_response("responses", status=200, headers={}, body=b'{"id": "x"}')
    assert response.error.code == "server_error"


def test_a_stream_gives_deltas_and_the_same_response():
    said, thought = message("hi"), {"type": "reasoning", "summary": [{"text": "hm"}]}
    deltas, response = stream(
        event("created", response=HEAD),
        event("output_item.added", output_index=0, item={"type": "reasoning", "summary": []}),
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm"),
        event("output_item.done", output_index=0, item=thought),
        event("output_item.added", output_index=1, item=message()),
        event("output_text.delta", output_index=1, content_index=0, delta="h"),
        event("output_text.delta", output_index=1, content_index=0, delta="i"),
        event("output_text.done", output_index=1, content_index=0, text="hi"),
        event("output_item.done", output_index=1, item=said),
        event("output_item.added", output_index=2, item=call(arguments="")),
        event("function_call_arguments.delta", output_index=2, delta='{"a"'),
        event("function_call_arguments.delta", output_index=2, delta=": 1}"),
        event("output_item.done", output_index=2, item=call()),
        end("completed", thought, said, call(), usage=USAGE),
    )
    assert deltas == [
        ReasoningDelta(text="hm"),
        TextDelta(text="h"),
        TextDelta(text="i"),
        ToolCallDelta(index=0, call_id="c1", name="f"),
        ToolCallDelta(index=0, call_id="c1", name="f", arguments='{"a"'),
        ToolCallDelta(index=0, call_id="c1", name="f", arguments=": 1}"),
    ]
    assert (response.content, response.finish_reason) == ("hi", "tool_use")
    assert (response.tool_calls[0].arguments, response.usage.total_tokens) == ('{"a": 1}', 16)
    assert response.provider_data["stream_done"] is True


def test_an_end_without_output_leaves_what_was_gathered():
    _, response = stream(
        event("output_item.added", output_index=0, item=message()),
        event("output_text.delta", output_index=0, delta="hi"),
        end("completed"),
    )
    assert (response.content, response.finish_reason) == ("hi", "stop")


def test_an_end_that_is_all_of_the_answer_gives_it_as_deltas():
    deltas, response = stream(end("completed", message("hi"), call()))
    assert deltas[0] == TextDelta(text="hi")
    assert deltas[-1].arguments == '{"a": 1}'
    assert (response.content, len(response.tool_calls)) == ("hi", 1)


def test_what_came_only_with_the_end_of_an_item_is_given_then():
    deltas, _ = stream(
        event("output_text.delta", item_id="msg_1", delta="h"),
        event("output_item.done", item=message("hi")),
    )
    assert deltas == [TextDelta(text="h"), TextDelta(text="i")]


def test_paragraphs_of_a_thought_are_apart():
    deltas, response = stream(
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="a"),
        event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="b"),
    )
    assert "".join(delta.text for delta in deltas) == response.reasoning[0].text == "a\n\nb"


def test_pieces_of_items_that_nobody_began_are_kept():
    _, response = stream(
        event("refusal.delta", output_index=0, delta="no"),
        event("custom_tool_call_input.delta", output_index=1, delta="ls"),
    )
    assert response.refusal == "no"
    assert response.tool_calls[0].arguments == {"input": "ls"}


def test_a_cut_stream_keeps_what_came_and_says_so():
    _, response = stream(
        event("created", response={**HEAD, "status": "completed"}),
        event("output_item.added", output_index=0, item=call(arguments="")),
        event("function_call_arguments.delta", output_index=0, delta='{"a"'),
    )
    assert (response.finish_reason, response.tool_calls[0].arguments) == (None, '{"a"')
    assert response.provider_data["stream_done"] is False


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "code": "insufficient_quota", "message": "no money"},
        {"type": "error", "error": {"type": "insufficient_quota", "message": "no money"}},
        end("failed", error={"code": "insufficient_quota", "message": "no money"}),
    ],
    ids=["flat", "nested", "failed"],
)
def test_an_error_in_a_stream_keeps_the_text(error):
    _, response = stream(event("output_text.delta", output_index=0, delta="hal"), error)
    assert (response.content, response.finish_reason) == ("hal", "error")
    assert (response.error.code, response.error.retryable) == ("rate_limit", False)
    assert response.error.message == "no money"


KEYS = (
    "type output output_index item item_id content content_index delta text refusal summary "
    "summary_index arguments call_id id name input response status incomplete_details reason "
    "usage input_tokens output_tokens total_tokens output_tokens_details reasoning_tokens error "
    "code message encrypted_content model"
)
WORDS = (
    "message reasoning function_call custom_tool_call output_text refusal response.created "
    "response.output_item.added response.output_item.done response.output_text.delta "
    "response.output_text.done response.function_call_arguments.delta response.completed "
    "response.reasoning_text.delta response.incomplete response.failed error incomplete completed"
)
absurd = documents(KEYS, WORDS)
typed = st.fixed_dictionaries(
    {"type": st.sampled_from(WORDS.split())},
    optional={
        "output_index": st.integers(-1, 2),
        "item": absurd,
        "delta": st.text(max_size=3),
        "response": absurd,
    },
)


@given(absurd.map(to_bytes) | st.lists(typed.map(to_event)).map(b"".join))
def test_any_reply_is_read(body):
    check_reading("responses", body)


@given(st.lists((typed | absurd).map(to_event)).map(b"".join), sizes)
def test_any_split_gives_the_same_response(body, sizes):
    check_splitting("responses", body, sizes)


def test_a_reply_that_the_provider_canceled_is_no_success():
    text = {"type": "output_text", "text": "par"}
    said = {"type": "message", "role": "assistant", "content": [text]}
    body = {"id": "r", "status": "cancelled", "model": "m", "output": [said]}
    found = read_response(
        "responses", status=200, headers={}, body=json.dumps(body).encode(), provider="openai"
    )
    assert (found.status, found.finish_reason) == ("failed", "aborted")
    assert (found.content, found.error.code) == ("par", "canceled")
