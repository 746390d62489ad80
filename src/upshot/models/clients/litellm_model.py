"""Models asked through LiteLLM, which is imported at the first call.

Source:
    litellm 1.83 and 1.106 (``acompletion``, ``_hidden_params``), read in 2026.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from inspect import isawaitable
from typing import Any, Final, cast

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message, Reasoning
from upshot.contract.model_calls import ModelResponse
from upshot.contract.protocols import Clock
from upshot.contract.settings import ModelSettings
from upshot.contract.usage import Usage
from upshot.models.clients.client_model import LibraryModel, require_library
from upshot.models.http_model import ApiKey
from upshot.models.prices import Prices
from upshot.models.transport import Timeouts
from upshot.native.completion import with_thoughts
from upshot.native.objects import look
from upshot.wire.chat import ChatDialect
from upshot.wire.decoding import as_list, as_object, as_text
from upshot.wire.pricing import Price

_MODULE: Final = "litellm"
_KEY_TEXT: Final = re.compile(r"api[ _-]?key|credential", re.IGNORECASE)
# LiteLLM translates what a provider wants otherwise, and keeps signatures in the ids of calls.
_DIALECT: Final = ChatDialect(reasoning_back="content", call_id=re.compile(r".+", re.DOTALL))


class LiteLLMModel(LibraryModel):
    """A model that LiteLLM asks: ``LiteLLMModel("anthropic/claude-sonnet-4-5")``.

    LiteLLM's own retries are off, for Retry stands above. Its estimate of the cost is taken over
    as such, with source "litellm", unless *prices* has a price or the provider reports one.
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
            _MODULE, model, dialect=_DIALECT, settings=settings, prices=prices, clock=clock
        )
        if module is None:
            require_library(_MODULE, extra=_MODULE)
        self._key = api_key
        self._given: dict[str, object] = {
            "api_base": base_url,
            "extra_headers": dict(headers) if headers else None,
            "timeout": None if timeouts is None else timeouts.total_s,
        }
        self._module = module

    @property
    def priced(self) -> bool:
        """Whether the cost of its calls is known; imports LiteLLM where only that can tell."""
        if super().priced:
            return True
        info = as_object(_call(self._imported(), "get_model_info", self._model))
        return info.get("input_cost_per_token") is not None

    def missing_key(self) -> str | None:
        """The environment variable without which it cannot be called now, None if it can."""
        if self._key is not None:
            return None
        told = _call(self._imported(), "validate_environment", self._model)
        missing = as_list(as_object(told).get("missing_keys"))
        return next((as_text(name) for name in missing if "KEY" in as_text(name)), None)

    async def _ask(self, arguments: JsonObject) -> object:
        module = await self._open()
        key = self._key() if callable(self._key) else self._key
        key = await key if isawaitable(key) else key
        told = {**self._given, "api_key": key}
        given = {name: value for name, value in told.items() if value is not None}
        # Its own retries would multiply with those of Retry.
        return await module.acompletion(**{"max_retries": 0, **given, **arguments})

    async def _upstream(self) -> str:
        found = _call(await self._open(), "get_llm_provider", self._model)
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
        # LiteLLM calls a key that is not there an error of the server, which would be retried.
        keyless = AgentError(
            ErrorCode.AUTH_ERROR,
            f"{self.name} wants an API key: set {variable} or pass api_key=",
            type=error.type,
            origin=Origin.CALLER,
            details={"provider": upstream, "variable": variable},
        )
        return replace(response, error=keyless, usage=Usage())

    def _thoughts_in(self, document: Json) -> list[Json]:
        choices = as_list(as_object(document).get("choices"))
        delta = as_object(as_object(choices[0]).get("delta")) if choices else {}
        return as_list(delta.get("thinking_blocks"))

    def _complete(
        self, response: ModelResponse, upstream: str, thoughts: list[Json]
    ) -> ModelResponse:
        cost = response.cost
        if cost is not None:
            # What stands in a stream is LiteLLM's own estimate.
            cost = replace(cost, estimated=True, source=_MODULE)
        joined = _join_thoughts(map(as_object, thoughts), upstream)
        return replace(response, cost=cost, parts=with_thoughts(response, joined))

    def _rewrite(
        self, arguments: JsonObject, messages: Sequence[Message], upstream: str
    ) -> JsonObject:
        # The instructions, if any, stand before what the messages were made to.
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
            fresh = _MODULE not in sys.modules
            self._module = import_module(_MODULE)
            if fresh:
                # It prints advice to stdout beside each exception, where results are written to.
                vars(self._module)["suppress_debug_info"] = True
        return self._module


def _call(module: object, name: str, model: str) -> Json:
    """What a function of LiteLLM says of *model*, None where it does not know the model."""
    function = look(module, name)
    if not callable(function):
        return None
    try:
        return cast("Json", function(model=model))
    # Foreign code: it raises classes of its own for what is not in its tables.
    except Exception:
        return None


def _to_block(thought: Reasoning) -> JsonObject:
    """A thought as LiteLLM hands it on to Anthropic."""
    if thought.redacted:
        return {"type": "redacted_thinking", "data": thought.signature}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _join_thoughts(pieces: Iterable[JsonObject], provider: str) -> tuple[Reasoning, ...]:
    """Thoughts from their pieces; a signature ends one."""
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
