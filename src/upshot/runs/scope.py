"""Scope: the task in which an engine works, and the ways to end it from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

from ..clock import SystemClock
from ..contract import Clock
from .ending import StopReason
from .plan import Parent

__all__ = ["GRACE_S", "Scope", "current_run"]

GRACE_S = 2.0

current_run: ContextVar[Parent | None] = ContextVar("upshot_run", default=None)


class Scope:
    """One engine pass in a task of its own, so that our cancel never reaches the caller's.

    Attributes:
        stop: Why it was ended from outside, "" if it was not.
        abandoned: Whether the work ignored its cancellation and was left behind.
    """

    def __init__(self, clock: Clock) -> None:
        self.stop: StopReason = ""
        self.abandoned = False
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._given_up = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []
        self._watchdog: asyncio.Task[None] | None = None

    async def drive(
        self, work: Coroutine[Any, Any, Any], *, deadline: float | None
    ) -> tuple[Any, BaseException | None]:
        """Run *work* to its end.

        Args:
            work: What the engine does.
            deadline: Monotonic moment at which it is cancelled, None for never.

        Returns:
            What it returned and what it raised; one of them is None.
        """
        self._task = task = self._loop.create_task(work)
        if self.stop:
            task.cancel()
        self._watch(deadline)
        try:
            while not task.done() and not self._given_up.done():
                try:
                    await asyncio.wait({task, self._given_up}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    # Only a closing loop cancels the sitting itself; the run still ends whole.
                    self.end("caller")
        finally:
            self._unwatch()
        if not task.done():
            self.abandoned = True
            return None, asyncio.CancelledError()
        if task.cancelled():
            return None, asyncio.CancelledError()
        error = task.exception()
        return (None, error) if error is not None else (task.result(), None)

    def end(self, reason: StopReason) -> None:
        """Cancel the work; who ignores it is left behind after ``GRACE_S``."""
        if self.stop not in ("", "interrupt"):
            return
        self.stop = reason
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._timers.append(self._loop.call_later(GRACE_S, self._give_up))

    def end_soon(self, reason: StopReason) -> None:
        """Give the work ``GRACE_S`` to come to a safe point, then cancel it."""
        self._timers.append(self._loop.call_later(GRACE_S, self.end, reason))

    def _give_up(self) -> None:
        if not self._given_up.done():
            self._given_up.set_result(None)

    def _watch(self, deadline: float | None) -> None:
        if deadline is None:
            return
        left_s = max(0.0, deadline - self._clock.monotonic())
        if isinstance(self._clock, SystemClock):
            self._timers.append(self._loop.call_later(left_s, self.end, "deadline"))
        else:
            self._watchdog = self._loop.create_task(self._end_after(left_s))

    async def _end_after(self, left_s: float) -> None:
        await self._clock.sleep(left_s)
        self.end("deadline")

    def _unwatch(self) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._watchdog is not None:
            self._watchdog.cancel()
        # An exception of abandoned work is nobody's any more.
        if self._task is not None and not self._task.done():
            self._task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
