"""The inbox: all that the runs of a journal wait for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from upshot.contract.base.checks import check_whole
from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Value
from upshot.contract.pending import Answer, Pending
from upshot.contract.protocols import Journal, RunSummary
from upshot.entry.answers import open_wishes
from upshot.entry.resume import read_past
from upshot.entry.session_setup import left_behind
from upshot.journal.opening import open_journal
from upshot.runs.plan import Where
from upshot.runs.redaction import lift_secrets
from upshot.state.child_runs import bare_id
from upshot.state.run_state import RunState
from upshot.state.stored_events import result_of, seeds_of, states

_PAGE = 50
_REQUEST_CHARS = 200


class InboxItem(Value, frozen=True, kw_only=True):
    """Something that a parked run waits for, and that nobody has answered.

    Attributes:
        run_id: The run to answer and to go on with; a child run of it that asks is named by
            ``pending.run_id``.
        agent_id: The agent of that run.
        conversation: The conversation of which it is a turn, "" for none.
        request: What the run was asked, at most 200 characters.
        pending: What is asked, its secrets masked; it makes the answer.
    """

    run_id: str
    agent_id: str
    conversation: str = ""
    request: str = ""
    pending: Pending


async def read_inbox(
    journal: Where, *, limit: int | None, before: str, conversation: str
) -> tuple[InboxItem, ...]:
    """See ``inbox``."""
    check_whole("limit", limit, least=1, none="all")
    found: list[InboxItem] = []
    runs = 0
    async with (
        open_journal(journal, create=False) as opened,
        aclosing(_parked(opened, before, conversation)) as parked,
    ):
        async for summary in parked:
            items = await _items_of(summary, opened)
            found += items
            runs += bool(items)
            if runs == limit:
                break
    return tuple(found)


async def items_of(run_id: str, journal: Journal) -> tuple[InboxItem, ...]:
    """What a run waits for and nobody has answered; empty where it does not wait."""
    (summary,) = await journal.runs(run_id=run_id)
    return tuple(await _items_of(summary, journal))


async def _parked(journal: Journal, before: str, conversation: str) -> AsyncGenerator[RunSummary]:
    """The runs that wait, newest first; a child run is shown by the run that waits for it."""
    while True:
        page = await journal.runs(
            Status.INPUT_REQUIRED, limit=_PAGE, before=before, context_id=conversation
        )
        for summary in page:
            if not await _has_open_parent(summary, journal):
                yield summary
        if len(page) < _PAGE:
            return
        before = page[-1].run_id


async def _has_open_parent(summary: RunSummary, journal: Journal) -> bool:
    if not summary.parent_run_id:
        return False
    return any(not parent.ended for parent in await journal.runs(run_id=summary.parent_run_id))


async def _items_of(summary: RunSummary, journal: Journal) -> list[InboxItem]:
    run_id, past = summary.run_id, RunState()
    events = journal.events(run_id)
    async for _, state in states(events, read=lift_secrets(), seeds=seeds_of(journal)):
        past = state
    result = result_of(past)
    if past.started is None or result is None or await left_behind(past, run_id, journal):
        # Somebody goes on with it just now, or nobody takes what it comes to.
        return []
    answered: dict[str, set[str]] = {}
    for asking in {one.run_id or run_id for one in result.pending}:
        asked = past if asking == run_id else await read_past(asking, journal)
        wishes = [wish.answer for wish in await open_wishes(asked, asking, journal)]
        given = {one.id if isinstance(one, Answer) else one.call_id for one in wishes}
        answered[asking] = given | asked.answers.keys() | asked.answered
    return [
        InboxItem(
            run_id=run_id,
            agent_id=summary.agent_id,
            conversation=summary.context_id,
            request=past.started.request.text[:_REQUEST_CHARS],
            pending=one,
        )
        for one in result.pending
        if bare_id(one) not in answered[one.run_id or run_id]
    ]
