"""Models asked through AISuite, which is imported at the first call.

Source:
    aisuite 0.2 (``Client.chat.completions.acreate``), read in 2026.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelInput, ModelResponse
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import ModelSettings
from upshot.errors import Misuse
from upshot.models.clients.client_model import LibraryModel, require_library, to_deltas
from upshot.models.prices import Prices
from upshot.wire.chat import PLAIN, ChatDialect
from upshot.wire.decoding import as_list, as_object
from upshot.wire.pricing import Price

_MODULE: Final = "aisuite"
_NO_STREAM: Final = "does not support streaming"
# Of AISuite's providers, those whose prompt_tokens are Anthropic's: without the cache.
_WITHOUT_CACHE: Final = frozenset({"anthropic"})
# Those that take no response_format: the schema stands in the instructions alone.
_OWN_FORM: Final = frozenset({"anthropic", "aws", "cohere", "google", "watsonx"})
# Those whose configuration goes to an SDK that retries unless it is configured not to.
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
_DIALECT: Final = ChatDialect(schema=False)
_TOLD_ELSEWHERE: Final = ("finish_reason", "rate_limit", "cost")
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


class AISuiteModel(LibraryModel):
    """A model that AISuite asks: ``AISuiteModel("openai:gpt-4o")``.

    AISuite hands on neither headers nor what a provider says of a cache that is written, and no
    cost. What it does not tell is None, and ``provider_data["unknown"]`` names it. A provider
    that it cannot stream is called, and gives its reply as one piece.
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
        dialect = _DIALECT if self._provider in _OWN_FORM else PLAIN
        super().__init__(
            _MODULE, model, dialect=dialect, settings=settings, prices=prices, clock=clock
        )
        if client is None and module is None:
            require_library(_MODULE, extra=_MODULE)
        self._client: Any = client
        self._module: Any = module
        if not self._provider or ":" not in model:
            raise Misuse(f'{model!r} names no model: write "aisuite:provider:model"')
        # The SDKs' own retries would multiply with those of Retry.
        retries = 0 if self._provider in _RETRYING else None
        given = {"api_key": api_key, "base_url": base_url, "max_retries": retries}
        self._config = {name: value for name, value in given.items() if value is not None}

    async def stream(self, request: ModelInput) -> AsyncGenerator[StreamItem]:
        """Stream, or call where AISuite cannot stream the provider; see ``LibraryModel``."""
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
        module = self._module or import_module(_MODULE)
        return module.Client({self._provider: self._config} if self._config else {})

    def _rewrite(
        self, arguments: JsonObject, messages: Sequence[Message], upstream: str
    ) -> JsonObject:
        del messages
        if upstream != "openai":
            # What a provider does not take, AISuite hands on to its SDK, which raises.
            arguments.pop("stream_options", None)
        if upstream in _OWN_FORM:
            arguments.pop("response_format", None)
        for tool in as_list(arguments.get("tools")):
            # It looks for both without asking whether they are there.
            function = as_object(as_object(tool).get("function"))
            function.setdefault("description", "")
            function.setdefault("parameters", {"type": "object", "properties": {}})
        return arguments

    def _correct(self, response: ModelResponse) -> ModelResponse:
        usage = response.usage
        if self._provider in _WITHOUT_CACHE and usage.input_tokens is not None:
            taken = usage.input_tokens + (usage.cache_read_tokens or 0)
            usage = replace(usage, input_tokens=taken, total_tokens=None)
        told = replace(response, usage=usage)
        told = replace(told, cost=self._cost_of(told))
        unknown: list[Json] = [
            *(name for name in _TOLD_ELSEWHERE if getattr(told, name) is None),
            *(name for name in _COUNTS if getattr(usage, name) is None),
        ]
        return replace(told, provider_data={**told.provider_data, "unknown": unknown})


def _cannot_stream(response: ModelResponse) -> bool:
    error = response.error
    return error is not None and error.status_code is None and _NO_STREAM in error.message
