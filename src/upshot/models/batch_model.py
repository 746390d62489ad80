"""A model whose calls are batches: submitted now, answered within a day, at a lower price."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse
from upshot.errors import Misuse, UpshotError
from upshot.models.http_model import HttpModel, close_reader
from upshot.wire.batches import (
    BATCH_TIER,
    BatchResult,
    batch_error,
    read_results,
    read_state,
    to_batch,
    to_message_batch,
    to_upload,
)
from upshot.wire.decoding import as_text, parse_object

# By surface and provider: whether requests and results are files.
_FILES: Final = {"openai": True, "groq": True, "anthropic": False}
_JSON: Final = "application/json"


class BatchModel(HttpModel):
    """The model behind an endpoint, which can also be asked by batches.

    ``call`` and ``stream`` ask at once, at the usual price. A batch here has one request, so that
    each has its own end. Retrying is up to the caller.

    Raises:
        Misuse: The provider has no batches in a form that upshot knows.
    """

    @staticmethod
    def of(model: object) -> BatchModel:
        """Return *model*, as ``resolve`` makes it, as a model that can be asked by batches."""
        if isinstance(model, BatchModel):
            return model
        if not isinstance(model, HttpModel) or model._provider not in _FILES:
            known = ", ".join(_FILES)
            raise Misuse(f"{model!r} has no batches that upshot knows: {known} have")
        return BatchModel(
            model._model,
            model._endpoint,
            settings=model._settings,
            transport=model._transport,
            timeouts=model._timeouts,
            limits=model._limits,
            prices=model._prices,
            clock=model._clock,
        )

    async def key_of(self, request: ModelInput, *, salt: str) -> str:
        """Return the key of a request: the same for the same request and *salt*."""
        body = await self._encode(ModelRequest.of(request), stream=False)
        return blake2b(salt.encode() + b"\0" + body, digest_size=16).hexdigest()

    async def submit(self, request: ModelInput, *, key: str) -> str | AgentError:
        """Start a batch with one request.

        Args:
            request: The request.
            key: Names it: letters, digits, "-" and "_", at most 64.

        Returns:
            The provider's id of the batch, or why there is none.
        """
        body = await self._encode(ModelRequest.of(request), stream=False)
        if not _FILES[self._provider]:
            made = await self._post("/messages/batches", to_message_batch(key, body))
            return made if isinstance(made, AgentError) else self._id_of(made)
        path = "/v1" + urlsplit(self._endpoint.url).path.rpartition("/v1")[2]
        data, form = to_upload(key, path, body)
        made = await self._post("/files", data, form=form)
        file_id = made if isinstance(made, AgentError) else self._id_of(made)
        if isinstance(file_id, AgentError):
            return file_id
        made = await self._post("/batches", to_batch(file_id, path))
        return made if isinstance(made, AgentError) else self._id_of(made)

    async def poll(self, batch_id: str, *, key: str) -> ModelResponse | AgentError | None:
        """Ask for the result of a batch.

        Returns:
            The response; None while the batch is in progress; or why the question failed, which
            says nothing about the batch.
        """
        folder = "/batches" if _FILES[self._provider] else "/messages/batches"
        answer = await self._exchange("GET", f"{folder}/{batch_id}")
        if isinstance(answer, AgentError):
            return answer
        state = read_state(parse_object(answer) or {})
        if not state.has_ended:
            return None
        paths = [f"{folder}/{batch_id}/results"]
        if _FILES[self._provider]:
            files = filter(None, (state.results, state.errors))
            paths = [f"/files/{file_id}/content" for file_id in files]
        for path in paths:
            lines = await self._exchange("GET", path)
            if isinstance(lines, AgentError):
                return lines
            if (result := read_results(lines, key)) is not None:
                return self._to_response(result)
        return self._to_response(BatchResult(error=batch_error(state.message)))

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

    async def _post(self, path: str, body: bytes, *, form: str = _JSON) -> bytes | AgentError:
        return await self._exchange("POST", path, body, form=form)

    async def _exchange(
        self, method: str, path: str, body: bytes = b"", *, form: str = _JSON
    ) -> bytes | AgentError:
        """Send one request beside the surface's own, and return the body or the error."""
        headers = await self._endpoint.headers()
        if isinstance(headers, AgentError):
            return headers
        headers["content-type"] = form
        url = self._endpoint.beside(path)
        try:
            async with self._transport_of().send(
                method, url, headers, body, timeouts=self._timeouts
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
            if status < 300:
                return bytes(data)
            response = self._reader({}).refuse(status, bytes(data))
        response = self._settle(response, ModelRequest(()), self._clock.monotonic(), headers)
        return response.error or batch_error("the provider did not answer")

    def _id_of(self, answer: bytes) -> str | AgentError:
        ident = as_text((parse_object(answer) or {}).get("id"))
        return ident or batch_error("the provider named no batch", ErrorCode.SERVER_ERROR)
