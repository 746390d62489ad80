"""Compaction over HTTP: a server that refuses what no provider takes sees what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from upshot import Agent, Compaction, Message, run, tool
from upshot.models import resolve
from upshot.sim import Simulator

MODELS = ["openai:gpt-5", "anthropic:claude-sonnet-4-5"]
TOO_LONG = {"kind": "status", "status": 400, "code": "context_length_exceeded", "at": 2}


@tool(effect="read")
def look(room: int) -> str:
    """Look."""
    return f"room {room} is fine"


def looking(room: int, tokens: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 5}
    return {"tool_calls": [{"name": "look", "arguments": {"room": room}}], "usage": usage}


def counted(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


def roles(request: Any) -> list[str]:
    return [message["role"] for message in request.body["messages"]]


async def walk(name: str, scenario: dict[str, Any], **fields: Any) -> tuple[Any, Sequence[Any]]:
    async with Simulator(scenario) as server:
        model = resolve(name, base_url=server.base_url, api_key="any")
        given: dict[str, Any] = {"at_tokens": 1_000, "keep_last": 2, **fields}
        agent = Agent("walker", model=model, tools=[look], compaction=Compaction(**given))
        return await run(agent, "Look around."), [*server.requests]


@pytest.mark.parametrize("name", MODELS)
async def test_a_request_that_is_too_long_is_made_once_more(name: str) -> None:
    replies = [looking(1, 10), looking(2, 20), "Done."]
    result, requests = await walk(name, {"replies": replies, "faults": [TOO_LONG]})
    assert result.content == "Done.", result.error
    # The reply is chosen by how many replies a request holds.
    refused, again, last = requests[2], requests[3], requests[4]
    assert len(roles(refused)) == len(roles(again)) + 2 == len(roles(last))


@pytest.mark.parametrize("name", MODELS)
async def test_what_is_left_is_taken_by_the_count_of_the_server(name: str) -> None:
    replies = [looking(1, 500), looking(2, 2_000)]
    _, requests = await walk(name, {"replies": replies}, summarise=counted)
    # What it would refuse, such as an outcome without its call, would be no third reply.
    before, after = str(requests[1].body), str(requests[2].body)
    assert "room 1 is fine" in before
    assert "room 1 is fine" not in after
    assert "2 messages" in after
    assert "room 2 is fine" in after
    assert "Look around." in after
    assert len(requests) > 3
