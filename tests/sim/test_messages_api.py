"""Anthropic Messages as a client of the simulator sees it."""

from __future__ import annotations

import json

import pytest

from tests.sim.client import USER, messages_turn
from upshot.sim import Reply, Simulator, Tokens

CALLS = {"text": "Looking.", "tool_calls": [{"name": "f", "arguments": {"path": "/a"}}]}


async def test_a_text_is_answered_as_a_message(client):
    async with Simulator(["Hello."]) as sim:
        heard = await client.messages(sim)
    assert heard.body["type"] == "message"
    assert heard.body["content"] == [{"type": "text", "text": "Hello."}]
    assert heard.body["stop_reason"] == "end_turn"
    assert heard.headers["request-id"].startswith("req_")


async def test_tool_calls_are_blocks_with_an_object(client):
    async with Simulator([CALLS]) as sim:
        heard = await client.messages(sim)
    block = heard.body["content"][1]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "f", {"path": "/a"})
    assert block["id"].startswith("toolu_")
    assert heard.body["stop_reason"] == "tool_use"


async def test_a_stream_has_the_events_of_the_api_in_their_order(client):
    async with Simulator({"replies": [CALLS], "chunk_chars": 6}) as sim:
        heard = await client.messages(sim, stream=True)
    kinds = [event["type"] for event in heard.data]
    names = [line[7:] for line in heard.text.split("\n") if line.startswith("event: ")]
    assert kinds == names
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2


async def test_a_stream_joins_to_the_same_blocks(client):
    async with Simulator({"replies": [CALLS], "chunk_chars": 3}) as sim:
        heard = await client.messages(sim, stream=True)
    pieces = [event["delta"] for event in heard.data if event["type"] == "content_block_delta"]
    assert "".join(piece.get("text", "") for piece in pieces) == "Looking."
    assert json.loads("".join(piece.get("partial_json", "") for piece in pieces)) == {"path": "/a"}


async def test_thoughts_come_first_and_are_signed(client):
    async with Simulator([Reply(reasoning="Hm.", text="Yes.")]) as sim:
        heard = await client.messages(sim)
        stream = await client.messages(sim, stream=True)
    assert [block["type"] for block in heard.body["content"]] == ["thinking", "text"]
    assert heard.body["content"][0]["signature"]
    kinds = [
        event["delta"]["type"] for event in stream.data if event["type"] == "content_block_delta"
    ]
    assert kinds == ["thinking_delta", "signature_delta", "text_delta"]


async def test_input_tokens_leave_out_the_cached_ones(client):
    tokens = Tokens(input_tokens=100, output_tokens=9, cache_read_tokens=60, cache_write_tokens=30)
    async with Simulator([Reply(text="x", usage=tokens)]) as sim:
        usage = (await client.messages(sim)).body["usage"]
        start = (await client.messages(sim, stream=True)).data[0]["message"]["usage"]
    assert usage["input_tokens"] == start["input_tokens"] == 10
    assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (60, 30)
    assert usage["output_tokens"] == 9


async def test_cached_tokens_are_never_more_than_the_input(client):
    async with Simulator([Reply(text="x", usage=Tokens(cache_read_tokens=10**6))]) as sim:
        usage = (await client.messages(sim)).body["usage"]
    assert usage["input_tokens"] == 0


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(text="x", finish_reason="length"), "max_tokens"),
        (Reply(text="x", finish_reason="content_filter"), "refusal"),
        (Reply(refusal="No."), "refusal"),
        (Reply(text="x", finish_reason="pause_turn"), "pause_turn"),
    ],
)
async def test_a_stop_reason_is_told_in_the_apis_word(client, reply, told):
    async with Simulator([reply]) as sim:
        assert (await client.messages(sim)).body["stop_reason"] == told


async def test_results_are_quoted_by_tool_name(client):
    turn = messages_turn(("list", {"files": ["a", "b"]}), ("note", "plain words"))
    async with Simulator(
        ["", "{{ results.list.files[1] }} {{ results.note }} {{ request.text }}"]
    ) as sim:
        heard = await client.messages(sim, [USER, *turn])
    assert heard.body["content"][0]["text"] == "b plain words Where is order 7?"


async def test_a_result_in_blocks_is_quoted(client):
    turn = messages_turn(("list", "x"))
    turn[1]["content"][0]["content"] = [{"type": "text", "text": '{"n": 1}'}]
    async with Simulator(["", "{{ results.list.n }}"]) as sim:
        heard = await client.messages(sim, [USER, *turn])
    assert heard.body["content"][0]["text"] == "1"


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (messages_turn(("f", "x"))[:1], "were found without `tool_result` blocks"),
        ([*messages_turn(("f", "x"))[:1], USER], "were found without `tool_result` blocks"),
        (messages_turn(("f", "x"))[1:], "unexpected `tool_use_id`"),
    ],
)
async def test_a_conversation_with_calls_and_results_apart_is_refused(client, messages, told):
    async with Simulator({"replies": ["x"], "when_spent": "last"}) as sim:
        heard = await client.messages(sim, [USER, *messages])
    assert heard.status == 400
    assert heard.body["type"] == "error"
    assert heard.error["type"] == "invalid_request_error"
    assert told in heard.error["message"]


async def test_a_request_without_max_tokens_is_refused(client):
    async with Simulator(["x"]) as sim:
        heard = await client.post(f"{sim.base_url}/messages", {"model": "m", "messages": [USER]})
    assert heard.status == 400
    assert "max_tokens" in heard.error["message"]


async def test_an_error_carries_the_request_id(client):
    async with Simulator(["x"], faults=[{"kind": "status", "status": 529}]) as sim:
        heard = await client.messages(sim)
    assert heard.error == {"type": "overloaded_error", "message": "Overloaded"}
    assert heard.body["request_id"] == heard.headers["request-id"]
