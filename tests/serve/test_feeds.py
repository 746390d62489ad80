"""What many pages watch is looked at once for all of them, and each of them sees all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sse_starlette import ServerSentEvent

from tests.serve.kit import Client, served
from upshot import Agent, App, ModelResponse, Text, TextDelta, ToolCall, tool
from upshot.journal import MemoryJournal
from upshot.serve.console import Feed, Feeds, Part

MANY = 200


class Counted(MemoryJournal):
    """Counts how often its list of runs, and the log of a run, are read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def inbox_size(self, **filters: Any) -> int:
        self.looks += 1
        return await super().inbox_size(**filters)


class Talks:
    """Waits in a tool, and then streams a text."""

    name = "talks"

    async def call(self, request: Any) -> ModelResponse:
        return ModelResponse(parts=(ToolCall("w", "wait", {}),))

    async def stream(self, request: Any) -> AsyncGenerator[Any]:
        if len(request.messages) < 2:
            yield await self.call(request)
            return
        for n in range(20):
            yield TextDelta(text=f"{n} ")
            await asyncio.sleep(0)
        yield ModelResponse(parts=(Text("".join(f"{n} " for n in range(20))),))


async def read(site: Client, path: str, came: asyncio.Queue[Any]) -> list[Any]:
    """All that comes of a stream; tells *came* of the first."""
    found: list[Any] = []
    async with site.session.get(site.url + path, headers=site.headers) as response:
        async for line in response.content:
            if line.startswith(b"data:"):
                found.append(json.loads(line[5:]))
                if len(found) == 1:
                    came.put_nowait(found)
    return found


async def test_two_hundred_pages_of_a_run_see_all_of_it_and_share_one_look_at_the_list() -> None:
    go, journal = asyncio.Event(), Counted()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "on"

    app = App([Agent("talker", model=Talks(), tools=[wait])], journal=journal)
    async with served(app, rate=10_000) as site:
        sam = site.by("sam")
        _, said = await sam.post("/api/runs", {"agent": "talker", "text": "Talk."})
        came: asyncio.Queue[Any] = asyncio.Queue()
        live = [asyncio.create_task(read(sam, "/api/live", came)) for _ in range(MANY // 2)]
        for _ in live:
            await came.get()
        # Of another look there is no word where nothing has changed.
        assert journal.looks < 10
        path = f"/api/runs/{said['run_id']}/view"
        pages = [asyncio.create_task(read(sam, path, came)) for _ in range(MANY // 2)]
        for _ in pages:
            await came.get()
        go.set()
        for parts in await asyncio.gather(*pages):
            assert parts[-1] == {} and parts[-2]["head"]["status"] == "completed"
            shown = {one["id"]: one for part in parts for one in part.get("messages", ())}
            rows = {row["id"] for part in parts for row in part.get("rows", ())}
            assert shown[max(shown)]["text"].split() == [str(n) for n in range(20)]
            assert rows == set(range(len(rows)))
        for one in live:
            one.cancel()
        await asyncio.gather(*live, return_exceptions=True)


class Counter:
    """A feed of numbers."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.more: asyncio.Queue[int | None] = asyncio.Queue()
        self.is_closed = False
        self.made = 0

    async def changes(self) -> AsyncGenerator[None]:
        try:
            while (number := await self.more.get()) is not None:
                if number < 0:
                    raise ValueError("below 0")
                self.numbers.append(number)
                yield
        finally:
            self.is_closed = True

    def part(self, mark: int) -> Part:
        self.made += 1
        return Part(ServerSentEvent(json.dumps(self.numbers[mark:])), len(self.numbers))


async def all_of(parts: Any) -> list[int]:
    return [n for each in [json.loads(one.data) async for one in parts] for n in each]


async def test_each_watcher_gets_all_whenever_it_comes_and_a_part_is_made_once() -> None:
    feeds, counter = Feeds(), Counter()

    def watch() -> asyncio.Task[list[int]]:
        return asyncio.create_task(
            all_of(feeds.watch("n", lambda: Feed(counter.changes(), counter.part)))
        )

    first = [watch() for _ in range(5)]
    for n in range(3):
        counter.more.put_nowait(n)
        while counter.made == n:
            await asyncio.sleep(0)
    late = watch()
    while counter.made == 3:
        await asyncio.sleep(0)
    counter.more.put_nowait(3)
    counter.more.put_nowait(None)
    assert await asyncio.gather(*first, late) == [[0, 1, 2, 3]] * 6
    assert counter.is_closed
    # One for each change, and one for who came later.
    assert counter.made == 5


async def test_a_feed_ends_with_its_last_watcher_and_another_begins() -> None:
    feeds, counter = Feeds(), Counter()
    parts = feeds.watch("n", lambda: Feed(counter.changes(), counter.part))
    counter.more.put_nowait(1)
    assert (await anext(parts)).data == "[1]"
    await parts.aclose()
    assert counter.is_closed
    again = Counter()
    again.more.put_nowait(2)
    again.more.put_nowait(None)
    assert await all_of(feeds.watch("n", lambda: Feed(again.changes(), again.part))) == [2]


async def test_what_ends_a_feed_is_raised_to_each_who_watches() -> None:
    feeds, counter = Feeds(), Counter()
    tasks = [
        asyncio.create_task(all_of(feeds.watch("n", lambda: Feed(counter.changes(), counter.part))))
        for _ in range(2)
    ]
    counter.more.put_nowait(-1)
    for task in tasks:
        with pytest.raises(ValueError, match="below 0"):
            await task
