"""Library: a model that is asked through another library, in the shape of Chat Completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import cast

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, FinishReason
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import (
    ModelInput,
    ModelRequest,
    ModelResponse,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import ModelSettings
from upshot.contract.usage import Cost, RateLimitState, Usage
from upshot.errors import Misuse, UpshotError, need_of_extra
from upshot.models.http_model import Renamed, close_reader
from upshot.models.prices import Prices
from upshot.native.completion import read_completion
from upshot.native.objects import as_json, find_headers, find_rate_limit
from upshot.wire.chat import ChatDialect, ChatEncoder
from upshot.wire.decoding import as_list, as_object, encode_json, parse_json, with_output
from upshot.wire.error_classification import classify_error
from upshot.wire.pricing import Price
from upshot.wire.reader import StreamReader


class LibraryModel(ABC):
    """What models of other libraries share: one request, its reply or stream, its failure."""

    def __init__(
        self,
        library: str,
        model: str,
        *,
        dialect: ChatDialect,
        settings: ModelSettings | None = None,
        prices: Prices | Mapping[str, Price] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._library = library
        self._model = model
        self._dialect = dialect
        self._settings = settings or ModelSettings()
        self._has_own_prices = prices is not None
        self._prices = Prices.of(prices)
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def name(self) -> str:
        """The library's name, ":" and the model's."""
        return f"{self._library}:{self._model}"

    @property
    def priced(self) -> bool:
        """Whether the cost of its calls is known, so that a limit on it can be kept."""
        return self._prices.find(self.name) is not None

    async def call(self, request: ModelInput) -> ModelResponse:
        """Ask once."""
        asked = ModelRequest.of(request)
        renamed = Renamed(asked.tools)
        started_s = self._clock.monotonic()
        upstream = ""
        try:
            upstream = await self._upstream()
            native = await self._ask(self._arguments(asked, upstream, stream=False))
            response = renamed(self._read(native, upstream))
        except UpshotError:
            raise
        # The boundary between foreign code, which raises, and models, which never do for what a
        # provider does; a cancellation is no Exception.
        except Exception as exception:
            response = self._fail(exception, upstream)
        return self._settle(response, asked, upstream, started_s)

    async def stream(self, request: ModelInput) -> AsyncGenerator[StreamItem]:
        """Ask once and yield deltas as they come; the last item is the whole ModelResponse."""
        asked = ModelRequest.of(request)
        renamed = Renamed(asked.tools)
        started_s = self._clock.monotonic()
        upstream, reader, native = "", None, None
        thoughts: list[Json] = []
        finished = False
        try:
            upstream = await self._upstream()
            native = await self._ask(self._arguments(asked, upstream, stream=True))
            reader = StreamReader("chat", provider=upstream, headers=find_headers(native))
            async for chunk in cast("AsyncIterator[object]", native):
                document = as_json(chunk)
                finished = finished or _is_last(document)
                thoughts += self._thoughts_in(document)
                for delta in reader.feed(b"data: " + encode_json(document) + b"\n\n"):
                    yield renamed(delta)
            # A library ends the iteration of a stream that was cut like any other.
            if finished:
                reader.feed(b"data: [DONE]\n\n")
            response = renamed(self._complete(close_reader(reader), upstream, thoughts))
        except UpshotError:
            raise
        # As in call.
        except Exception as exception:
            failed = self._fail(exception, upstream)
            response = failed if reader is None else _break_off(reader, failed)
        finally:
            await _close(native)
        yield self._settle(response, asked, upstream, started_s)

    @abstractmethod
    async def _ask(self, arguments: JsonObject) -> object:
        """Make the request; a completion, or for a stream an async iterator of chunks."""

    async def _upstream(self) -> str:
        """The provider behind the library, whose thoughts and signatures go back to it."""
        return self._model.partition(":")[0]

    def _read(self, native: object, upstream: str) -> ModelResponse:
        """Read a whole reply."""
        response = read_completion(native)
        owned = (
            replace(part, provider=upstream)
            if isinstance(part, Reasoning) and not part.provider
            else part
            for part in response.parts
        )
        return replace(response, parts=tuple(owned))

    def _thoughts_in(self, document: Json) -> list[Json]:
        """Pieces of thoughts in a chunk of a stream that the wire does not know."""
        del document
        return []

    def _complete(
        self, response: ModelResponse, upstream: str, thoughts: list[Json]
    ) -> ModelResponse:
        """Complete what was read of a stream that ended."""
        del upstream, thoughts
        return response

    def _correct(self, response: ModelResponse) -> ModelResponse:
        """Correct what the library reports otherwise than the contract, in a successful reply."""
        return response

    def _rewrite(
        self, arguments: JsonObject, messages: Sequence[Message], upstream: str
    ) -> JsonObject:
        """The arguments of the request as the library wants them."""
        del messages, upstream
        return arguments

    def _arguments(self, request: ModelRequest, upstream: str, *, stream: bool) -> JsonObject:
        encoder = ChatEncoder(provider=upstream, dialect=self._dialect)
        for message in request.messages:
            encoder.append(message)
        body = encoder.body(
            model=self._model,
            system=request.system,
            tools=request.tools,
            output_schema=request.output_schema,
            settings=self._settings.merge(request.settings),
            stream=stream,
        )
        return self._rewrite(as_object(parse_json(body)), request.messages, upstream)

    def _fail(self, exception: Exception, upstream: str) -> ModelResponse:
        error = classify_error(exception=exception, provider=upstream)
        headers = find_headers(exception)
        data: JsonObject = {"provider": upstream, "error_message": error.message}
        if headers:
            data["raw_headers"] = {**headers}
        return ModelResponse(
            error=error,
            finish_reason=FinishReason.ERROR,
            usage=Usage(api_calls=1, unmeasured_calls=1),
            rate_limit=_rate_limit(error, headers),
            provider_data=data,
        )

    def _settle(
        self, response: ModelResponse, request: ModelRequest, upstream: str, started_s: float
    ) -> ModelResponse:
        if response.success:
            response = self._correct(response)
        model = self._model.removeprefix(f"{upstream}:").removeprefix(f"{upstream}/")
        known: JsonObject = {"provider": upstream, "model": model}
        data = {**known, **response.provider_data}
        response = replace(
            response,
            cost=self._cost_of(response),
            provider_data={**data, "library": self._library},
            duration_ms=round((self._clock.monotonic() - started_s) * 1000),
        )
        return with_output(response, request)

    def _cost_of(self, response: ModelResponse) -> Cost | None:
        told = response.cost
        if told is not None and (not told.estimated or not self._has_own_prices):
            return told
        unpriced = replace(response, cost=None)
        return self._prices.cost_of(unpriced, self.name, at=self._clock.now()) or told


def require_library(module: str, *, extra: str) -> None:
    """Check that *module* is installed, without importing it."""
    if find_spec(module) is None:
        raise Misuse(need_of_extra(module, extra))


def to_deltas(response: ModelResponse) -> list[StreamItem]:
    """A whole reply as a stream would give it, for what cannot stream."""
    deltas: list[StreamItem] = []
    if response.content:
        deltas.append(TextDelta(text=response.content))
    for index, call in enumerate(response.tool_calls):
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = encode_json(arguments).decode()
        deltas.append(
            ToolCallDelta(index=index, call_id=call.id, name=call.name, arguments=arguments)
        )
    return [*deltas, response]


def _is_last(document: Json) -> bool:
    choices = as_list(as_object(document).get("choices"))
    return any(as_object(choice).get("finish_reason") for choice in choices)


def _break_off(reader: StreamReader, failed: ModelResponse) -> ModelResponse:
    """What was read before a stream failed, with the failure."""
    response = reader.close()
    return replace(
        response,
        error=failed.error,
        finish_reason=FinishReason.ERROR,
        rate_limit=failed.rate_limit or response.rate_limit,
        provider_data={**response.provider_data, **failed.provider_data},
    )


def _rate_limit(error: AgentError, headers: Mapping[str, str]) -> RateLimitState | None:
    limited = error.code == ErrorCode.RATE_LIMIT
    return find_rate_limit(headers, limited=limited, retry_after_s=error.retry_after_s)


async def _close(native: object) -> None:
    """Let go of a stream, wherever it was left."""
    close: Callable[[], Awaitable[None]] | None = getattr(native, "aclose", None)
    if close is None:
        return
    try:
        await close()
    # Foreign code again: what came of the call is known, whatever letting go does.
    except Exception:
        return
