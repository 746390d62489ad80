"""The gates that ship, one noun a module."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias, cast

from ...contract import Policy
from ...errors import Misuse
from ..gate import Gate
from ..passage import Passage
from ..repair import Repair
from .approval import ApprovalGate, Approver
from .arguments import ArgumentsGate
from .block import BlockGate, BlockKeyGate
from .hook import Allow, ApprovalRequest, Ask, EditArguments, HookGate, PreToolHook, Refuse
from .known import KnownGate
from .limit import BudgetGate, CancelledGate, DeadlineGate
from .policy import PolicyGate
from .progress import ProgressGate
from .rate import RateGate
from .replay import ReplayGate

__all__ = [
    "Allow",
    "ApprovalGate",
    "Approver",
    "ArgumentsGate",
    "Ask",
    "BlockGate",
    "BlockKeyGate",
    "BudgetGate",
    "CancelledGate",
    "DeadlineGate",
    "EditArguments",
    "GateChoice",
    "HookGate",
    "KnownGate",
    "PolicyGate",
    "PreToolHook",
    "ProgressGate",
    "ApprovalRequest",
    "RateGate",
    "Refuse",
    "ReplayGate",
    "passage_of",
    "standard_gates",
]

GateChoice: TypeAlias = Iterable[Gate] | Callable[[tuple[Gate, ...]], Iterable[Gate]]

_NEEDED = ("known_tool", "arguments")


def standard_gates(
    *,
    hook: PreToolHook | None,
    approve: Approver | None,
    policy: Policy | None,
    repair: Repair | None = None,
) -> tuple[Gate, ...]:
    """The gates that are asked unless somebody chooses others, in order.

    Args:
        hook: The caller's own hook, None for none.
        approve: Who approves at once, None for nobody.
        policy: The caller's rules, None for none.
        repair: Who corrects arguments, None for nobody.
    """
    found: list[Gate | None] = [
        CancelledGate(),
        DeadlineGate(),
        BudgetGate(),
        KnownGate(),
        None if policy is None else PolicyGate(policy),
        BlockGate(),
        RateGate(),
        ArgumentsGate(repair),
        BlockKeyGate(),
        ReplayGate(),
        ProgressGate(),
        None if hook is None else HookGate(hook),
        ApprovalGate(approve, expires_s=None if policy is None else policy.approval_expires_s),
        DeadlineGate("deadline_again"),
    ]
    return tuple(gate for gate in found if gate is not None)


def passage_of(
    chosen: GateChoice | None,
    *,
    hook: PreToolHook | None,
    approve: Approver | None,
    policy: Policy | None,
    repair: Repair | None,
) -> Passage:
    """The way through the gates that a caller wants.

    Args:
        chosen: Gates that are asked before people are, or a function of the standard ones
            that gives all; None is the standard ones.
        hook: As for ``standard_gates``, like the others.
        approve: As there.
        policy: As there.
        repair: As there.

    Raises:
        Misuse: A gate is missing without which no call can be read.
    """
    if all(one is None for one in (chosen, hook, approve, policy, repair)):
        return _standard_passage()
    standard = standard_gates(hook=hook, approve=approve, policy=policy, repair=repair)
    return Passage(_choose(chosen, standard))


@cache
def _standard_passage() -> Passage:
    # Gates hold no state, so that one way serves all who bring nothing of their own.
    return Passage(standard_gates(hook=None, approve=None, policy=None))


def _choose(chosen: GateChoice | None, standard: tuple[Gate, ...]) -> tuple[Gate, ...]:
    if chosen is None:
        return standard
    if callable(chosen):
        found = cast("object", chosen(standard))
        if not isinstance(found, Iterable):
            raise Misuse(f"the function of gates gave {found!r:.60}: give back all gates, in order")
        gates = tuple(cast("Iterable[Gate]", found))
    else:
        place = [gate.name for gate in standard].index("approval")
        gates = (*standard[:place], *chosen, *standard[place:])
    for gate in gates:
        if not isinstance(getattr(gate, "name", None), str) or not callable(
            getattr(gate, "check", None)
        ):
            raise Misuse(f"gates hold {gate!r:.60}: a gate has a name, and check(case)")
    for name in _NEEDED:
        if name not in [gate.name for gate in gates]:
            raise Misuse(f"the gate {name} is missing: without it no call can be read")
    return gates
