"""RunHandle: watch and answer a run from any process, whichever process works on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, Unpack
from uuid import uuid4

from upshot.contract.base.checks import check_amount, format_value
from upshot.contract.base.enums import InterruptCause
from upshot.contract.base.structs import Json
from upshot.contract.events import Event, RunResumed, RunSettled
from upshot.contract.message import Unknown
from upshot.contract.model_calls import ModelRetried
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import Journal, Note, RunFilters, RunSummary
from upshot.contract.result import AgentResult
from upshot.entry.answers import (
    Allow,
    NotAsked,
    answer_run,
    is_settled,
    unlogged_answers,
    with_placed_approvals,
)
from upshot.entry.handoff_loop import following_run, whole_result
from upshot.entry.resume import fold_new_events, read_begun, with_settlements
from upshot.entry.session_setup import end_canceled, has_log
from upshot.entry.signals import Delivery, send_signal
from upshot.entry.stops import place_stop, stop_of
from upshot.errors import Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import open_journal
from upshot.journal.pieces import parse_cursor, pieces_of
from upshot.journal.shared import needs_shared, shared_journal
from upshot.journal.watching import of_run, watch
from upshot.runs.plan import Where, check_run_id
from upshot.runs.redaction import lift_secrets
from upshot.state.run_state import RunState
from upshot.state.signals import check_signal_name
from upshot.state.stored_events import next_event, result_of, seeds_of, states

Until = Literal["ended", "parked"]
_PAGE = 500


class RunHandle:
    """A handle to a run of a journal; it neither claims nor works on the run.

    ``attach`` and an App return one.

    If the run handed its request over and other runs follow it, as with ``run_with_handoffs`` and
    in an App, events, result, answers and stops are those of the whole chain.

    Args:
        run_id: The run.
        journal: The open journal that has its log.
        secrets: The secrets of the run; they are masked where an answer is stored.

    Attributes:
        id: The run.
    """

    def __init__(self, run_id: str, journal: Journal, *, secrets: Sequence[str] = ()) -> None:
        self.id: str = run_id
        self._secrets = secrets
        self._journal = journal

    def __repr__(self) -> str:
        return f"RunHandle({self.id})"

    async def events(
        self, *, after: int | str = 0, until: Until = "ended", deltas: bool = False
    ) -> AsyncGenerator[Event]:
        """Yield the events of the run: first the stored ones, then new ones as they arrive.

        Any number of readers may watch, each from any place; secrets are masked. If the run handed
        its request over, the events of the next run follow, with its own ``run_id`` and ``seq``
        from 1.

        Args:
            after: Only events after this place: the ``seq`` of a durable event, or
                ``f"{seq}.{part}"`` of a delta. Put ``f"{run_id}/"`` before it for a run that
                follows in the chain.
            until: Where to stop: "ended" is the end of the run, across any parks; "parked" stops at
                the first park too, unless it was answered or the run has continued since.
            deltas: Whether to yield pieces of replies and tools' progress too, merged into one each
                100 ms, starting with those since the last durable event. A model call that starts
                while no reader asks for deltas has none. When another session repeats a model call,
                the pieces so far are void: a ``ModelRetried`` with a ``part`` says so.

        Raises:
            Misuse: There is no such run, or an argument is wrong.
            JournalError: The log is damaged or cannot be read.
        """
        if until not in ("ended", "parked"):
            raise Misuse(f"until must be 'ended' or 'parked', got {format_value(until)}")
        run_id, place = await self.check_place(after)
        while run_id:
            last: Event | None = None
            async for event in self._events_of(run_id, place, until, deltas=deltas):
                last = event
                yield event
            is_end = last is None or (isinstance(last, RunSettled) and last.result.handoff)
            run_id = await self._next_run_of(run_id) if is_end else ""
            place = 0, 0

    async def check_place(self, after: int | str) -> tuple[str, tuple[int, int]]:
        """Return the run and the place in it that *after* of ``events`` names.

        Raises:
            Misuse: It names no place.
        """
        named, slash, number = after.rpartition("/") if isinstance(after, str) else ("", "", "")
        place = parse_cursor(number if slash else after)
        if named and named not in await self._chain():
            raise Misuse(f"after names run {named!r}, which is not {self.id!r} and does not follow")
        return named or self.id, place

    async def _events_of(
        self, run_id: str, place: tuple[int, int], until: Until, *, deltas: bool
    ) -> AsyncGenerator[Event]:
        """Yield the events of one run of the chain after a place."""
        past = await read_begun(run_id, self._journal)
        state, read = RunState(), lift_secrets()
        shows = shared_journal(self._journal) if deltas else None
        topics = [of_run(run_id), *([] if shows is None else [pieces_of(run_id)])]
        with watch(self._journal, *topics) as changes:
            while True:
                async for stored in self._journal.events(run_id, after=state.seq):
                    if isinstance(stored, RunResumed) and state.seq == place[0] and place[1]:
                        yield self._void_event(state, place[1] + 1)
                    event = await next_event(state, stored, read, seeds_of(self._journal))
                    if event.seq > place[0]:
                        place = event.seq, 0
                        yield event
                    # Only the last settlement counts; the run continued after an earlier one.
                    is_last = isinstance(event, RunSettled) and event.seq >= past.seq
                    if is_last and (
                        state.ended or (until == "parked" and await self._is_waiting(state))
                    ):
                        return
                if shows is not None and state.seq == place[0]:
                    for piece in shows.pieces(run_id, *place):
                        if not isinstance(piece, Unknown):
                            place = piece.seq, piece.part
                            yield piece
                if state.started is None and not await is_known(run_id, self._journal):
                    # The handoff was not followed.
                    return
                await changes.changed()

    def _void_event(self, state: RunState, part: int) -> ModelRetried:
        """Return an event that voids the pieces shown of the current reply."""
        started = next(reversed(state.models.values()), None)
        return ModelRetried(
            run_id="" if state.started is None else state.started.run_id,
            seq=state.seq,
            part=part,
            model="" if started is None else started.model,
            turn=0 if started is None else started.turn,
        )

    async def answer(self, *answers: AnyAnswer) -> tuple[Taken | Outdated, ...]:
        """Answer what the run waits for; see ``upshot.answer``."""
        return await self.answer_if(None, answers)

    async def answer_if(
        self, allow: Allow | None, answers: Sequence[AnyAnswer]
    ) -> tuple[Taken | Outdated, ...]:
        """Answer what the run waits for, unless *allow* refuses at that moment."""
        *earlier, last = await self._chain()
        try:
            return await self._answer(last, answers, allow)
        except NotAsked:
            # The run that asked has handed the request over since.
            for run_id in reversed(earlier):
                with suppress(NotAsked):
                    return await self._answer(run_id, answers, allow)
            raise

    async def _answer(
        self, run_id: str, answers: Sequence[AnyAnswer], allow: Allow | None
    ) -> tuple[Taken | Outdated, ...]:
        journal, secrets = self._journal, self._secrets
        return await answer_run(run_id, answers, journal=journal, secrets=secrets, allow=allow)

    async def signal(
        self, name: str, value: Json = None, *, key: str = "", by: str = ""
    ) -> Delivery:
        """Send a signal to the run, for ``host.wait_signal(name)``.

        It is kept until the run waits for it, and each wait takes one. A parked run that waits for
        it becomes due. If the request was handed over, the last run of the chain gets it, and what
        an earlier one has not read.

        Args:
            name: The name of the signal.
            value: What the wait returns.
            key: Identifies the signal, such as the id of a webhook's event: a second one with the
                same key is not delivered. "" for none.
            by: Who sends it, "" if unknown.

        Returns:
            "delivered"; "repeated" if an earlier signal had the key; or "ended" if the run has
            ended, so that nothing reads it.

        Raises:
            Misuse: There is no such run, the name is not allowed, or JSON cannot express the value.
            JournalError: The journal cannot be read or written.
        """
        delivery: Delivery = "ended"
        is_sent, key = False, key or uuid4().hex
        run_id = (await self._chain())[-1]
        while run_id:
            sent = await send_signal(run_id, name, value, journal=self._journal, key=key, by=by)
            is_sent = is_sent or sent == "delivered"
            delivery = "delivered" if is_sent and sent == "repeated" else sent
            # It may have handed its request over before it read the signal.
            run_id = await self._next_run_of(run_id)
        return delivery

    async def interrupt(self, cause: str = InterruptCause.USER_CANCEL, detail: str = "") -> None:
        """Request that the run stop at its next safe point; it ends as interrupted.

        The process that works on it acts on the request; a parked or queued run becomes due for it.
        A run that has ended stays as it is. The first request wins.

        Args:
            cause: Who or what wants the stop: a word of ``InterruptCause`` or one of your own.
            detail: Further explanation, for people.

        Raises:
            Misuse: There is no such run, or the cause is not a string.
            JournalError: The journal cannot be read or written.
        """
        run_id = (await self._chain())[-1]
        stop = stop_of(run_id, cause, detail)
        if not (await read_begun(run_id, self._journal)).ended:
            await place_stop(stop, self._journal, needs_shared(self._journal))

    async def cancel(self) -> None:
        """Cancel the run, whichever process works on it; see ``upshot.cancel``.

        A run that has ended stays as it is. If its holder does not respond, the request stays in
        force.

        Raises:
            Misuse: There is no such run.
            JournalError: The journal cannot be read or written.
        """
        run_id = (await self._chain())[-1]
        while run_id:
            with suppress(RunHeld):
                await end_canceled(run_id, self._journal)
            # It may have handed its request over before it saw the cancel.
            run_id = await self._next_run_of(run_id)

    async def result(self, timeout_s: float | None = None) -> AgentResult[Json] | None:
        """Wait until the run ends, or parks with an unanswered question.

        Args:
            timeout_s: Seconds to wait; 0 only checks, None waits as long as it takes.

        Returns:
            The result, with its output as JSON and its secrets masked, or None if the time is up.
            If the request was handed over, it is the result of the last run, with the usage, cost
            and path of all.

        Raises:
            Misuse: There is no such run, or *timeout_s* is not a duration.
            JournalError: The log is damaged or cannot be read.
        """
        check_amount("timeout_s", timeout_s, none="as long as it takes")
        await read_begun(self.id, self._journal)
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        run_id, found = self.id, RunState()
        try:
            while run_id and (seq := await self._wait_settled(run_id, until)):
                found = await self._read_state(run_id, seq)
                run_id = await next_in_chain(found, self._journal)
        except TimeoutError:
            return None
        if (result := result_of(found)) is None:
            return None
        result = await with_placed_approvals(result, self._journal)
        return whole_result(found, await with_settlements(result, self._journal))

    async def _wait_settled(self, run_id: str, until: float | None) -> int:
        """Wait for a run of the chain to end, or to park with something to answer; return its seq.

        Return 0 for a run that will never start.
        """
        past = RunState()
        with watch(self._journal, of_run(run_id)) as changes:
            while True:
                await fold_new_events(past, run_id, self._journal)
                if _is_parked(past) and await self._is_waiting(past):
                    # Read again: the run may have continued and parked again during that check.
                    await fold_new_events(past, run_id, self._journal)
                    if _is_parked(past):
                        return past.seq
                if past.ended or not (past.seq or await is_known(run_id, self._journal)):
                    return past.seq
                async with asyncio.timeout_at(until):
                    await changes.changed()

    async def _is_waiting(self, past: RunState) -> bool:
        """Whether a run is parked, unanswered and not resumed."""
        run_id = "" if past.started is None else past.started.run_id
        if not await self._journal.runs("parked", run_id=run_id):
            return False
        if await is_settled(past, self._journal):
            return False
        placed = await unlogged_answers(past, run_id, self._journal)
        return all(one.part for one in placed)

    async def last_run(self) -> RunHandle:
        """Return the handle of the run that has the request now.

        This is the run itself, or the last one if it handed its request over.

        Raises:
            Misuse: There is no such run.
            JournalError: The log is damaged or cannot be read.
        """
        run_id = (await self._chain())[-1]
        return RunHandle(run_id, self._journal, secrets=self._secrets)

    async def _chain(self) -> list[str]:
        """Return the run and those that its request was handed over to."""
        return await chain_from(self.id, self._journal)

    async def _next_run_of(self, run_id: str) -> str:
        return await next_in_chain(await read_begun(run_id, self._journal), self._journal)

    async def notes(self) -> Sequence[Note]:
        """Return the notes that users attached to the run, oldest first; see ``upshot.note``."""
        return await needs_shared(self._journal).notes(self.id)

    async def summary(self) -> RunSummary:
        """Return the run as the list of runs has it. This reads no log, however long that is.

        Raises:
            Misuse: There is no such run.
        """
        for found in await self._journal.runs(run_id=self.id):
            return found
        raise Misuse(f"the journal has no run {self.id!r}")

    async def state(self) -> RunState:
        """Return the state that the log holds now, secrets masked; empty for a queued run.

        Raises:
            Misuse: There is no such run.
            JournalError: The log is damaged or cannot be read.
        """
        return await self._read_state(self.id, (await read_begun(self.id, self._journal)).seq)

    async def _read_state(self, run_id: str, seq: int) -> RunState:
        """Return the state of a run after the event *seq*, secrets masked."""
        state = RunState()
        events = self._journal.events(run_id)
        async for _, state in states(events, read=lift_secrets(), seeds=seeds_of(self._journal)):
            if state.seq == seq:
                break
        return state


async def broadcast_signal(
    name: str,
    value: Json,
    *,
    journal: Journal,
    key: str = "",
    by: str = "",
    **filters: Unpack[RunFilters],
) -> list[str]:
    """Send a signal to every run that has not ended; see ``upshot.broadcast``."""
    check_signal_name(name)
    key, before, found = key or uuid4().hex, "", list[str]()
    while page := await journal.runs(**{"limit": _PAGE, **filters, "before": before}):
        for run in page:
            if run.ended:
                continue
            delivery = await RunHandle(run.run_id, journal).signal(name, value, key=key, by=by)
            found += [run.run_id] if delivery != "ended" else []
        before = page[-1].run_id
    return found


async def chain_from(run_id: str, journal: Journal) -> list[str]:
    """Return a run and those that its request was handed over to.

    Raises:
        Misuse: There is no such run.
    """
    found = [run_id]
    while following := await next_in_chain(await read_begun(found[-1], journal), journal):
        found.append(following)
    return found


async def next_in_chain(past: RunState, journal: Journal) -> str:
    """Return the run that the request was handed over to, or "" if there is none."""
    following = following_run(past)
    return following if following and await is_known(following, journal) else ""


async def is_known(run_id: str, journal: Journal) -> bool:
    """Whether a run has started or was submitted."""
    shared = shared_journal(journal)
    is_submitted = shared is not None and await shared.submission(run_id) is not None
    return is_submitted or await has_log(run_id, journal)


def _is_parked(state: RunState) -> bool:
    return state.last_settled is not None and not state.ended


@asynccontextmanager
async def attached(run_id: str, journal: Where) -> AsyncGenerator[RunHandle]:
    """See ``attach``."""
    async with open_journal(journal, create=False) as opened:
        yield await handle_of(run_id, opened)


async def handle_of(run_id: str, journal: Journal, *, secrets: Sequence[str] = ()) -> RunHandle:
    """Return the handle of an existing run."""
    check_run_id(run_id)
    await read_begun(run_id, journal)
    return RunHandle(run_id, journal, secrets=secrets)
