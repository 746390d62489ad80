"""The gate of people."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

from ...contract import ApprovalRecord, DeniedReason, Effect, PendingApproval
from ..case import Case
from ..gate import Denial, Parked
from ..sentence import named
from ..stop import is_stop
from .hook import ApprovalRequest

__all__ = ["ANY_ARGUMENTS", "ApprovalGate", "Approver"]

# In ``Case.granted``: a person has let the call pass whatever its arguments are found to be.
ANY_ARGUMENTS = "any"

Approver: TypeAlias = Callable[[ApprovalRequest], bool | Awaitable[bool | None] | None]


class ApprovalGate:
    """Asks people where the tool or a hook wants it; one who raises denies.

    The answer is bound to the digest of the final arguments.
    """

    name = "approval"

    def __init__(self, approve: Approver | None, *, expires_s: float | None = None) -> None:
        """Make the gate.

        Args:
            approve: Who answers at once; None parks every call that is asked about.
            expires_s: After how many seconds a question has to be asked anew, unless the
                tool says that itself; None is never.
        """
        self._approve = approve
        self._expires_s = expires_s

    def check(self, case: Case) -> Denial | Parked | Awaitable[Denial | Parked | None] | None:
        """Ask, or park the call where nobody answers."""
        if case.granted and case.granted in (case.digest, ANY_ARGUMENTS):
            return None
        if case.answered:
            return self._park(case)
        consent = case.turn.consent
        if not consent.is_empty:
            # Asked once: a model that repeats itself must not wear people down.
            said = consent.refusal(case.digest)
            if said:
                return Denial(DeniedReason.WRITE_DENIED, said)
            if _is_asked(case) and self._is_granted(case):
                return None
        if not _is_asked(case):
            return None
        if self._approve is None or case.dry:
            return self._park(case)
        return self._ask(case, self._approve)

    def _ask(
        self, case: Case, approve: Approver
    ) -> Denial | Parked | Awaitable[Denial | Parked | None] | None:
        try:
            answer = approve(ApprovalRequest.of(case))
        except BaseException as error:  # an approver that raises denies the call, even a cancel
            if is_stop(error):
                raise
            return self._failed(error)
        if inspect.isawaitable(answer):
            return self._wait(case, answer)
        return self._judge(case, answer)

    async def _wait(self, case: Case, answer: Awaitable[bool | None]) -> Denial | Parked | None:
        clock = case.turn.clock
        began = clock.monotonic()
        try:
            with case.turn.asking():
                return self._judge(case, await answer)
        except BaseException as error:  # an approver that raises denies the call, even a cancel
            if is_stop(error):
                raise
            return self._failed(error)
        finally:
            case.paused_s += clock.monotonic() - began

    def _judge(self, case: Case, answer: object) -> Denial | Parked | None:
        if answer is None:
            return self._park(case)
        if not isinstance(answer, bool):
            kind = type(answer).__name__
            return Denial(
                DeniedReason.WRITE_DENIED, f"approve returned {kind}; True, False or None is due"
            )
        case.approval = ApprovalRecord(
            decision="approved" if answer else "denied",
            by="approve",
            at=case.turn.clock.now(),
            digest=case.digest,
        )
        return None if answer else Denial(DeniedReason.WRITE_DENIED, "it was not approved")

    def _is_granted(self, case: Case) -> bool:
        """Whether somebody has let such calls run always."""
        tool = case.known_tool
        grant = case.turn.consent.grant(
            case.digest,
            tool_name=tool.name,
            tool_version=tool.version,
            distrusted=case.distrusted,
        )
        if grant is None:
            return False
        case.approval = ApprovalRecord(
            decision="always",
            by=grant.by,
            at=case.turn.clock.now(),
            digest=case.digest,
            scope=grant.scope,
        )
        return True

    def _park(self, case: Case) -> Parked:
        now, expires_s = case.turn.clock.now(), case.known_tool.approval_expires_s
        expires_s = self._expires_s if expires_s is None else expires_s
        return Parked(
            PendingApproval(
                call_id=case.call_id,
                tool_name=case.tool_name,
                arguments=case.arguments or {},
                effect=case.effect,
                digest=case.digest,
                reason=case.asks,
                asked_at=now,
                expires_at=None if expires_s is None else now + timedelta(seconds=expires_s),
            )
        )

    def _failed(self, error: BaseException) -> Denial:
        return Denial(DeniedReason.WRITE_DENIED, f"approve failed: {named(error)}")


def _is_asked(case: Case) -> bool:
    tool = case.known_tool
    if case.asks or tool.approval is not None:
        return bool(case.asks or tool.approval)
    return tool.declared_effect is Effect.DESTRUCTIVE
