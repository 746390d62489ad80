"""Waits before a retry, and releasing a run during a long wait.

A process that works on one run sleeps. A worker releases the run: ``run_released`` has the time at
which it is due, and nothing stays in memory. The next session reads from the log what was tried and
how much of the wait is left. A run is released only if nothing would be cut off: everything under
way in it and its child runs is such a wait, outside tool calls and steps that must not be repeated,
and the waiting child runs can be found again by their ids. Otherwise the wait is slept through,
checking again every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from upshot.contract.protocols import Clock
from upshot.runs.run_context import CurrentStep, RunContext, current_body

_CHECK_S = 1.0


class _Release(Protocol):
    def __call__(self, *, at: datetime) -> None: ...


class _Wait(NamedTuple):
    """One wait: its run, its step body, whether it precedes a model call, and its end."""

    context: RunContext
    body: CurrentStep | None
    is_asking: bool
    until: datetime


class Parking:
    """The waits of a root run and its child runs.

    Args:
        over_s: Release the run if more than this many seconds are left of all waits.
        leave: Releases the root run until a given time.
    """

    def __init__(self, over_s: float, leave: _Release) -> None:
        self._over_s = over_s
        self._leave = leave
        self._waits: list[_Wait] = []

    async def pause(
        self,
        context: RunContext,
        delay_s: float,
        clock: Clock | None = None,
        *,
        is_asking: bool = False,
    ) -> None:
        """Wait, unless the run is released instead; see ``TaskSupervisor.pause``."""
        supervisor, now = context.supervisor, context.plan.clock.now
        until = now() + timedelta(seconds=delay_s)
        wait = _Wait(context, current_body.get(), is_asking, until)
        self._waits.append(wait)
        try:
            while not supervisor.is_ending and delay_s > 0:
                self._release_if_waiting(now())
                if context.release is not None:
                    # The run was released; this task will be cancelled here.
                    await asyncio.Event().wait()
                part_s = min(delay_s, _CHECK_S)
                await supervisor.pause(part_s, clock)
                delay_s -= part_s
        finally:
            self._waits.remove(wait)

    def _release_if_waiting(self, now: datetime) -> None:
        """Release the run if all of it waits for long enough."""
        at = min(wait.until for wait in self._waits)
        if (at - now).total_seconds() > self._over_s and self.is_all():
            self._leave(at=at)

    def is_all(self) -> bool:
        """Whether only waits are under way, and all of them can be resumed from the log."""
        runs = {one.info.run_id: one for wait in self._waits for one in _with_parents(wait.context)}
        bodies = [body for wait in self._waits for body in _bodies(wait.body)]
        within = {(body.run_id, body.key) for body in bodies}
        if not runs or any(body.is_single for body in bodies):
            return False
        for run_id, run in runs.items():
            state = run.state
            asking = sum(wait.is_asking for wait in self._waits if wait.context is run)
            inside = sum(_parent(one) is run for one in runs.values())
            is_waiting = (
                asking == state.lost_calls - run.lost_before
                and inside == run.supervisor.inside
                and not state.begun
                and all((run_id, key) in within for key in state.steps_started)
            )
            if not is_waiting:
                return False
        return True


def _parent(context: RunContext) -> RunContext | None:
    return None if context.parent is None else context.parent.context


def _with_parents(context: RunContext | None) -> Iterator[RunContext]:
    """Yield a run and its ancestors."""
    while context is not None:
        yield context
        context = _parent(context)


def _bodies(body: CurrentStep | None) -> Iterator[CurrentStep]:
    while body is not None:
        yield body
        body = body.outer


async def pause(context: RunContext, delay_s: float, clock: Clock | None = None) -> None:
    """Wait before a node or state is retried, until a request to stop at the latest."""
    if context.supervisor.parking is None:
        await context.supervisor.pause(delay_s, clock)
    else:
        await context.supervisor.parking.pause(context, delay_s, clock)
