"""DryRun: what would come of a call."""

from __future__ import annotations

from dataclasses import dataclass

from ..contract import GateVerdict, JsonObject, PendingApproval, ToolDenied

__all__ = ["DryRun"]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the gates say of a call that is not made.

    Attributes:
        outcome: How it would be denied, None if it would not.
        pending: What people would be asked first, None for nothing.
        arguments: What it would be called with, valid and with defaults; None where they
            were refused or not looked at.
        trace: What each gate said, in order.
    """

    outcome: ToolDenied | None = None
    pending: PendingApproval | None = None
    arguments: JsonObject | None = None
    trace: tuple[GateVerdict, ...] = ()

    @property
    def would_run(self) -> bool:
        """Whether it would run now, with nobody asked."""
        return self.outcome is None and self.pending is None
