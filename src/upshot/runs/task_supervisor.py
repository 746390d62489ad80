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

# A run that is ended from outside may take so long for its whole end: the engine, then the hooks.
GRACE_S = 2.0
# So long may a write go on that had begun when the run was asked to stop, unless it says otherwise.
WRITE_GRACE_S = 10.0
# How often it is then looked for whether one is still in hand.
_LOOK_S = 0.05
# So long does a cancelled caller wait for it.
CALLER_GRACE_S = 2.0
# How much of the grace is over when the engine is left behind, and then the hooks.
_ENGINE_SHARE = 0.85
_HOOKS_SHARE = 0.95
# A timer that is later than this share of the grace did not run in time.
_LATE_SHARE = 0.25

T = TypeVar("T")


class Stopping(NamedTuple):
    """What a run has left that was asked to stop.

    Attributes:
        left_s: Seconds until it is cancelled, if it does not come to a safe point before.
        writes: The calls and steps in hand that may write, in words such as ``refund(order 7)``.
            If they are cut off, nobody knows whether they took effect.
    """

    left_s: float
    writes: tuple[str, ...]


class ChildRun(NamedTuple):
    """A run inside, as its parent run knows it.

    Attributes:
        interrupt: Hands a wish to stop on to it.
        writes_in_hand: What is being written there.
        within: Where it is waited for: the bodies of tools and steps.
    """

    interrupt: Callable[[Interrupt], None]
    writes_in_hand: Callable[[], tuple[str, ...]]
    within: tuple[object, ...] = ()


def _nothing_is_written() -> tuple[str, ...]:
    return ()


