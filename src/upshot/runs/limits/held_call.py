"""A model call that may have to wait: for quotas, and for its turn in the pacer's queue."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextvars import Context
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from upshot.contract.error import AgentError
from upshot.contract.model_calls import (
    ModelReplied,
    ModelRequest,
    ModelResponse,
    ModelStarted,
    with_earlier,
)
from upshot.contract.protocols import Clock, Model
from upshot.contract.run_control import Interrupt
from upshot.contract.settings import ModelSettings
from upshot.journal.shared import SharedJournal, SharedValues, needs_shared
from upshot.runs.engine_api.exceptions import Failed, Interrupted
from upshot.runs.limits.pacer import Place
from upshot.runs.limits.quotas import Bounds, Reservation, bounds_of, reserve, settle, used_by

if TYPE_CHECKING:
    from upshot.runs.run_context import RunContext

# Tasks that settle reservations. The event loop alone does not keep a task alive.
_settling_tasks: set[asyncio.Task[None]] = set()


class HeldCall:
    """A model call of a run with quotas or a pacer: what its tries reserve, and their waits.

    Args:
        context: The run.
        model: The model to call.
        request: The request to send.
        known: The request to stop that came before the call, None without one.
    """

    def __init__(
        self, context: RunContext, model: Model, request: ModelRequest, known: Interrupt | None
    ) -> None:
        self._context = context
        self._model = model
        self._request = request
        self._known = known
        self._bounds: Bounds | None = None
        self._reserved: Reservation | None = None
        self._place: Place | None = None
        self._earlier_failures: tuple[ModelResponse, ...] = ()
        self._sent_s = 0.0

    async def begin(self, started: ModelStarted) -> ModelRequest:
        """Log the start of the call, together with the reservation for its first try.

        Returns:
            The request to send, with a limit on its reply if a quota needs one.

        Raises:
            Failed: A quota does not allow it.
            JournalError: The journal cannot be written.
        """
        context, journal = self._context, self._journal
        if journal is None:
            context.recorder.emit(started)
            await context.recorder.barrier()
            return self._request
        bounds = await bounds_of(self._model, self._request, _last_input(context))
        run_id = context.info.run_id
        new_run = "" if context.state.models else run_id
        await journal.settle_claim(run_id)
        # One transaction, so that a call whose start is logged also has its reservation.
        with journal.together():
            context.recorder.emit(started)
            deciding = journal.begin_change(self._reservation_change(bounds, new_run))
        decided = await deciding
        await context.recorder.barrier()
        if isinstance(decided, AgentError):
            response = ModelResponse(error=decided)
            replied = ModelReplied(
                model=started.model,
                turn=started.turn,
                tries=1,
                response=response,
                purpose=started.purpose,
            )
            context.recorder.emit(replied)
            raise Failed(decided)
        self._reserved, self._bounds = decided, bounds
        if bounds.max_tokens is None and decided.max_tokens is not None:
            self._bounds = bounds._replace(max_tokens=decided.max_tokens)
            settings = ModelSettings(max_tokens=decided.max_tokens)
            before = self._request.settings
            settings = settings if before is None else before.merge(settings)
            self._request = replace(self._request, settings=settings)
        return self._request

    def call_by(
        self, call: Callable[[], Awaitable[ModelResponse]]
    ) -> Callable[[], Awaitable[ModelResponse]]:
        """Return *call*, wrapped so that it waits for its turn."""

        async def held() -> ModelResponse:
            if (refused := await self._reserve_and_wait()) is not None:
                return refused
            self._earlier_failures = ()
            try:
                return self._report(await call())
            finally:
                self._drop_place()

        return held

    def pass_on(self, response: ModelResponse) -> None:
        """Count the failed *response* of a Fallback's model to what the try used."""
        self._earlier_failures = (*self._earlier_failures, response)

    @property
    def _journal(self) -> SharedJournal | None:
        """The journal that stores the quotas, None without quotas."""
        plan = self._context.plan
        return needs_shared(plan.journal) if plan.quotas and plan.journal is not None else None

    def _reservation_change(
        self, bounds: Bounds, new_run: str
    ) -> Callable[[SharedValues], Reservation | AgentError]:
        return partial(reserve, quotas=self._context.plan.quotas, bounds=bounds, new_run=new_run)

    async def _reserve_and_wait(self) -> ModelResponse | None:
        """Reserve for a try and wait for its turn. Returns an error if it must not be made.

        Raises:
            Interrupted: The run was asked to stop during the wait.
        """
        journal = self._journal
        if journal is not None and self._reserved is None and self._bounds is not None:
            decided = await journal.change_values(self._reservation_change(self._bounds, ""))
            if isinstance(decided, AgentError):
                return ModelResponse(error=decided)
            self._reserved = decided
        is_entered, refusal = False, None
        try:
            refusal = await self._wait_for_turn()
            is_entered = refusal is None
        finally:
            if not is_entered:
                self._settle_reservation(
                    ModelResponse(error=AgentError(details={"phase": "unsent"}))
                )
        return None if refusal is None else ModelResponse(error=refusal)

    async def _wait_for_turn(self) -> AgentError | None:
        """Wait for the turn. Returns an error if the wait is refused, else None."""
        context, plan = self._context, self._context.plan
        if plan.pacer is None:
            return None
        deadline, clock = context.budget.deadline, plan.clock
        last = next(reversed(context.state.replies.values()), None)
        place = plan.pacer.ask(
            self._model,
            self._request,
            journal=plan.journal,
            last=None if last is None else last.usage,
            priority=plan.priority,
            most_s=math.inf if deadline is None else deadline - clock.monotonic(),
        )
        try:
            if context.interrupt is not None and context.interrupt is self._known:
                # The engine made this call after the request to stop, so ignore that request.
                await place.wait(clock)
            else:
                await context.supervisor.pause(0, _TurnClock(place, clock))
        finally:
            if not place.is_ready:
                place.leave()
        if not place.is_ready:
            asked = context.interrupt or Interrupt()
            raise Interrupted(asked.cause, asked.detail)
        if place.refusal is None:
            self._place, self._sent_s = place, clock.monotonic()
        return place.refusal

    def _report(self, response: ModelResponse) -> ModelResponse:
        """Report the result of a try; returns the response with the time that the try waited."""
        whole = with_earlier(response, self._earlier_failures)
        self._settle_reservation(whole)
        place, self._place = self._place, None
        if place is None:
            return response
        place.settle(whole, self._context.plan.clock.monotonic() - self._sent_s)
        waited_ms = round(place.waited_s * 1000)
        if not waited_ms:
            return response
        return replace(response, provider_data={**response.provider_data, "paced_ms": waited_ms})

    def _settle_reservation(self, response: ModelResponse) -> None:
        """Settle the reservation without waiting for the journal."""
        reserved, self._reserved = self._reserved, None
        journal = self._journal
        if reserved is None or journal is None:
            return
        cost_usd, tokens = used_by(response, reserved)
        change = partial(settle, reserved=reserved, cost_usd=cost_usd, tokens=tokens)
        loop = asyncio.get_running_loop()
        # In an empty context, so that the end of the run does not cancel it.
        task = loop.create_task(_apply_change(journal, change), context=Context())
        _settling_tasks.add(task)
        task.add_done_callback(_discard_task)

    def _drop_place(self) -> None:
        """Drop the place of a try whose outcome is unknown: all reserved counts as used."""
        place, self._place, self._reserved = self._place, None, None
        if place is not None:
            place.abandon()


class _TurnClock:
    """A clock whose sleep ends when it is the turn of a place."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self.now: Callable[[], datetime] = clock.now
        self.monotonic: Callable[[], float] = clock.monotonic

    async def sleep(self, delay_s: float) -> None:
        """Wait for the turn."""
        await self._place.wait(self._clock)


async def _apply_change(journal: SharedJournal, change: Callable[[SharedValues], None]) -> None:
    await journal.change_values(change)


def _discard_task(task: asyncio.Task[None]) -> None:
    _settling_tasks.discard(task)
    # If this could not be written, the whole reservation counts, so no cap is exceeded.
    if not task.cancelled():
        task.exception()


def _last_input(context: RunContext) -> tuple[int, int]:
    """Return the input tokens and the message count of the last request; zeros for none."""
    for turn, reply in reversed(context.state.replies.items()):
        started = context.state.models.get(turn)
        tokens = reply.usage.input_tokens
        if started is None or started.request is None or tokens is None:
            break
        return tokens, started.request.count
    return 0, 0
