"""RunHandle: a run as any process may watch and answer it, whoever works on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Literal

from upshot.contract.base.checks import check_amount, shown
from upshot.contract.base.enums import InterruptCause
from upshot.contract.base.structs import Json
from upshot.contract.events import Event, RunResumed, RunSettled
from upshot.contract.message import Unknown
from upshot.contract.model_calls import ModelRetried
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.entry.answers import answer_run
from upshot.entry.option_checks import check_run_id
from upshot.entry.resume import read_begun, read_on
from upshot.entry.session_setup import end_canceled
from upshot.entry.stops import place_stop, stop_of
from upshot.errors import Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import open_journal
from upshot.journal.pieces import parse_cursor, pieces_of
from upshot.journal.shared import needs_shared, shared_journal
from upshot.journal.watching import of_run, watch
from upshot.runs.plan import Where
from upshot.runs.redaction import lift_secrets
from upshot.state.run_state import RunState
from upshot.state.stored_events import next_event, result_of, seeds_of, states

Until = Literal["ended", "parked"]


class RunHandle:
    """A run of a journal; ``attach`` and an App make one. It neither takes the run nor works on it.

    Args:
        run_id: The run.
        journal: Where its log is, open.

    Attributes:
        id: The run.
    """

    def __init__(self, run_id: str, journal: Journal) -> None:
        self.id = run_id
        self._journal = journal

    def __repr__(self) -> str:
        return f"RunHandle({self.id})"

    async def events(
        self, *, after: int | str = 0, until: Until = "ended", deltas: bool = False
    ) -> AsyncGenerator[Event]:
        """The events of the run, as they come; the durable ones that are there already first.

        Any number of readers may watch, each from where it likes; secrets are masked.

        Args:
            after: Only those after this place: the ``seq`` of a durable event, or
                ``f"{seq}.{part}"`` of a delta.
            until: Where to stop: "ended" is the end of the run, over any parks; "parked" stops at
                the first park too, unless the run has gone on since.
            deltas: Whether to yield pieces of replies and tools' progress too, put together to one
                each 100 ms, those since the last durable event first. A call of a model that
                begins while nobody wants them has none. A reply whose pieces are void, since
                another session asks anew, is told by a ``ModelRetried`` that has a ``part``.

        Raises:
            Misuse: There is no such run, or an argument is wrong.
            JournalError: The log is damaged or cannot be read.
        """
        place = parse_cursor(after)
        if until not in ("ended", "parked"):
            raise Misuse(f"until must be 'ended' or 'parked', got {shown(until)}")
        past = await read_begun(self.id, self._journal)
        state, read = RunState(), lift_secrets()
        shows = shared_journal(self._journal) if deltas else None
        topics = [of_run(self.id), *([] if shows is None else [pieces_of(self.id)])]
        with watch(self._journal, *topics) as changes:
            while True:
                async for stored in self._journal.events(self.id, after=state.seq):
                    if isinstance(stored, RunResumed) and state.seq == place[0] and place[1]:
                        yield self._void(state, place[1] + 1)
                    event = await next_event(state, stored, read, seeds_of(self._journal))
                    if event.seq > place[0]:
                        place = event.seq, 0
                        yield event
                    # One before that was followed by more.
                    is_last = isinstance(event, RunSettled) and event.seq >= past.seq
                    if is_last and (state.ended or until == "parked"):
                        return
                if shows is not None and state.seq == place[0]:
                    for piece in shows.pieces(self.id, *place):
                        if not isinstance(piece, Unknown):
                            place = piece.seq, piece.part
                            yield piece
                await changes.changed()

    def _void(self, state: RunState, part: int) -> ModelRetried:
        """The word that what was shown of the reply under way is void."""
        started = next(reversed(state.models.values()), None)
        return ModelRetried(
            run_id=self.id,
            seq=state.seq,
            part=part,
            model="" if started is None else started.model,
            turn=0 if started is None else started.turn,
        )

    async def answer(self, *answers: AnyAnswer) -> tuple[Taken | Outdated, ...]:
        """Answer what the run waits for; see ``upshot.answer``."""
        return await answer_run(self.id, answers, journal=self._journal)

    async def interrupt(self, cause: str = InterruptCause.USER_CANCEL, detail: str = "") -> None:
        """Wish that the run stop at its next safe point; it ends as interrupted.

        Whoever works on it takes the wish up; one that is parked or queued becomes due for it. A
        run that has ended stays as it is. Of several wishes the first one stands.

        Args:
            cause: Whose wish it is: a word of ``InterruptCause`` or one of your own.
            detail: More of it, for people.

        Raises:
            Misuse: There is no such run, or the cause is no text.
            JournalError: The journal cannot be read or written.
        """
        stop = stop_of(self.id, cause, detail)
        if not (await read_begun(self.id, self._journal)).ended:
            await place_stop(stop, self._journal, needs_shared(self._journal))

    async def cancel(self) -> None:
        """End the run as canceled, whoever works on it; see ``upshot.cancel``.

        A run that has ended stays as it is. Where its holder does not answer, the wish is kept.

        Raises:
            Misuse: There is no such run.
            JournalError: The journal cannot be read or written.
        """
        with suppress(RunHeld):
            await end_canceled(self.id, self._journal)

    async def result(self, timeout_s: float | None = None) -> AgentResult[Json] | None:
        """Wait until the run ends or parks.

        Args:
            timeout_s: Seconds to wait; 0 only looks, None waits as long as it takes.

        Returns:
            The result, its output as JSON holds it and its secrets masked. None if the time is up.

        Raises:
            Misuse: There is no such run, or *timeout_s* is no time.
            JournalError: The log is damaged or cannot be read.
        """
        check_amount("timeout_s", timeout_s, none="as long as it takes")
        past = await read_begun(self.id, self._journal)
        try:
            async with asyncio.timeout(timeout_s):
                with watch(self._journal, of_run(self.id)) as changes:
                    while past.last_settled is None:
                        await read_on(past, self.id, self._journal)
                        if past.last_settled is None:
                            await changes.changed()
        except TimeoutError:
            return None
        return result_of(await self._shown(past.seq))

    async def state(self) -> RunState:
        """What the log says of the run up to now, its secrets masked; nothing of a queued run.

        Raises:
            Misuse: There is no such run.
            JournalError: The log is damaged or cannot be read.
        """
        return await self._shown((await read_begun(self.id, self._journal)).seq)

    async def _shown(self, seq: int) -> RunState:
        """The state after an event, its secrets masked."""
        state = RunState()
        events = self._journal.events(self.id)
        async for _, state in states(events, read=lift_secrets(), seeds=seeds_of(self._journal)):
            if state.seq == seq:
                break
        return state


@asynccontextmanager
async def attached(run_id: str, journal: Where) -> AsyncGenerator[RunHandle]:
    """See ``attach``."""
    async with open_journal(journal, create=False) as opened:
        yield await handle_of(run_id, opened)


async def handle_of(run_id: str, journal: Journal) -> RunHandle:
    """The handle of a run that is there."""
    check_run_id(run_id)
    await read_begun(run_id, journal)
    return RunHandle(run_id, journal)
