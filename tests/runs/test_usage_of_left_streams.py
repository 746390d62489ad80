"""What a stream told of its usage counts, however the run left it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from tests.runs.kit import measured
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Budget,
    ModelResponse,
    TextDelta,
    Usage,
    resolve,
    run,
    start,
    states,
)
from upshot.journal import MemoryJournal
from upshot.models import Fallback
from upshot.runs.resumption import usage_so_far

START = {
    "type": "message_start",
    "message": {"usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}},
}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
PIECE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
COUNT = {"promptTokenCount": 10, "totalTokenCount": 10, "cachedContentTokenCount": 3}
WORDS = [{"content": {"parts": [{"text": "a"}]}}]
STREAMS: dict[str, list[dict[str, Any]]] = {
    "anthropic:claude-sonnet-4-5": [START, BLOCK, PIECE, PIECE],
    "google:gemini-2.5-pro": [
        {"candidates": WORDS, "usageMetadata": COUNT},
        {"candidates": WORDS},
    ],
}


class Stalls:
    """A transport that sends a stream without its end; the last piece when it is told to."""

    def __init__(self, events: list[dict[str, Any]], *, joined: bool) -> None:
        self.events = events
        self.joined = joined
        self.go = asyncio.Event()

    @asynccontextmanager
    async def send(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        async def body() -> AsyncIterator[bytes]:
            *first, last = [f"data: {json.dumps(one)}\n\n".encode() for one in self.events]
            for chunk in [b"".join(first)] if self.joined else first:
                yield chunk
            await self.go.wait()
            yield last
            await asyncio.Event().wait()

        yield 200, [("content-type", "text/event-stream")], body()


async def left(name: str, how: str, *, joined: bool = False, **more: Any) -> AgentResult[Any]:
    """The result of a run that leaves the stream at its first piece."""
    transport: Any = Stalls(STREAMS[name], joined=joined)
    model = resolve(name, api_key="k", transport=transport)
    async with start(Agent("a", model=model), "?", **more) as live:
        async for event in live:
            if event.kind == "text_delta":
                live.cancel() if how == "cancel" else live.interrupt()
                transport.go.set()
        return await live.finish()


@pytest.mark.parametrize("joined", [True, False], ids=["in one chunk", "by events"])
@pytest.mark.parametrize("how", ["cancel", "interrupt"])
@pytest.mark.parametrize("name", STREAMS)
async def test_what_a_stream_told_is_counted_though_it_was_left(
    name: str, how: str, *, joined: bool
) -> None:
    usage = (await left(name, how, joined=joined)).usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (10, 3)
    assert (usage.api_calls, usage.unmeasured_calls) == (1, 0)


async def test_its_price_is_counted_as_well() -> None:
    result = await left("anthropic:claude-sonnet-4-5", "cancel")
    assert result.cost is not None
    assert result.cost.total is not None
    assert result.cost.total > Decimal(0)
    assert result.cost.unpriced_calls == 0


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_the_log_keeps_what_it_told(how: str) -> None:
    journal = MemoryJournal()
    result = await left("anthropic:claude-sonnet-4-5", how, journal=journal)
    read = [one async for one in states(journal.events(result.run_id))]
    told = [event for event, _ in read if event.kind == "usage_reported"]
    assert [(one.number, one.response.usage.input_tokens) for one in told] == [(0, 10)]
    spent = usage_so_far(read[-1][1])
    assert (spent.usage, spent.cost) == (result.usage, result.cost)


class Tells:
    """A model whose stream says early what it uses, and then fails or waits."""

    name = "m"

    def __init__(self, used: int, *, then: BaseException | ModelResponse | None = None) -> None:
        self.used, self.then = used, then

    async def call(self, request: Any) -> ModelResponse:
        return measured("x")

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield Usage(input_tokens=self.used)
        if isinstance(self.then, ModelResponse):
            yield self.then
            return
        yield TextDelta(text="a")
        if self.then is not None:
            raise self.then
        await asyncio.Event().wait()


async def watched(model: Any, **more: Any) -> AgentResult[Any]:
    async with start(Agent("a", model=model, retry=None), "?", **more) as live:
        async for event in live:
            if event.kind == "text_delta" and getattr(model, "then", None) is None:
                live.cancel()
        return await live.finish()


async def test_any_model_may_tell_it() -> None:
    usage = (await watched(Tells(7))).usage
    assert (usage.input_tokens, usage.api_calls) == (7, 1)


async def test_it_counts_where_the_client_raises_in_the_middle() -> None:
    result = await watched(Tells(7, then=ConnectionResetError("gone")))
    assert result.error is not None
    assert (result.error.code, result.usage.input_tokens) == ("server_error", 7)


async def test_a_reply_that_comes_whole_counts_once() -> None:
    result = await watched(Tells(7, then=measured("Hi.")))
    assert (result.usage.input_tokens, result.usage.api_calls) == (10, 1)


async def test_a_fallback_tells_what_the_models_before_used_too() -> None:
    failed = ModelResponse(
        error=AgentError("server_error", "no", retryable=True),
        usage=Usage(input_tokens=2, api_calls=1),
    )
    result = await watched(Fallback(Tells(9, then=failed), Tells(7)))  # type: ignore[arg-type]
    assert (result.usage.input_tokens, result.usage.api_calls) == (9, 2)


async def test_the_budget_of_the_run_round_it_sees_it() -> None:
    seen: list[Usage] = []

    class Host:
        def report_usage(self, usage: Usage) -> None:
            seen.append(usage)

    await watched(Tells(7), host=Host(), budget=Budget(max_tokens=100))
    assert [one.input_tokens for one in seen] == [7]


async def test_a_run_that_nobody_watches_is_told_nothing_before_the_end() -> None:
    assert (await run(Agent("a", model=Tells(7)), "?")).usage.input_tokens == 10  # type: ignore[arg-type]
