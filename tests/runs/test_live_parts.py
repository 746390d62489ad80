"""Sound, images and blocks of hosted tools, which watchers get while a reply streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.wire.test_media import MIXED, joined
from upshot import (
    Agent,
    PartDelta,
    Reasoning,
    Text,
    ToolCall,
    resolve,
    run,
    start,
)

MODELS = {
    "chat": "openai:m",
    "responses": "openai-responses:m",
    "messages": "anthropic:m",
    "generate": "google:m",
}


@asynccontextmanager
async def agent_of(surface: str) -> AsyncGenerator[Agent[Any]]:
    """An agent whose model is a server of its own, which streams parts of several kinds."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        body = MIXED[surface]
        for place in range(0, len(body), 40):
            await response.write(body[place : place + 40])
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stream)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield Agent("a", model=resolve(MODELS[surface], base_url=url, api_key="k"))
    finally:
        await runner.cleanup()


def made(result: Any) -> list[Any]:
    of_model = (Text, Reasoning, ToolCall)
    return [part for part in result.messages[-1].parts if not isinstance(part, of_model)]


@pytest.mark.parametrize("surface", MODELS)
async def test_watchers_get_what_the_reply_has_in_the_end(surface: str) -> None:
    async with agent_of(surface) as agent:
        async with start(agent, "Go.") as live:
            deltas = [event async for event in live if isinstance(event, PartDelta)]
            watched = await live.result()
        unwatched = await run(agent, "Go.")
    key = lambda part: type(part).__name__  # noqa: E731
    assert sorted(joined(deltas), key=key) == sorted(made(watched), key=key) != []
    assert watched.messages == unwatched.messages


async def test_a_block_of_a_hosted_tool_shows_no_secret() -> None:
    async with agent_of("messages") as agent, start(agent, "Go.", secrets=["https://a"]) as live:
        deltas = [event async for event in live if isinstance(event, PartDelta)]
    assert "https://a" not in repr(deltas)
    assert "***" in repr(deltas)
