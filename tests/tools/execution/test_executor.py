"""Running bodies within their time, on a real loop and in real threads."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from tests.leaping import Leaping, run_leaping
from upshot.tools import CancelToken
from upshot.tools.execution import executor
from upshot.tools.execution.executor import (
    BodyEnd,
    BodyValue,
    Raised,
    Stopped,
    Workers,
    discard,
    run_async,
    run_thread,
)

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def in_thread(
    body: Callable[[], object],
    *,
    timeout_s: float | None = None,
    token: CancelToken | None = None,
    workers: Workers | None = None,
    late: Callable[[], None] = lambda: None,
) -> Coroutine[Any, Any, BodyEnd]:
    return run_thread(
        body,
        timeout_s=timeout_s,
        token=CancelToken() if token is None else token,
        workers=workers or Workers(),
        late=late,
    )


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grace that a thread meets on a machine that stalls too."""
    monkeypatch.setattr(executor, "_THREAD_GRACE_S", 60.0)


async def hang() -> None:
    await asyncio.Event().wait()


async def test_a_coroutine_returns_its_value():
    async def body() -> int:
        return 7

    assert await run_async(body, timeout_s=1, token=CancelToken()) == BodyValue(7)


async def test_a_plain_function_returns_its_value_from_another_thread():
    ending = await in_thread(threading.get_ident)
    assert isinstance(ending, BodyValue)
    assert ending.value != threading.get_ident()


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(2), asyncio.CancelledError()])
async def test_what_a_coroutine_raises_is_its_ending(error: BaseException):
    async def body() -> None:
        raise error

    ending = await run_async(body, timeout_s=1, token=CancelToken())
    assert isinstance(ending, Raised)
    assert type(ending.error) is type(error)


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(2), StopIteration(), KeyboardInterrupt()]
)
async def test_what_a_plain_function_raises_is_its_ending(error: BaseException):
    def body() -> None:
        raise error

    assert await in_thread(body) == Raised(error)


async def test_a_coroutine_past_its_time_is_cancelled():
    seen: list[str] = []

    async def body() -> None:
        try:
            await hang()
        finally:
            seen.append("cleaned up")

    token = CancelToken()
    assert await run_async(body, timeout_s=0.01, token=token) == Stopped(cancelled=False)
    assert seen == ["cleaned up"]
    assert token


async def test_a_coroutine_that_ignores_its_cancel_is_abandoned():
    release = asyncio.Event()

    async def body() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    ending = await run_async(body, timeout_s=0.01, token=CancelToken(), grace_s=0.01)
    assert ending == Stopped(cancelled=False, ended=False)
    release.set()
    await asyncio.sleep(0)


def past_its_time(
    body: Callable[[], object], *, give_way: Callable[[], None] | None = None, **more: Any
) -> BodyEnd:
    """Run *body* in a thread whose time is over once it has begun.

    Where *give_way* is given it is called after that, and the thread's end is waited for.
    """

    async def main() -> BodyEnd:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        assert isinstance(loop, Leaping)

        def begun() -> object:
            loop.leap(60)
            return body()

        ending = await in_thread(begun, timeout_s=30, late=told.set, **more)
        if give_way is not None:
            give_way()
            await asyncio.wait_for(told.wait(), 60)
        return ending

    return run_leaping(main())


def test_a_thread_past_its_time_is_written_off_and_its_late_end_told():
    workers, release = Workers(), threading.Event()
    lost: list[int] = []

    def give_way() -> None:
        lost.append(workers.lost)
        release.set()

    ending = past_its_time(lambda: release.wait(60), give_way=give_way, workers=workers)
    assert ending == Stopped(cancelled=False, ended=False)
    assert lost == [1]


def test_a_thread_that_looks_at_its_token_ends_in_time(patient: None):
    token = CancelToken()
    ending = past_its_time(lambda: token.wait(60), token=token)
    assert ending == Stopped(cancelled=False, ended=True)


def test_what_a_thread_gives_to_be_waited_for_within_the_grace_is_closed(patient: None):
    token, given = CancelToken(), hang()

    def body() -> object:
        token.wait(60)
        return given

    assert past_its_time(body, token=token) == Stopped(cancelled=False)
    assert inspect.getcoroutinestate(given) == inspect.CORO_CLOSED


def test_what_a_thread_gives_to_be_waited_for_too_late_is_closed():
    release, given = threading.Event(), hang()

    def body() -> object:
        release.wait(60)
        return given

    past_its_time(body, give_way=release.set)
    assert inspect.getcoroutinestate(given) == inspect.CORO_CLOSED


class Unruly(Exception):
    """What the last block of a generator raises."""


def begun() -> Generator[None, None, None]:
    def body() -> Generator[None, None, None]:
        try:
            yield
        finally:
            raise Unruly

    generator = body()
    next(generator)
    return generator


async def test_what_closing_a_late_generator_raises_ends_nothing(patient: None):
    token = CancelToken()

    def give() -> Generator[None, None, None]:
        token.wait()
        return begun()

    assert await in_thread(give, timeout_s=0.02, token=token) == Stopped(cancelled=False)


def test_a_generator_that_does_not_end_well_is_dropped_all_the_same():
    generator = begun()
    discard(generator)
    assert inspect.getgeneratorstate(generator) == inspect.GEN_CLOSED


async def test_a_call_that_never_got_a_thread_has_not_started():
    workers, release = Workers(cap=1), threading.Event()
    first = asyncio.create_task(in_thread(lambda: release.wait(60), workers=workers))
    await asyncio.sleep(0)
    ending = await in_thread(lambda: None, timeout_s=0.01, workers=workers)
    assert ending == Stopped(cancelled=False, started=False)
    release.set()
    await first


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_a_cancel_of_the_caller_is_an_ending(mode: str):
    token, release, began = CancelToken(), threading.Event(), threading.Event()

    async def wait() -> None:
        began.set()
        await hang()

    running = (
        run_async(wait, timeout_s=None, token=token)
        if mode == "async"
        else in_thread(lambda: (began.set(), release.wait(60)), token=token)
    )
    task = asyncio.create_task(running)
    assert await asyncio.to_thread(began.wait, 60)
    task.cancel()
    ending = await task
    assert isinstance(ending, Stopped)
    assert ending.cancelled
    assert ending.ended == (mode == "async")
    assert token
    release.set()


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_context_variables_are_carried_over(mode: str):
    async def body() -> str:
        return VARIABLE.get()

    VARIABLE.set("set")
    running = (
        run_async(body, timeout_s=1, token=CancelToken())
        if mode == "async"
        else in_thread(VARIABLE.get)
    )
    assert await running == BodyValue("set")


def test_a_thread_that_outlives_its_loop_harms_nobody():
    release, ended = threading.Event(), threading.Event()

    def body() -> None:
        release.wait(60)
        ended.set()

    past_its_time(body)
    release.set()
    assert ended.wait(60)
