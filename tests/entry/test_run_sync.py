"""run_sync: a run outside an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, Misuse, run_sync
from upshot.models import ScriptedModel, resolve


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


def test_run_sync_runs_without_a_loop_and_again() -> None:
    assert [run_sync(hello(), "?").content for _ in range(2)] == ["Hello.", "Hello."]


REPLY = b'{"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


async def test_run_sync_closes_the_connections_of_its_loop() -> None:
    ended = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
        writer.write(HEAD % len(REPLY) + REPLY)
        ended.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        model = resolve("openai:any", base_url=f"http://127.0.0.1:{port}", api_key="any")
        result = await asyncio.to_thread(run_sync, Agent("a", model=model), "?")
        assert result.content == "Hello.", result.error
        assert await asyncio.wait_for(ended, 10) == b""


async def test_run_sync_inside_a_loop_is_misuse() -> None:
    with pytest.raises(Misuse, match="await run"):
        run_sync(hello(), "?")


def test_run_sync_raises_misuse_as_run_does() -> None:
    with pytest.raises(Misuse, match="neither a model"):
        run_sync(Agent("a"), "?")


def test_run_sync_works_in_a_thread() -> None:
    said: list[str | None] = []
    thread = threading.Thread(target=lambda: said.append(run_sync(hello(), "?").content))
    thread.start()
    thread.join()
    assert said == ["Hello."]


def test_run_sync_ends_the_work_that_is_left_in_its_loop() -> None:
    ended: list[bool] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def work(run: Any, host: Any, board: Any) -> None:
        tasks.append(asyncio.ensure_future(linger()))
        await asyncio.sleep(0)

    tasks: list[Any] = []
    assert run_sync(Agent("a", engine=Do(work)), "?").success
    assert ended == [True]


def test_run_sync_leaves_stubborn_work_behind_and_names_it() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    async def polite() -> None:
        await asyncio.Event().wait()

    tasks: list[Any] = []

    def work(run: Any, host: Any, board: Any) -> None:
        tasks.extend(asyncio.ensure_future(one()) for one in (stubborn, polite))

    with pytest.warns(RuntimeWarning, match="stubborn") as caught:
        assert run_sync(Agent("a", engine=Do(work)), "?").success
    assert "polite" not in str(caught[0].message)
