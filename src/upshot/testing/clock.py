"""FakeClock: time that passes only when it is told to."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

__all__ = ["FakeClock"]


class FakeClock:
    """A clock for tests: waiting on it takes no time, and is written down.

    Args:
        start: The first moment, aware; None is 2030-01-01 in UTC.

    Attributes:
        sleeps: Every wait so far, in seconds and in order.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2030, 1, 1, tzinfo=UTC)
        self._passed_s = 0.0
        self.sleeps: list[float] = []

    def now(self) -> datetime:
        """The start and all that has passed since."""
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self._passed_s

    def advance(self, delay_s: float) -> None:
        """Let *delay_s* seconds pass, without anybody waiting for them."""
        self._passed_s += delay_s

    async def sleep(self, delay_s: float) -> None:
        """Let *delay_s* seconds pass at once; other tasks get their turn."""
        self.sleeps.append(delay_s)
        self.advance(delay_s)
        await asyncio.sleep(0)
