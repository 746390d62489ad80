"""The gate on the network."""

from __future__ import annotations

from ...contract import DeniedReason
from ..case import Case
from ..gate import Denial

__all__ = ["NetworkGate"]


class NetworkGate:
    """Without web mode, nothing reaches the network."""

    name = "policy"

    def check(self, case: Case) -> Denial | None:
        """Deny a tool that declares the network."""
        if case.known_tool.network:
            return Denial(DeniedReason.POLICY, f"{case.tool_name} needs the network, which is off")
        return None
