"""Rate limits and circuit breakers of tools, and active time."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from upshot.contract.base.enums import DeniedReason
from upshot.contract.protocols import Clock
from upshot.contract.tool_calls import ToolOutcome, outcome_is_error
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_options import Circuit, Rate
from upshot.tools.repetition import CANCELLED


@dataclass(slots=True)
class _Bucket:
    """The number of free calls at a moment."""

    free: float
    at: float

    def refill(self, rate: Rate, now: float) -> float:
        gained = (now - self.at) * rate.calls / rate.per_s
        self.free, self.at = min(float(rate.calls), self.free + gained), now
        return self.free


@dataclass(slots=True)
class _Breaker:
    """Failures in a row, since when the circuit is open, and whether a trial call is running."""

    failures: int = 0
    opened_at: float | None = None
    trying: bool = False


class RateLimiter:
    """Counts the calls of tools that declare a ``rate`` or a ``circuit``.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._breakers: dict[str, _Breaker] = {}

    def refusal(self, tool: Tool) -> tuple[DeniedReason, str] | None:
        """Return why *tool* may not be called now, or None if it may."""
        if tool.rate is None and tool.circuit is None:
            return None
        now = self._clock.monotonic()
        if tool.circuit is not None and (wait_s := self._open_for(tool, tool.circuit, now)):
            return DeniedReason.CIRCUIT_OPEN, f"{tool.name} failed too often; {_retry_hint(wait_s)}"
        if tool.rate is not None and (wait_s := self._full_for(tool, tool.rate, now)):
            return (
                DeniedReason.RATE_LIMITED,
                f"{tool.name} was called too often; {_retry_hint(wait_s)}",
            )
        return None

    def count(self, tool: Tool, *, by: Literal[1, -1] = 1) -> None:
        """Count a call that is going to run; -1 uncounts one whose body did not start."""
        if tool.rate is not None:
            self._bucket(tool, tool.rate, self._clock.monotonic()).free -= by
        breaker = self._breakers.get(tool.name)
        if breaker is not None and (by < 0 or breaker.opened_at is not None):
            breaker.trying = by > 0

    def note(self, tool: Tool, outcome: ToolOutcome) -> None:
        """Record the outcome of a call that ran."""
        if tool.circuit is None:
            return
        breaker = self._breakers.setdefault(tool.name, _Breaker())
        breaker.trying = False
        if not outcome_is_error(outcome):
            self._breakers[tool.name] = _Breaker()
        elif outcome.code != CANCELLED:
            breaker.failures += 1
            if breaker.failures >= tool.circuit.failures:
                breaker.opened_at = self._clock.monotonic()

    def _bucket(self, tool: Tool, rate: Rate, now: float) -> _Bucket:
        if tool.name not in self._buckets:
            # As of the given moment; a later one would leave it short of full.
            self._buckets[tool.name] = _Bucket(float(rate.calls), now)
        return self._buckets[tool.name]

    def _full_for(self, tool: Tool, rate: Rate, now: float) -> float:
        """Return the seconds until a call is free, 0 for now."""
        free = self._bucket(tool, rate, now).refill(rate, now)
        # Not simply below 1, because sums of fractions may end slightly under it.
        return 0.0 if free > 1 - 1e-9 else (1 - free) * rate.per_s / rate.calls

    def _open_for(self, tool: Tool, circuit: Circuit, now: float) -> float:
        """Return the seconds until the tool may be tried again, 0 for now."""
        breaker = self._breakers.get(tool.name)
        if breaker is None or breaker.opened_at is None:
            return 0.0
        left = breaker.opened_at + circuit.open_s - now
        # A trial call is running, and its outcome is still open.
        return circuit.open_s if breaker.trying else max(0.0, left)


def _retry_hint(wait_s: float) -> str:
    return f"call it again in {math.ceil(wait_s)} s at the earliest"


class ActiveTime:
    """Counts time, except while the user is asked.

    Args:
        clock: The time.
        limit_s: How many seconds there are; with *outer*, the smaller remainder counts.
        spent_s: How many of them were used before.
        outer: The active time of the parent run, which pauses too while the user is asked.
    """

    def __init__(
        self,
        clock: Clock,
        limit_s: float,
        *,
        spent_s: float = 0.0,
        outer: ActiveTime | None = None,
    ) -> None:
        self.limit_s: float = limit_s
        self._clock = clock
        self._outer = outer
        # While paused, the moment up to which time was counted.
        self._paused_at: float | None = None
        self._asked = 0
        self._over_at = clock.monotonic() + limit_s - spent_s
        self._on_resume: Callable[[], None] | None = None

    def left_s(self) -> float:
        """Return the seconds left, negative once they are used up."""
        left = self.own_left_s()
        return left if self._outer is None else min(left, self._outer.left_s())

    def own_left_s(self) -> float:
        """Return the seconds left without considering the parent run."""
        now = self._clock.monotonic() if self._paused_at is None else self._paused_at
        return self._over_at - now

    @property
    def rests(self) -> bool:
        """Whether the user is being asked."""
        return self._paused_at is not None

    @contextmanager
    def asking(self) -> Generator[None]:
        """Pause while the user is asked."""
        self._pause()
        try:
            yield
        finally:
            self._resume()

    def watch(self, goes_on: Callable[[], None] | None) -> None:
        """Call *goes_on* whenever counting resumes; None stops that."""
        self._on_resume = goes_on

    def _pause(self) -> None:
        self._asked += 1
        if self._asked == 1:
            self._paused_at = self._clock.monotonic()
        if self._outer is not None:
            self._outer._pause()

    def _resume(self) -> None:
        if self._outer is not None:
            self._outer._resume()
        self._asked -= 1
        if self._asked == 0 and self._paused_at is not None:
            self._over_at += self._clock.monotonic() - self._paused_at
            self._paused_at = None
            if self._on_resume is not None:
                self._on_resume()
