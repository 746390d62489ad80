"""HttpModel: a model behind an HTTP endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, cast

from msgspec.structs import replace

from ..clock import SYSTEM_CLOCK
from ..contract import (
    AgentError,
    Clock,
    Conversation,
    ErrorCode,
    FinishReason,
    JsonObject,
    ModelInput,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Origin,
    StreamItem,
    Usage,
)
from ..errors import UpshotError
from ..wire import StreamEvent, StreamReader, Transcript, classify_error, make_transcript
from .advice import advise, explain_fault, mask
from .aiohttp_transport import default_transport
from .endpoint import Endpoint
from .prices import Prices
from .providers import PROVIDERS
from .structured import with_output
from .tool_name import Renamed
from .transport import Answered, Timeouts, Transport

__all__ = ["HttpModel", "close_reader"]

_Fields: TypeAlias = dict[str, str] | list[tuple[str, str]]
_NO_SETTINGS = ModelSettings()
_NO_TIMEOUTS = Timeouts()


class HttpModel:
    """A model behind an HTTP endpoint; holds no state of a conversation, so runs can share it.

    Args:
        model: The model's name as the provider knows it.
        endpoint: Where it is asked, and with whose key.
        settings: How it is asked unless a request says otherwise.
        transport: What carries the bytes; None is the default transport.
        timeouts: How long a request may take; None is the defaults.
        prices: What it costs; None is the prices that all share.
        clock: What durations and moments are read from.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        settings: ModelSettings | None = None,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
        prices: Prices | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._settings = settings or _NO_SETTINGS
        self._transport = transport
        self._timeouts = timeouts or _NO_TIMEOUTS
        self._prices = Prices.of(prices)
        self._clock = clock
        self._surface = endpoint.provider.surface
        self._provider = endpoint.provider.name
        # Encoded messages of one surface and dialect serve every model that speaks it.
        self._form = (self._surface, self._provider)
        self._billed = f"{self._provider}:{model}"
        usual = PROVIDERS.get(self._provider, endpoint.provider).surface == self._surface
        self._name = self._billed if usual else f"{self._provider}-{self._surface}:{model}"

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r}, {self._endpoint.url!r})"

    @property
    def name(self) -> str:
        """ "provider:model", or "provider-surface:model" where it is not the usual surface."""
        return self._name

    @property
    def endpoint(self) -> Endpoint:
        """Where it is asked."""
        return self._endpoint

    @property
    def priced(self) -> bool:
        """Whether the cost of its calls is known, so that a limit on it can be kept."""
        if self._endpoint.provider.reports_cost:
            return True
        return self._prices.find(self._billed) is not None

    async def call(self, request: ModelInput) -> ModelResponse:
        """Ask once.

        Returns:
            What came of it: whatever provider and network do is an error in it.
        """
        asked = ModelRequest.of(request)
        started_s = self._clock.monotonic()
        headers = await self._endpoint.headers()
        if isinstance(headers, AgentError):
            return self._unasked(headers, asked, started_s)
        body, renamed = self._encode(asked, stream=False), Renamed(asked.tools)
        reply: _Reply | None = None
        try:
            async with self._send(headers, body, stream=False) as answered:
                reply = self._receive(answered)
                async for chunk in answered[2]:
                    reply.take(chunk)
                response = renamed(reply.end())
        # The one boundary between transports, which raise, and models, which never do for what
        # the network does; in stream too. Misuse is the caller's own; a cancellation is no
        # Exception.
        except UpshotError:
            raise
        except Exception as exception:
            response = self._break_off(reply, exception)
        return self._settle(response, asked, started_s, key=self._endpoint.key_in(headers))

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Ask once and yield deltas as they come; the last item is the whole ModelResponse."""
        asked = ModelRequest.of(request)
        started_s = self._clock.monotonic()
        headers = await self._endpoint.headers()
        if isinstance(headers, AgentError):
            yield self._unasked(headers, asked, started_s)
            return
        body, renamed = self._encode(asked, stream=True), Renamed(asked.tools)
        reply: _Reply | None = None
        try:
            async with self._send(headers, body, stream=True) as answered:
                reply = self._receive(answered)
                async for chunk in answered[2]:
                    for delta in reply.take(chunk):
                        yield renamed(delta)
                response = renamed(reply.end())
        except UpshotError:
            raise
        except Exception as exception:
            response = self._break_off(reply, exception)
        yield self._settle(response, asked, started_s, key=self._endpoint.key_in(headers))

    def _encode(self, request: ModelRequest, *, stream: bool) -> bytes:
        messages = request.messages
        transcript: Transcript | None = None
        if isinstance(messages, Conversation):
            transcript = cast("Transcript | None", messages.encoded.get(self._form))
        if transcript is None or transcript.count > len(messages):
            transcript = make_transcript(self._surface, provider=self._provider)
            if isinstance(messages, Conversation):
                messages.encoded.setdefault(self._form, transcript)
        for place in range(transcript.count, len(messages)):
            transcript.append(messages[place])
        return transcript.body(
            model=self._model,
            system=request.system,
            tools=request.tools,
            output_schema=request.output_schema,
            settings=self._settings.merge(request.settings),
            stream=stream,
        )

    def _send(
        self, headers: dict[str, str], body: bytes, *, stream: bool
    ) -> AbstractAsyncContextManager[Answered]:
        transport = self._transport or default_transport()
        url = self._endpoint.url_of(self._model, stream=stream)
        return transport.send("POST", url, headers, body, timeouts=self._timeouts)

    def _receive(self, answered: Answered) -> _Reply:
        status, pairs, _ = answered
        fields = _to_fields(pairs)
        return _Reply(status, fields, self._reader(fields))

    def _reader(self, fields: _Fields) -> StreamReader:
        return StreamReader(
            self._surface,
            provider=self._provider,
            headers=fields,
            now=self._clock.now().timestamp(),
        )

    def _unasked(self, error: AgentError, request: ModelRequest, started_s: float) -> ModelResponse:
        """What came of a call for which no request could be made."""
        response = self._reader({}).fail(error)
        return replace(self._settle(response, request, started_s, key=""), usage=Usage())

    def _break_off(self, reply: _Reply | None, exception: Exception) -> ModelResponse:
        """What came of a call whose exchange ended with *exception*."""
        error = classify_error(exception=exception, provider=self._provider)
        error = explain_fault(error, exception, self._endpoint, self._timeouts)
        reply = reply or _Reply(0, {}, self._reader({}))
        return reply.break_off(error)

    def _settle(
        self, response: ModelResponse, request: ModelRequest, started_s: float, *, key: str
    ) -> ModelResponse:
        """Add to *response* what only the caller's side knows."""
        data: JsonObject = response.provider_data
        if "model" not in data:
            data = {"model": self._model, **data}
        error = response.error
        if error is not None:
            error = advise(error, self._endpoint, model=self.name, key=key)
            data = cast("JsonObject", mask(data, key))
        response = replace(
            response,
            error=error,
            provider_data=data,
            cost=self._prices.cost_of(response, self._billed, at=self._clock.now()),
            duration_ms=round((self._clock.monotonic() - started_s) * 1000),
        )
        return with_output(response, request)


