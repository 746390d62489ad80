"""Approval by a hook and by the user."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from upshot.contract.base.enums import DeniedReason, Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.pending import PendingApproval
from upshot.contract.provenance import Doubt, Voucher
from upshot.contract.tool_calls import ApprovalRecord
from upshot.tools.call_state import CallState, RememberedApprovals, Withdrawn
from upshot.tools.definition.tool_error import named
from upshot.tools.gates.pipeline import Denial, Park, Repeat, Rewind, StandardGate, Verdict


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that a hook or the user is asked about.

    Attributes:
        call_id: The model's id of the call.
        tool_name: The name of the tool.
        arguments: The arguments it would run with, valid and with defaults.
        effect: The effect that the tool declares.
        digest: SHA-256 of the tool, its version and the arguments.
        reason: Why approval is needed, "" if a rule requires it.
        doubts: Values that a stranger may have chosen, as in ``PendingApproval``.
        vouched: Where the other values come from.
    """

    call_id: str
    tool_name: str
    arguments: JsonObject
    effect: Effect
    digest: str
    reason: str = ""
    doubts: tuple[Doubt, ...] = ()
    vouched: tuple[Voucher, ...] = ()

    @staticmethod
    def of(call: CallState) -> ApprovalRequest:
        """Make the request about *call*."""
        arguments = call.arguments or {}
        return ApprovalRequest(
            call.call_id,
            call.tool_name,
            arguments,
            call.effect,
            call.digest,
            call.asks,
            *call.verdict,
        )


@dataclass(frozen=True, slots=True)
class Allow:
    """A hook's answer: continue."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """A hook's answer: do not run the call.

    Attributes:
        reason: The reason for the model.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A hook's answer: ask the user.

    Attributes:
        reason: The reason for the user.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class EditArguments:
    """A hook's answer: run the call with other arguments, which are validated too.

    Attributes:
        arguments: All arguments, not only the changed ones.
    """

    arguments: Mapping[str, Json]


_Answer: TypeAlias = Allow | Refuse | Ask | EditArguments | None
PreToolHook: TypeAlias = Callable[[ApprovalRequest], _Answer | Awaitable[_Answer]]


class HookGate(StandardGate):
    """Asks the caller's hook; a hook that raises denies the call."""

    name = "pre_hook"

    def __init__(self, hook: PreToolHook) -> None:
        self._hook = hook

    def check(self, call: CallState) -> Denial | Rewind | Awaitable[Denial | Rewind | None] | None:
        """Ask the hook, unless it has just changed the arguments."""
        # Asked once, because a hook that always edits would loop forever.
        if call.is_edited:
            return None
        answer = self._hook(ApprovalRequest.of(call))
        if inspect.isawaitable(answer):
            return self._wait(call, answer)
        return self._judge(call, answer)

    def failed(self, error: BaseException) -> Denial:
        """Return the denial for a hook that raised."""
        return Denial(DeniedReason.PRE_HOOK, f"on_pre_tool_use failed: {named(error)}")

    async def _wait(self, call: CallState, answer: Awaitable[_Answer]) -> Denial | Rewind | None:
        return self._judge(call, await answer)

    def _judge(self, call: CallState, answer: object) -> Denial | Rewind | None:
        match answer:
            case None | Allow():
                return None
            case Refuse(reason=reason):
                return Denial(DeniedReason.PRE_HOOK, reason or "refused by a hook")
            case Ask(reason=reason):
                call.asks = reason or "a hook asks for approval"
                return None
            case EditArguments(arguments=arguments):
                call.source, call.is_edited = dict(arguments), True
                return Rewind("arguments")
            case other:
                kind = type(other).__name__
                return Denial(
                    DeniedReason.PRE_HOOK,
                    f"on_pre_tool_use returned {kind}; Allow, Refuse, Ask or EditArguments is due",
                )


# In ``CallState.granted``: the user approved the call whatever its arguments turn out to be.
ANY_ARGUMENTS = "any"

Approver: TypeAlias = Callable[[ApprovalRequest], bool | Awaitable[bool | None] | None]


