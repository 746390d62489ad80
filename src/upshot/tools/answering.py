"""Answering: what a person's word does to a parked call."""

from __future__ import annotations

from typing import TypeAlias

from ..contract import AnyAnswer, ApprovalAnswered, ApprovalRecord, Approve, Deny, Edit
from ..errors import Misuse
from .case import Case
from .desk import Desk
from .gates.approval import ANY_ARGUMENTS

__all__ = ["CallAnswer", "read_answer", "recall", "reopen", "reopen_follower", "tell_outdated"]

CallAnswer: TypeAlias = Approve | Deny | Edit

_DECISIONS = {Approve: "approved", Deny: "denied", Edit: "edited"}
# A person's no is final for the same arguments.
_SCOPE_OF_NO = "arguments"


def read_answer(answer: AnyAnswer) -> CallAnswer:
    """An answer that is for a call.

    Raises:
        Misuse: It is for something else.
    """
    if not isinstance(answer, Approve | Deny | Edit):
        raise Misuse(f"{type(answer).__name__} is no answer for a call: give Approve, Deny or Edit")
    return answer


def reopen(desk: Desk, parked: Case, answer: CallAnswer) -> Case:
    """Take an answer; a yes or an edit after its time is told and not taken.

    Args:
        desk: The Toolbox's.
        parked: The call as it was when it was parked.
        answer: What somebody said.

    Returns:
        The call, opened anew.
    """
    case, digest = desk.open(parked.call, parked.label), parked.digest
    case.source, case.edited, case.asks = parked.source, parked.edited, parked.asks
    case.refused, case.mended = parked.refused, parked.mended
    expired = parked.pending is not None and desk.is_expired(parked.pending)
    if expired and not isinstance(answer, Deny):
        tell_outdated(desk, case)
        return case
    if isinstance(answer, Approve):
        case.granted = digest
    elif isinstance(answer, Edit):
        # They are the person's own words: there is nothing left to ask.
        case.source, case.edited, case.granted = answer.arguments, True, ANY_ARGUMENTS
    case.approval = _record(desk, answer, digest)
    # Before the gates are asked again: it is them who refuse what a person refused.
    version = parked.known_tool.version
    desk.turn.consent.learn(case.approval, tool_name=case.tool_name, tool_version=version)
    desk.ledger.emit(desk.secrets.mask(ApprovalAnswered(answer=answer, digest=digest)))
    return case


def reopen_follower(desk: Desk, follower: Case) -> Case:
    """Open a call anew that has waited for its equal, now that this is answered."""
    case = desk.open(follower.call, follower.label)
    case.refused, case.mended = follower.refused, follower.mended
    return case


def recall(desk: Desk, case: Case, answer: CallAnswer, digest: str) -> None:
    """Keep what somebody said of a call that had started when its process ended.

    Args:
        desk: The Toolbox's.
        case: The call, taken up.
        answer: What was said.
        digest: Of what was asked.
    """
    case.approval = _record(desk, answer, digest)
    version = case.known_tool.version
    desk.turn.consent.learn(case.approval, tool_name=case.tool_name, tool_version=version)


def _record(desk: Desk, answer: CallAnswer, digest: str) -> ApprovalRecord:
    return ApprovalRecord(
        decision=_DECISIONS[type(answer)],
        by=answer.by,
        at=desk.clock.now(),
        digest=digest,
        reason=answer.reason if isinstance(answer, Deny) else "",
        scope=_SCOPE_OF_NO if isinstance(answer, Deny) else getattr(answer, "always", ""),
    )


def tell_outdated(desk: Desk, case: Case) -> None:
    """Warn of an answer that cannot be taken."""
    desk.warn(
        "answer_outdated",
        f"the answer for call {case.call_id} of {case.tool_name} came too late, or was about "
        "something else than the call is now: it is asked anew",
    )
