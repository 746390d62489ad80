"""The task in which an engine works: however it is ended, the run learns how."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from upshot.clock import SYSTEM_CLOCK
from upshot.runs.task_supervisor import TaskSupervisor


def scope(deadline_s: float | None = None) -> TaskSupervisor:
    deadline = None if deadline_s is None else SYSTEM_CLOCK.monotonic() + deadline_s
    return TaskSupervisor(SYSTEM_CLOCK, deadline, grace_s=0.02)


async def hang() -> None:
    await asyncio.sleep(60)


async def ignore(release: asyncio.Event) -> None:
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue


async def value() -> int:
    return 7


async def fail() -> None:
    raise KeyError("x")


async def cancel_itself() -> None:
    raise asyncio.CancelledError


async def test_work_that_returns_gives_its_value() -> None:
    assert await scope().drive(value()) == (7, None)


@pytest.mark.parametrize(
    ("work", "error"), [(fail, KeyError), (cancel_itself, asyncio.CancelledError)]
)
async def test_what_work_raises_is_given_back(work: Any, error: type) -> None:
    box = scope()
    _, raised = await box.drive(work())
    assert isinstance(raised, error)
    assert box.stop == ""


async def test_work_past_the_deadline_is_cancelled() -> None:
    box = scope(deadline_s=0.01)
    _, raised = await box.drive(hang())
    assert (type(raised), box.stop) == (asyncio.CancelledError, "deadline")


async def test_work_of_a_scope_that_was_ended_before_never_runs() -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    box = scope()
    box.end("cancel")
    _, raised = await box.drive(work())
    assert (type(raised), ran) == (asyncio.CancelledError, [])


async def test_who_ignores_the_cancel_is_left_behind() -> None:
    box, release = scope(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, box.end, "cancel")
    _, raised = await box.drive(ignore(release))
    assert (type(raised), box.abandoned) == (asyncio.CancelledError, True)
    release.set()
    await asyncio.sleep(0)


async def test_who_ends_at_its_cancel_is_not_left_behind_since_the_loop_stood_still() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            # It takes a few rounds of the loop to end.
            for _ in range(3):
                await asyncio.sleep(0)

    def stall() -> None:
        box.end("cancel")
        time.sleep(0.04)

    box = scope()
    asyncio.get_running_loop().call_later(0.005, stall)
    _, raised = await box.drive(work())
    assert (type(raised), box.abandoned) == (asyncio.CancelledError, False)


async def test_who_does_not_come_to_a_safe_point_is_cancelled_after_the_grace() -> None:
    box = scope()
    box.end_soon("interrupt")
    await box.drive(hang())
    assert box.stop == "interrupt"


async def test_a_wish_between_two_passes_holds_for_the_next() -> None:
    box = scope()
    await box.drive(value())
    box.end_soon("interrupt")
    await box.drive(hang())
    assert box.stop == "interrupt"


async def test_a_cancel_wins_over_an_interrupt_and_nothing_over_a_cancel() -> None:
    box = scope()
    for reason in ("interrupt", "cancel", "interrupt", "deadline", "caller"):
        box.end(reason)  # type: ignore[arg-type]
    assert box.stop == "cancel"


async def test_a_cancel_of_the_driver_ends_the_work_and_not_the_driver() -> None:
    box = scope()
    driver = asyncio.ensure_future(box.drive(hang()))
    await asyncio.sleep(0)
    driver.cancel()
    _, raised = await driver
    assert (type(raised), box.stop) == (asyncio.CancelledError, "caller")


@pytest.mark.parametrize("is_final", [False, True])
async def test_a_hook_that_hangs_is_cut_by_an_end(is_final: bool) -> None:
    box = scope()
    box.is_final = is_final
    asyncio.get_running_loop().call_soon(box.end, "cancel")
    with pytest.raises(TimeoutError, match="too long"):
        await box.wait(hang())


async def test_a_hook_that_hangs_is_cut_by_the_deadline() -> None:
    box = scope(deadline_s=0.01)
    with pytest.raises(TimeoutError):
        await box.wait(hang())
    assert box.stop == "deadline"


async def test_a_timeout_of_the_hooks_own_ends_nothing() -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.001):
            await hang()

    box = scope()
    with pytest.raises(TimeoutError):
        await box.wait(impatient())
    assert box.stop == ""


async def test_the_last_hooks_get_a_grace_after_the_deadline() -> None:
    box = scope(deadline_s=0)
    box.is_final = True
    assert await box.wait(value()) == 7


@pytest.mark.parametrize("reason", ["cancel", "caller", "deadline", "interrupt"])
@pytest.mark.parametrize("is_final", [True, False], ids=["in the last hook", "before"])
async def test_engine_and_hooks_have_one_grace(reason: Any, *, is_final: bool) -> None:
    box, loop = scope(), asyncio.get_running_loop()
    box.is_final = is_final
    box.end(reason)
    until = box._hooks_until
    assert until is not None
    assert until <= loop.time() + 0.02
