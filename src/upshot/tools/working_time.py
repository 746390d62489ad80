"""Working time: what passes while nobody is asked anything."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from ..contract import Clock

__all__ = ["WorkingTime"]


class WorkingTime:
    """Counts time, but for that in which a person is asked.

    Args:
        clock: Time.
        limit_s: How many seconds there are; with an *outer* one, the lesser of both counts.
        spent_s: How many of them were used before.
        outer: That of the run round this one, which rests too while somebody is asked here.
    """

    def __init__(
        self,
        clock: Clock,
        limit_s: float,
        *,
        spent_s: float = 0.0,
        outer: WorkingTime | None = None,
    ) -> None:
        self.limit_s: float = limit_s
        self._clock = clock
        self._outer = outer
        # While it rests, the moment up to which it has counted.
        self._rests_at: float | None = None
        self._asked = 0
        self._over_at = clock.monotonic() + limit_s - spent_s
        self._goes_on: Callable[[], None] | None = None

    def left_s(self) -> float:
        """Seconds that are left, below 0 when they are over."""
        left = self.own_left_s()
        return left if self._outer is None else min(left, self._outer.left_s())

    def own_left_s(self) -> float:
        """The same, but for what the run round this one has left."""
        now = self._clock.monotonic() if self._rests_at is None else self._rests_at
        return self._over_at - now

    @property
    def rests(self) -> bool:
        """Whether somebody is asked at the moment."""
        return self._rests_at is not None

    @contextmanager
    def asking(self) -> Generator[None]:
        """Rest while somebody is asked."""
        self._stop()
        try:
            yield
        finally:
            self._go_on()

    def watch(self, goes_on: Callable[[], None] | None) -> None:
        """Call *goes_on* whenever it counts again, None calls nobody any more."""
        self._goes_on = goes_on

    def _stop(self) -> None:
        self._asked += 1
        if self._asked == 1:
            self._rests_at = self._clock.monotonic()
        if self._outer is not None:
            self._outer._stop()

    def _go_on(self) -> None:
        if self._outer is not None:
            self._outer._go_on()
        self._asked -= 1
        if self._asked == 0 and self._rests_at is not None:
            self._over_at += self._clock.monotonic() - self._rests_at
            self._rests_at = None
            if self._goes_on is not None:
                self._goes_on()
