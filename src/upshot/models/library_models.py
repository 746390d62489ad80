"""Models called through the client libraries LiteLLM and AISuite.

Use them to reach a provider that only such a library supports. If upshot supports the provider, its
own ``HttpModel`` is the better choice: it needs no library and says more about errors.

The path of a call: the request is encoded as OpenAI Chat Completions -> the library is called,
without its own retries -> its reply, an object or a dict, is read by ``upshot.wire`` like a reply
of the API.

What always holds: a library is imported at the first call, in a thread, since that may take
seconds; an exception of the library becomes an error value, classified by its status. Differences
in how a library reports usage and prices are corrected here.

Source:
    litellm 1.83 and 1.106 (``acompletion``, ``_hidden_params``), and aisuite 0.2
    (``Client.chat.completions.acreate``), read in 2026.
"""

from __future__ import annotations

import asyncio
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from inspect import isawaitable
from typing import Any, Final, cast

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin
from upshot.contract.base.secrets import Secrets, credentials_in
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, TextDelta
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import ModelSettings
from upshot.contract.usage import Cost, RateLimitState, Usage
from upshot.errors import Misuse, UpshotError, need_of_extra
from upshot.models.endpoint import ApiKey
from upshot.models.http_model import Renamed, close_reader
from upshot.models.prices import Prices
from upshot.models.transport import Timeouts
from upshot.native.completion import read_completion, with_cache, with_thoughts
from upshot.native.objects import as_amount, as_json, find_headers, find_rate_limit, look_up
from upshot.wire.chat import PLAIN, ChatDialect, ChatEncoder
from upshot.wire.decoding import as_list, as_object, as_text, encode_json, parse_json, with_output
from upshot.wire.encoding import to_delta
from upshot.wire.error_classification import classify_error
from upshot.wire.pricing import Price
from upshot.wire.reader import StreamReader


