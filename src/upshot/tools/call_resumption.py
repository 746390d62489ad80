"""Resuming calls: parked ones with their answers, and those that a crash interrupted.

If the calls are parked in this process, ``reopen_all`` takes the answers and opens the calls again,
so that all gates are asked again. In a later process, ``restore_records`` restores what was
settled. ``restore_call`` opens a call as the log left it: one that had started either runs again or
is a failure of unknown effect. ``valid_answers`` finds the answers whose questions are unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from upshot.contract.base.enums import Effect
from upshot.contract.events import (
    ApprovalAnswered,
    ArtifactStored,
    QuestionAnswered,
    QuestionAsked,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.pending import (
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    GivenApproval,
    Pending,
    PendingApproval,
    already_approved,
    check_approver,
)
from upshot.contract.tool_calls import (
    ApprovalRecord,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    outcome_blocks_tool,
)
from upshot.errors import Misuse
from upshot.tools.arguments.argument_check import Refused
from upshot.tools.call_state import CallState, call_digest
from upshot.tools.gates.approval_gate import ANY_ARGUMENTS
from upshot.tools.repetition import (
    INTERRUPTED,
    effect_after,
    is_counted_denial,
    may_repeat,
    may_repeat_interrupted,
)
from upshot.tools.toolbox_state import ToolboxState

CallAnswer: TypeAlias = Approve | Deny | Edit

_DECISIONS = {Approve: "approved", Deny: "denied", Edit: "edited"}
_NONE: Mapping[str, Any] = MappingProxyType({})


class EarlierCalls(NamedTuple):
    """What the log of an earlier session has about calls without an outcome, by call id.

    Attributes:
        started: Their starts; a call without an entry had not started.
        asked: The questions asked about them.
        answers: The user's answers since. An approval or edit counts only for exactly the
            question that was asked, until that expires.
    """

    started: Mapping[str, ToolStarted] = _NONE
    asked: Mapping[str, PendingApproval] = _NONE
    answers: Mapping[str, CallAnswer] = _NONE


CallEvent: TypeAlias = ToolStarted | ArtifactStored | ToolSettled | QuestionAsked | QuestionAnswered


@dataclass(frozen=True, slots=True)
class KnownCall:
    """What is already known of a call.

    Attributes:
        outcome: The outcome; None if it has none, so the call is made.
        record: The record of the call, which is added to the Toolbox; None if that has it.
        events: The events to emit again.
        earlier: What the log says of it if it has no outcome.
    """

    outcome: ToolOutcome | None = None
    record: ToolRecord | None = None
    events: Sequence[CallEvent] = ()
    earlier: EarlierCalls = EarlierCalls()


@dataclass(frozen=True, slots=True)
class KnownOutcomes:
    """Calls with known outcomes, from a log that is re-executed or a record that is replayed.

    Attributes:
        find: Returns what is known of a call, or None; it may raise for a replayed record.
        pending: Returns the questions that a replayed record left open. No other call is made
            then: calls without an outcome wait. None re-executes a log: calls without an outcome
            are made.
    """

    find: Callable[[ToolCall], KnownCall | None]
    pending: Callable[[], tuple[Pending, ...]] | None = None


async def without_refused(state: ToolboxState, earlier: EarlierCalls) -> EarlierCalls:
    """Return *earlier* without the starts of calls whose effect another call had claimed.

    Their bodies never ran; the session ended before it could log that.
    """
    ledger, kept = state.ledger, dict[str, ToolStarted]()
    if ledger is None or all(one.claim is None for one in earlier.started.values()):
        return earlier
    for call_id, started in earlier.started.items():
        entry = None if started.claim is None else await ledger.effect(started.claim.id)
        if entry is None or entry.is_of(state.identity.run_id, call_id):
            kept[call_id] = started
    return earlier._replace(started=kept)


# A refusal by the user is final for the same arguments.
_SCOPE_OF_NO = "arguments"


def reopen_all(state: ToolboxState, answers: Iterable[AnyAnswer]) -> list[CallState]:
    """Take the answers to parked calls; calls without an answer stay parked.

    Returns:
        The answered calls, opened again, in call order, each before those that waited for it.

    Raises:
        Misuse: No such call is parked, a call is answered twice, or an answer is not for calls;
            then no answer is taken.
    """
    given = [_read_answer(answer) for answer in answers]
    # Everything is checked before anything is unparked, so a Misuse leaves every call as it was.
    unknown = [one.call_id for one in given if one.call_id not in state.parked]
    if unknown:
        raise Misuse(f"no call {unknown[0]!r} waits for an answer")
    by_call = {one.call_id: one for one in given}
    if len(by_call) < len(given):
        raise Misuse("a call is answered twice: give one answer for each")
    calls: list[CallState] = []
    for one in given:
        if (pending := state.parked[one.call_id].pending) is not None:
            check_approver(one, pending)
    # In the order of the calls, not of the answers, as the gates were asked; a list, because
    # unparking changes the mapping.
    for call_id in [one for one in state.parked if one in by_call]:
        if _needs_more(state, state.parked[call_id], by_call[call_id]):
            continue
        parked, *followers = state.unpark(call_id)
        calls.append(_reopen(state, parked, by_call[call_id]))
        calls += [_reopen_follower(state, one) for one in followers]
    return calls


def _needs_more(state: ToolboxState, call: CallState, answer: CallAnswer) -> bool:
    """Count an approval of a parked call; return whether more users must approve it."""
    pending = call.pending
    if pending is None or pending.approvals <= 1 or not isinstance(answer, Approve):
        return False
    if call.is_answered:
        # The approvals in the log are counted already.
        return pending.missing > 0
    if not state.is_question_of(answer, pending):
        return False
    if pending.approval_of(answer.by) is not None:
        state.warn("answer_outdated", already_approved(answer.by, answer.call_id))
        return True
    given = replace(answer, at=state.clock.now())
    call.pending = pending.with_approval(answer.by, given.at)
    state.asked[call.call_id] = call.pending
    if not call.pending.missing:
        return False
    state.emit(state.mask(ApprovalAnswered(answer=given, digest=pending.digest)))
    return True


def valid_answers(state: ToolboxState, earlier: EarlierCalls) -> list[CallAnswer]:
    """Return the answers to parked calls whose questions are unchanged; warn about others.

    Args:
        state: The state of the Toolbox.
        earlier: The questions of an earlier process, and the answers since.
    """
    valid: list[CallAnswer] = []
    for call_id, call in state.parked.items():
        answer = earlier.answers.get(call_id)
        if answer is None:
            continue
        # A refusal counts whatever has changed since.
        if isinstance(answer, Deny) or call.pending == earlier.asked.get(call_id):
            valid.append(answer)
        else:
            _warn_outdated(state, call)
    return valid


def _remember_answer(state: ToolboxState, call: CallState, earlier: EarlierCalls) -> None:
    """Remember the user's answer about a call that had started when its process ended."""
    # An answer about another version of the tool does not count for this one.
    tool = state.known(call.tool_name)
    call.take_tool(tool)
    started = earlier.started[call.call_id]
    asked, answer = earlier.asked.get(call.call_id), earlier.answers.get(call.call_id)
    if tool is None or tool.version != started.tool_version or asked is None or answer is None:
        return
    call.approval = _record(state, answer, call_digest(tool, asked.arguments), asked)
    state.turn.remember(call.approval, tool_name=call.tool_name, tool_version=tool.version)


