"""RunEvent: what every event of a run carries."""

from __future__ import annotations

from datetime import datetime

from .value import Root

__all__ = ["RunEvent"]


class RunEvent(Root, frozen=True, kw_only=True):
    """The base of all events.

    Attributes:
        run_id: The run that it is of.
        attempt: The attempt that it belongs to, from 1; 0 before the first.
        time: When it happened, UTC.
        seq: Place in the run's log, from 1; a delta has that of the durable event before it.
        part: 0 on durable events; 1, 2, ... on the deltas that follow one.
    """

    run_id: str = ""
    attempt: int = 0
    time: datetime | None = None
    seq: int = 0
    part: int = 0

    def __repr__(self) -> str:
        from .portrait import portray_briefly

        return portray_briefly(self, without=("run_id", "attempt", "time"))
