"""A run in flight, as it shows itself."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from tests.leaping import Leaping
from tests.runs.kit import Do
from upshot import Agent, Interrupted, start
from upshot.models import ScriptedModel


async def test_a_run_in_flight_shows_its_id_and_how_it_ended() -> None:
    async with start(Agent("a", model=ScriptedModel(["Hi."])), "?") as live:
        assert repr(live) == f"LiveRun({live.run_id}, under way)"
        await live.result()
        assert repr(live) == f"LiveRun({live.run_id}, completed)"


async def test_who_is_cancelled_while_a_run_that_was_left_ends_is_cancelled_after_it() -> None:
    begun, ending, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()

    async def leave_early() -> None:
        async with start(Agent("a", engine=Do(work)), "?") as live:
            kept.append(live)
            await begun.wait()

    kept: list[Any] = []
    task = asyncio.ensure_future(leave_early())
    await ending.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await kept[0].result()).status == "canceled"


def test_an_engine_that_ignores_its_cancel_is_left_behind_and_told() -> None:
    loop = Leaping()

    async def lived() -> Any:
        begun, over = asyncio.Event(), asyncio.Event()

        async def work(run: Any, host: Any, board: Any) -> None:
            begun.set()
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    loop.leap(60)

        async with start(Agent("a", engine=Do(work)), "?") as live:
            await begun.wait()
            live.cancel()
            result = await live.result()
        over.set()
        await asyncio.sleep(0)
        return result

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(lived())
    assert result.status == "canceled"
    assert [warning.code for warning in result.warnings] == ["abandoned"]


@pytest.mark.parametrize(("stop", "status"), [("cancel", "canceled"), ("interrupt", "interrupted")])
async def test_a_run_can_be_stopped_from_another_thread(stop: str, status: str) -> None:
    # In this mode a loop refuses whoever touches it from another thread.
    asyncio.get_running_loop().set_debug(True)
    asked = asyncio.Event()

    async def work(run: Any, host: Any, board: Any) -> None:
        asked.set()
        while not host.interrupts:
            await asyncio.sleep(0)
        raise Interrupted(host.interrupts.cause)

    async with start(Agent("a", engine=Do(work)), "?") as live:
        await asked.wait()
        await asyncio.to_thread(getattr(live, stop))
        assert (await live.result()).status == status


async def test_a_run_can_be_stopped_in_a_handler_of_a_signal() -> None:
    async with start(Agent("a", engine=Do(lambda *_: asyncio.sleep(3_600))), "?") as live:
        before = signal.signal(signal.SIGUSR1, lambda *_: live.cancel())
        # Later than this the loop waits, and nothing else wakes it.
        main = threading.main_thread().ident or 0
        timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1))
        timer.start()
        try:
            async with asyncio.timeout(60):
                result = await live.result()
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)
    assert result.status == "canceled"


def test_a_run_whose_loop_is_closed_can_be_told_to_stop() -> None:
    async def lived() -> Any:
        async with start(Agent("a", engine=Do(lambda *_: "Done.")), "?") as live:
            await live.result()
        return live

    live = asyncio.run(lived())
    live.cancel()
    live.interrupt()
    assert live.done