def _read_answer(answer: AnyAnswer) -> CallAnswer:
    """Return *answer* if it is for a call; otherwise raise Misuse."""
    if not isinstance(answer, Approve | Deny | Edit):
        raise Misuse(
            f"{type(answer).__name__} is not an answer for a call: give Approve, Deny or Edit"
        )
    return answer


def _reopen(state: ToolboxState, parked: CallState, answer: CallAnswer) -> CallState:
    """Open a parked call again with its answer; warn about and ignore an outdated approval."""
    call, digest = state.open(parked.call, parked.label), parked.digest
    call.step, call.reply = parked.step, parked.reply
    call.source, call.is_edited, call.asks = parked.source, parked.is_edited, parked.asks
    call.refused, call.mended = parked.refused, parked.mended
    call.edit = parked.edit and GivenApproval(by=parked.edit.by)
    if not isinstance(answer, Edit):
        call.idempotency_key, call.give_up = parked.idempotency_key, parked.give_up
    pending, needs_others = parked.pending, False
    if pending is not None and not state.is_question_of(answer, pending):
        _warn_outdated(state, call)
        return call
    if isinstance(answer, Approve):
        call.granted = digest
    elif isinstance(answer, Edit) and pending is not None and pending.approvals > 1:
        needs_others = True
        _ask_about_edit(state, call, answer)
    elif isinstance(answer, Edit):
        # The edited arguments are the user's own, so there is nothing left to ask.
        call.source, call.is_edited, call.granted = answer.arguments, True, ANY_ARGUMENTS
    call.approval = None if needs_others else _record(state, answer, digest, pending)
    # Before the gates are asked again, because the approval gate refuses what the user refused.
    version = parked.known_tool.version
    if call.approval is not None:
        state.turn.remember(call.approval, tool_name=call.tool_name, tool_version=version)
    if not parked.is_answered:
        # Otherwise the answer came from the log.
        asked = "" if pending is None else pending.digest
        state.emit(state.mask(ApprovalAnswered(answer=answer, digest=asked)))
    return call


