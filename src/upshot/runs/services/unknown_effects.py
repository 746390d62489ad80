"""Calls with unknown effect: the run tells its model, parks and asks, or stops.

A run that parks has settled the call in its log and has not shown the outcome to its model. What
becomes known while it is parked is in the ledger. The next session reads the ledger, calls
``verify`` once more, and logs what it finds as the answer. The engine runs only when all is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from upshot.contract.base.enums import Effect, ErrorCode, Origin
from upshot.contract.base.words import call_words
from upshot.contract.effects import EffectLedger, id_without_key, ledger_of
from upshot.contract.error import AgentError
from upshot.contract.events import QuestionAnswered, QuestionAsked
from upshot.contract.pending import Pending, PendingEffect, PendingExternal
from upshot.contract.tool_calls import ToolFailure, ToolRecord, ToolTimeout
from upshot.journal.shared import SharedJournal, shared_journal
from upshot.runs.engine_api.exceptions import Failed, Parked
from upshot.runs.run_context import RunContext
from upshot.state.child_runs import unique_pending
from upshot.state.run_state import item_of
from upshot.tools.repetition import on_unknown_of
from upshot.tools.toolbox import Toolbox
from upshot.tools.toolbox_options import Doubtful

_TIMED_OUT = "It did not finish within its time."


def judge_unknown(context: RunContext, doubtful: Sequence[Doubtful]) -> None:
    """Ask about calls of unknown effect, or stop, as their tools and the policy say.

    Without a journal that has an effect ledger no question is asked, because it could not be
    settled; the model reads that instead.

    Raises:
        Failed: The run must stop.
        Parked: A person must say whether the calls took effect.
    """
    plan, asked = context.plan, list[PendingEffect]()
    if context.recording is not None or context.interrupt is not None:
        return
    for tool, record in doubtful:
        word = on_unknown_of(tool, record.outcome, plan.policy)
        if word == "stop":
            raise Failed(_stop_error(record))
        if word == "ask" and ledger_of(plan.journal) is not None:
            audience = "staff" if tool is None else tool.ask
            question = question_about(record, _id_of(record))
            asked.append(replace(question, audience=audience, asked_at=plan.clock.now()))
    if asked:
        raise Parked(*asked, *() if context.toolbox is None else context.toolbox.pending)


def _stop_error(record: ToolRecord) -> AgentError:
    call = call_words(record.tool_name, record.arguments_validated or {})
    message = (
        f"{call} may have taken effect, so the run stopped: find out whether it did, and run "
        f"`upshot effects settle {_id_of(record)}`"
    )
    details = {"effect_id": _id_of(record), "call_id": record.call_id}
    return AgentError(
        ErrorCode.EFFECT_UNKNOWN, message, origin=Origin.TOOL, details={**details}, retryable=False
    )


def _id_of(record: ToolRecord) -> str:
    return record.effect_id or id_without_key(record.run_id, record.call_id)


def question_about(record: ToolRecord, id: str) -> PendingEffect:
    """Return the question whether a call took effect.

    Args:
        record: The record of the call.
        id: The id of its effect in the ledger.
    """
    arguments = record.arguments_validated or {}
    outcome = record.outcome
    error = outcome.error if isinstance(outcome, ToolFailure) else _TIMED_OUT
    return PendingEffect(
        id=id,
        question=f"Did this happen? {call_words(record.tool_name, arguments)}",
        call_id=record.call_id,
        tool_name=record.tool_name,
        arguments=arguments,
        effect=record.declared_effect or Effect.WRITE,
        error=error,
        idempotency_key=record.idempotency_key,
        started_at=record.started_at,
        ended_at=_ended_at(record),
        digest=_digest_of(record),
    )


def _digest_of(record: ToolRecord) -> str:
    at = "" if record.started_at is None else record.started_at.isoformat()
    return hashlib.sha256(f"{record.call_id}\n{at}".encode(errors="surrogatepass")).hexdigest()[:32]


def _ended_at(record: ToolRecord) -> datetime | None:
    """Return when a call ended, None if its process died."""
    outcome, started = record.outcome, record.started_at
    was_gone = isinstance(outcome, ToolFailure) and outcome.code == ErrorCode.INTERRUPTED
    if was_gone or started is None or not isinstance(outcome, ToolFailure | ToolTimeout):
        return None
    return started + timedelta(milliseconds=outcome.elapsed_ms)


async def find_settled(context: RunContext) -> None:
    """Log what has become known of the effects that a run waits for.

    If any is still unknown, the Toolbox gets everything that the run waits for.
    """
    state, ledger = context.state, ledger_of(context.plan.journal)
    tools = context.toolbox
    # Without a toolbox, no call was made yet.
    if ledger is None or tools is None or context.recording is not None:
        return
    asked = {one.id: one for one in state.waits.values() if isinstance(one, PendingEffect)}
    for record in state.settled.values():
        # The process may have died before the run could ask.
        if record.effect is Effect.UNKNOWN and record.call_id not in _calls_of(asked):
            question = await _ask_about_unasked(context, record, ledger, tools)
            if question is not None:
                asked[question.id] = question
    for question in asked.values():
        await _log_if_known(context, question, tools)
    if not any(one.id in state.waits for one in asked.values()):
        return
    calls = [one for id, one in state.asked.items() if id not in state.answers]
    spent = [one for one in state.children.values() if one is not None and not one.is_final]
    inside = [pending for one in spent for pending in one.pending]
    tools.doubts = unique_pending((*calls, *state.waits.values(), *inside))


async def store_end(context: RunContext, pending: Sequence[Pending]) -> None:
    """Wait until a session's end is on disk; make its run due if what it waits for has come.

    A settlement or a signal makes those runs due whose questions are stored, so one that comes
    between the session's last look and its park does not find the run.
    """
    await context.recorder.barrier()
    if not pending:
        return
    journal = context.plan.journal
    ledger, shared = ledger_of(journal), None if journal is None else shared_journal(journal)
    if shared is None or context.parent is not None:
        return
    for one in pending:
        if isinstance(one, PendingExternal) and one.signal:
            if await _has_come(one, context, shared):
                await shared.make_due(context.info.run_id, "answered")
                return
        elif isinstance(one, PendingEffect) and ledger is not None:
            entry = await ledger.effect(one.id)
            if entry is not None and entry.settled is not None:
                await shared.make_due(context.info.run_id, "settled")
                return


async def _has_come(one: PendingExternal, context: RunContext, shared: SharedJournal) -> bool:
    """Whether the signal that a run or its child run waits for is stored."""
    item, run_id = item_of(context.state, one), one.run_id or context.info.run_id
    return any(placed.item == item for placed in await shared.placed_answers(run_id))


def park_again(context: RunContext) -> None:
    """Park a resumed run if some of the effects it asked about are still unknown.

    Raises:
        Parked: It still waits.
    """
    if (tools := context.toolbox) is not None and tools.doubts:
        waits, tools.doubts = tools.doubts, ()
        raise Parked(*waits)


def _calls_of(asked: Mapping[str, PendingEffect]) -> set[str]:
    return {one.call_id for one in asked.values()}


async def _ask_about_unasked(
    context: RunContext, record: ToolRecord, ledger: EffectLedger, tools: Toolbox
) -> PendingEffect | None:
    """Ask about a call that settled at the very end of an earlier session, if it must be asked."""
    tool = tools.find(record.tool_name)
    if on_unknown_of(tool, record.outcome, context.plan.policy) != "ask" or tool is None:
        return None
    # Calls of the run that this one was forked from have no row here.
    if await ledger.effect(_id_of(record)) is None:
        return None
    asked_at = context.plan.clock.now()
    question = replace(question_about(record, _id_of(record)), audience=tool.ask, asked_at=asked_at)
    context.recorder.emit(QuestionAsked(pending=question))
    return question


async def _log_if_known(context: RunContext, question: PendingEffect, tools: Toolbox) -> None:
    """Log what has become known of an effect, if anything has."""
    record = next(
        (
            one
            for one in reversed(context.state.records)
            if one.call_id == question.call_id and one.effect is Effect.UNKNOWN
        ),
        None,
    )
    if record is None:
        return
    settled = await tools.recheck(record, question.id)
    if settled is not None:
        value = "yes" if settled.effect is Effect.APPLIED else "no"
        context.recorder.emit(QuestionAnswered(id=question.id, value=value, settled=settled))
