"""Approval by people and by a hook."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from upshot.contract.base.enums import DeniedReason, Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.pending import PendingApproval
from upshot.contract.tool_calls import ApprovalRecord
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool_context import is_stop, named
from upshot.tools.gates.pipeline import Denial, Parked, Rewind

__all__ = [
    "ANY_ARGUMENTS",
    "Allow",
    "ApprovalGate",
    "ApprovalRequest",
    "Approver",
    "Ask",
    "EditArguments",
    "HookGate",
    "PreToolHook",
    "Refuse",
]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that is put before a hook or a person, who may stop it.

    Attributes:
        call_id: The model's id of the call.
        tool_name: The tool.
        arguments: What it would be called with, valid and with defaults.
        effect: What the tool says it may do.
        digest: SHA-256 over the tool, its version and the arguments.
        reason: Why somebody is asked, "" if by rule.
    """

    call_id: str
    tool_name: str
    arguments: JsonObject
    effect: Effect
    digest: str
    reason: str = ""

    @staticmethod
    def of(case: CallState) -> ApprovalRequest:
        """What is put before them of *case*."""
        arguments = case.arguments or {}
        return ApprovalRequest(
            case.call_id, case.tool_name, arguments, case.effect, case.digest, case.asks
        )


@dataclass(frozen=True, slots=True)
class Allow:
    """A hook's answer: go on."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """A hook's answer: do not run it.

    Attributes:
        reason: What the model is told.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A hook's answer: people have to be asked.

    Attributes:
        reason: What they are told.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class EditArguments:
    """A hook's answer: run it with other arguments, which are validated like the first.

    Attributes:
        arguments: All arguments, not only the changed ones.
    """

    arguments: Mapping[str, Json]


_Answer: TypeAlias = Allow | Refuse | Ask | EditArguments | None
PreToolHook: TypeAlias = Callable[[ApprovalRequest], _Answer | Awaitable[_Answer]]


class HookGate:
    """Asks the caller's hook; one that raises denies."""

    name = "pre_hook"

    def __init__(self, hook: PreToolHook) -> None:
        self._hook = hook

    def check(self, case: CallState) -> Denial | Rewind | Awaitable[Denial | Rewind | None] | None:
        """Ask the hook, unless it has just changed the arguments."""
        # Asked once: a hook that always edits would send the call round for ever.
        if case.edited:
            return None
        try:
            answer = self._hook(ApprovalRequest.of(case))
        except BaseException as error:  # a hook that raises denies the call, even a cancel
            if is_stop(error):
                raise
            return self._failed(error)
        if inspect.isawaitable(answer):
            return self._wait(case, answer)
        return self._judge(case, answer)

    async def _wait(self, case: CallState, answer: Awaitable[_Answer]) -> Denial | Rewind | None:
        try:
            return self._judge(case, await answer)
        except BaseException as error:  # a hook that raises denies the call, even a cancel
            if is_stop(error):
                raise
            return self._failed(error)

    def _judge(self, case: CallState, answer: object) -> Denial | Rewind | None:
        match answer:
            case None | Allow():
                return None
            case Refuse(reason=reason):
                return Denial(DeniedReason.PRE_HOOK, reason or "refused by a hook")
            case Ask(reason=reason):
                case.asks = reason or "a hook asks for approval"
                return None
            case EditArguments(arguments=arguments):
                case.source, case.edited = dict(arguments), True
                return Rewind("arguments")
            case other:
                kind = type(other).__name__
                return Denial(
                    DeniedReason.PRE_HOOK,
                    f"on_pre_tool_use returned {kind}; Allow, Refuse, Ask or EditArguments is due",
                )

    def _failed(self, error: BaseException) -> Denial:
        return Denial(DeniedReason.PRE_HOOK, f"on_pre_tool_use failed: {named(error)}")


# In ``CallState.granted``: a person has let the call pass whatever its arguments are found to be.
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

    def check(self, case: CallState) -> Denial | Parked | Awaitable[Denial | Parked | None] | None:
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
        self, case: CallState, approve: Approver
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

    async def _wait(
        self, case: CallState, answer: Awaitable[bool | None]
    ) -> Denial | Parked | None:
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

    def _judge(self, case: CallState, answer: object) -> Denial | Parked | None:
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

    def _is_granted(self, case: CallState) -> bool:
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

    def _park(self, case: CallState) -> Parked:
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


def _is_asked(case: CallState) -> bool:
    tool = case.known_tool
    if case.asks or tool.approval is not None:
        return bool(case.asks or tool.approval)
    return tool.declared_effect is Effect.DESTRUCTIVE
