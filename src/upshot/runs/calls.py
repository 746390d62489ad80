"""Calling models inside a run: deciders, log, retry, budget and accounting in one place."""

from __future__ import annotations

import asyncio

from ..contract import (
    Clock,
    Model,
    ModelReplied,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    Retry,
)
from ..models import OnRetry, call_with_retry, stream_with_retry
from .hooks import Hooks
from .ledger import Ledger
from .recorder import Recorder
from .signals import Failed

__all__ = ["ModelCaller"]


class ModelCaller:
    """Every model call of a run goes through here, whatever the engine.

    Attributes:
        last: The last reply, None before the first.
        last_limited: The last reply that carried rate-limit windows, None before the first.
    """

    def __init__(
        self, *, recorder: Recorder, ledger: Ledger, hooks: Hooks, retry: Retry | None, clock: Clock
    ) -> None:
        self.last: ModelResponse | None = None
        self.last_limited: ModelResponse | None = None
        self._recorder = recorder
        self._ledger = ledger
        self._hooks = hooks
        self._retry = retry
        self._clock = clock

    async def call(self, model: Model, request: ModelRequest) -> ModelResponse:
        """Ask *model*.

        Returns:
            What came of it; an error is a value here too.

        Raises:
            Failed: A budget is spent, so nothing was asked.
        """
        spent = self._ledger.spent()
        if spent is not None:
            raise Failed(spent)
        request = await self._hooks.before_model(request)
        self._ledger.turns += 1
        turn = self._ledger.turns
        self._recorder.emit(
            ModelStarted(model=model.name, turn=turn, messages=len(request.messages))
        )
        # What was done so far must be safe before more money is spent on it.
        await self._recorder.barrier()
        response, tries = await self._ask(model, request, turn)
        self.note(response)
        self._recorder.emit(
            ModelReplied(model=model.name, turn=turn, tries=tries, response=response)
        )
        return response

    def note(self, response: ModelResponse) -> None:
        """Count *response*, which was just received or stands in the log."""
        self._ledger.add(response)
        self.last = response
        if response.rate_limit is not None:
            self.last_limited = response

    async def _ask(
        self, model: Model, request: ModelRequest, turn: int
    ) -> tuple[ModelResponse, int]:
        """Call or stream, with retry; returns the last reply and how many tries it took."""
        failed = 0

        def on_retry(tries: int, wait_s: float, response: ModelResponse) -> None:
            nonlocal failed
            failed = tries
            self.note(response)
            self._recorder.emit(
                ModelRetried(
                    model=model.name, turn=turn, tries=tries, wait_s=wait_s, response=response
                )
            )

        try:
            if self._recorder.watched:
                response = await self._stream(model, request, on_retry)
            else:
                response, _ = await call_with_retry(
                    lambda: model.call(request),
                    self._retry,
                    clock=self._clock,
                    deadline_monotonic=self._ledger.deadline,
                    on_retry=on_retry,
                )
        except asyncio.CancelledError:
            # The provider may have worked, and nobody will know for how much.
            self._ledger.add_unfinished()
            raise
        return response, failed + 1

    async def _stream(
        self, model: Model, request: ModelRequest, on_retry: OnRetry
    ) -> ModelResponse:
        """Show the pieces of the reply to watchers as they come; returns the whole."""
        response = ModelResponse()
        items = stream_with_retry(
            lambda: model.stream(request),
            self._retry,
            clock=self._clock,
            deadline_monotonic=self._ledger.deadline,
            on_retry=on_retry,
        )
        async for item in items:
            if isinstance(item, ModelResponse):
                response = item
            else:
                self._recorder.emit(item)
        return response
