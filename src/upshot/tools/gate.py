"""Gate: one question that is asked before a tool runs."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..contract import DeniedReason, ErrorCode, PendingApproval
from .case import Case

__all__ = ["Denial", "Following", "Gate", "Parked", "Rewind", "Verdict"]


@dataclass(frozen=True, slots=True)
class Denial:
    """The call shall not run.

    Attributes:
        reason: A word for it; an open list.
        details: What is told, in one line.
        hint: What to do instead, "" for nothing.
        code: A word for programs, None for none; internal is a gate that broke.
    """

    reason: DeniedReason | str
    details: str = ""
    hint: str = ""
    code: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """The call waits for people, and holds nothing meanwhile.

    Attributes:
        pending: What they are asked.
    """

    pending: PendingApproval


@dataclass(frozen=True, slots=True)
class Following:
    """The call waits for its equal, which people are asked about.

    Attributes:
        call_id: The id of that one.
    """

    call_id: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """The arguments were changed: the gates are asked again from *gate* on.

    Attributes:
        gate: The name of the gate to go back to.
    """

    gate: str


# None lets the call pass.
Verdict: TypeAlias = Denial | Parked | Following | Rewind | None


class Gate(Protocol):
    """One question; a small object without state of its own."""

    @property
    def name(self) -> str:
        """What the trace calls it."""
        ...

    def check(self, case: Case) -> Verdict | Awaitable[Verdict]:
        """Judge a call.

        It must have no side effect, for a later gate may still deny. While it is awaited,
        other calls go on. An exception denies the call.
        """
        ...
