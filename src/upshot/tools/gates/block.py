"""The gates on tools, and on calls, that failed for good."""

from __future__ import annotations

from ...contract import DeniedReason
from ..case import Case
from ..gate import Denial

__all__ = ["BlockGate", "BlockKeyGate"]

_WHY = "an earlier call failed for good"


class BlockGate:
    """A tool whose failure was final is not called again in the turn."""

    name = "blocked"

    def check(self, case: Case) -> Denial | None:
        """Deny a blocked tool."""
        why = case.turn.blocked.get(case.tool_name)
        if why is None:
            return None
        return Denial(DeniedReason.BLOCKED, f"{case.tool_name} is blocked for this turn: {why}")


class BlockKeyGate:
    """A call whose failure was final is not made again in the turn, where its tool says so."""

    name = "blocked_key"

    def check(self, case: Case) -> Denial | None:
        """Deny what failed for good with the same arguments."""
        blocked = case.turn.blocked_keys
        if not blocked or case.digest not in blocked:
            return None
        text = f"{case.tool_name} is blocked for these arguments for this turn: {_WHY}"
        return Denial(DeniedReason.BLOCKED, text, "Call it with other arguments, or do without.")