class ApprovalGate(StandardGate):
    """Asks the user if the tool or a hook requires it; an approver that raises denies the call.

    The answer is bound to the final arguments, and to this one question.
    """

    name = "approval"

    def __init__(self, approve: Approver | None, *, expires_s: float | None = None) -> None:
        """Create the gate.

        Args:
            approve: Answers immediately; None parks every call that needs approval. It is one
                answer, so a call that several users must approve is parked all the same.
            expires_s: Seconds until an unanswered question must be asked again, unless the tool
                has its own value; None is never.
        """
        self._approve = approve
        # The record of an earlier run has the approvals of all its users.
        self._is_record = bool(getattr(approve, "is_record", False))
        self._expires_s = expires_s

    def check(self, call: CallState) -> Verdict | Awaitable[Verdict]:
        """Ask, or park the call if there is no immediate answer."""
        if call.granted and call.granted in (call.digest, ANY_ARGUMENTS):
            return None
        if call.is_answered:
            return self._park(call)
        approvals, is_asked = call.turn.approvals, call.asks or call.known_tool.always_asks
        if approvals is not None:
            # Asked once, so that a model that repeats itself cannot wear the user down.
            refusal = approvals.refusal(call.digest)
            if refusal:
                return Denial(DeniedReason.WRITE_DENIED, refusal)
            # A standing approval does not count where several users must approve.
            may_stand = is_asked and call.needed == 1
            if may_stand and (grant := approvals.grant(call)) is not None:
                return self._apply_grant(call, grant, approvals)
        if not is_asked:
            return None
        if call.claim is not None and call.turn.made_before is not None and not call.is_dry:
            return self._ask_about_new(call, call.turn.made_before)
        return self._ask_or_park(call)

    def failed(self, error: BaseException) -> Denial:
        """Return the denial for an approver that raised."""
        return Denial(DeniedReason.WRITE_DENIED, f"approve failed: {named(error)}")

    def _apply_grant(
        self, call: CallState, grant: ApprovalRecord, approvals: RememberedApprovals
    ) -> Awaitable[Verdict] | None:
        """Pass a call that a standing approval covers, unless that was withdrawn."""
        if call.turn.withdrawn is not None:
            return self._check_withdrawn(call, grant, approvals, call.turn.withdrawn)
        _record_grant(call, grant)
        return None

    async def _check_withdrawn(
        self,
        call: CallState,
        grant: ApprovalRecord,
        approvals: RememberedApprovals,
        withdrawn: Withdrawn,
    ) -> Verdict:
        try:
            gone = await withdrawn()
        except Exception as error:  # an unreadable log denies: the approval may be withdrawn
            return super().failed(error)
        if grant.key not in gone:
            _record_grant(call, grant)
            return None
        approvals.forget(grant)
        # Another approval may cover the call; otherwise the user is asked.
        verdict = self.check(call)
        return await verdict if inspect.isawaitable(verdict) else verdict

    async def _ask_about_new(
        self, call: CallState, made_before: Callable[[CallState], Awaitable[Denial | Repeat | None]]
    ) -> Denial | Park | Repeat | Rewind | None:
        """Ask, unless the ledger shows that the call will not be made."""
        if (found := await made_before(call)) is not None:
            return found
        verdict = self._ask_or_park(call)
        return await verdict if inspect.isawaitable(verdict) else verdict

    def _ask_or_park(
        self, call: CallState
    ) -> Denial | Park | Rewind | Awaitable[Denial | Park | Rewind | None] | None:
        if self._approve is None or call.is_dry or not (call.needed == 1 or self._is_record):
            return self._park(call)
        return self._ask(call, self._approve)

    def _ask(
        self, call: CallState, approve: Approver
    ) -> Denial | Park | Rewind | Awaitable[Denial | Park | Rewind | None] | None:
        answer = approve(ApprovalRequest.of(call))
        if inspect.isawaitable(answer):
            return self._wait(call, answer)
        return self._judge(call, answer)

    async def _wait(
        self, call: CallState, answer: Awaitable[bool | None]
    ) -> Denial | Park | Rewind | None:
        clock = call.turn.clock
        began = clock.monotonic()
        try:
            with call.turn.asking():
                return self._judge(call, await answer)
        finally:
            call.paused_s += clock.monotonic() - began

    def _judge(self, call: CallState, answer: object) -> Denial | Park | Rewind | None:
        if answer is None:
            return self._park(call)
        if isinstance(answer, Denial):
            return answer
        if isinstance(answer, EditArguments):
            # As with an edit of the user, there is nothing left to ask.
            call.source, call.is_edited = dict(answer.arguments), True
            call.granted, call.approval = ANY_ARGUMENTS, _record(call, "edited")
            return Rewind("arguments")
        if not isinstance(answer, bool):
            kind = type(answer).__name__
            return Denial(
                DeniedReason.WRITE_DENIED, f"approve returned {kind}; True, False or None is due"
            )
        call.approval = _record(call, "approved" if answer else "denied")
        return None if answer else Denial(DeniedReason.WRITE_DENIED, "it was not approved")

    def _park(self, call: CallState) -> Park:
        now, expires_s = call.turn.clock.now(), call.known_tool.approval_expires_s
        expires_s = self._expires_s if expires_s is None else expires_s
        needed, edit = call.needed, call.edit
        return Park(
            PendingApproval(
                call_id=call.call_id,
                tool_name=call.tool_name,
                arguments=call.arguments or {},
                effect=call.effect,
                digest=call.question_digest(now),
                reason=call.asks,
                taint=call.turn.tainted if call.is_distrusted else None,
                doubts=call.verdict.doubts,
                vouched=call.verdict.vouched,
                asked_at=now,
                expires_at=None if expires_s is None else now + timedelta(seconds=expires_s),
                audience=call.known_tool.ask if needed == 1 else "staff",
                approvals=needed,
                approved_by=() if edit is None or edit.at is None else (edit,),
                edited_by="" if edit is None else edit.by,
            )
        )


def _record(call: CallState, decision: str) -> ApprovalRecord:
    """Return the record of an immediate answer."""
    at = call.turn.clock.now()
    return ApprovalRecord(decision=decision, by="approve", at=at, digest=call.digest)


def _record_grant(call: CallState, grant: ApprovalRecord) -> None:
    """Record that a standing approval covers the call."""
    call.approval = ApprovalRecord(
        decision="always",
        by=grant.by,
        at=call.turn.clock.now(),
        digest=call.digest,
        scope=grant.scope,
    )
