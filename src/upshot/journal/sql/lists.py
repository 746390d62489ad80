"""The lists of a journal in an SQL database: runs, the inbox, and what is counted of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

import upshot.journal.sql.queries as stored
from upshot.contract.protocols import RunCounts, RunFilters, RunSummary
from upshot.journal.run_counts import FigureQuery, OpenWork, RunFigures
from upshot.journal.run_list import RunQuery, counted
from upshot.journal.shared import InboxFilters, InboxItem, InboxQuery
from upshot.journal.sql.count_rows import read_figures, read_open_work
from upshot.journal.sql.inbox import inbox_size, read_inbox

if TYPE_CHECKING:
    from upshot.journal.sql.connection import Connection

T = TypeVar("T")


class SqlLists:
    """What a journal in an SQL database lists and counts."""

    if TYPE_CHECKING:

        async def flush(self) -> None: ...
        async def read(self, work: Callable[[Connection], T]) -> T: ...

    async def runs(
        self, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """List the runs, newest first by the time they started; see ``Journal.runs``."""
        wanted = RunQuery(status, **filters)
        wanted.check()
        await self.flush()
        return await self.read(lambda connection: stored.read_summaries(connection, wanted))

    async def fingerprint(self, run_id: str) -> object:
        """Return a value that differs once the log, the notes or the outputs of a run change."""
        await self.flush()
        return await self.read(lambda connection: stored.fingerprint(connection, run_id))

    async def counts(self, status: str | None = None, **filters: Unpack[RunFilters]) -> RunCounts:
        """See ``SharedJournal.counts``."""
        wanted = counted(RunQuery(status, **filters))
        await self.flush()
        return await self.read(lambda connection: stored.read_counts(connection, wanted))

    async def inbox(self, **filters: Unpack[InboxFilters]) -> tuple[InboxItem, ...]:
        """See ``SharedJournal.inbox``."""
        wanted = InboxQuery(**filters)
        wanted.check()
        await self.flush()
        return await self.read(lambda connection: read_inbox(connection, wanted))

    async def inbox_size(self, **filters: Unpack[InboxFilters]) -> int:
        """See ``SharedJournal.inbox_size``."""
        wanted = InboxQuery(**filters)
        await self.flush()
        return await self.read(lambda connection: inbox_size(connection, wanted))

    async def figures(self, wanted: FigureQuery) -> RunFigures:
        """See ``SharedJournal.figures``."""
        wanted.check()
        await self.flush()
        return await self.read(lambda connection: read_figures(connection, wanted))

    async def values(self, first: str, end: str) -> Mapping[str, str]:
        """See ``SharedJournal.values``."""
        return await self.read(lambda connection: stored.read_values(connection, first, end))

    async def open_work(self, *, owner: str = "", tenant: str = "") -> OpenWork:
        """See ``SharedJournal.open_work``."""
        await self.flush()
        return await self.read(lambda connection: read_open_work(connection, owner, tenant))