class LibraryModel(ABC):
    """Base of models called through a library: one request, its reply or stream, its failure."""

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
        # Words that no error may contain.
        self._secrets = Secrets(())
        self._prices = Prices.of(prices)
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def name(self) -> str:
        """The library's name, ":" and the model's."""
        return f"{self._library}:{self._model}"

    @property
    def settings(self) -> ModelSettings:
        """Its default settings."""
        return self._settings

    @property
    def price(self) -> Price | None:
        """The price of its calls by the price table, None if unknown."""
        return self._prices.find(self.name)

    @property
    def priced(self) -> bool:
        """Whether the cost of its calls is known, so that a limit on it can be enforced."""
        return self.price is not None

    async def call(self, request: ModelInput) -> ModelResponse:
        """Call the model once."""
        asked = ModelRequest.of(request)
        renamed = Renamed(asked.tools)
        started_s = self._clock.monotonic()
        upstream = ""
        try:
            if (loading := self._prices.load(self.name)) is not None:
                await loading
            upstream = await self._upstream()
            native = await self._ask(self._arguments(asked, upstream, stream=False))
            response = renamed(self._read(native, upstream))
        except UpshotError:
            raise
        # The boundary between foreign code, which raises, and models, which never raise for a
        # provider's failure; a cancellation is not an Exception.
        except Exception as exception:
            response = self._fail(exception, upstream)
        return self._settle(response, asked, upstream, started_s)

    async def stream(self, request: ModelInput) -> AsyncGenerator[StreamItem]:
        """Call once, yielding deltas as they arrive; the last item is the whole ModelResponse."""
        asked = ModelRequest.of(request)
        renamed = Renamed(asked.tools)
        started_s = self._clock.monotonic()
        upstream, reader, native = "", None, None
        thoughts: list[Json] = []
        finished = False
        try:
            if (loading := self._prices.load(self.name)) is not None:
                await loading
            upstream = await self._upstream()
            native = await self._ask(self._arguments(asked, upstream, stream=True))
            reader = StreamReader("chat", provider=upstream, headers=find_headers(native))
            async for chunk in cast("AsyncIterator[object]", native):
                document = as_json(chunk)
                finished = finished or _is_last(document)
                thoughts += self._thoughts_in(document)
                for delta in reader.feed(b"data: " + encode_json(document) + b"\n\n"):
                    yield renamed(delta)
            # A library ends the iteration in the same way if the stream was cut.
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
            # Before the last item is yielded: a caller may stop reading there.
            await _close(native)
        yield self._settle(response, asked, upstream, started_s)

    @abstractmethod
    async def _ask(self, arguments: JsonObject) -> object:
        """Make the request; returns a completion, or for a stream an async iterator of chunks."""

    @property
    def provider(self) -> str:
        """The provider behind the library, "" if only the library knows it."""
        return self._model.partition(":")[0]

    async def _upstream(self) -> str:
        """Return the provider behind the library, to which thoughts are sent back."""
        return self.provider

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
        """Return pieces of thoughts in a chunk, in a form that ``upshot.wire`` does not read."""
        del document
        return []

    def _complete(
        self, response: ModelResponse, upstream: str, thoughts: list[Json]
    ) -> ModelResponse:
        """Complete the response of a stream that has ended."""
        del upstream, thoughts
        return response

    def _correct(self, response: ModelResponse) -> ModelResponse:
        """Correct what the library reports differently from the contract in a successful reply."""
        return response

    def _rewrite(
        self, arguments: JsonObject, messages: Sequence[Message], upstream: str
    ) -> JsonObject:
        """Convert the arguments of the request to the form the library wants."""
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
        if response.error is not None:
            data = self._secrets.mask(data)
            response = replace(response, error=self._secrets.mask(response.error))
        response = replace(
            response,
            cost=self._cost_of(response),
            provider_data={**data, "library": self._library},
            duration_ms=round((self._clock.monotonic() - started_s) * 1000),
        )
        return response if request.output_schema is None else with_output(response)

    def _hide(self, key: object, url: str | None, headers: Mapping[str, str] | None) -> None:
        """Mask the key, headers and credentials of the address in errors."""
        self._reached = url, headers
        words = [key] if isinstance(key, str) else []
        self._secrets = credentials_in(url=url or "", headers=headers or {}, words=words)

    def _cost_of(self, response: ModelResponse) -> Cost | None:
        cost = response.cost
        if cost is not None and (not cost.estimated or not self._has_own_prices):
            return cost
        unpriced = replace(response, cost=None)
        return self._prices.cost_of(unpriced, self.name, at=self._clock.now()) or cost


def require_library(module: str, *, extra: str) -> None:
    """Check that *module* is installed, without importing it."""
    if find_spec(module) is None:
        raise Misuse(need_of_extra(module, extra))


def to_deltas(response: ModelResponse) -> list[StreamItem]:
    """Convert a whole reply to the items of a stream, for a provider that cannot be streamed."""
    texts = [TextDelta(text=response.content)] if response.content else []
    calls = [to_delta(index, call) for index, call in enumerate(response.tool_calls)]
    return [*texts, *calls, response]


def _is_last(document: Json) -> bool:
    choices = as_list(as_object(document).get("choices"))
    return any(as_object(choice).get("finish_reason") for choice in choices)


def _break_off(reader: StreamReader, failed: ModelResponse) -> ModelResponse:
    """Return what was read before a stream failed, with the failure."""
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
    """Close a stream, however far it was read."""
    close: Callable[[], Awaitable[None]] | None = getattr(native, "aclose", None)
    if close is None:
        return
    try:
        await close()
    # Foreign code again: the call has its outcome, so a failure to close changes nothing.
    except Exception:
        return


# -- LiteLLM

_LITELLM: Final = "litellm"
_KEY_TEXT: Final = re.compile(r"api[ _-]?key|credential", re.IGNORECASE)
# LiteLLM translates between providers' dialects, and keeps signatures in the ids of calls.
_LITELLM_DIALECT: Final = ChatDialect(
    reasoning_back="content", call_id=re.compile(r".+", re.DOTALL)
)


