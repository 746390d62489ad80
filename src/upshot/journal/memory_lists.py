"""The lists of a MemoryJournal: runs, the inbox, and what is counted of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Unpack

from upshot.contract.base.enums import Status
from upshot.contract.pending import Pending
from upshot.contract.protocols import RunCounts, RunFilters, RunSummary
from upshot.journal.memory_log import MemoryLog, inbox_item, queued_summary
from upshot.journal.run_counts import (
    CountedRun,
    FigureQuery,
    OpenWork,
    RunFigures,
    count_ages,
    counted_run,
    figures_of,
)
from upshot.journal.run_list import RunQuery, counts_of, no_such_page
from upshot.journal.shared import (
    QUEUED,
    InboxFilters,
    InboxItem,
    InboxQuery,
    Submission,
)
from upshot.state.child_runs import asked_inside
from upshot.state.summary import RUNNING, owner_of, summary_change

if TYPE_CHECKING:
    from upshot.contract.effects import EffectEntry, EffectFilters

__all__ = ["Due", "MemoryLists", "started_at_s"]


class Due(NamedTuple):
    """When a run became due, and why."""

    at: datetime
    reason: str


class MemoryLists:
    """What a MemoryJournal lists and counts."""

    if TYPE_CHECKING:
        _logs: dict[str, MemoryLog]
        _asks: dict[str, Mapping[str, Pending]]
        _due: dict[str, Due]
        _submissions: dict[str, Submission]
        _submitted_at: dict[str, datetime]

        def _open(self) -> dict[str, MemoryLog]: ...
        def is_begun(self, run_id: str) -> bool: ...
        async def effects(self, **filters: Unpack[EffectFilters]) -> Sequence[EffectEntry]: ...

    async def runs(
        self, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """The runs, newest first by the time they started; see ``Journal.runs``."""
        wanted = RunQuery(status, **filters)
        wanted.check()
        listed = self._listed()
        listed.sort(key=wanted.key, reverse=True)
        if wanted.before:
            ids = [run.run_id for run in listed]
            if wanted.before not in ids:
                raise no_such_page(wanted.before)
            listed = listed[ids.index(wanted.before) + 1 :]
        return [
            run
            for run in listed
            if wanted.holds(run)
            and wanted.phase in ("", self._phase(run))
            and (not wanted.model or self._has_called(run.run_id, wanted.model))
        ][: wanted.limit]

    async def candidates(
        self, find: str, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """See ``SharedJournal.candidates``; there is no index."""
        return await self.runs(status, **filters)

    def _has_called(self, run_id: str, model: str) -> bool:
        calls = self._logs[run_id].calls
        return any(one.type == "model" and one.name == model for one in calls)

    async def counts(self, status: str | None = None, **filters: Unpack[RunFilters]) -> RunCounts:
        """See ``SharedJournal.counts``."""
        listed = await self.runs(status, **{**filters, "limit": None, "before": "", "sort": ""})
        return counts_of(listed, [run for run in listed if not self._is_inside(run.run_id)])

    def _phase(self, run: RunSummary) -> str:
        """Return the phase of a run, one of ``PHASES``; here none is known to have died."""
        if run.ended:
            return "ended"
        if self.is_begun(run.run_id):
            return "running"
        due = self._due.get(run.run_id)
        if run.status == QUEUED:
            return QUEUED
        if due is not None:
            return "due" if due.at <= datetime.now(UTC) else "parked"
        return "parked" if run.status == Status.INPUT_REQUIRED else "running"

    def _listed(self) -> list[RunSummary]:
        latest_first = reversed(self._open().items())
        listed = [
            self._summary(run_id, log)
            for run_id, log in latest_first
            if log.events or run_id in self._submissions
        ]
        listed.sort(key=started_at_s, reverse=True)
        return listed

    async def inbox(self, **filters: Unpack[InboxFilters]) -> tuple[InboxItem, ...]:
        """See ``SharedJournal.inbox``."""
        wanted = InboxQuery(**filters)
        wanted.check()
        if wanted.before and wanted.before not in self._open():
            raise no_such_page(wanted.before)
        runs = await self.runs(
            Status.INPUT_REQUIRED,
            run_id=wanted.run_id,
            agent_id=wanted.agent,
            context_id=wanted.conversation,
            owner=wanted.owner,
            tenant=wanted.tenant,
        )
        by_root: dict[str, list[Pending]] = {}
        for run_id, asks in self._asks.items():
            root = self._waiting_root(run_id)
            shown = [one if root == run_id else asked_inside(run_id, one) for one in asks.values()]
            by_root.setdefault(root, []).extend(shown)
        ranks = {run_id: rank for rank, run_id in enumerate(self._logs)}

        def place(run_id: str) -> tuple[float, int]:
            moments = [one.asked_at.timestamp() if one.asked_at else 0 for one in by_root[run_id]]
            return min(moments), ranks[run_id]

        is_there = wanted.before and by_root.get(wanted.before)
        after = place(wanted.before) if is_there else None
        found: list[tuple[tuple[float, int], RunSummary, list[Pending]]] = []
        for run in runs:
            items = [one for one in by_root.get(run.run_id, ()) if wanted.fits(one)]
            if items and (after is None or place(run.run_id) > after):
                found.append((place(run.run_id), run, items))
        found.sort(key=itemgetter(0))
        titles: dict[str, str] = {}
        for run in reversed(self._listed()):
            if run.context_id and run.started_at is not None:
                titles.setdefault(run.context_id, run.request)
        return tuple(
            inbox_item(run, one, titles.get(run.context_id, ""))
            for _, run, items in found[: wanted.limit]
            for one in items
        )

    async def inbox_size(self, **filters: Unpack[InboxFilters]) -> int:
        """See ``SharedJournal.inbox_size``."""
        wanted = InboxQuery(**filters)._replace(limit=None, before="")
        return len(await self.inbox(**wanted._asdict()))

    def _waiting_root(self, run_id: str) -> str:
        """Return the outermost run that waits for a run; "" if one in between does not wait."""
        log = self._logs[run_id]
        if log.summary(run_id).status != Status.INPUT_REQUIRED:
            return ""
        parent = log.summary(run_id).parent_run_id if self._is_inside(run_id) else ""
        return self._waiting_root(parent) if parent and parent in self._logs else run_id

    def _is_inside(self, run_id: str) -> bool:
        """Whether the run belongs to a parent that waits for it."""
        events = self._logs[run_id].events
        change = summary_change(events[0]) if events else None
        return change is not None and change.is_inside

    def _summary(self, run_id: str, log: MemoryLog) -> RunSummary:
        """Return the line in the list of runs; a submitted run may have no events yet."""
        new = None if log.events else self._submissions.get(run_id)
        if new is None:
            return log.summary(run_id)
        before = self._logs.get(new.after)
        owner = owner_of(new.options.get("attributes"))
        if before is not None:
            known = before.summary(new.after)
            owner = known.owner, known.tenant
        return queued_summary(new, owner, self._submitted_at[run_id])

    async def figures(self, wanted: FigureQuery) -> RunFigures:
        """See ``SharedJournal.figures``."""
        wanted.check()
        listed = await self.runs(
            owner=wanted.owner, tenant=wanted.tenant, since=wanted.before, until=wanted.until
        )
        return figures_of(map(self._counted, listed), wanted)

    def _counted(self, run: RunSummary) -> CountedRun:
        return counted_run(run, self._logs[run.run_id].calls, is_inside=self._is_inside(run.run_id))

    async def open_work(self, *, owner: str = "", tenant: str = "") -> OpenWork:
        """See ``SharedJournal.open_work``."""
        runs = await self.runs(owner=owner, tenant=tenant)
        items = await self.inbox(owner=owner, tenant=tenant)
        entries = await self.effects(user=owner, tenant=tenant)
        now = datetime.now(UTC)
        unknown = [one for one in entries if one.state == "unknown"]
        asked = [one.pending.asked_at for one in items]
        waited = [timedelta.max if at is None else now - at for at in asked]
        return OpenWork(
            queued=sum(run.status == QUEUED for run in runs),
            running=sum(run.status == RUNNING for run in runs),
            waiting=count_ages(waited),
            begun=sum(one.state == "begun" for one in entries),
            unknown=len(unknown),
            unknown_ages=count_ages([now - (one.started_at or now) for one in unknown]),
        )


def started_at_s(run: RunSummary) -> float:
    """Return when a run started, in seconds since 1970; it is earliest if that is unknown."""
    return run.started_at.timestamp() if run.started_at else -math.inf
