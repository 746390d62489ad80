"""The work of a journal in an SQL database: submissions, due runs, answers and stops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from upshot.contract.pending import AnyAnswer, PendingApproval
from upshot.journal.audit import row_of_answer
from upshot.journal.shared import DueRun, PlacedAnswer, Stop, Submission, Unsent
from upshot.journal.sql.due import (
    drop_stops,
    make_due,
    place_answer,
    place_stop,
    read_due,
    read_placed_answers,
    read_stops,
    reserve_due,
    submit_run,
)
from upshot.journal.sql.inbox import has_untold, mark_sent, pop_unsent
from upshot.journal.sql.submissions import read_submission, withdraw_run

if TYPE_CHECKING:
    from upshot.journal.sql.connection import Connection, WriteConnection

T = TypeVar("T")


class SqlWork:
    """What processes are to do with the runs of a journal in an SQL database."""

    if TYPE_CHECKING:

        async def flush(self) -> None: ...
        async def read(self, work: Callable[[Connection], T]) -> T: ...
        async def write(self, work: Callable[[WriteConnection], T]) -> T: ...
        def check_text(self, *texts: str) -> None: ...

    async def placed_answers(self, run_id: str) -> Sequence[PlacedAnswer]:
        """See ``SharedJournal.placed_answers``."""
        return await self.read(lambda connection: read_placed_answers(connection, run_id))

    async def place_stop(self, stop: Stop) -> None:
        """See ``SharedJournal.place_stop``."""
        await self.write(lambda connection: place_stop(connection, stop))

    async def stops(self, run_ids: Sequence[str]) -> Sequence[Stop]:
        """See ``SharedJournal.stops``."""
        return await self.read(lambda connection: read_stops(connection, run_ids))

    async def drop_stops(self, run_id: str) -> None:
        """See ``SharedJournal.drop_stops``."""
        await self.write(lambda connection: drop_stops(connection, run_id))

    async def submit(self, new: Submission) -> Submission:
        """See ``SharedJournal.submit``."""
        request = new.request
        self.check_text(new.run_id, new.agent_id, new.key, request.context_id)
        return await self.write(lambda connection: submit_run(connection, new))

    async def submission(self, run_id: str) -> Submission | None:
        """See ``SharedJournal.submission``."""
        return await self.read(lambda connection: read_submission(connection, run_id))

    async def withdraw(self, run_id: str) -> None:
        """See ``SharedJournal.withdraw``."""
        await self.write(lambda connection: withdraw_run(connection, run_id))

    async def due_runs(
        self,
        agent_ids: Collection[str] | None = None,
        *,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[DueRun]:
        """See ``SharedJournal.due_runs``."""
        await self.flush()
        return await self.read(lambda connection: read_due(connection, agent_ids, run_id, limit))

    async def reserve_due(self, run_ids: Sequence[str], *, for_s: float) -> Sequence[str]:
        """See ``SharedJournal.reserve_due``."""
        return await self.write(lambda connection: reserve_due(connection, run_ids, for_s))

    async def make_due(self, run_id: str, reason: str, *, delay_s: float = 0) -> None:
        """See ``SharedJournal.make_due``."""
        await self.write(lambda connection: make_due(connection, run_id, reason, delay_s))

    async def place_answer(
        self,
        answer: PlacedAnswer,
        *,
        seq: int = 0,
        asked: PendingApproval | None = None,
        shown: AnyAnswer | None = None,
    ) -> PlacedAnswer | None:
        """See ``SharedJournal.place_answer``."""
        row = row_of_answer(answer, shown)
        return await self.write(
            lambda connection: place_answer(connection, answer, seq, asked, row)
        )

    async def pop_unsent(
        self, agent_ids: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[Unsent]:
        """See ``SharedJournal.pop_unsent``."""
        # Polled often, and seldom true.
        if not await self.read(lambda connection: has_untold(connection, agent_ids)):
            return ()
        return await self.write(lambda connection: pop_unsent(connection, agent_ids, limit, for_s))

    async def mark_sent(self, one: Unsent, *, again_s: float | None) -> None:
        """See ``SharedJournal.mark_sent``."""
        await self.write(lambda connection: mark_sent(connection, one, again_s))
