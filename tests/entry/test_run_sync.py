"""run_sync: a run outside an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, Misuse, run_sync
from upshot.models import ScriptedModel


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


def test_run_sync_runs_without_a_loop_and_again() -> None:
    assert [run_sync(hello(), "?").content for _ in range(2)] == ["Hello.", "Hello."]


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
