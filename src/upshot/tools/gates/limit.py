"""Gates on what is left: the turn itself, its time, its budget."""

from __future__ import annotations

from ...contract import DeniedReason
from ..case import Case
from ..gate import Denial

__all__ = ["BudgetGate", "CancelledGate", "DeadlineGate"]


class CancelledGate:
    """Nothing starts after a cancel."""

    name = "cancelled"

    def check(self, case: Case) -> Denial | None:
        """Deny once the turn is cancelled."""
        if case.turn.cancelled:
            return Denial(DeniedReason.CANCELLED, "the turn was cancelled before this call ran")
        return None


class DeadlineGate:
    """A call needs time."""

    def __init__(self, name: str = "deadline") -> None:
        self.name = name

    def check(self, case: Case) -> Denial | None:
        """Deny without time left, or with less than the tool can use."""
        left = case.turn.remaining_s()
        if left is None:
            return None
        until = case.turn.waiting_s()
        if until is not None and until <= 0:
            return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        least = 0.0 if case.tool is None else case.tool.min_useful_s
        # Spent working time is told by the budget.
        if 0 < left < least:
            return Denial(DeniedReason.DEADLINE, f"{left:.3g} s are left, {least:g} are needed")
        return None


class BudgetGate:
    """A call counts."""

    name = "budget"

    def check(self, case: Case) -> Denial | None:
        """Deny when calls in all, of this tool, denials, tokens or money are used up."""
        spent = case.turn.spent(case.tool_name)
        return Denial(DeniedReason.BUDGET, spent) if spent else None
