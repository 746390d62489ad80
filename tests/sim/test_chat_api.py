"""Chat Completions as a client of the simulator sees it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.client import USER, chat_turn, said
from upshot.sim import Reply, Simulator, Tokens
from upshot.sim.chat_api import duration_text

CALLS = {
    "text": "Looking.",
    "tool_calls": [{"name": "f", "arguments": {"path": "/a"}}, {"name": "g", "id": "mine"}],
}


def deltas(heard) -> list[dict]:
    return [chunk["choices"][0]["delta"] for chunk in heard.data if chunk["choices"]]


async def test_a_text_is_answered_as_a_completion(client):
    async with Simulator(["Hello."]) as sim:
        heard = await client.chat(sim)
    assert heard.status == 200
    assert heard.body["object"] == "chat.completion"
    assert heard.body["model"] == "m"
    assert heard.body["choices"][0]["message"]["content"] == "Hello."
    assert heard.body["choices"][0]["finish_reason"] == "stop"
    assert heard.headers["x-request-id"].startswith("req_")


async def test_tool_calls_carry_arguments_as_json_text(client):
    async with Simulator([CALLS]) as sim:
        heard = await client.chat(sim)
    choice = heard.body["choices"][0]
    first, second = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(first["function"]["arguments"]) == {"path": "/a"}
    assert (second["id"], second["function"]["name"]) == ("mine", "g")
    assert first["id"].startswith("call_")


async def test_arguments_given_as_text_are_sent_as_they_are(client):
    async with Simulator([{"tool_calls": [{"name": "f", "arguments": '{"broken'}]}]) as sim:
        heard = await client.chat(sim)
    call = heard.body["choices"][0]["message"]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"broken'


async def test_a_stream_joins_to_the_same_text_and_ends_with_done(client):
    text = "A text of several pieces, with é and 漢字."
    async with Simulator({"replies": [text], "chunk_chars": 5}) as sim:
        heard = await client.chat(sim, stream=True)
    assert "".join(delta.get("content", "") for delta in deltas(heard)) == text
    assert heard.data[-1]["choices"][0]["finish_reason"] == "stop"
    assert heard.text.endswith("data: [DONE]\n\n")
    assert heard.headers["content-type"].startswith("text/event-stream")


async def test_a_stream_of_tool_calls_names_each_once_and_joins_to_its_arguments(client):
    async with Simulator({"replies": [CALLS], "chunk_chars": 4}) as sim:
        heard = await client.chat(sim, stream=True)
    parts = [call for delta in deltas(heard) for call in delta.get("tool_calls", ())]
    assert [part["function"]["name"] for part in parts if "id" in part] == ["f", "g"]
    first = "".join(part["function"]["arguments"] for part in parts if part["index"] == 0)
    assert json.loads(first) == {"path": "/a"}


async def test_usage_ends_a_stream_only_if_asked_for(client):
    async with Simulator(["Hello."]) as sim:
        without = await client.chat(sim, stream=True)
        asked = await client.chat(sim, stream=True, stream_options={"include_usage": True})
    assert not any(chunk.get("usage") for chunk in without.data)
    assert asked.data[-1]["choices"] == []
    assert asked.data[-1]["usage"]["completion_tokens"] == 2
    assert all(chunk["usage"] is None for chunk in asked.data[:-1])


async def test_usage_is_told_as_the_scenario_says(client):
    tokens = Tokens(input_tokens=100, output_tokens=20, cache_read_tokens=60, reasoning_tokens=5)
    async with Simulator([Reply(text="x", usage=tokens)]) as sim:
        usage = (await client.chat(sim)).body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (
        100,
        20,
        120,
    )
    assert usage["prompt_tokens_details"]["cached_tokens"] == 60
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 5


async def test_estimated_usage_grows_with_the_request_and_the_reply(client):
    async with Simulator(["x" * 400], faults=[]) as sim:
        short = (await client.chat(sim)).body["usage"]
        long = (await client.chat(sim, [{"role": "user", "content": "y" * 4000}])).body["usage"]
    assert short["completion_tokens"] == 100
    assert 950 < long["prompt_tokens"] - short["prompt_tokens"] < 1050


async def test_usage_can_be_left_out(client):
    async with Simulator([Reply(text="x", omit_usage=True)]) as sim:
        assert "usage" not in (await client.chat(sim)).body


async def test_reasoning_and_refusal_have_their_own_fields(client):
    async with Simulator([Reply(reasoning="Hm.", refusal="No.")]) as sim:
        message = (await client.chat(sim)).body["choices"][0]["message"]
        heard = await client.chat(sim, stream=True)
    assert (message["reasoning_content"], message["refusal"]) == ("Hm.", "No.")
    assert message["content"] is None
    assert any(delta.get("reasoning_content") == "Hm." for delta in deltas(heard))


@pytest.mark.parametrize(
    ("word", "told"), [("length", "length"), ("content_filter", "content_filter"), ("odd", "odd")]
)
async def test_a_finish_reason_is_told_in_the_apis_word(client, word, told):
    async with Simulator([Reply(text="x", finish_reason=word)]) as sim:
        assert (await client.chat(sim)).body["choices"][0]["finish_reason"] == told


async def test_results_are_quoted_by_tool_name(client):
    script = ["one", "two {{ results.count.total }} of {{ results[0].files[1] }}"]
    turn = chat_turn(("list", {"files": ["a", "b"]}), ("count", {"total": 7}))
    async with Simulator(script) as sim:
        heard = await client.chat(sim, [USER, *turn])
    assert heard.body["choices"][0]["message"]["content"] == "two 7 of b"


async def test_a_result_in_parts_and_a_question_are_quoted(client):
    turn = chat_turn(("list", "x"))
    turn[1]["content"] = [{"type": "text", "text": '{"n": '}, {"type": "text", "text": "1}"}]
    async with Simulator(["one", "{{ results.list.n }} {{ request.text }}"]) as sim:
        heard = await client.chat(sim, [USER, *turn])
    assert heard.body["choices"][0]["message"]["content"] == "1 Where is order 7?"


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (chat_turn(("f", "x"))[:1], "did not have response messages: c0"),
        ([*chat_turn(("f", "x"))[:1], USER], "did not have response messages: c0"),
        (chat_turn(("f", "x"))[1:], "must be a response to a preceding message"),
        ([said("hi"), *chat_turn(("f", "x"))[1:]], "must be a response to a preceding message"),
    ],
)
async def test_a_conversation_with_calls_and_results_apart_is_refused(client, messages, told):
    async with Simulator({"replies": ["x"], "when_spent": "last"}) as sim:
        heard = await client.chat(sim, [USER, *messages])
    assert heard.status == 400
    assert heard.error["type"] == "invalid_request_error"
    assert told in heard.error["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": "m"}', b'{"model":1,"messages":[]}'])
async def test_a_body_that_is_no_request_is_refused(client, body):
    async with (
        Simulator(["x"]) as sim,
        client.session.post(f"{sim.base_url}/chat/completions", data=body) as response,
    ):
        error = (await response.json())["error"]
    assert response.status == 400
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.12, "120ms"),
        (0.0001, "1ms"),
        (1, "1s"),
        (2.007, "2.007s"),
        (10.59, "10.59s"),
        (390, "6m30s"),
        (3600, "1h0m0s"),
        (5445.5, "1h30m45.5s"),
    ],
)
def test_durations_are_written_as_the_api_writes_them(seconds, text):
    assert duration_text(seconds) == text


@given(st.floats(0, 10**6, allow_nan=False))
def test_a_duration_is_never_told_shorter_than_it_is(seconds):
    told = _seconds_of(duration_text(seconds))
    assert seconds - 1e-6 <= told <= seconds + 0.0011


def _seconds_of(text: str) -> float:
    if text.endswith("ms"):
        return int(text[:-2]) / 1000
    hours, _, rest = text.rpartition("h")
    minutes, _, seconds = rest.rpartition("m")
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds[:-1])
