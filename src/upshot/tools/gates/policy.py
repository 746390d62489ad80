"""The gate of the caller's rules."""

from __future__ import annotations

from ...contract import DeniedReason, Policy
from ..artifacts import READER_NAME
from ..case import Case
from ..gate import Denial

__all__ = ["PolicyGate"]


class PolicyGate:
    """What the policy denies does not run; what it doubts is put before people."""

    name = "policy"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def check(self, case: Case) -> Denial | None:
        """Deny by the rules, or have people asked once strangers' words are in the context."""
        tool, policy = case.known_tool, self._policy
        refusal = policy.refusal(
            tool.name,
            effect=tool.declared_effect,
            network=tool.network,
            own=tool.name == READER_NAME,
        )
        if refusal:
            return Denial(DeniedReason.POLICY, refusal)
        if policy.taint and case.turn.tainted and tool.may_write:
            case.distrusted = True
            case.asks = case.asks or (
                f"the context holds an untrusted result of {case.turn.tainted}"
            )
        return None