class LiteLLMModel(LibraryModel):
    """A model called through LiteLLM: ``LiteLLMModel("anthropic/claude-sonnet-4-5")``.

    LiteLLM's own retries are off, since upshot retries. Its cost estimate is used, marked as an
    estimate with source "litellm", unless *prices* has a price or the provider reports a cost.
    """

    def __init__(
        self,
        model: str,
        *,
        settings: ModelSettings | None = None,
        api_key: ApiKey | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        prices: Prices | Mapping[str, Price] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        module: object = None,
    ) -> None:
        super().__init__(
            _LITELLM, model, dialect=_LITELLM_DIALECT, settings=settings, prices=prices, clock=clock
        )
        if module is None:
            require_library(_LITELLM, extra=_LITELLM)
        self._key = api_key
        self._hide(api_key, base_url, headers)
        self._given: dict[str, object] = {
            "api_base": base_url,
            "extra_headers": dict(headers) if headers else None,
            "timeout": None if timeouts is None else timeouts.total_s,
        }
        self._module = module

    @property
    def priced(self) -> bool:
        """Whether the cost of its calls is known; may have to import LiteLLM to find out."""
        if super().priced:
            return True
        info = as_object(_call(self._imported(), "get_model_info", self._model))
        return info.get("input_cost_per_token") is not None

    def missing_key(self) -> str | None:
        """Return the unset environment variable that it needs, None if it can be called."""
        if self._key is not None:
            return None
        report = _call(self._imported(), "validate_environment", self._model)
        missing = as_list(as_object(report).get("missing_keys"))
        return next((as_text(name) for name in missing if "KEY" in as_text(name)), None)

    async def _ask(self, arguments: JsonObject) -> object:
        module = await self._open()
        key = self._key
        if callable(key):
            asked = key()
            key = await asked if isawaitable(asked) else asked
            self._hide(key, *self._reached)
        keywords = {**self._given, "api_key": key}
        given = {name: value for name, value in keywords.items() if value is not None}
        # Its own retries would multiply with upshot's.
        return await module.acompletion(**{"max_retries": 0, **given, **arguments})

    @property
    def provider(self) -> str:
        """The provider behind LiteLLM; may have to import LiteLLM to find out."""
        named, is_named, _ = self._model.partition("/")
        return named if is_named else self._provider_in(self._imported())

    async def _upstream(self) -> str:
        return self._provider_in(await self._open())

    def _provider_in(self, module: object) -> str:
        found = _call(module, "get_llm_provider", self._model)
        if isinstance(found, tuple):
            return as_text(cast("tuple[object, ...]", found)[1])
        return self._model.partition("/")[0] if "/" in self._model else ""

    def _fail(self, exception: Exception, upstream: str) -> ModelResponse:
        response = super()._fail(exception, upstream)
        error = response.error
        if error is None or not _KEY_TEXT.search(error.message):
            return response
        variable = self.missing_key()
        if variable is None:
            return response
        # LiteLLM reports a missing key as a server error, which would be retried.
        keyless = AgentError(
            ErrorCode.AUTH_ERROR,
            f"{self.name} needs an API key: set {variable} or pass api_key=",
            type=error.type,
            origin=Origin.CALLER,
            details={"provider": upstream, "variable": variable},
        )
        return replace(response, error=keyless, usage=Usage())

    def _correct(self, response: ModelResponse) -> ModelResponse:
        cost = response.cost
        if cost is None or cost.total is None or cost.source != _LITELLM:
            return response
        info = as_object(_call(self._imported(), "get_model_info", self._model))
        return replace(response, cost=_with_parts(cost, cost.total, response.usage, info))

    def _thoughts_in(self, document: Json) -> list[Json]:
        choices = as_list(as_object(document).get("choices"))
        delta = as_object(as_object(choices[0]).get("delta")) if choices else {}
        return as_list(delta.get("thinking_blocks"))

    def _complete(
        self, response: ModelResponse, upstream: str, thoughts: list[Json]
    ) -> ModelResponse:
        cost = response.cost
        if cost is not None:
            # The cost in a stream is LiteLLM's own estimate.
            cost = replace(cost, estimated=True, source=_LITELLM)
        joined = _join_thoughts(map(as_object, thoughts), upstream)
        return replace(response, cost=cost, parts=with_thoughts(response, joined))

    def _rewrite(
        self, arguments: JsonObject, messages: Sequence[Message], upstream: str
    ) -> JsonObject:
        # The instructions, if any, come before the items of the messages.
        items = as_list(arguments["messages"])[-len(messages) :]
        for item, message in zip(items, messages, strict=False):
            blocks: list[Json] = [
                _to_block(part)
                for part in message.parts
                if isinstance(part, Reasoning) and part.signature and part.provider == upstream
            ]
            if blocks:
                as_object(item)["thinking_blocks"] = blocks
        return arguments

    async def _open(self) -> Any:
        if self._module is None:
            await asyncio.to_thread(self._imported)
        return self._module

    def _imported(self) -> object:
        if self._module is None:
            fresh = _LITELLM not in sys.modules
            self._module = import_module(_LITELLM)
            if fresh:
                # Otherwise it prints advice with each exception to stdout, between the results.
                vars(self._module)["suppress_debug_info"] = True
        return self._module


