"""Recorded replies come back byte for byte."""

from __future__ import annotations

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.errors import Misuse
from upshot.sim import Recorded, Simulator
from upshot.sim.simulator import cut_randomly, to_recorded

SURFACES = {"chat", "messages"}
FRAMING = {"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"}
EVENTS = b'data: {"x": "\xc3\xa9"}\n\ndata: [DONE]\n\n'


async def fetched(client, url: str, **options) -> tuple[int, dict[str, str], bytes]:
    async with client.session.post(url, json={}, **options) as response:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return response.status, headers, await response.read()


async def test_replies_are_served_in_order_with_their_status_headers_and_bytes(client):
    first = Recorded(429, {"Retry-After": "7", "X-Odd": "a"}, b'{"error": 1}')
    async with Simulator.recorded(
        [first, (200, {"content-type": "text/event-stream"}, EVENTS)]
    ) as sim:
        status, headers, body = await fetched(client, f"{sim.base_url}/chat/completions")
        _, second_headers, second = await fetched(client, f"{sim.base_url}/anything")
    assert (status, headers["retry-after"], headers["x-odd"], body) == (429, "7", "a", first.body)
    assert (second_headers["content-type"], second) == ("text/event-stream", EVENTS)


async def test_headers_that_frame_the_body_are_made_anew(client):
    headers = {"Content-Encoding": "gzip", "content-length": "3", "Transfer-Encoding": "chunked"}
    async with Simulator.recorded([(200, headers, b"unpacked")]) as sim:
        _, received, body = await fetched(client, sim.base_url)
    assert body == b"unpacked"
    assert "content-encoding" not in received
    assert received["content-length"] == "8"


async def test_after_the_last_one_there_is_nothing(client):
    async with Simulator.recorded([(200, {}, b"one")]) as sim:
        await fetched(client, sim.base_url)
        status, _, body = await fetched(client, sim.base_url)
    assert status == 404
    assert json.loads(body)["error"]["message"] == "all 1 recorded replies were served"


async def test_a_key_is_asked_for_by_path_or_by_header(client):
    replies = [Recorded(200, {}, b"a", key="a"), Recorded(200, {}, b"b", key="b")]
    async with Simulator.recorded(replies) as sim:
        by_path = [
            (await fetched(client, f"{sim.base_url_for('b')}/messages"))[2] for _ in range(2)
        ]
        by_header = await fetched(client, sim.base_url, headers={"x-sim-exchange": "a"})
        unknown = await fetched(client, f"{sim.base_url_for('c')}/messages")
    assert by_path == [b"b", b"b"]
    assert by_header[2] == b"a"
    assert unknown[0] == 404


async def test_a_body_in_pieces_is_the_same_body(client):
    async with Simulator.recorded([(200, {}, EVENTS)] * 2, pieces=9, seed=3) as sim:
        bodies = [(await fetched(client, sim.base_url))[2] for _ in range(2)]
    assert bodies == [EVENTS, EVENTS]


async def test_recorded_exchanges_arrive_as_they_were(client, corpus):
    items = [json.loads(path.read_text()) for path in sorted((corpus / "items").glob("*.json"))]
    wanted = [to_recorded(item["response"]) for item in items if item["surface"] in SURFACES]
    async with Simulator.recorded(wanted, pieces=4) as sim:
        for reply in wanted:
            status, headers, body = await fetched(client, sim.base_url)
            assert (status, body) == (reply.status, reply.body)
            kept = {name.lower() for name in reply.headers} - FRAMING
            assert {name: headers[name] for name in kept} == {
                name.lower(): value.strip()
                for name, value in reply.headers.items()
                if name.lower() in kept
            }
    assert len(wanted) > 300


@given(st.binary(max_size=200), st.integers(1, 50), st.integers())
def test_pieces_join_to_the_body_and_none_is_empty(body, pieces, seed):
    cut = cut_randomly(body, pieces, random.Random(seed))
    assert b"".join(cut) == body
    assert len(cut) == max(1, min(pieces, len(body)))
    assert all(cut) or not body


@pytest.mark.parametrize(
    ("item", "recorded"),
    [
        ({"status": 200, "headers": {"a": "b"}, "body": "é"}, (200, {"a": "b"}, "é".encode())),
        (
            {"status": None, "body_b64": base64.b64encode(b"\x00\xff").decode()},
            (200, {}, b"\x00\xff"),
        ),
        ({"body": b"raw", "edits": "ignored"}, (200, {}, b"raw")),
    ],
)
def test_a_mapping_is_a_recorded_reply(item, recorded):
    assert to_recorded(item) == Recorded(*recorded)


@pytest.mark.parametrize("item", [{"status": "ok"}, {"body": 3}, {"body_b64": "***"}])
def test_what_is_no_recorded_reply_is_misuse(item):
    with pytest.raises(Misuse, match="a recorded reply is not valid"):
        Simulator.recorded([item])


def test_less_than_one_piece_is_misuse():
    with pytest.raises(Misuse, match="pieces"):
        Simulator.recorded([], pieces=0)
