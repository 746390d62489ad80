"""The task in which an engine works, and the ways to end it from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from upshot.contract.protocols import Clock
from upshot.contract.run_control import Interrupt
from upshot.runs.ending import StopReason
from upshot.tools.rate_limiter import ActiveTime

if TYPE_CHECKING:
    from upshot.runs.waits import Parking

# Seconds that a run stopped from outside may take to end, engine and hooks together.
GRACE_S = 2.0
# Seconds that a write under way may continue after a request to stop, by default.
WRITE_GRACE_S = 10.0
# Seconds between checks whether a write is still under way.
_LOOK_S = 0.05
# Seconds that a cancelled caller waits for it.
CALLER_GRACE_S = 2.0
# The share of the grace period after which the engine is abandoned, and then the hooks.
_ENGINE_SHARE = 0.85
_HOOKS_SHARE = 0.95
# A timer later than this share of the grace period means that the event loop was blocked.
_LATE_SHARE = 0.25

T = TypeVar("T")


class Stopping(NamedTuple):
    """What a run that was asked to stop has left.

    Attributes:
        left_s: Seconds until it is cancelled, unless it reaches a safe point before.
        writes: The calls and steps under way that may write, as texts such as
            ``refund(order 7)``. If they are cut off, it is unknown whether they took effect.
    """

    left_s: float
    writes: tuple[str, ...]


class ChildRun(NamedTuple):
    """A child run, as its parent run sees it.

    Attributes:
        interrupt: Passes a request to stop to it.
        writes_in_hand: Returns the writes under way in it.
        within: The tool call and step bodies that wait for it.
    """

    interrupt: Callable[[Interrupt], None]
    writes_in_hand: Callable[[], tuple[str, ...]]
    within: tuple[object, ...] = ()


def _no_writes() -> tuple[str, ...]:
    return ()


class TaskSupervisor:
    """Runs an engine attempt in its own task, so that cancelling it never cancels the caller.

    Args:
        clock: Used for the deadline.
        deadline: Monotonic time at which the work is cancelled, None for never.
        working: The work is also cancelled when this is used up; None without such a limit.
        grace_s: Seconds that the end may take after a stop from outside.
        write_grace_s: Seconds that a write under way may continue after a request to stop.

    Attributes:
        stop: Why it was ended from outside, "" if it was not.
        abandoned: Whether the work ignored its cancellation and was abandoned.
        was_cut: Whether the work was cancelled while it was running.
        is_final: Whether the run is being concluded; its hooks then get a grace after the deadline.
        interruptible_clock: The run's clock; a request to stop ends its waits at once.
        parking: Releases the root run while everything in it waits; None to sleep instead.
    """

    parking: Parking | None = None

    _hook: asyncio.Timeout | None = None
    _hooks_until: float | None = None
    _stray: BaseException | None = None
    _pauses: frozenset[asyncio.Timeout] = frozenset()
    _writes_in_hand: Callable[[], tuple[str, ...]] = staticmethod(_no_writes)
    _writes_until: float = 0.0
    _end_at: float = 0.0

    def __init__(
        self,
        clock: Clock,
        deadline: float | None,
        *,
        working: ActiveTime | None = None,
        grace_s: float = GRACE_S,
        write_grace_s: float = WRITE_GRACE_S,
    ) -> None:
        self.stop: StopReason = ""
        self.abandoned: bool = False
        self.was_cut: bool = False
        self.is_final: bool = False
        self._task: asyncio.Task[Any] | None = None
        self._over: asyncio.Future[None] | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._clock = clock
        self.interruptible_clock: Clock = PausingClock(clock, self.pause)
        self._deadline = deadline
        self._working = working
        self._grace_s = grace_s
        self._write_grace_s = write_grace_s
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._inside: dict[int, ChildRun] = {}

    def admit(self, child: ChildRun) -> Callable[[], None]:
        """Add a child run.

        Returns:
            A function that removes it.
        """
        # Other threads add and remove too: a tool's body in a thread may start a run.
        inside = self._inside
        inside[id(child)] = child
        return lambda: inside.pop(id(child), None) and None

    @property
    def inside_runs(self) -> tuple[ChildRun, ...]:
        """The child runs under way. May be read in any thread."""
        return tuple(self._inside.values())

    @property
    def inside(self) -> int:
        """The number of child runs under way."""
        return len(self._inside)

    def notify_child_runs(self, interrupt: Interrupt) -> None:
        """Pass a request to stop to the child runs."""
        for child in self.inside_runs:
            child.interrupt(interrupt)

    def is_stopped(self) -> bool:
        """Whether it was ended from outside."""
        return self.stop != ""

    async def drive(self, work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
        """Run *work* to its end.

        Args:
            work: The engine's work.

        Returns:
            What it returned and what it raised; one of them is None.
        """
        self._task = task = self._loop.create_task(self._run_work(work))
        if self.stop:
            self._cancel(task)
        try:
            # Work that never waits, or was cancelled before, is done after one round of the loop.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.end("caller")
        if not task.done():
            await self._wait_for(task)
        elif self._timers:
            self._stop_timers()
        # The task's context refers to this object; break the cycle.
        self._task = None
        if self.abandoned and not task.done():
            # Nothing handles an exception of abandoned work.
            task.add_done_callback(_retrieve_exception)
            return None, asyncio.CancelledError()
        if task.cancelled():
            # It may have been cancelled before its first step.
            work.close()
            return None, asyncio.CancelledError()
        error = self._stray or task.exception()
        return (None, error) if error is not None else (task.result(), None)

    async def _wait_for(self, task: asyncio.Task[Any]) -> None:
        """Wait until *task* is done or abandoned."""
        if self._deadline is not None:
            self._timers.append(self._loop.call_later(self._left_s(), self.end, "deadline"))
        if self._working is not None:
            self._working.watch(self._check_working_time)
            self._check_working_time()
        while not task.done() and not self.abandoned:
            self._over = self._loop.create_future()
            try:
                await self._over
            except asyncio.CancelledError:
                # The caller was cancelled, or the loop is closing; the run still ends properly.
                self.end("caller")
        self._stop_timers()

    def end(self, reason: StopReason) -> None:
        """Cancel the work. It and the hooks after it share one grace period, then are abandoned."""
        # The first reason stays, except that a cancel overrides a request to stop.
        if self.stop and not (self.stop == "interrupt" and reason in ("cancel", "caller")):
            return
        self.stop = reason
        now = self._loop.time()
        self._hooks_until = now + _HOOKS_SHARE * self._grace_s
        if self._hook is not None and not self._hook.expired():
            self._hook.reschedule(self._hooks_until if self.is_final else now)
        if self._task is not None and not self._task.done():
            self._cancel(self._task)

    def end_soon(
        self,
        reason: StopReason,
        writes_in_hand: Callable[[], tuple[str, ...]] = _no_writes,
    ) -> None:
        """Give work and hooks the grace period to reach a safe point, then cancel them.

        Args:
            reason: Why.
            writes_in_hand: Returns the writes under way, as texts. While there are any, they have
                the grace period of writes; the rest then has its own.
        """
        now = self._loop.time()
        self._writes_in_hand, self._writes_until = writes_in_hand, now + self._write_grace_s
        self._end_at = now + self._grace_s
        self._soon = self._loop.call_at(self._end_at, self._end_unless_writing, reason)
        for pause in self._pauses:
            pause.reschedule(self._loop.time())

    def _end_unless_writing(self, reason: StopReason) -> None:
        """End the work, or check again soon while it writes and may continue."""
        now = self._loop.time()
        if now < self._writes_until and self._writes_in_hand():
            self._end_at = min(self._writes_until, now + self._grace_s)
            self._soon = self._loop.call_later(_LOOK_S, self._end_unless_writing, reason)
        elif now < self._end_at:
            # The writes have ended; leave time to put their outcomes on the board.
            self._soon = self._loop.call_at(self._end_at, self.end, reason)
        else:
            self.end(reason)

    @property
    def stopping(self) -> Stopping | None:
        """What is left of the grace period, None if no stop was requested."""
        if self._soon is None or self.stop:
            return None
        writes = self._writes_in_hand()
        until = max(self._end_at, self._writes_until) if writes else self._end_at
        return Stopping(max(0.0, until - self._loop.time()), writes)

    @property
    def is_ending(self) -> bool:
        """Whether a stop was requested, so that nothing must be retried."""
        return self._soon is not None

    async def pause(self, delay_s: float, clock: Clock | None = None) -> None:
        """Wait before a retry, until a request to stop at the latest.

        Args:
            delay_s: Seconds to wait.
            clock: The clock to sleep on, None for the run's.
        """
        if self.is_ending:
            return
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._pauses |= {limit}
                await (clock or self._clock).sleep(delay_s)
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._pauses -= {limit}

    def close(self) -> None:
        """Stop the timers: the run is over."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._writes_in_hand = _no_writes
        # The old clock refers to this object.
        self.interruptible_clock = self._clock

    async def wait(self, hook: Awaitable[T]) -> T:
        """Wait for an async hook, at most until the run's deadline or a cancel.

        Raises:
            TimeoutError: It took longer and was cancelled.
        """
        until = self._hooks_until
        if until is None and self._deadline is not None:
            until = self._loop.time() + self._left_s() + (self._grace_s if self.is_final else 0.0)
        limit = self._hook = asyncio.timeout_at(until)
        try:
            async with limit:
                return await hook
        except TimeoutError as error:
            if not limit.expired():
                raise
            self.end("deadline")
            raise TimeoutError("it took too long and was cancelled") from error
        finally:
            self._hook = None

    def _left_s(self) -> float:
        return max(0.0, (self._deadline or 0.0) - self._clock.monotonic())

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self.was_cut = True
        task.cancel()
        self._abandon_after(_ENGINE_SHARE * self._grace_s)

    def _check_working_time(self) -> None:
        """End the work when its time is up. Runs again when a wait for people ends."""
        working = self._working
        if working is None or working.rests:
            return
        if (left := working.own_left_s()) <= 0:
            self.end("working")
        else:
            self._timers.append(self._loop.call_later(left, self._check_working_time))

    def _stop_timers(self) -> None:
        self._over = None
        if self._working is not None:
            self._working.watch(None)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def _run_work(self, work: Coroutine[Any, Any, T]) -> T | None:
        self._stray = None
        try:
            return await work
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            # A task would pass it to the event loop, which would stop with everything in it.
            self._stray = error
            return None
        finally:
            # Faster than a done callback: the waiter wakes up in the very next round of the loop.
            self._wake_waiter()

    def _abandon_after(self, delay_s: float, *, is_again: bool = False) -> None:
        """Abandon work that has not ended by then, because an engine may swallow its cancel."""
        due = self._loop.time() + delay_s

        def give_up() -> None:
            if not is_again and self._loop.time() - due > _LATE_SHARE * self._grace_s:
                # The process or its event loop was blocked, so the work had no time to end.
                self._abandon_after(delay_s, is_again=True)
                return
            self.abandoned = True
            self._wake_waiter()

        self._timers.append(self._loop.call_at(due, give_up))

    def _wake_waiter(self, _: object = None) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class PausingClock:
    """A clock with a different way to sleep.

    Args:
        clock: The clock that gives the time.
        pause: Waits for the given number of seconds.
    """

    def __init__(self, clock: Clock, pause: Callable[[float], Awaitable[None]]) -> None:
        self.now: Callable[[], datetime] = clock.now
        self.monotonic: Callable[[], float] = clock.monotonic
        self._pause = pause

    def sleep(self, delay_s: float) -> Awaitable[None]:
        """Wait *delay_s* seconds, by calling *pause*."""
        return self._pause(delay_s)


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
