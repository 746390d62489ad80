"""BatchEngine: a loop whose model calls are batches, between which the run is parked."""

from __future__ import annotations

from collections.abc import AsyncIterator

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse
from upshot.contract.protocols import Model, StreamItem
from upshot.engines.loop import LoopEngine
from upshot.errors import Misuse
from upshot.models.batch_model import BatchModel
from upshot.models.registry import resolve
from upshot.runs.engine_api.exceptions import Failed, Interrupted
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run

_EVERY_S = 300.0


class BatchEngine(LoopEngine):
    """A loop engine that asks its model by batches: cheaper, and within a day.

    Each turn submits a batch with one request and parks the run. Each later session asks the
    provider once: it continues with the reply, or parks the run again. A worker of an ``App`` does
    so by itself; without one, call ``resume``. The submission is logged before and after it is
    made: if a process dies in between, the run fails, since the provider may have the batch.

    The provider's fault of a single question is no fault of the run, which asks again later.

    Args:
        model: A model of a provider that has batches: "openai", "groq" or "anthropic".
        every_s: Seconds between two questions of a worker.

    Raises:
        Misuse: The provider has no batches, or *every_s* is not above 0.
    """

    def __init__(self, model: Model, *, every_s: float = _EVERY_S) -> None:
        if not every_s > 0:
            raise Misuse(f"every_s is {every_s}: give seconds above 0")
        self._batches = BatchModel.of(model)
        self._every_s = every_s
        super().__init__(self._batches)

    async def ask_model(self, run: Run, host: RunHost, request: ModelRequest) -> ModelResponse:
        """Return the reply to *request*, if its batch has one.

        Raises:
            Parked: The batch is in progress.
            Failed: The provider refused the batch.
            Interrupted: The run was asked to stop.
        """
        batches = self._batches
        key = await batches.key_of(request, salt=run.id)

        async def submit() -> Json:
            made = await batches.submit(request, key=key)
            if isinstance(made, str):
                return made
            raise Failed(made)

        batch_id = str(await host.step(f"batch {key}", Effect.WRITE, submit))
        # The batch of a run that is stopped stays, and a later session finds it.
        if (stop := await host.interrupts()) is not None:
            raise Interrupted(stop.cause, stop.detail)
        reply = await batches.poll(batch_id, key=key)
        if isinstance(reply, ModelResponse):
            return await run.call_model(request, model=_Answered(batches.name, reply))
        what = f"the batch {batch_id} of {batches.name}"
        raise host.look_again(f"batch {batch_id}", what, after_s=self._every_s)


class _Answered:
    """A model that has replied already, so that the reply is logged and counted as any other."""

    def __init__(self, name: str, reply: ModelResponse) -> None:
        self.name = name
        self._reply = reply

    async def call(self, request: ModelInput) -> ModelResponse:
        """Return the reply."""
        del request
        return self._reply

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Yield the reply alone."""
        yield await self.call(request)


def batch(model: str | Model, *, every_s: float = _EVERY_S) -> BatchEngine:
    """Return the engine that asks *model* by batches, at a lower price and within a day.

    ``run(agent, "...", engine=batch("openai:gpt-5"), journal="runs.db")`` parks the run; see
    ``BatchEngine``.

    Args:
        model: "provider:model", or what ``resolve`` makes of it.
        every_s: Seconds between two questions of a worker.

    Raises:
        Misuse: There is no such model, or its provider has no batches.
    """
    return BatchEngine(resolve(model) if isinstance(model, str) else model, every_s=every_s)
