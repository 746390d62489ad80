"""The gate on tools that failed for good."""

from __future__ import annotations

from ...contract import DeniedReason
from ..case import Case
from ..gate import Denial

__all__ = ["BlockGate"]


class BlockGate:
    """A tool whose failure was final is not called again in the turn."""

    name = "blocked"

    def check(self, case: Case) -> Denial | None:
        """Deny a blocked tool."""
        why = case.turn.blocked.get(case.tool_name)
        if why is None:
            return None
        return Denial(DeniedReason.BLOCKED, f"{case.tool_name} is blocked for this turn: {why}")
