"""A model whose calls are batches: submitted now, answered within a day, at a lower price."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

from msgspec.structs import replace

from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse
from upshot.errors import Misuse, UpshotError
from upshot.models.http_model import HttpModel, close_reader
from upshot.wire.batch_forms import FORMS, NO_FORMS
from upshot.wire.batches import (
    BATCH_TIER,
    BatchAnswer,
    BatchCall,
    BatchCalls,
    BatchForm,
    BatchResult,
    BatchTarget,
    batch_error,
)

_T = TypeVar("_T")


class BatchModel(HttpModel):
    """The model behind an endpoint, which can also be asked by batches.

    ``call`` and ``stream`` ask at once, at the usual price. A batch here has one request, so that
    each has its own end. Retrying is up to the caller.
    """

    _batches: BatchForm

    @staticmethod
    def of(model: object, *, place: str | None = None) -> BatchModel:
        """Return *model*, as ``resolve`` makes it, as a model that can be asked by batches.

        Args:
            model: The model.
            place: Where the requests and results are, for a provider that does not keep them.

        Raises:
            Misuse: The provider has no batches that a run can use, or not of this surface; or
                *place* is missing, has another form than the provider's, or is not wanted.
        """
        if isinstance(model, BatchModel) and place is None:
            return model
        provider = model._provider if isinstance(model, HttpModel) else ""
        if not isinstance(model, HttpModel) or provider not in FORMS:
            reason = NO_FORMS.get(provider) or f"{', '.join(FORMS)} have"
            raise Misuse(f"{model!r} has no batches that a run can use: {reason}")
        form = FORMS[provider]
        if model._surface not in form.surfaces:
            allowed = ", ".join(sorted(form.surfaces))
            raise Misuse(f"the batches of {provider} are for {allowed}, got {model._surface}")
        made = BatchModel(
            model._model,
            model._endpoint,
            settings=model._settings,
            transport=model._transport,
            timeouts=model._timeouts,
            limits=model._limits,
            prices=model._prices,
            clock=model._clock,
        )
        where = _check_place(provider, form, place)
        target = BatchTarget(model._endpoint.beside, model._surface, model._model, where)
        made._batches = form(target)
        return made

    async def key_of(self, request: ModelInput, *, salt: str) -> str:
        """Return the key of a request: the same for the same request and *salt*."""
        body = await self._encode(ModelRequest.of(request), stream=False)
        return blake2b(salt.encode() + b"\0" + body, digest_size=16).hexdigest()

    async def submit(self, request: ModelInput, *, key: str) -> str | AgentError | None:
        """Start a batch with one request.

        Args:
            request: The request.
            key: Names it: letters, digits, "-" and "_", at most 64.

        Returns:
            The provider's id of the batch; why there is none; or None if the provider is still
            busy with the request's file, and the same call a little later continues.
        """
        body = await self._encode(ModelRequest.of(request), stream=False)
        made = await self._walk(self._batches.submit(key, body))
        return batch_error("the provider named no batch") if made == "" else made

    async def find(self, *, key: str) -> str | AgentError | None:
        """Look for the batch that an earlier ``submit`` may have started.

        Returns:
            The provider's id of it; "" if it certainly started none; None if the provider cannot
            say; or why the question failed.
        """
        return await self._walk(self._batches.find(key))

    async def poll(self, batch_id: str, *, key: str) -> ModelResponse | AgentError | None:
        """Ask for the result of a batch.

        Returns:
            The response; None while the batch is in progress; or why the question failed, which
            says nothing about the batch.
        """
        result = await self._walk(self._batches.poll(batch_id, key, self._clock.now()))
        return self._to_response(result) if isinstance(result, BatchResult) else result

    def _to_response(self, result: BatchResult) -> ModelResponse:
        reader = self._reader({})
        if result.error is not None:
            response = reader.fail(result.error)
        elif result.status >= 400:
            response = reader.refuse(result.status, result.body)
        else:
            reader.feed(result.body)
            response = close_reader(reader)
        data: JsonObject = {**response.provider_data, "service_tier": BATCH_TIER}
        response = replace(response, provider_data=data)
        return self._settle(response, ModelRequest(()), self._clock.monotonic(), {})

    async def _walk(self, calls: BatchCalls[_T]) -> _T | AgentError:
        """Send what *calls* asks for until it returns, or until an answer is an error."""
        answer: BatchAnswer | None = None
        while True:
            # Before the next call is made: it may be that only now its address is known.
            headers = await self._endpoint.headers()
            if isinstance(headers, AgentError):
                return headers
            try:
                call = next(calls) if answer is None else calls.send(answer)
            except StopIteration as end:
                return end.value
            answered = await self._exchange(call, headers)
            if isinstance(answered, AgentError):
                return answered
            answer = answered

    async def _exchange(self, call: BatchCall, headers: dict[str, str]) -> BatchAnswer | AgentError:
        """Send one request beside the surface's own, and return the answer or the error."""
        headers["content-type"] = call.form
        headers = self._endpoint.signed(call.url, headers, call.body)
        if call.is_open:
            headers = {"user-agent": headers["user-agent"]}
        try:
            async with self._transport_of().send(
                call.method, call.url, headers, call.body, timeouts=self._timeouts
            ) as (status, _, pieces):
                data, limit = bytearray(), self._limits.reply_bytes
                async for piece in pieces:
                    data += piece
                    if len(data) > limit:
                        return batch_error(f"a result is larger than {limit:,} bytes")
        except UpshotError:
            raise
        # As in a call: a failure of the network is a value.
        except Exception as exception:
            response = self._break_off(None, exception)
        else:
            if status < 300 or status in call.accepts:
                return BatchAnswer(status, bytes(data))
            response = self._reader({}).refuse(status, bytes(data))
        response = self._settle(response, ModelRequest(()), self._clock.monotonic(), headers)
        return response.error or batch_error("the provider did not answer")


def _check_place(provider: str, form: type[BatchForm], place: str | None) -> str:
    """Return the place of the batches, "" for none."""
    if place is None and not form.needs:
        return ""
    if not form.needs:
        raise Misuse(f"{provider} keeps the requests of its batches itself: leave place out")
    if place is None:
        example = f'place="{form.starts}NAME"'
        raise Misuse(f"the batches of {provider} need {form.needs}: pass {example}")
    if not place.startswith(form.starts) or not place.removeprefix(form.starts).strip("/"):
        raise Misuse(f'place is {place!r}: give {form.needs}, such as "{form.starts}NAME"')
    return place.rstrip("/")
