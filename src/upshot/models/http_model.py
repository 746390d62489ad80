"""The model behind an HTTP endpoint, and errors with advice for the user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import safe_address
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message, MessageList, Part
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, ToolCallDelta
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.errors import Misuse, UpshotError
from upshot.models.aiohttp_transport import default_transport
from upshot.models.endpoint import Endpoint
from upshot.models.prices import Prices
from upshot.models.providers import PROVIDERS
from upshot.models.transport import (
    Answered,
    FailureKind,
    FailurePhase,
    ReplyLimits,
    Timeouts,
    Transport,
    TransportError,
    to_transport_error,
)
from upshot.wire.accumulator import StreamEvent
from upshot.wire.decoding import with_output
from upshot.wire.encoding import RequestEncoder, to_wire_name
from upshot.wire.error_classification import classify_error
from upshot.wire.pricing import Price
from upshot.wire.reader import StreamReader, make_request_encoder


def advise(
    error: AgentError, endpoint: Endpoint, *, model: str, headers: Mapping[str, str]
) -> AgentError:
    """Return *error* with advice for the user.

    Args:
        error: What went wrong.
        endpoint: Where the request was sent.
        model: The model's name.
        headers: The headers of the request; empty if it was not sent.
    """
    sent = not headers.keys().isdisjoint(("authorization", endpoint.provider.key_header))
    hint = _hint(error, endpoint, model, sent=sent)
    return replace(error, message=f"{error.message} ({hint})") if hint else error


_FAILURES: Final[dict[FailureKind, str]] = {
    "dns": "cannot reach {where}: {reason}; check base_url and the network",
    "refused": "cannot reach {where}: {reason}; check that the server is running, and base_url",
    "tls": "cannot reach {where}: TLS failed: {reason}; check that the server uses https",
    "certificate": "cannot trust {where}: {reason}; "
    "pass AiohttpTransport(ca_file=...) as transport",
    "proxy": "the proxy does not connect to {where}: {reason}; check its address",
    "timeout": "{where} took too long",
    "reset": "{where} closed the connection before it replied",
    "cut": "the reply of {where} broke off: {reason}",
    "protocol": "the reply of {where} is not valid HTTP: {reason}",
}
_PASSED_LIMITS: Final[dict[str, str]] = {
    "connect_s": "no connection to {where} within {limit_s} s",
    "read_s": "no byte came from {where} for {limit_s} s",
    "total_s": "no whole reply from {where} within {limit_s} s",
}
_PHASES: Final[dict[FailurePhase, str]] = {
    "unsent": "nothing was sent",
    "sent": "the request was sent and not answered",
    "answered": "part of the reply came",
}


def to_agent_error(fault: TransportError, endpoint: Endpoint, timeouts: Timeouts) -> AgentError:
    """Return the error value for *fault*, with advice in its message."""
    where = safe_address(endpoint.url)
    text = _FAILURES[fault.kind].format(where=where, reason=fault.reason)
    if fault.limit is not None:
        limit_s = getattr(timeouts, fault.limit)
        reason = _PASSED_LIMITS[fault.limit].format(where=where, limit_s=limit_s)
        text = f"{reason}; Timeouts({fault.limit}=...) allows more"
    return AgentError(
        ErrorCode.TIMEOUT if fault.kind == "timeout" else ErrorCode.SERVER_ERROR,
        f"{text} ({_PHASES[fault.phase]})",
        type=type(fault.__cause__ or fault).__name__,
        # The server would send the same certificate again.
        retryable=fault.kind != "certificate",
        origin=Origin.MODEL,
        details={
            "provider": endpoint.provider.name,
            "phase": fault.phase,
            "kind": fault.kind,
            "limit": fault.limit,
            "reused": fault.reused,
        },
    )


def _hint(error: AgentError, endpoint: Endpoint, model: str, *, sent: bool) -> str:
    if error.code == ErrorCode.AUTH_ERROR and error.origin != Origin.CALLER:
        return endpoint.key_hint(sent=sent)
    if error.code == ErrorCode.MODEL_UNAVAILABLE and not error.retryable:
        if endpoint.provider.name == "ollama":
            return f"check the name in {model!r}; `ollama pull` fetches a model"
        return f"check the name in {model!r}"
    if error.status_code in (404, 405) and error.code == ErrorCode.INVALID_REQUEST:
        return f"is base_url right? {safe_address(endpoint.url)} was asked"
    return ""


Item = TypeVar("Item", bound=StreamItem)


class Renamed:
    """Restores the tools' own names in the calls of a reply, if the provider allows no dots."""

    __slots__ = ("_names",)

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._names: dict[str, str] = {}
        for tool in tools:
            if "." in tool.name:
                name = to_wire_name(tool.name)
                other = self._names.setdefault(name, tool.name)
                if other != tool.name or any(name == one.name for one in tools):
                    raise Misuse(
                        f"the tools {tool.name!r} and {name if other == tool.name else other!r} "
                        "have one name for providers that accept no dots: rename one of them"
                    )

    def __call__(self, item: Item) -> Item:
        """Return *item* with the tools' own names."""
        if not self._names:
            return item
        if isinstance(item, ToolCallDelta):
            return replace(item, name=self._names.get(item.name, item.name))
        if isinstance(item, ModelResponse) and item.tool_calls:
            return replace(item, parts=tuple(map(self._rename, item.parts)))
        return item

    def _rename(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.name not in self._names:
            return part
        return replace(part, name=self._names[part.name])


_Fields: TypeAlias = dict[str, str] | list[tuple[str, str]]
_NO_SETTINGS = ModelSettings()
# What is yielded while a reply arrives: a delta, or the usage so far.
_Piece: TypeAlias = StreamEvent | Usage
_USUAL_TIMEOUTS = Timeouts()
_USUAL_LIMITS = ReplyLimits()


class HttpDraft(NamedTuple):
    """A request to a provider, without its key.

    Attributes:
        url: Its whole address.
        headers: Its headers, without the key and the caller's own.
        key_header: The header that has the key; "authorization" has it after "Bearer".
        key_variable: The environment variable that has the key, "" if there is none.
        body: The body, as JSON.
    """

    url: str
    headers: Mapping[str, str]
    key_header: str
    key_variable: str
    body: bytes


class HttpModel:
    """The model behind an HTTP endpoint. It keeps no conversation state, so runs can share it.

    Args:
        model: The provider's name of the model.
        endpoint: Its address and key.
        settings: Default settings; those of a request override them.
        transport: Sends the requests; None is the default, ``AiohttpTransport``.
        timeouts: How long a request may take; None is the defaults.
        limits: How much of a reply is read; None is the defaults.
        prices: Prices of models; None is the shared price table.
        clock: Measures durations and gives the time.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        settings: ModelSettings | None = None,
        transport: Transport | None = None,
        timeouts: Timeouts | None = None,
        limits: ReplyLimits | None = None,
        prices: Prices | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._settings = settings or _NO_SETTINGS
        self._transport = transport
        self._timeouts = timeouts or _USUAL_TIMEOUTS
        self._limits = limits or _USUAL_LIMITS
        self._prices = Prices.of(prices)
        self._has_prices = False
        self._clock = clock
        self._surface = endpoint.provider.surface
        self._provider = endpoint.provider.name
        # Models with the same surface and dialect share the encoded messages of a conversation.
        self._form = (self._surface, self._provider)
        self._billed = f"{self._provider}:{model}"
        usual = PROVIDERS.get(self._provider, endpoint.provider).surface == self._surface
        self._name = self._billed if usual else f"{self._provider}-{self._surface}:{model}"

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r}, {safe_address(self._endpoint.url)!r})"

    @property
    def name(self) -> str:
        """ "provider:model", or "provider-surface:model" if the surface is not the usual one."""
        return self._name

    @property
    def endpoint(self) -> Endpoint:
        """Its address and key."""
        return self._endpoint

    @property
    def account(self) -> str:
        """Its address and key, by which its provider counts limits; for digests only."""
        return self._endpoint.account

    @property
    def settings(self) -> ModelSettings:
        """Its default settings."""
        return self._settings

    @property
    def price(self) -> Price | None:
        """The price of its calls by the price table, None if unknown."""
        return self._prices.find(self._billed)

    @property
    def priced(self) -> bool:
        """Whether the cost of its calls is known, so that a limit on it can be enforced."""
        if self._endpoint.provider.reports_cost:
            return True
        return self.price is not None

    async def call(self, request: ModelInput) -> ModelResponse:
        """Call the model once.

        Returns:
            The response; a failure of the provider or the network is an error in it.
        """
        asked = ModelRequest.of(request)
        started_s = self._clock.monotonic()
        headers = await self._endpoint.headers()
        if isinstance(headers, AgentError):
            return self._unsent_response(headers, asked, started_s)
        reply: _Reply | None = None
        # Not within the try: a request that cannot be encoded is the caller's mistake, and raises.
        body, renamed = await self._encode(asked, stream=False), Renamed(asked.tools)
        url = self._endpoint.url_of(self._model, stream=False)
        headers = self._endpoint.signed(url, headers, body)
        try:
            async with self._send(url, headers, body) as answered:
                if not self._has_prices:
                    await self._load_prices()
                reply = self._receive(answered)
                async for chunk in answered[2]:
                    if len(chunk) > _TURN_BYTES:
                        async for _ in reply.read_large(chunk):
                            pass
                    else:
                        reply.feed(chunk)
                    if reply.is_over:
                        break
                response = await reply.finish(renamed)
        # Here, and in stream, a network failure becomes a value: transports raise, models do not.
        # Misuse is the caller's mistake and is raised; a cancellation is not an Exception.
        except UpshotError:
            raise
        except Exception as exception:
            response = self._break_off(reply, exception)
        return self._settle(response, asked, started_s, headers)

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Call once, yielding deltas and usage as they arrive; the last item is the response."""
        asked = ModelRequest.of(request)
        started_s = self._clock.monotonic()
        headers = await self._endpoint.headers()
        if isinstance(headers, AgentError):
            yield self._unsent_response(headers, asked, started_s)
            return
        body, renamed = await self._encode(asked, stream=True), Renamed(asked.tools)
        url = self._endpoint.url_of(self._model, stream=True)
        headers = self._endpoint.signed(url, headers, body)
        reply: _Reply | None = None
        try:
            async with self._send(url, headers, body) as answered:
                if not self._has_prices:
                    await self._load_prices()
                reply = self._receive(answered)
                async for chunk in answered[2]:
                    if len(chunk) > _TURN_BYTES:
                        async for piece in reply.read_large(chunk):
                            yield self._to_item(piece, renamed)
                    else:
                        for piece in reply.feed(chunk):
                            yield self._to_item(piece, renamed)
                    if reply.is_over:
                        break
                response = await reply.finish(renamed)
        except UpshotError:
            raise
        except Exception as exception:
            response = self._break_off(reply, exception)
        # Outside the block: the connection is free before the caller gets its response.
        yield self._settle(response, asked, started_s, headers)

    async def draft(self, request: ModelInput) -> HttpDraft:
        """Return a request as it would be sent, without its key and the caller's own headers.

        What a ``base_url`` has of a password or a query is left out too.

        Raises:
            Misuse: The request cannot be encoded.
        """
        asked, provider = ModelRequest.of(request), self._endpoint.provider
        return HttpDraft(
            url=safe_address(self._endpoint.url_of(self._model, stream=False)),
            headers={"content-type": "application/json", **dict(provider.headers)},
            key_header=provider.key_header,
            key_variable=provider.key_variable,
            body=await self._encode(asked, stream=False),
        )

    async def _load_prices(self) -> None:
        """Load the model's price while the reply is awaited; the first time takes a moment."""
        if (loading := self._prices.load(self._billed)) is not None:
            await loading
        self._has_prices = True

    async def _encode(self, request: ModelRequest, *, stream: bool) -> bytes:
        messages = request.messages
        encoder = self._encoder_of(messages)
        while encoder.count < len(messages):
            encoder.append(messages[encoder.count])
            if encoder.count % _TURN_MESSAGES == 0:
                await asyncio.sleep(0)
                # Another task may have encoded a longer view.
                encoder = self._encoder_of(messages)
        return encoder.body(
            model=self._model,
            system=request.system,
            tools=request.tools,
            output_schema=request.output_schema,
            settings=self._settings.merge(request.settings),
            stream=stream,
        )

    def _encoder_of(self, messages: Sequence[Message]) -> RequestEncoder:
        """Return an encoder that has encoded all or part of *messages*, and nothing else."""
        kept = messages.encoded if isinstance(messages, MessageList) else dict[object, object]()
        encoder = cast("RequestEncoder | None", kept.get(self._form))
        # An earlier view shares the encoder, which may have encoded more messages since.
        if encoder is None or encoder.count > len(messages):
            encoder = make_request_encoder(self._surface, provider=self._provider)
            # The encoder of the growing conversation stays: it has more messages than this view.
            kept.setdefault(self._form, encoder)
        return encoder

    def _send(
        self, url: str, headers: dict[str, str], body: bytes
    ) -> AbstractAsyncContextManager[Answered]:
        return self._transport_of().send("POST", url, headers, body, timeouts=self._timeouts)

    def _transport_of(self) -> Transport:
        return self._transport or default_transport()

    def _receive(self, answered: Answered) -> _Reply:
        status, pairs, _ = answered
        fields = _to_fields(pairs)
        return _Reply(status, fields, self._reader(fields), self._limits)

    def _to_item(self, item: _Piece, renamed: Renamed) -> _Piece:
        """Return a piece of a reply in the caller's form."""
        if not isinstance(item, Usage):
            return renamed(item)
        so_far = ModelResponse(usage=item, provider_data={"model": self._model})
        return item.with_cost(self._prices.cost_of(so_far, self._billed, at=self._clock.now()))

    def _reader(self, fields: _Fields) -> StreamReader:
        return StreamReader(
            self._surface,
            provider=self._provider,
            headers=fields,
            now=self._clock.now().timestamp(),
        )

    def _unsent_response(
        self, error: AgentError, request: ModelRequest, started_s: float
    ) -> ModelResponse:
        """Return the response of a call for which no request could be made."""
        response = self._reader({}).fail(error)
        return replace(self._settle(response, request, started_s, {}), usage=Usage())

    def _break_off(self, reply: _Reply | None, exception: Exception) -> ModelResponse:
        """Return the response of a call whose exchange raised *exception*."""
        # A foreign transport's exception does not say how far the request got: it may have been
        # sent.
        phase = "sent" if reply is None else "answered"
        fault = to_transport_error(exception, phase=phase)
        if fault is None:
            error = classify_error(exception=exception, provider=self._provider)
            text = (
                f"the exchange with {safe_address(self._endpoint.url)} broke off: {error.message}"
            )
            error = replace(error, message=text, details={**error.details, "phase": phase})
        else:
            error = to_agent_error(fault, self._endpoint, self._timeouts)
        if reply is not None:
            return reply.break_off(error)
        response = self._reader({}).fail(error)
        # A request that was certainly not sent used nothing.
        return replace(response, usage=Usage()) if error.was_unsent else response

    def _settle(
        self,
        response: ModelResponse,
        request: ModelRequest,
        started_s: float,
        headers: Mapping[str, str],
    ) -> ModelResponse:
        """Add to *response* what the reply does not contain: advice, price and duration."""
        data: JsonObject = response.provider_data
        if "model" not in data:
            data = {"model": self._model, **data}
        error = response.error
        if error is not None:
            secrets = self._endpoint.secrets_in(headers)
            error = advise(secrets.mask(error), self._endpoint, model=self.name, headers=headers)
            data = secrets.mask(data)
        response = replace(
            response,
            error=error,
            provider_data=data,
            cost=self._prices.cost_of(response, self._billed, at=self._clock.now()),
            duration_ms=round((self._clock.monotonic() - started_s) * 1000),
        )
        return response if request.output_schema is None else with_output(response)


def close_reader(reader: StreamReader) -> ModelResponse:
    """End the reading; a stream that ended without its end mark counts as cut."""
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
    """Return the headers in the fastest form to read: a dictionary, unless a name repeats."""
    listed = list(pairs)
    named = dict(listed)
    return named if len(named) == len(listed) else listed


# Parsing more at once would block the other tasks of the loop.
_TURN_BYTES = 2**15
_TURN_MESSAGES = 1_000
# A document is parsed in one piece; above this size that would block the loop.
_LARGE_BYTES = 2**18


class _Reply:
    """A reply while it arrives: an answer or a refusal, within its limits."""

    def __init__(
        self, status: int, fields: _Fields, reader: StreamReader, limits: ReplyLimits
    ) -> None:
        self._status = status
        self._fields = fields
        self._reader = reader
        self._limits = limits
        self._error_body: list[bytes] = []
        self._size = 0
        self._line_bytes = 0
        self._yielded_usage: Usage | None = None
        self._error: AgentError | None = None
        # Whether to leave the rest of the body unread.
        self.is_over = False

    def feed(self, chunk: bytes) -> Sequence[_Piece]:
        """Read the next bytes of the body and return their content: usage, then the deltas."""
        self._size += len(chunk)
        if self._status >= 300:
            # Not for the reader: an error body has another form, and is read only up to its limit.
            self._error_body.append(chunk)
            self.is_over = self._size > self._limits.error_bytes
            return []
        if self._size > self._limits.reply_bytes:
            return self._refuse_more("reply_bytes", self._limits.reply_bytes)
        deltas = self._reader.feed(chunk)
        if self._reader.in_events:
            # A line may come in many pieces, so its length is counted across them.
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            self._line_bytes = len(chunk) - end - 1 + (self._line_bytes if end < 0 else 0)
            if self._line_bytes > self._limits.line_bytes:
                return self._refuse_more("line_bytes", self._limits.line_bytes)
        usage = self._reader.usage
        if usage is None or usage is self._yielded_usage:
            return deltas
        # Before the deltas: a caller that stops reading at one of them must still count it.
        self._yielded_usage = usage
        return [usage, *deltas]

    async def read_large(self, chunk: bytes) -> AsyncIterator[_Piece]:
        """Read many bytes, giving other tasks of the loop a turn in between."""
        for start in range(0, len(chunk), _TURN_BYTES):
            for piece in self.feed(chunk[start : start + _TURN_BYTES]):
                yield piece
            if self.is_over:
                return
            await asyncio.sleep(0)

    def _refuse_more(self, limit: str, allowed: int) -> list[StreamEvent]:
        what = "a line of the reply" if limit == "line_bytes" else "the reply"
        self.is_over = True
        self._error = AgentError(
            ErrorCode.SERVER_ERROR,
            f"{what} is larger than {allowed:,} bytes; ReplyLimits({limit}=...) allows more",
            origin=Origin.MODEL,
            details={"phase": "answered", "limit": limit, "allowed": allowed},
        )
        return []

    async def finish(self, renamed: Renamed) -> ModelResponse:
        """Return the response at the end of the body; a large one is parsed in a thread."""
        if self._size < _LARGE_BYTES:
            return renamed(self.end())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: renamed(self.end()))

    def end(self) -> ModelResponse:
        """Return the response at the end of the body."""
        if self._error is not None:
            return self._reader.fail(self._error)
        if self._status < 300:
            return close_reader(self._reader)
        if self._status >= 400:
            body = b"".join(self._error_body)[: self._limits.error_bytes]
            return self._reader.refuse(self._status, body)
        pairs = self._fields.items() if isinstance(self._fields, dict) else self._fields
        target = next((value for name, value in pairs if name.lower() == "location"), "nowhere")
        return self._reader.fail(
            AgentError(
                ErrorCode.INVALID_REQUEST,
                f"the server redirects to {safe_address(target)}; redirects are not followed: set "
                "base_url to it",
                status_code=self._status,
                origin=Origin.MODEL,
            )
        )

    def break_off(self, error: AgentError) -> ModelResponse:
        """Return the response with *error*, unless the reply had already reported its end."""
        response = close_reader(self._reader)
        # A finish reason also means that the reply is complete.
        is_over = response.provider_data.get("stream_done") or response.finish_reason is not None
        if response.success and is_over:
            return response
        data: JsonObject = {**response.provider_data, "error_message": error.message}
        return replace(response, error=error, finish_reason=FinishReason.ERROR, provider_data=data)