def _call(module: object, name: str, model: str) -> Json:
    """Return a LiteLLM function's value for *model*, None if it does not know the model."""
    function = look_up(module, name)
    if not callable(function):
        return None
    try:
        return cast("Json", function(model=model))
    # Foreign code: it raises its own exceptions for a model that is not in its tables.
    except Exception:
        return None


def _to_block(thought: Reasoning) -> JsonObject:
    """Return a thought in the form that LiteLLM passes on to Anthropic."""
    if thought.redacted:
        return {"type": "redacted_thinking", "data": thought.signature}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


_PRICES: Final = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}


def _with_parts(cost: Cost, total: Decimal, usage: Usage, info: JsonObject) -> Cost:
    """Split LiteLLM's estimate into its parts, if their prices add up to it."""
    taken, given = usage.input_tokens, usage.output_tokens
    if taken is None or given is None:
        return cost
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    counts = {"input": taken - read - written, "output": given}
    counts |= {"cache_read": read} if read else {}
    counts |= {"cache_write": written} if written else {}
    prices = {part: as_amount(info.get(_PRICES[part])) for part in counts}
    parts = {part: price * counts[part] for part, price in prices.items() if price is not None}
    # It also knows other charges, such as tiers and tools: a cost that does not add up stays whole.
    is_whole = len(parts) == len(counts) and abs(sum(parts.values()) - total) * 10**9 <= total
    return replace(cost, **parts, total=None) if is_whole else cost


def _join_thoughts(pieces: Iterable[JsonObject], provider: str) -> tuple[Reasoning, ...]:
    """Join thoughts from their pieces; a signature ends one."""
    thoughts: list[Reasoning] = []
    texts: list[str] = []
    for piece in pieces:
        if data := as_text(piece.get("data")):
            thoughts.append(Reasoning(signature=data, provider=provider, redacted=True))
            continue
        texts.append(as_text(piece.get("thinking")))
        if signature := as_text(piece.get("signature")):
            thought = Reasoning(text="".join(texts), signature=signature, provider=provider)
            thoughts.append(thought)
            texts = []
    if any(texts):
        thoughts.append(Reasoning(text="".join(texts), provider=provider))
    return tuple(thoughts)


# -- AISuite

