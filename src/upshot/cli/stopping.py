"""Ctrl-C and SIGTERM while a run works: the messages, and the countdown.

The first signal asks the run to stop at its next safe point. The runtime says how long that may
take (``LiveRun.stopping``): a write in progress gets longer than the rest, because the effect of an
interrupted write is unknown. The second signal cancels the run at once, the third ends the process.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import ceil
from typing import Any

from upshot.contract.base.enums import InterruptCause
from upshot.runs.live_run import LiveRun
from upshot.runs.task_supervisor import Stopping

_LOOK_S = 0.1
# The seconds left that are reported where the line cannot be redrawn.
_REPORTED_S = (30, 20, 10, 5, 3, 2, 1)
_MOST_NAMED = 2
_CAUSES = {
    signal.SIGINT: (InterruptCause.USER_CANCEL, "Ctrl-C"),
    signal.SIGTERM: (InterruptCause.HOST_SHUTDOWN, "SIGTERM"),
}


def time_left(stopping: Stopping) -> str:
    """Say how long a run has left to stop, and for what."""
    writes = stopping.writes
    more = f" and {len(writes) - _MOST_NAMED} more" if len(writes) > _MOST_NAMED else ""
    named = ", ".join(writes[:_MOST_NAMED]) + more
    verb = "has" if len(writes) == 1 else "have"
    left = f"{ceil(stopping.left_s)} s"
    return f"{named} {verb} {left} to finish" if writes else f"{left} for what is under way"


def _first_words(stopping: Stopping) -> str:
    known = " and leaves it unknown whether that happened" if stopping.writes else ""
    return f"stopping: {time_left(stopping)}; Ctrl-C again stops at once{known}"


@contextmanager
def stop_signals(
    live: LiveRun[Any], report: Callable[[str], None], *, is_redrawn: bool = False
) -> Generator[None]:
    """Turn signals into stop requests while *live* works.

    Args:
        live: The run.
        report: Shows one line.
        is_redrawn: Whether the countdown is drawn elsewhere, so that only its start is reported.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, stops = asyncio.get_running_loop(), _Stops(live, report, is_redrawn=is_redrawn)
    before = {number: signal.getsignal(number) for number in _CAUSES}
    for number, why in _CAUSES.items():
        loop.add_signal_handler(number, stops.receive, *why)
    try:
        yield
    finally:
        stops.close()
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if number is not signal.SIGINT:
                signal.signal(number, handler)


class _Stops:
    """What each signal does, in order."""

    def __init__(
        self, live: LiveRun[Any], report: Callable[[str], None], *, is_redrawn: bool
    ) -> None:
        self._live = live
        self._report = report
        self._is_redrawn = is_redrawn
        self._received = 0
        self._countdown: asyncio.Task[None] | None = None

    def receive(self, cause: InterruptCause, detail: str) -> None:
        self._received += 1
        if self._received == 1:
            self._live.interrupt(cause, detail)
            self._start_countdown()
        elif self._received == 2:
            self._live.cancel()
        else:
            raise KeyboardInterrupt

    def _start_countdown(self) -> None:
        stopping = self._live.stopping
        if stopping is None:
            return
        self._report(_first_words(stopping))
        if not self._is_redrawn:
            counting = _count_down(self._live, self._report, stopping)
            self._countdown = asyncio.get_running_loop().create_task(counting)

    def close(self) -> None:
        if self._countdown is not None:
            self._countdown.cancel()


async def _count_down(live: LiveRun[Any], report: Callable[[str], None], first: Stopping) -> None:
    """Report the seconds left at the moments of ``_REPORTED_S``, each once."""
    last_left = ceil(first.left_s)
    while (stopping := live.stopping) is not None:
        left = ceil(stopping.left_s)
        if left < last_left and left in _REPORTED_S:
            last_left = left
            report(f"stopping: {time_left(stopping)}")
        await asyncio.sleep(_LOOK_S)