class TaskSupervisor:
    """One engine pass in a task of its own, so that our cancel never reaches the caller's.

    Args:
        clock: By which the deadline is told.
        deadline: Monotonic moment at which the work is cancelled, None for never.
        working: After whose end it is too; None is no such limit.
        grace_s: How long the end may take once it was ended from outside.
        write_grace_s: How long a write may go on that had begun when a stop was asked for.

    Attributes:
        stop: Why it was ended from outside, "" if it was not.
        abandoned: Whether the work ignored its cancellation and was left behind.
        was_cut: Whether the work was cancelled while it was under way.
        is_final: Whether the run is being concluded; its hooks then get a grace after its end.
        interruptible_clock: The clock of the run, whose waits a wish to stop ends at once.
        parking: Leaves the root run where all of that waits; None where waits are slept.
    """

    parking: Parking | None = None

    _hook: asyncio.Timeout | None = None
    _hooks_until: float | None = None
    _stray: BaseException | None = None
    _pauses: frozenset[asyncio.Timeout] = frozenset()
    _writes_in_hand: Callable[[], tuple[str, ...]] = staticmethod(_nothing_is_written)
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
        """Take in a run inside.

        Returns:
            Lets it go.
        """
        # Added and taken away by other threads too, where a tool's body starts a run.
        inside = self._inside
        inside[id(child)] = child
        return lambda: inside.pop(id(child), None) and None

    @property
    def inside_runs(self) -> tuple[ChildRun, ...]:
        """The runs inside that are under way; may be asked in any thread."""
        return tuple(self._inside.values())

    @property
    def inside(self) -> int:
        """How many runs inside are under way."""
        return len(self._inside)

    def tell_inside(self, wish: Interrupt) -> None:
        """Hand a wish to stop on to the runs inside."""
        for child in self.inside_runs:
            child.interrupt(wish)

    def is_stopped(self) -> bool:
        """Whether it was ended from outside."""
        return self.stop != ""

    async def drive(self, work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
        """Run *work* to its end.

        Args:
            work: What the engine does.

        Returns:
            What it returned and what it raised; one of them is None.
        """
        self._task = task = self._loop.create_task(self._do(work))
        if self.stop:
            self._cancel(task)
        try:
            # Work that waits for nothing, or was cancelled before, is done after one round.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.end("caller")
        if not task.done():
            await self._wait_for(task)
        elif self._timers:
            self._unwatch()
        # Its context leads back here: without that, no run is left to the garbage collector.
        self._task = None
        if self.abandoned and not task.done():
            # An exception of abandoned work is nobody's any more.
            task.add_done_callback(_forget)
            return None, asyncio.CancelledError()
        if task.cancelled():
            # It may have been cancelled before its first step.
            work.close()
            return None, asyncio.CancelledError()
        error = self._stray or task.exception()
        return (None, error) if error is not None else (task.result(), None)

    async def _wait_for(self, task: asyncio.Task[Any]) -> None:
        """Wait until *task* is done, or was left behind."""
        if self._deadline is not None:
            self._timers.append(self._loop.call_later(self._left_s(), self.end, "deadline"))
        if self._working is not None:
            self._working.watch(self._count_work)
            self._count_work()
        while not task.done() and not self.abandoned:
            self._over = self._loop.create_future()
            try:
                await self._over
            except asyncio.CancelledError:
                # The caller's, or that of a closing loop; the run still ends whole.
                self.end("caller")
        self._unwatch()

    def end(self, reason: StopReason) -> None:
        """Cancel the work; it and the hooks after it have one grace, and are then left behind."""
        # The first reason stands, but a cancel is stronger than a request to stop.
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
        writes_in_hand: Callable[[], tuple[str, ...]] = _nothing_is_written,
    ) -> None:
        """Give work and hooks the grace to come to a safe point, then cancel them.

        Args:
            reason: Why.
            writes_in_hand: What is being written, in words. While it names anything, it has the
                grace of writes; the rest has its own grace after that.
        """
        now = self._loop.time()
        self._writes_in_hand, self._writes_until = writes_in_hand, now + self._write_grace_s
        self._end_at = now + self._grace_s
        self._soon = self._loop.call_at(self._end_at, self._end_unless_writing, reason)
        for pause in self._pauses:
            pause.reschedule(self._loop.time())

    def _end_unless_writing(self, reason: StopReason) -> None:
        """End the work, or look again soon while it writes and may go on with that."""
        now = self._loop.time()
        if now < self._writes_until and self._writes_in_hand():
            self._end_at = min(self._writes_until, now + self._grace_s)
            self._soon = self._loop.call_later(_LOOK_S, self._end_unless_writing, reason)
        elif now < self._end_at:
            # What was being written is done: there is an outcome to put on the board.
            self._soon = self._loop.call_at(self._end_at, self.end, reason)
        else:
            self.end(reason)

    @property
    def stopping(self) -> Stopping | None:
        """What is left of the grace, None where no stop was asked for."""
        if self._soon is None or self.stop:
            return None
        writes = self._writes_in_hand()
        until = max(self._end_at, self._writes_until) if writes else self._end_at
        return Stopping(max(0.0, until - self._loop.time()), writes)

    @property
    def is_ending(self) -> bool:
        """Whether there was a wish to stop, so that nothing is to be tried again."""
        return self._soon is not None

    async def pause(self, delay_s: float, clock: Clock | None = None) -> None:
        """Wait before something is tried again, no longer than until a wish to stop.

        Args:
            delay_s: How long.
            clock: What is waited on, None for that of the run.
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
        """The run is over: nothing of it is to be cancelled any more."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        self._writes_in_hand = _nothing_is_written
        # That of before leads back here.
        self.interruptible_clock = self._clock

    async def wait(self, hook: Awaitable[T]) -> T:
        """Wait for what a hook does, until the run's deadline or a cancel at the latest.

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
        self._give_up_after(_ENGINE_SHARE * self._grace_s)

    def _count_work(self) -> None:
        """End the work when its time is over; while people are asked it rests, and calls again."""
        working = self._working
        if working is None or working.rests:
            return
        if (left := working.own_left_s()) <= 0:
            self.end("working")
        else:
            self._timers.append(self._loop.call_later(left, self._count_work))

    def _unwatch(self) -> None:
        self._over = None
        if self._working is not None:
            self._working.watch(None)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def _do(self, work: Coroutine[Any, Any, T]) -> T | None:
        self._stray = None
        try:
            return await work
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            # A task would hand it to the loop, which ends with all else that is in it.
            self._stray = error
            return None
        finally:
            # Sooner than a callback: who waits wakes up in the loop's very next round.
            self._let_go()

    def _give_up_after(self, delay_s: float, *, is_again: bool = False) -> None:
        """Leave work behind that has not ended by then: an engine may swallow its cancel."""
        due = self._loop.time() + delay_s

        def give_up() -> None:
            if not is_again and self._loop.time() - due > _LATE_SHARE * self._grace_s:
                # The process or its loop stood still, so that the work has had no time to end.
                self._give_up_after(delay_s, is_again=True)
                return
            self.abandoned = True
            self._let_go()

        self._timers.append(self._loop.call_at(due, give_up))

    def _let_go(self, _: object = None) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class PausingClock:
    """A clock with waits of another kind.

    Args:
        clock: What tells the time.
        pause: Waits so many seconds.
    """

    def __init__(self, clock: Clock, pause: Callable[[float], Awaitable[None]]) -> None:
        self.now: Callable[[], datetime] = clock.now
        self.monotonic: Callable[[], float] = clock.monotonic
        self._pause = pause

    def sleep(self, delay_s: float) -> Awaitable[None]:
        """Wait so long, or as *pause* has it."""
        return self._pause(delay_s)


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
