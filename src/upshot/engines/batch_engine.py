"""BatchEngine: a loop whose model calls are batches; the run is parked during each."""

from __future__ import annotations

from collections.abc import AsyncIterator

from upshot.contract.base.enums import Effect, ErrorCode
from upshot.contract.base.structs import Json
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse
from upshot.contract.protocols import Model, StreamItem
from upshot.engines.loop import LoopEngine
from upshot.errors import Misuse
from upshot.models.batch_model import BatchModel
from upshot.models.registry import resolve
from upshot.runs.engine_api.exceptions import Failed, Interrupted, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run

_EVERY_S = 300.0


class BatchEngine(LoopEngine):
    """A loop engine that asks its model by batches: cheaper, and within a day.

    Each turn submits a batch with one request and parks the run. Each later session asks the
    provider once: it continues with the reply, or parks the run again. A worker of an ``App`` does
    so by itself; without one, call ``resume``. The submission is logged before and after it is
    made. If a process dies in between, the next session looks for the batch in the provider's list,
    and submits it again only if it is not there. If the list cannot tell, the run fails, since the
    provider may have the batch.

    If asking the provider fails once, the run does not fail: it asks again later.

    Args:
        model: A model of a provider that has batches.
        every_s: Seconds between two questions of a worker.
        place: Where the requests and results are, for a provider that does not keep them: for
            Vertex AI a folder such as "gs://bucket/batches", for Fireworks "accounts/NAME".

    Raises:
        Misuse: The provider has no batches that a run can use, *place* is missing, wrong or not
            wanted, or *every_s* is not above 0.
    """

    def __init__(
        self, model: Model, *, every_s: float = _EVERY_S, place: str | None = None
    ) -> None:
        if not every_s > 0:
            raise Misuse(f"every_s is {every_s}: give seconds above 0")
        self._batches = BatchModel.of(model, place=place)
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
        batch_id = await self._submit_once(host, request, key)
        # The batch of a run that is stopped stays, and a later session finds it.
        if (stop := await host.interrupts()) is not None:
            raise Interrupted(stop.cause, stop.detail)
        reply = await batches.poll(batch_id, key=key)
        if isinstance(reply, ModelResponse):
            return await run.call_model(request, model=_Answered(batches.name, reply))
        raise self._look_again(host, batch_id)

    async def _submit_once(self, host: RunHost, request: ModelRequest, key: str) -> str:
        """Return the id of the batch, which no session submits while it may already exist."""
        batches = self._batches

        async def submit() -> Json:
            made = await batches.submit(request, key=key)
            if isinstance(made, AgentError):
                raise Failed(made)
            if made is None:
                raise self._look_again(host, key)
            return made

        try:
            return str(await host.step(f"batch {key}", Effect.WRITE, submit))
        except Failed as failure:
            if failure.error.code != ErrorCode.INTERRUPTED:
                raise
            found = await batches.find(key=key)
            if found is None:
                raise
        if isinstance(found, AgentError):
            raise self._look_again(host, key)

        async def settle() -> Json:
            return found or await submit()

        # If this is interrupted too, the next session looks again.
        return str(await host.step(f"batch {key} again", Effect.WRITE, settle, idempotent=True))

    def _look_again(self, host: RunHost, batch_id: str) -> Parked:
        what = f"the batch {batch_id} of {self._batches.name}"
        return host.look_again(f"batch {batch_id}", what, after_s=self._every_s)


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


def batch(
    model: str | Model, *, every_s: float = _EVERY_S, place: str | None = None
) -> BatchEngine:
    """Return the engine that asks *model* by batches, at a lower price and within a day.

    ``run(agent, "...", engine=batch("openai:gpt-5"), journal="runs.db")`` parks the run; see
    ``BatchEngine``.

    Args:
        model: "provider:model", or what ``resolve`` makes of it.
        every_s: Seconds between two questions of a worker.
        place: Where the requests and results are, for a provider that does not keep them.

    Raises:
        Misuse: There is no such model, or its provider has no batches that a run can use; or
            *place* is missing, wrong or not wanted.
    """
    model = resolve(model) if isinstance(model, str) else model
    return BatchEngine(model, every_s=every_s, place=place)
