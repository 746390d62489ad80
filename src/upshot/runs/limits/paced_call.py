"""What holds a model call back: the pacer's line, and quotas."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.protocols import Clock, Model, StreamItem
from upshot.contract.run_control import Interrupt
from upshot.models.retry import read_stream
from upshot.runs.engine_api.exceptions import Interrupted
from upshot.runs.limits.pacer import Pacer, Place

if TYPE_CHECKING:
    from upshot.runs.run_context import RunContext


def paced_call(
    context: RunContext, model: Model, request: ModelRequest, known: Interrupt | None
) -> PacedCall | None:
    """What holds back a model call of a run, None where nothing does."""
    pacer = context.plan.pacer
    return None if pacer is None else PacedCall(pacer, context, model, request, known)


class PacedCall:
    """One model call, each of whose tries waits for its turn.

    Args:
        pacer: Says when it is.
        context: Of the run.
        model: Which is asked.
        request: What is sent.
        known: The request to stop that was known before the call, None without one.
    """

    def __init__(
        self,
        pacer: Pacer,
        context: RunContext,
        model: Model,
        request: ModelRequest,
        known: Interrupt | None,
    ) -> None:
        self._pacer = pacer
        self._context = context
        self._model = model
        self._request = request
        self._known = known
        self._place: Place | None = None
        self._sent_s = 0.0

    def call_by(
        self, call: Callable[[], Awaitable[ModelResponse]]
    ) -> Callable[[], Awaitable[ModelResponse]]:
        """*call*, made when it is its turn."""

        async def paced() -> ModelResponse:
            if (refused := await self._wait()) is not None:
                return refused
            try:
                return self._settle(await call())
            finally:
                self._abandon()

        return paced

    def stream_by(
        self, stream: Callable[[], AsyncIterator[StreamItem]]
    ) -> Callable[[], AsyncIterator[StreamItem]]:
        """*stream*, begun when it is its turn."""

        async def paced() -> AsyncIterator[StreamItem]:
            if (refused := await self._wait()) is not None:
                yield refused
                return
            try:
                async with aclosing(read_stream(stream)) as items:
                    async for item in items:
                        yield self._settle(item) if isinstance(item, ModelResponse) else item
            finally:
                self._abandon()

        return paced

    async def _wait(self) -> ModelResponse | None:
        """Wait for the turn of a try.

        Returns:
            Why it shall not be made; None if it shall.

        Raises:
            Interrupted: The run was asked to stop meanwhile.
        """
        context, plan = self._context, self._context.plan
        deadline, clock = context.budget.deadline, plan.clock
        last = next(reversed(context.state.replies.values()), None)
        place = self._pacer.ask(
            self._model,
            self._request,
            journal=plan.journal,
            last=None if last is None else last.usage,
            priority=plan.priority,
            most_s=math.inf if deadline is None else deadline - clock.monotonic(),
        )
        try:
            if context.interrupt is not None and context.interrupt is self._known:
                # Asked for in spite of the wish to stop.
                await place.wait(clock)
            else:
                await context.supervisor.pause(0, _Turn(place, clock))
        finally:
            if not place.is_ready:
                place.leave()
        if not place.is_ready:
            asked = context.interrupt or Interrupt()
            raise Interrupted(asked.cause, asked.detail)
        if place.refusal is not None:
            return ModelResponse(error=place.refusal)
        self._place, self._sent_s = place, clock.monotonic()
        return None

    def _settle(self, response: ModelResponse) -> ModelResponse:
        """Tell what came of the try; returns it with how long the try waited for its turn."""
        place, self._place = self._place, None
        if place is None:
            return response
        place.settle(response, self._context.plan.clock.monotonic() - self._sent_s)
        waited_ms = round(place.waited_s * 1000)
        if not waited_ms:
            return response
        return replace(response, provider_data={**response.provider_data, "paced_ms": waited_ms})

    def _abandon(self) -> None:
        """Tell that nobody knows what came of the try, unless that was told."""
        place, self._place = self._place, None
        if place is not None:
            place.abandon()


class _Turn:
    """A clock whose waits end with the turn of a place."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self.now: Callable[[], datetime] = clock.now
        self.monotonic: Callable[[], float] = clock.monotonic

    async def sleep(self, delay_s: float) -> None:
        """Wait for the turn."""
        await self._place.wait(self._clock)