def _ask_about_edit(state: ToolboxState, call: CallState, answer: Edit) -> None:
    """Ask about the arguments of an edit: its user is the first of those who must approve them."""
    call.source, call.is_edited = answer.arguments, True
    call.edit = GivenApproval(by=answer.by, at=state.clock.now())
    call.asks = call.asks or f"{answer.by} changed the arguments"


def _reopen_follower(state: ToolboxState, follower: CallState) -> CallState:
    """Open a call again that waited for its equal, now that this is answered."""
    call = state.open(follower.call, follower.label)
    call.step, call.reply = follower.step, follower.reply
    call.refused, call.mended = follower.refused, follower.mended
    return call


def _record(
    state: ToolboxState, answer: CallAnswer, digest: str, asked: PendingApproval | None
) -> ApprovalRecord:
    is_edited = asked is not None and asked.edited_by and isinstance(answer, Approve)
    return ApprovalRecord(
        decision="edited" if is_edited else _DECISIONS[type(answer)],
        by=answer.by,
        at=state.clock.now(),
        digest=digest,
        approved_by=asked.approved_by if asked is not None and isinstance(answer, Approve) else (),
        reason=answer.reason if isinstance(answer, Deny) else "",
        scope=_SCOPE_OF_NO if isinstance(answer, Deny) else getattr(answer, "always", ""),
    )


def _warn_outdated(state: ToolboxState, call: CallState) -> None:
    """Warn about an answer that is ignored."""
    call.is_answered = False
    state.warn(
        "answer_outdated",
        f"the answer for call {call.call_id} of {call.tool_name} came too late, or the call "
        "has changed since: the user is asked again",
    )


def restore_records(state: ToolboxState, records: Iterable[ToolRecord]) -> None:
    """Restore earlier calls: successes deny repetitions, final failures block, and all count."""
    counted: defaultdict[int, set[str]] = defaultdict(set)
    for record in records:
        if record.approval is not None:
            state.turn.remember(
                record.approval, tool_name=record.tool_name, tool_version=record.tool_version
            )
        tool = state.known(record.tool_name)
        state.learn(record, tool)
        if isinstance(record.outcome, ToolArtifactReference):
            state.offers_reader = True
        state.turn.denials += is_counted_denial(record.outcome)
        if record.started_at is not None:
            state.turn.count_restored(record.tool_name)
        if tool is None:
            continue
        call = state.open(ToolCall(record.call_id, tool.name), record.turn)
        call.take_tool(tool)
        call.take_arguments(record.arguments_validated or {})
        if not isinstance(record.outcome, ToolDenied):
            _restore_outcome(state, call, record)
        if record.arguments_validated is not None:
            state.turn.loop_detector.count(
                record.outcome, key=call.digest, tool=tool, reply=counted[record.turn]
            )


