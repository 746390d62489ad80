"""Recorded exchanges, sent again over real HTTP, are read as their bytes are."""

import base64
import json

import pytest

from upshot.models import Endpoint, HttpModel, Prices, Provider, aclose_transports
from upshot.wire import read_response

# Of the connection or of its coding, and not of the reply.
HOP = {"content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive"}
FIELDS = ("content", "tool_calls", "reasoning", "refusal", "usage", "cost", "finish_reason")


def read_item(path):
    item = json.loads(path.read_text())
    reply = item["response"]
    coded = reply.get("body_b64")
    body = base64.b64decode(coded) if coded else reply["body"].encode()
    headers = [
        (name, text) for name, text in (reply["headers"] or {}).items() if name.lower() not in HOP
    ]
    return item, reply["status"] or 200, headers, body


def code_of(response):
    error = response.error
    return error and (error.code, error.retryable, error.status_code)


@pytest.fixture
def recorded(corpus):
    items = map(read_item, sorted((corpus / "items").glob("*.json")))
    return [
        each
        for each in items
        if each[0]["surface"] in ("chat", "messages") and each[0]["trust"] == "recorded"
    ]


async def test_a_model_reads_what_was_recorded(recorded, serve):
    asked = []

    async def answer(_, writer):
        _, status, headers, body = recorded[len(asked) - 1]
        head = "".join(f"{name}: {text}\r\n" for name, text in headers)
        start = f"HTTP/1.1 {status} X\r\n{head}content-length: {len(body)}\r\n\r\n"
        writer.write(start.encode() + body)
        await writer.drain()

    async with serve(answer) as server:
        for item, status, headers, body in recorded:
            asked.append(item["id"])
            provider = Provider(item["provider"], server.url, surface=item["surface"])
            model = HttpModel("m", Endpoint(provider), prices=Prices(only=True))
            if item["mode"] == "sse":
                *_, response = [piece async for piece in model.stream("hi")]
            else:
                response = await model.call("hi")
            expected = read_response(
                item["surface"],
                status=status,
                headers=headers,
                body=body,
                provider=item["provider"],
            )
            assert code_of(response) == code_of(expected), item["id"]
            for name in FIELDS:
                assert getattr(response, name) == getattr(expected, name), item["id"]
    await aclose_transports()
    assert len(asked) > 100
