"""The gate on the tool's name."""

from __future__ import annotations

from ...contract import DeniedReason
from ..case import Case
from ..gate import Denial

__all__ = ["KnownGate"]

_SHOWN = 20
_NAME_CHARS = 100


class KnownGate:
    """A tool has to be known, and on offer in this step."""

    name = "known_tool"

    def check(self, case: Case) -> Denial | None:
        """Find the tool, or deny with the nearest names."""
        case.tool = case.catalog.find(case.tool_name)
        if case.tool is not None:
            return None
        # A model gone astray may write pages where a name is due.
        name = case.tool_name[:_NAME_CHARS]
        near = case.catalog.nearest(name)
        names = ", ".join(case.catalog.names()[:_SHOWN]) or "none"
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Tools: {names}."
        details = f"there is no tool {name!r}"
        return Denial(DeniedReason.UNKNOWN_TOOL, f"{details}. {hint}", hint)
