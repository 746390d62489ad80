"""The gates that ship, one noun a module."""

from ...contract import Clock, Policy
from ..gate import Gate
from .approval import ApprovalGate, Approver
from .arguments import ArgumentsGate
from .block import BlockGate
from .hook import Allow, ApprovalRequest, Ask, EditArguments, HookGate, PreToolHook, Refuse
from .known import KnownGate
from .limit import BudgetGate, CancelledGate, DeadlineGate
from .policy import PolicyGate
from .rate import RateGate
from .replay import ReplayGate

__all__ = [
    "Allow",
    "ApprovalGate",
    "Approver",
    "ArgumentsGate",
    "Ask",
    "BlockGate",
    "BudgetGate",
    "CancelledGate",
    "DeadlineGate",
    "EditArguments",
    "HookGate",
    "KnownGate",
    "PolicyGate",
    "PreToolHook",
    "ApprovalRequest",
    "RateGate",
    "Refuse",
    "ReplayGate",
    "standard_gates",
]


def standard_gates(
    *, hook: PreToolHook | None, approve: Approver | None, policy: Policy | None, clock: Clock
) -> tuple[Gate, ...]:
    """The gates that are asked unless somebody chooses others, in order.

    Args:
        hook: The caller's own hook, None for none.
        approve: Who approves at once, None for nobody.
        policy: The caller's rules, None for none.
        clock: Time.
    """
    found: list[Gate | None] = [
        CancelledGate(),
        DeadlineGate(),
        BudgetGate(),
        KnownGate(),
        None if policy is None else PolicyGate(policy),
        BlockGate(),
        RateGate(),
        ArgumentsGate(),
        ReplayGate(),
        None if hook is None else HookGate(hook),
        ApprovalGate(
            approve, clock, expires_s=None if policy is None else policy.approval_expires_s
        ),
        DeadlineGate("deadline_again"),
    ]
    return tuple(gate for gate in found if gate is not None)
