"""Asking something of the event loop of another thread, whatever that is at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from upshot.runs.callbacks import ask_elsewhere


@pytest.fixture
def other() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop of another thread."""
    loop = asyncio.new_event_loop()
    running = threading.Event()
    loop.call_soon(running.set)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(loop.run_forever)
        assert running.wait(60)
        yield loop
        loop.call_soon_threadsafe(loop.stop)
    loop.close()


async def loop_at_hand() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def test_it_is_done_in_that_loop(other: asyncio.AbstractEventLoop) -> None:
    assert await ask_elsewhere(other, loop_at_hand) is other


async def test_what_it_raises_comes_through(other: asyncio.AbstractEventLoop) -> None:
    async def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await ask_elsewhere(other, fail)


async def test_a_loop_that_is_held_up_is_an_error_and_nothing_is_begun(
    other: asyncio.AbstractEventLoop,
) -> None:
    begun: list[int] = []
    free = threading.Event()

    async def ask() -> None:
        begun.append(1)

    other.call_soon_threadsafe(free.wait, 10)
    with pytest.raises(RuntimeError, match=r"did not answer within 0\.01 s: something in it waits"):
        await ask_elsewhere(other, ask, patience_s=0.01)
    free.set()
    assert await ask_elsewhere(other, loop_at_hand) is other
    assert begun == []


async def test_a_cancel_here_is_one_there(other: asyncio.AbstractEventLoop) -> None:
    began, ended = threading.Event(), threading.Event()

    async def ask() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(ask_elsewhere(other, ask))
    assert await asyncio.to_thread(began.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 10)


@pytest.mark.parametrize("end", [lambda loop: None, lambda loop: loop.close()])
async def test_a_loop_that_has_ended_is_an_error(end: Callable[[Any], None]) -> None:
    loop = asyncio.new_event_loop()
    end(loop)
    with pytest.raises(RuntimeError, match="its event loop has ended"):
        await ask_elsewhere(loop, loop_at_hand)
    loop.close()
