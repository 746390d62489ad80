"""History: what earlier runs and sittings have left, as their logs tell it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import cast

from ..contract import (
    AgentResult,
    DeniedReason,
    Journal,
    Message,
    Request,
    Role,
    ToolCall,
    ToolDenied,
)
from ..contract.article import kind_of
from ..errors import Misuse
from ..runs import Past, RunOptions, spent_in
from ..tools import outcome_to_model_content

__all__ = ["history_of", "read_children", "read_on", "read_past"]


async def read_past(run_id: str, journal: Journal, *, secrets: Sequence[str] = ()) -> Past:
    """Fold the log of a run.

    Args:
        run_id: Which run.
        journal: Where its log is.
        secrets: Of the run, in their order.

    Raises:
        Misuse: The journal has no such run; the message names the nearest.
        JournalError: The log cannot be read.
    """
    past = Past(secrets)
    await read_on(past, run_id, journal)
    if past.started is None:
        ids = [summary.run_id for summary in await journal.runs()]
        if run_id in ids:
            raise Misuse(f"the journal knows the run {run_id!r}, but has no event of it any more")
        near = difflib.get_close_matches(run_id, ids, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`upshot runs` lists those it has"
        raise Misuse(f"the journal has no run {run_id!r}: {hint}")
    return past


async def read_on(past: Past, run_id: str, journal: Journal) -> None:
    """Fold what was logged since *past* was read."""
    async for event in journal.events(run_id, after=past.seq):
        past.add(event)


async def read_children(past: Past, journal: Journal) -> None:
    """Find out what runs inside a run used that had not ended when its log was written."""
    for run_id, spent in past.children.items():
        if spent is not None and spent.is_final:
            continue
        child = Past()
        await read_on(child, run_id, journal)
        if child.started is not None:
            await read_children(child, journal)
            past.children[run_id] = spent_in(child)


async def history_of(
    request: Request, options: RunOptions, journal: Journal | None
) -> Sequence[Message]:
    """The messages that a run begins with, as its options say.

    A call that nobody made, such as one that still waits for approval, is told as cancelled: no
    provider takes a conversation in which a call has no outcome.

    Args:
        request: What is asked; its context is whose messages are meant by "context".
        options: Of the call.
        journal: Where earlier runs of the context are.

    Raises:
        Misuse: ``history`` holds what is no message, or asks for a context where there is none.
    """
    history = options.get("history") or ()
    if isinstance(history, AgentResult):
        return _with_outcomes(history.all_messages(), request)
    if not isinstance(history, str):
        return _with_outcomes(_messages(history), request) if history else ()
    if history != "context":
        raise Misuse(f"history is {history!r}: give messages, an AgentResult, or 'context'")
    if journal is None or not request.context_id:
        raise Misuse("history='context' needs a journal and a Request with a context_id")
    return _with_outcomes(await _context_messages(request.context_id, journal), request)


def _messages(history: object) -> tuple[Message, ...]:
    items = (
        tuple(cast("Iterable[object]", history)) if isinstance(history, Iterable) else (history,)
    )
    for item in items:
        if not isinstance(item, Message):
            hint = "give messages, such as Message('user', 'Hi')"
            held = "holds" if isinstance(history, Iterable) else "is"
            raise Misuse(f"history {held} {kind_of(item)}: {hint}")
    return cast("tuple[Message, ...]", items)


async def _context_messages(context_id: str, journal: Journal) -> Sequence[Message]:
    """What earlier committed runs of the context asked and produced, oldest first."""
    messages: list[Message] = []
    for summary in reversed(await journal.runs()):
        if not summary.ended:
            continue
        past = await read_past(summary.run_id, journal)
        if past.started is None or past.started.request.context_id != context_id:
            continue
        if past.result is not None and past.result.committed:
            messages += [past.started.request.to_message(), *past.result.messages]
    return messages


def _with_outcomes(messages: Sequence[Message], request: Request) -> Sequence[Message]:
    """*messages* with an outcome after every reply for each call of it that has none.

    An outcome may stand anywhere after its call, and may be the request itself.
    """
    waiting = _unanswered([*messages, request.to_message()])
    if not any(waiting.values()):
        return messages
    closed: list[Message] = []
    missing: list[ToolCall] = []
    for place, message in enumerate(messages):
        if message.role is not Role.TOOL:
            closed += map(_cancelled, missing)
            missing = []
        missing += waiting.get(place, ())
        closed.append(message)
    return [*closed, *map(_cancelled, missing)]


def _unanswered(messages: Sequence[Message]) -> dict[int, list[ToolCall]]:
    """The calls that no later message answers, by the place of their reply."""
    waiting = {place: list(one.tool_calls) for place, one in enumerate(messages)}
    told = [(place, one) for place, one in enumerate(messages) if one.role is Role.TOOL]
    # One that names no call is of any, so those that name theirs come first.
    for place, outcome in sorted(told, key=lambda one: not one[1].tool_call_id):
        _answer(waiting, place, outcome.tool_call_id)
    return waiting


def _answer(waiting: dict[int, list[ToolCall]], place: int, call_id: str | None) -> None:
    """Take out the call that the outcome at *place* answers.

    It is the nearest before it, for providers use ids again.
    """
    for before in range(place - 1, -1, -1):
        for number, call in enumerate(waiting[before]):
            if not call_id or call.id == call_id:
                del waiting[before][number]
                return


def _cancelled(call: ToolCall) -> Message:
    outcome = ToolDenied(
        call_id=call.id,
        tool_name=call.name,
        reason=DeniedReason.CANCELLED,
        details="the conversation went on without it",
    )
    return Message(
        Role.TOOL, outcome_to_model_content(outcome), tool_call_id=call.id, name=call.name
    )
