"""The system's time, behind the one seam through which upshot reads it."""

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
            """The present moment, aware, in UTC."""
            ...

        def monotonic(self) -> float:
            """Seconds that never go back, for durations."""
            ...

    else:
        # Without a frame of Python's, for every event of every run is stamped.
        now = staticmethod(partial(datetime.now, UTC))
        monotonic = staticmethod(time.monotonic)

    async def sleep(self, delay_s: float) -> None:
        """Wait *delay_s* seconds; ends early only by cancellation."""
        await asyncio.sleep(delay_s)


SYSTEM_CLOCK = SystemClock()