def close_reader(reader: StreamReader) -> ModelResponse:
    """End the reading; a stream that did not say that it was over was cut."""
    response = reader.close()
    over = response.provider_data.get("stream_done") is not False
    if over or response.error is not None or response.finish_reason is not None:
        return response
    cut = AgentError(
        ErrorCode.SERVER_ERROR,
        "the stream ended before the reply did",
        retryable=True,
        origin=Origin.MODEL,
    )
    return replace(response, error=cut)


def _to_fields(pairs: Iterable[tuple[str, str]]) -> _Fields:
    """The headers in the form that is read fastest: a dictionary, unless a name comes twice."""
    listed = list(pairs)
    named = dict(listed)
    return named if len(named) == len(listed) else listed


class _Reply:
    """A reply while it comes: an answer, or a refusal."""

    __slots__ = ("_fields", "_reader", "_said", "_status")

    def __init__(self, status: int, fields: _Fields, reader: StreamReader) -> None:
        self._status = status
        self._fields = fields
        self._reader = reader
        self._said: list[bytes] = []

    def take(self, chunk: bytes) -> list[StreamEvent]:
        """Take the next bytes of the body and give the deltas in them."""
        if self._status < 300:
            return self._reader.feed(chunk)
        self._said.append(chunk)
        return []

    def end(self) -> ModelResponse:
        """What came of it, when the body is over."""
        if self._status < 300:
            return close_reader(self._reader)
        if self._status >= 400:
            return self._reader.refuse(self._status, b"".join(self._said))
        pairs = self._fields.items() if isinstance(self._fields, dict) else self._fields
        target = next((value for name, value in pairs if name.lower() == "location"), "nowhere")
        return self._reader.fail(
            AgentError(
                ErrorCode.INVALID_REQUEST,
                f"the server redirects to {target}; redirects are not followed: set base_url to it",
                status_code=self._status,
                origin=Origin.MODEL,
            )
        )

    def break_off(self, error: AgentError) -> ModelResponse:
        """What came of it, when it broke off, unless it had said that it was over."""
        response = self._reader.close()
        if response.success and response.provider_data.get("stream_done"):
            return response
        data: JsonObject = {**response.provider_data, "error_message": error.message}
        return replace(response, error=error, finish_reason=FinishReason.ERROR, provider_data=data)
