"""A model behind an HTTP endpoint, and errors that say what to do."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Conversation, Part
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, ToolCallDelta
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import ModelSettings
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.errors import Misuse, UpshotError
from upshot.models.prices import Prices
from upshot.models.providers import PROVIDERS, Provider, SurfaceName
from upshot.models.transport import Answered, Timeouts, Transport, default_transport
from upshot.wire.accumulator import StreamEvent
from upshot.wire.decoding import with_output
from upshot.wire.encoding import RequestEncoder, to_wire_name
from upshot.wire.error_classification import classify_error
from upshot.wire.reader import StreamReader, make_request_encoder

__all__ = [
    "ApiKey",
    "Endpoint",
    "HttpModel",
    "Renamed",
    "advise",
    "close_reader",
    "explain_fault",
    "mask",
]

ApiKey: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a sync or async function that is asked for one before each request."""

_PATHS: Final[dict[SurfaceName, str]] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
    # The model and what is wanted of it follow.
    "generate": "",
}
_VERSIONS: Final[dict[SurfaceName, str]] = {"generate": "/v1beta"}
_METHODS: Final = (":generateContent", ":streamGenerateContent")
_LOOPBACK = ("localhost", "::1", "0.0.0.0")  # a server says that it listens there


class Endpoint:
    """Where a model is asked, and with whose key; the key is in no repr and no error.

    Args:
        provider: Who is asked.
        base_url: Another server that speaks the provider's surface: what stands before
            "/chat/completions", "/responses", "/messages" or "/models/". Without a path it means
            "/v1", for the surface "generate" "/v1beta".
        api_key: The key; None reads the provider's environment variable before each request.
        headers: What each request carries besides.

    Attributes:
        provider: As given.
        url: The address that requests go to; for the surface "generate" what stands before the
            model.

    Raises:
        Misuse: *base_url* is no http address, or the provider has none of its own and none is
            given.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.provider = provider
        self.url: str = _to_url(provider, base_url)
        self._key = api_key
        host = urlsplit(self.url).hostname or ""
        self._is_local = host in _LOOPBACK or host.startswith("127.") or host.endswith(".localhost")
        self._headers = {
            "content-type": "application/json",
            "user-agent": "upshot",
            **dict(provider.headers),
            **(headers or {}),
        }

    def __repr__(self) -> str:
        return f"Endpoint({self.provider.name!r}, {self.url!r})"

    def url_of(self, model: str, *, stream: bool) -> str:
        """The whole address of a request.

        Args:
            model: The model's name as the provider knows it.
            stream: Whether the reply shall come in pieces.
        """
        if self.provider.surface != "generate":
            return self.url
        parts = urlsplit(self.url)
        # Tuned models and those of other publishers bring their own folder.
        name = quote(model if "/" in model else f"models/{model}", safe="/@")
        events = "alt=sse" if stream else ""
        query = "&".join(filter(None, (parts.query, events)))
        path = f"{parts.path}/{name}{_METHODS[stream]}"
        return parts._replace(path=path, query=query).geturl()

    def missing_key(self) -> str | None:
        """The environment variable that has to be set before a request can be made, else None."""
        if self._key or not self.provider.key_variable or self._is_local:
            return None
        return None if self._key_of_environment() else self.provider.key_variable

    async def headers(self) -> dict[str, str] | AgentError:
        """The headers of the next request, or why it cannot be made."""
        key = self._key or self._key_of_environment()
        if callable(key):
            try:
                asked = key()
                key = await asked if isawaitable(asked) else asked
            # The function is the caller's own and may do anything, such as fetch a token; a
            # model call never raises. What it says may hold a secret.
            except Exception as exception:
                kind = type(exception).__name__
                return self._refusal(f"the function given as api_key raised {kind}")
        key = key.strip() if isinstance(key, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        if not key:
            return dict(self._headers) if self._can_do_without() else self._keyless()
        name = self.provider.key_header
        return {**self._headers, name: f"Bearer {key}" if name == "authorization" else key}

    def key_in(self, headers: Mapping[str, str]) -> str:
        """The key in *headers* that this endpoint made, "" where there is none."""
        return headers.get(self.provider.key_header, "").removeprefix("Bearer ")

    def key_hint(self, *, sent: bool) -> str:
        """What a person can do about a refused request.

        Args:
            sent: Whether it carried a key.
        """
        variable = self.provider.key_variable
        if not sent:
            return f"no key was sent: set {variable} or pass api_key=" if variable else ""
        return "check the api_key that was passed" if self._key else f"check {variable}"

    def _key_of_environment(self) -> str:
        # Read at each request: importing and building read no environment.
        names = (self.provider.key_variable, self.provider.other_variable)
        found = (os.environ.get(name, "").strip() for name in names)
        return next(filter(None, found), "")

    def _can_do_without(self) -> bool:
        return not callable(self._key) and (self._is_local or not self.provider.key_variable)

    def _keyless(self) -> AgentError:
        if callable(self._key):
            return self._refusal("the function given as api_key returned no key")
        name, variable = self.provider.name, self.provider.key_variable
        return self._refusal(f"{name} wants an API key: set {variable} or pass api_key=")

    def _refusal(self, message: str) -> AgentError:
        facts: dict[str, Json] = {"provider": self.provider.name}
        if self.provider.key_variable:
            facts["variable"] = self.provider.key_variable
        return AgentError(ErrorCode.AUTH_ERROR, message, origin=Origin.CALLER, details=facts)


def _to_url(provider: Provider, base_url: str | None) -> str:
    ending = _PATHS[provider.surface]
    if base_url is None:
        if not provider.base_url:
            raise Misuse(
                f"{provider.name} has no address of its own: pass base_url=, such as "
                f"{provider.example or 'http://localhost:8000/v1'}"
            )
        return provider.base_url + ending
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misuse(f"base_url is {base_url!r}: give an address such as http://localhost:8000/v1")
    path = parts.path.rstrip("/") or _VERSIONS.get(provider.surface, "/v1")
    if not path.endswith(ending):
        path += ending
    return parts._replace(path=path, fragment="").geturl()


_CAUSES = 8
# Shorter keys are made up, and might be any word.
_MIN_MASKED_CHARS = 6
_UNREACHABLE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
# By parts of class names, so that other transports' exceptions are understood too.
_TIMEOUTS: Final = (
    (("ConnectionTimeout", "ConnectTimeout"), "connect_s", "no connection to {} within {} s"),
    (("SocketTimeout", "ReadTimeout"), "read_s", "no byte came from {} for {} s"),
    (("Timeout",), "total_s", "no whole reply from {} within {} s"),
)


def advise(error: AgentError, endpoint: Endpoint, *, model: str, key: str) -> AgentError:
    """*error* of a reply, with what the caller can do about it, and without the key.

    Args:
        error: What the reply says.
        endpoint: Where was asked.
        model: Whom, as "provider:model".
        key: The key that was sent, "" if none.
    """
    hint = _hint(error, endpoint, model, sent=bool(key))
    message = cast("str", mask(error.message, key))
    return replace(
        error,
        message=f"{message} ({hint})" if hint else message,
        details=cast("JsonObject", mask(error.details, key)),
    )


def mask(value: Json, key: str) -> Json:
    """*value* with *key* blotted out wherever it stands; a provider may say it back."""
    if isinstance(value, str):
        return value.replace(key, "***") if len(key) >= _MIN_MASKED_CHARS else value
    if isinstance(value, dict):
        return {name: mask(item, key) for name, item in value.items()}
    return [mask(item, key) for item in value] if isinstance(value, list) else value


def explain_fault(
    error: AgentError, exception: BaseException, endpoint: Endpoint, timeouts: Timeouts
) -> AgentError:
    """*error* of a request that got no whole reply, in words that name the address and the fault.

    Args:
        error: As the exception was classified.
        exception: What the transport raised.
        endpoint: Where was asked.
        timeouts: How long it might take.
    """
    where = "{0.scheme}://{0.netloc}{0.path}".format(urlsplit(endpoint.url))
    causes = tuple(_causes(exception))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # aiohttp's own class for it has no such field; its cause has.
            why = getattr(cause, "verify_message", "") or "its certificate cannot be verified"
            said = f"cannot trust {where}: {why}"
            advice = "pass AiohttpTransport(ca_file=...) as transport"
            # The same certificate comes the next time.
            return replace(error, message=f"{said}; {advice}", retryable=False)
        fault = _fault(cause)
        if fault:
            return replace(error, message=f"cannot reach {where}: {fault}")
    names = {each.__name__ for cause in causes for each in type(cause).__mro__}
    for parts, limit, said in _TIMEOUTS:
        if any(part in name for part in parts for name in names):
            limit_s = getattr(timeouts, limit)
            message = f"{said.format(where, limit_s)}; Timeouts({limit}=...) allows more"
            return replace(error, message=message)
    return replace(error, message=f"the exchange with {where} broke off: {error.message}")


def _hint(error: AgentError, endpoint: Endpoint, model: str, *, sent: bool) -> str:
    if error.code == ErrorCode.AUTH_ERROR and error.origin != Origin.CALLER:
        return endpoint.key_hint(sent=sent)
    if error.code == ErrorCode.MODEL_UNAVAILABLE and not error.retryable:
        if endpoint.provider.name == "ollama":
            return f"check the name in {model!r}; `ollama pull` fetches a model"
        return f"check the name in {model!r}"
    if error.status_code in (404, 405) and error.code == ErrorCode.INVALID_REQUEST:
        return f"is base_url right? {endpoint.url} was asked"
    return ""


def _fault(cause: BaseException) -> str:
    if isinstance(cause, socket.gaierror):
        return "there is no such host; is base_url right, is the network there?"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused; is the server running, is base_url right?"
    if isinstance(cause, ssl.SSLError):
        why = getattr(cause, "reason", "") or cause
        return f"TLS failed: {why}; is it https that the server speaks?"
    if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
        return f"{os.strerror(cause.errno)}; is base_url right, is the network there?"
    return ""


def _causes(exception: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = exception
    for _ in range(_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


Item = TypeVar("Item", bound=StreamItem)


class Renamed:
    """Gives the calls in a reply the names under which their tools were offered.

    Args:
        tools: On offer.

    Raises:
        Misuse: Two of them have one name on the wire.
    """

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
                        "have one name for providers that take no dots: rename one of them"
                    )

    def __call__(self, item: Item) -> Item:
        """*item* with those names."""
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
        encoder: RequestEncoder | None = None
        if isinstance(messages, Conversation):
            encoder = cast("RequestEncoder | None", messages.encoded.get(self._form))
        if encoder is None or encoder.count > len(messages):
            encoder = make_request_encoder(self._surface, provider=self._provider)
            if isinstance(messages, Conversation):
                messages.encoded.setdefault(self._form, encoder)
        for place in range(encoder.count, len(messages)):
            encoder.append(messages[place])
        return encoder.body(
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
