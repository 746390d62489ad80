"""One run of a MemoryJournal: its events, and what a table would have in its row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime

from upshot.contract.base.enums import Effect, Status
from upshot.contract.call_counts import CallCount
from upshot.contract.codec import encode
from upshot.contract.events import Event, RunStarted
from upshot.contract.pending import Pending
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import NO_USAGE
from upshot.errors import JournalError, Misuse
from upshot.journal.event_codec import epoch_error, gap_error, parse_line
from upshot.journal.run_list import TurnClaim
from upshot.journal.shared import QUEUED, InboxItem, Submission
from upshot.state.summary import RUNNING, SummaryChange, listed_request, summary_change

__all__ = ["MemoryLog", "exported_line", "inbox_item", "queued_summary"]

_NO_ENDS: dict[int, int] = {}
_NO_TURN = TurnClaim("", "")


class MemoryLog:
    """One run."""

    __slots__ = ("ends", "epoch", "events", "is_chained", "loop", "revision", "turn")

    # Shared by all runs that were claimed once, which is nearly all of them.
    ends: dict[int, int]
    # The loop that ``begin`` was called in, None after a claim or release.
    loop: asyncio.AbstractEventLoop | None

    def __init__(self) -> None:
        self.epoch: int = 0
        self.events: list[Event] = []
        self.ends = _NO_ENDS
        self.loop = None
        # The conversation it is a turn of; its revision when the turn was committed.
        self.turn: TurnClaim = _NO_TURN
        self.is_chained: bool = False
        self.revision: int = 0

    def summary(self, run_id: str) -> RunSummary:
        times = (getattr(event, "time", None) for event in reversed(self.events))
        first = next(self._changes(self.events), None) or SummaryChange(RUNNING)
        last = next(self._changes(reversed(self.events)), first)
        ends = (change for change in self._changes(reversed(self.events)) if change.is_end)
        done = next(ends, first)
        return RunSummary(
            run_id=run_id,
            agent_id=first.agent_id or "",
            status=last.status,
            started_at=first.started_at,
            updated_at=next((time for time in times if time is not None), None),
            events=len(self.events),
            request=first.request or "",
            parent_run_id=first.parent_run_id or "",
            context_id=first.context_id or "",
            turn=first.turn or "",
            is_chained=first.is_chained,
            revision=self.revision,
            usage=NO_USAGE if done.usage is None else done.usage,
            cost=done.cost,
            effect=done.effect or Effect.NONE,
            error_code=last.error_code or "",
            owner=first.owner or "",
            tenant=first.tenant or "",
            answer=done.answer or "",
            took_s=done.took_s or 0.0,
            tools=done.tools or (),
        )

    @property
    def calls(self) -> tuple[CallCount, ...]:
        """The calls of its sessions that have ended."""
        ends = (change.calls for change in self._changes(reversed(self.events)) if change.is_end)
        return next(ends, None) or ()

    @property
    def turn_status(self) -> str:
        """The status of its turn, "" if that has ended or has not started."""
        changes = self._changes(reversed(self.events))
        status = next((change.status for change in changes), "")
        if status not in ("", RUNNING, Status.INPUT_REQUIRED):
            return ""
        if status == Status.INPUT_REQUIRED:
            return status
        if self.loop is not None and self.loop.is_running():
            return RUNNING
        # A run that takes over a request by handoff continues the turn.
        return "died" if status or self.is_chained else ""

    def is_of(self, conversation: str) -> bool:
        """Whether it is a run of that conversation and has events."""
        first = self.events[0]
        return isinstance(first, RunStarted) and first.request.context_id == conversation

    @property
    def origins(self) -> Iterable[str]:
        """The runs that this one was forked from."""
        return (one for change in self._changes(self.events) for one in change.forked_from)

    @property
    def is_over(self) -> bool:
        """Whether the last session has ended."""
        change = summary_change(self.events[-1]) if self.events else None
        return change is not None and change.is_end

    def has(self, seq: int, epoch: int) -> bool:
        """Whether the holder of *epoch* may have appended *seq*."""
        return epoch == self.epoch or seq <= self.ends.get(epoch, 0)

    def refusal(self, run_id: str, seq: int, epoch: int | None) -> JournalError:
        """Return the error for an event *seq* that cannot be appended."""
        last_seq = len(self.events)
        if epoch is not None and epoch != self.epoch:
            return epoch_error(run_id, epoch, self.epoch, last_seq)
        return gap_error(run_id, seq, last_seq)

    def _changes(self, events: Iterable[Event]) -> Iterator[SummaryChange]:
        return filter(None, map(summary_change, events))


def exported_line(event: Event) -> bytes:
    """Encode the event as JSON that can be read back, or raise Misuse."""
    line = encode(event)
    try:
        parse_line(line)
    except Misuse as error:
        raise Misuse(f"this {event.kind} cannot be exported: {error}") from error
    return line


def queued_summary(new: Submission, owner: tuple[str, str], at: datetime) -> RunSummary:
    """Return the line in the list of runs of a run that was submitted but has not started."""
    return RunSummary(
        run_id=new.run_id,
        agent_id=new.agent_id,
        status=QUEUED,
        owner=owner[0],
        tenant=owner[1],
        started_at=at,
        request=listed_request(new.request, new.marks),
        context_id=new.request.context_id,
    )


def inbox_item(run: RunSummary, pending: Pending, title: str) -> InboxItem:
    """Return the inbox item for a question of a run."""
    return InboxItem(
        run_id=run.run_id,
        agent_id=run.agent_id,
        conversation=run.context_id,
        request=run.request,
        owner=run.owner,
        tenant=run.tenant,
        title=title,
        pending=pending,
    )
