"""Parked and interrupted calls go on: answers, unknown effects."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.events import ApprovalAnswered, ToolStarted
from upshot.contract.pending import AnyAnswer, Approve, Deny, Edit, PendingApproval
from upshot.contract.tool_calls import (
    ApprovalRecord,
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    outcome_blocks_tool,
)
from upshot.errors import Misuse
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.outcome_mapping import INTERRUPTED, effect_after
from upshot.tools.gates.approval_gate import ANY_ARGUMENTS
from upshot.tools.repetition import Flight, is_step
from upshot.tools.toolbox_state import ToolboxState

__all__ = [
    "CallAnswer",
    "give_up",
    "recall",
    "reopen_all",
    "restore_records",
    "take_up",
    "valid_answers",
]

CallAnswer: TypeAlias = Approve | Deny | Edit

_DECISIONS = {Approve: "approved", Deny: "denied", Edit: "edited"}
# A person's no is final for the same arguments.
_SCOPE_OF_NO = "arguments"


def reopen_all(desk: ToolboxState, answers: Iterable[AnyAnswer]) -> list[CallState]:
    """Take the answers to parked calls.

    Args:
        desk: The Toolbox's.
        answers: What people said; calls without one stay parked.

    Returns:
        These calls, opened anew, in call order, each before those that waited for their equal.

    Raises:
        Misuse: No such call is parked, it is answered twice, or the answer is of a kind that is
            not for calls; nothing is taken then.
    """
    given = [_read_answer(answer) for answer in answers]
    unknown = [one.call_id for one in given if one.call_id not in desk.parked]
    if unknown:
        raise Misuse(f"no call {unknown[0]!r} waits for an answer")
    by_call = {one.call_id: one for one in given}
    if len(by_call) < len(given):
        raise Misuse("a call is answered twice: give one answer for each")
    cases: list[CallState] = []
    for call_id in [one for one in desk.parked if one in by_call]:
        parked, *followers = desk.unpark(call_id)
        cases.append(_reopen(desk, parked, by_call[call_id]))
        cases += [_reopen_follower(desk, one) for one in followers]
    return cases


def valid_answers(
    desk: ToolboxState, asked: Mapping[str, PendingApproval], answers: Mapping[str, CallAnswer]
) -> list[CallAnswer]:
    """The answers to parked calls whose questions still are what they were; others are told.

    Args:
        desk: The Toolbox's.
        asked: What people were asked in an earlier process, by call id.
        answers: What they said, by call id.
    """
    valid: list[CallAnswer] = []
    for call_id, case in desk.parked.items():
        if call_id not in answers:
            continue
        # A no holds whatever has changed since: they do not want it.
        if case.pending == asked.get(call_id) or isinstance(answers[call_id], Deny):
            valid.append(answers[call_id])
        else:
            _tell_outdated(desk, case)
    return valid


def recall(
    desk: ToolboxState,
    case: CallState,
    started: ToolStarted,
    *,
    asked: Mapping[str, PendingApproval],
    answers: Mapping[str, CallAnswer],
) -> None:
    """Keep what somebody said of a call that had started when its process ended.

    Args:
        desk: The Toolbox's.
        case: The call, taken up.
        started: What the log says of its start.
        asked: What people were asked, by call id.
        answers: What they said, by call id.
    """
    # What was said of another version of the tool is not said of this one.
    case.tool = tool = desk.catalog.known(case.tool_name)
    is_same = tool is not None and tool.version == started.tool_version
    if tool is None or not is_same or case.call_id not in asked or case.call_id not in answers:
        return
    case.approval = _record(desk, answers[case.call_id], asked[case.call_id].digest)
    desk.turn.consent.learn(case.approval, tool_name=case.tool_name, tool_version=tool.version)


def _read_answer(answer: AnyAnswer) -> CallAnswer:
    """An answer that is for a call.

    Raises:
        Misuse: It is for something else.
    """
    if not isinstance(answer, Approve | Deny | Edit):
        raise Misuse(f"{type(answer).__name__} is no answer for a call: give Approve, Deny or Edit")
    return answer


def _reopen(desk: ToolboxState, parked: CallState, answer: CallAnswer) -> CallState:
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
        _tell_outdated(desk, case)
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


def _reopen_follower(desk: ToolboxState, follower: CallState) -> CallState:
    """Open a call anew that has waited for its equal, now that this is answered."""
    case = desk.open(follower.call, follower.label)
    case.refused, case.mended = follower.refused, follower.mended
    return case


def _record(desk: ToolboxState, answer: CallAnswer, digest: str) -> ApprovalRecord:
    return ApprovalRecord(
        decision=_DECISIONS[type(answer)],
        by=answer.by,
        at=desk.clock.now(),
        digest=digest,
        reason=answer.reason if isinstance(answer, Deny) else "",
        scope=_SCOPE_OF_NO if isinstance(answer, Deny) else getattr(answer, "always", ""),
    )


def _tell_outdated(desk: ToolboxState, case: CallState) -> None:
    """Warn of an answer that cannot be taken."""
    desk.warn(
        "answer_outdated",
        f"the answer for call {case.call_id} of {case.tool_name} came too late, or was about "
        "something else than the call is now: it is asked anew",
    )


def restore_records(desk: ToolboxState, records: Iterable[ToolRecord]) -> None:
    """Have *desk* know what earlier calls of its turn came to.

    Their successes deny repetitions, their final failures block, and they count.
    """
    climbed: set[Hashable] = set()
    for record in records:
        desk.turn.consent.learn_record(record)
        if record.trust:
            desk.distrust(record.outcome)
        desk.turn.denials += isinstance(record.outcome, ToolDenied)
        if record.started_at is not None:
            desk.turn.claim(record.tool_name)
        tool = desk.catalog.known(record.tool_name)
        if tool is None:
            continue
        case = desk.open(ToolCall(record.call_id, tool.name), record.turn)
        case.tool, case.arguments = tool, record.arguments_validated or {}
        if not isinstance(record.outcome, ToolDenied):
            _restore_outcome(desk, case, record.outcome)
        if record.arguments_validated is not None and is_step(
            record.outcome, (record.turn, case.digest), climbed, reads=not tool.may_write
        ):
            desk.turn.ladder.climb(record.outcome, key=case.digest, repeatable=tool.repeatable)


def take_up(desk: ToolboxState, case: CallState, started: ToolStarted) -> None:
    """Go on with a call that had started when its process ended.

    It runs again where that is safe; else it is a failure, its effect unknown.
    """
    tool = desk.catalog.known(case.tool_name)
    if tool is None or not _may_repeat(tool):
        give_up(desk, case, started)
        return
    case.idempotency_key = started.idempotency_key
    case.granted, case.mended = ANY_ARGUMENTS, started.arguments


def give_up(desk: ToolboxState, case: CallState, started: ToolStarted) -> None:
    """Say of a call that had started when its process ended that it did not come to its end."""
    tool = desk.catalog.known(case.tool_name)
    case.idempotency_key = started.idempotency_key
    case.tool, case.arguments, case.started_at = tool, started.arguments, started.time
    effect = Effect.UNKNOWN if tool is None else effect_after(tool, done=False)
    doubt = "; whether it took effect is unknown" if effect is Effect.UNKNOWN else ""
    case.outcome = ToolFailure(
        case.call_id,
        case.tool_name,
        error=f"The process ended while this call ran{doubt}.",
        retryable=tool is not None and _may_repeat(tool),
        effect=effect,
        code=INTERRUPTED,
    )


def _may_repeat(tool: Tool) -> bool:
    return not tool.may_write or tool.idempotent


def _restore_outcome(desk: ToolboxState, case: CallState, outcome: ToolOutcome) -> None:
    turn, tool = desk.turn, case.known_tool
    if outcome_blocks_tool(outcome):
        turn.block(tool, case.digest)
    desk.key_of(case)
    resources = _resources_then(tool, case.arguments or {})
    held = tool.idempotent and not tool.repeatable
    found = turn.replay.enter(case.digest, resources) if held else None
    flight = found if isinstance(found, Flight) else None
    turn.replay.record(outcome, held=flight, resources=resources, may_write=tool.may_write)


def _resources_then(tool: Tool, arguments: JsonObject) -> frozenset[str] | None:
    try:
        return tool.resources_of(arguments)
    except Exception:  # a log may hold masked arguments, and a resume must not fail on them
        return None