_AISUITE: Final = "aisuite"
_NO_STREAM: Final = "does not support streaming"
# AISuite's providers whose prompt_tokens exclude the cache, as Anthropic's do.
_WITHOUT_CACHE: Final = frozenset({"anthropic"})
# Providers without a response_format: the schema is only in the instructions.
_OWN_FORM: Final = frozenset({"anthropic", "aws", "cohere", "google", "watsonx"})
# Providers whose configuration is passed to an SDK that retries by default.
_RETRYING: Final = frozenset(
    {
        "anthropic",
        "cerebras",
        "deepseek",
        "edenai",
        "groq",
        "inception",
        "openai",
        "openrouter",
        "requesty",
        "sambanova",
        "tongyi",
    }
)
_WITHOUT_SCHEMA: Final = ChatDialect(schema=False)
_TOLD_ELSEWHERE: Final = ("finish_reason", "rate_limit", "cost")
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


class AISuiteModel(LibraryModel):
    """A model called through AISuite: ``AISuiteModel("openai:gpt-4o")``.

    AISuite passes on no headers, no cost, and no counts of cache writes. Fields that it does not
    report are None, and listed in ``provider_data["unknown"]``. If it cannot stream a provider,
    the model is called and its reply comes as one piece.
    """

    def __init__(
        self,
        model: str,
        *,
        settings: ModelSettings | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        prices: Prices | Mapping[str, Price] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        client: object = None,
        module: object = None,
    ) -> None:
        self._provider = model.partition(":")[0]
        dialect = _WITHOUT_SCHEMA if self._provider in _OWN_FORM else PLAIN
        super().__init__(
            _AISUITE, model, dialect=dialect, settings=settings, prices=prices, clock=clock
        )
        if client is None and module is None:
            require_library(_AISUITE, extra=_AISUITE)
        self._client: Any = client
        self._module: Any = module
        if not self._provider or ":" not in model:
            raise Misuse(f'{model!r} names no model: write "aisuite:provider:model"')
        # The SDKs' own retries would multiply with upshot's.
        retries = 0 if self._provider in _RETRYING else None
        self._hide(api_key, base_url, None)
        given = {"api_key": api_key, "base_url": base_url, "max_retries": retries}
        self._config = {name: value for name, value in given.items() if value is not None}

    async def stream(self, request: ModelInput) -> AsyncGenerator[StreamItem]:
        """Stream, or call if AISuite cannot stream the provider; see ``LibraryModel``."""
        items = super().stream(request)
        try:
            async for item in items:
                if isinstance(item, ModelResponse) and _cannot_stream(item):
                    for delta in to_deltas(await self.call(request)):
                        yield delta
                    return
                yield item
        finally:
            await items.aclose()

    async def _ask(self, arguments: JsonObject) -> object:
        if self._client is None:
            self._client = await asyncio.to_thread(self._open_client)
        return await self._client.chat.completions.acreate(**arguments)

    def _open_client(self) -> object:
        module = self._module or import_module(_AISUITE)
        return module.Client({self._provider: self._config} if self._config else {})

    def _rewrite(
        self, arguments: JsonObject, messages: Sequence[Message], upstream: str
    ) -> JsonObject:
        del messages
        if upstream != "openai":
            # AISuite passes every argument on to the provider's SDK, which raises for unknown ones.
            arguments.pop("stream_options", None)
        if upstream in _OWN_FORM:
            arguments.pop("response_format", None)
        for tool in as_list(arguments.get("tools")):
            # It reads both without checking that they exist.
            function = as_object(as_object(tool).get("function"))
            function.setdefault("description", "")
            function.setdefault("parameters", {"type": "object", "properties": {}})
        return arguments

    def _correct(self, response: ModelResponse) -> ModelResponse:
        usage = response.usage
        if self._provider in _WITHOUT_CACHE:
            usage = with_cache(usage)
        corrected = replace(response, usage=usage)
        corrected = replace(corrected, cost=self._cost_of(corrected))
        unknown: list[Json] = [
            *(name for name in _TOLD_ELSEWHERE if getattr(corrected, name) is None),
            *(name for name in _COUNTS if getattr(usage, name) is None),
        ]
        return replace(corrected, provider_data={**corrected.provider_data, "unknown": unknown})


def _cannot_stream(response: ModelResponse) -> bool:
    error = response.error
    return error is not None and error.status_code is None and _NO_STREAM in error.message