def restore_call(state: ToolboxState, call: CallState, earlier: EarlierCalls) -> None:
    """Prepare *call* as the earlier session left it."""
    started = earlier.started.get(call.call_id)
    if started is not None:
        # Starts come first, because a started call may also have been asked about before it was
        # approved.
        _repeat_or_fail(state, call, started)
        if not _is_copied(state, started):
            _remember_answer(state, call, earlier)
            return
    if call.outcome is None and call.call_id in earlier.asked:
        # The user was asked about these arguments, whatever a model had to correct first.
        asked = earlier.asked[call.call_id]
        call.mended = asked.arguments
        if asked.edited_by:
            # The other users are asked about the arguments of the edit.
            call.source, call.is_edited, call.asks = asked.arguments, True, asked.reason
            call.edit = GivenApproval(by=asked.edited_by)
            # With other arguments it is another call than the one that a fork copied.
            call.idempotency_key, call.give_up = "", None
        call.is_answered = call.call_id in earlier.answers


def _repeat_or_fail(state: ToolboxState, call: CallState, started: ToolStarted) -> None:
    """Run a call again that had started when its process ended, or fail it if that is unsafe."""
    tool = state.known(call.tool_name)
    if tool is None or not (may_repeat_interrupted(tool) or _is_saved(state, started)):
        give_up(state, call, started)
        return
    call.idempotency_key = started.idempotency_key
    call.mended = started.arguments
    call.give_up = lambda opened: give_up(state, opened, started)
    is_own = not _is_copied(state, started)
    given = tool.check.read(call.source)
    if not isinstance(given, Refused) and given.filled != started.arguments:
        # A user, an approver or a hook had changed them.
        call.source, call.is_edited = started.arguments, is_own
    if is_own:
        # It passed all gates with these arguments, including an approval, so the user is not asked
        # again.
        call.granted = ANY_ARGUMENTS


def _is_copied(state: ToolboxState, started: ToolStarted) -> bool:
    """Whether the call started in the run that the run is a fork of: approvals were for that."""
    return state.run_calls is not None and state.run_calls.is_copied(started)


def _is_saved(state: ToolboxState, started: ToolStarted) -> bool:
    """Whether the body saved what it needs to continue the call, or does not run at all."""
    known = state.run_calls
    if known is None:
        return False
    return known.stand_in is not None or known.saved(started.idempotency_key) is not None


def give_up(state: ToolboxState, call: CallState, started: ToolStarted) -> None:
    """Fail a call as interrupted that had started when its process ended."""
    tool, known = state.known(call.tool_name), state.run_calls
    call.idempotency_key, call.claim = started.idempotency_key, started.claim
    # It has run, as those with a record of it have.
    state.turn.count_restored(call.tool_name)
    call.take_tool(tool)
    # From the log: the arguments were validated, and perhaps edited, when it started.
    call.arguments, call.started_at = started.arguments, started.time
    inside = None if known is None else known.agent_effect(started.idempotency_key)
    if tool is not None:
        call.take_arguments(started.arguments)
        effect = inside or effect_after(tool, done=False)
    elif inside is not None:
        effect = inside
    else:
        effect = Effect.NONE if started.effect is Effect.READ else Effect.UNKNOWN
    call.outcome = ToolFailure(
        call.call_id,
        call.tool_name,
        error="The process ended while this call ran.",
        retryable=tool is not None and may_repeat(tool, effect),
        effect=effect,
        code=INTERRUPTED,
    )


def _restore_outcome(state: ToolboxState, call: CallState, record: ToolRecord) -> None:
    turn, tool, outcome = state.turn, call.known_tool, record.outcome
    call.record, call.reply = record, turn.in_run and record.turn
    if outcome_blocks_tool(outcome):
        turn.block(tool, call.digest, outcome)
    # Only to count it, because a later call with the same id and arguments needs another key.
    state.key_of(call)
    # A log may contain masked arguments.
    call.resources = tool.touched_by(call.arguments or {})
    if tool.is_deduplicated:
        turn.deduplication.enter(call)
    if tool.is_guarded:
        turn.equal_calls.settle(call, record)
    if tool.is_deduplicated or tool.may_write:
        turn.deduplication.record(call, outcome, may_write=tool.may_write)
