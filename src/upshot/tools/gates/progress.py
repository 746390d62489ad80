"""The gate on calls that lead nowhere."""

from __future__ import annotations

from ..case import Case
from ..gate import Denial
from ..ladder import NO_PROGRESS

__all__ = ["ProgressGate", "why_stuck"]


class ProgressGate:
    """What gave the same result three times in a row is not done a fourth time."""

    name = "progress"

    def check(self, case: Case) -> Denial | None:
        """Deny the same call with the same arguments after three equal results."""
        return why_stuck(case)


def why_stuck(case: Case) -> Denial | None:
    """Why a call leads nowhere, None where it may."""
    ladder = case.turn.ladder
    if not ladder.is_stuck() or case.known_tool.repeatable:
        return None
    if not ladder.is_fourth(case.digest):
        return None
    return Denial(
        NO_PROGRESS,
        f"{case.tool_name} gave the same result to these arguments three times in a row",
        "Use what it said, or do something else.",
    )
