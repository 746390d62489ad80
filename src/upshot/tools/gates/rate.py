"""The gate on tools that are called too often, or fail too often."""

from __future__ import annotations

from ..case import Case
from ..gate import Denial

__all__ = ["RateGate"]


class RateGate:
    """A tool's own rate limit and circuit."""

    name = "rate"

    def check(self, case: Case) -> Denial | None:
        """Deny while the rate is used up or the circuit is open."""
        refused = case.turn.meters.refusal(case.known_tool)
        return None if refused is None else Denial(*refused)
