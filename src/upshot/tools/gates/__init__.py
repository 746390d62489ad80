"""The gates that ship, one noun a module."""

from ...contract import Clock
from ..gate import Gate
from .approval import ApprovalGate, Approver
from .arguments import ArgumentsGate
from .block import BlockGate
from .hook import Allow, ApprovalRequest, Ask, EditArguments, HookGate, PreToolHook, Refuse
from .known import KnownGate
from .limit import BudgetGate, CancelledGate, DeadlineGate
from .network import NetworkGate
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
    "NetworkGate",
    "PreToolHook",
    "ApprovalRequest",
    "Refuse",
    "ReplayGate",
    "standard_gates",
]


def standard_gates(
    *, hook: PreToolHook | None, approve: Approver | None, network: bool, clock: Clock
) -> tuple[Gate, ...]:
    """The gates that are asked unless somebody chooses others, in order.

    Args:
        hook: The caller's own hook, None for none.
        approve: Who approves at once, None for nobody.
        network: Whether tools may reach the network.
        clock: Time.
    """
    found: list[Gate | None] = [
        CancelledGate(),
        DeadlineGate(),
        BudgetGate(),
        KnownGate(),
        None if network else NetworkGate(),
        BlockGate(),
        ArgumentsGate(),
        ReplayGate(),
        None if hook is None else HookGate(hook),
        ApprovalGate(approve, clock),
        DeadlineGate("deadline_again"),
    ]
    return tuple(gate for gate in found if gate is not None)
