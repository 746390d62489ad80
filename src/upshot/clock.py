"""The system's time; upshot reads it only here."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING


class SystemClock:
    """The clock of this machine; a test passes another object with these three methods."""

    if TYPE_CHECKING:

        def now(self) -> datetime:
            """Return the current moment, aware, in UTC."""
            ...

        def monotonic(self) -> float:
            """Return seconds that never go backwards, for durations."""
            ...

    else:
        # Without a Python frame, since every event of every run is stamped.
        now = staticmethod(partial(datetime.now, UTC))
        monotonic = staticmethod(time.monotonic)

    async def sleep(self, delay_s: float) -> None:
        """Wait *delay_s* seconds; only cancellation ends it early."""
        await asyncio.sleep(delay_s)


SYSTEM_CLOCK = SystemClock()
