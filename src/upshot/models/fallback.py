"""Fallback: several models as one; each is called if the earlier ones failed."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import (
    ModelInput,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    name_of,
    with_earlier,
)
from upshot.contract.protocols import Model, StreamItem
from upshot.errors import Misuse
from upshot.models.registry import missing_key, resolve
from upshot.models.retry import UNANSWERED, judge_answer, judged, read_stream, reply_or_raise

FALLBACK_CODES: Final = frozenset(
    {
        ErrorCode.RATE_LIMIT,
        ErrorCode.TIMEOUT,
        ErrorCode.SERVER_ERROR,
        ErrorCode.MODEL_UNAVAILABLE,
        ErrorCode.AUTH_ERROR,
    }
)
"""Errors of one provider, after which another one may still answer the same request.

A refused key is included, since the next provider has another key; the result lists that failure.
An invalid, overlong or policy-violating request is not: it would most likely fail anywhere.
"""


class Fallback:
    """A model that calls several models in order, until one of them answers.

    It neither waits nor calls any model twice. Retry happens above it and starts over with the
    first model after all have failed, so one call makes at most max_tries requests to each model.
    If all failed, the error is the retryable one with the shortest wait, or else the first.

    The usage and cost in the response of ``call`` include all models that were called. A stream,
    and a run, report each model's reply separately: see ``stream``. ``provider_data["fallback"]``
    lists the models in order, with their errors.

    Args:
        *models: Models, or names that ``resolve`` knows, best first.
        on: The error codes after which the next model is called; never a cancellation. If it
            includes ``empty_reply``, an empty reply leads to the next model too.

    Attributes:
        models: As given, names resolved.

    Raises:
        Misuse: No model is given, or a name does not refer to a model.
    """

    def __init__(self, *models: Model | str, on: Iterable[str] = FALLBACK_CODES) -> None:
        if not models:
            raise Misuse("a fallback needs models: Fallback('openai:gpt-5', 'anthropic:...')")
        self.models: tuple[Model, ...] = tuple(
            resolve(model) if isinstance(model, str) else model for model in models
        )
        self._on = frozenset(map(str, on)) - {ErrorCode.CANCELED}

    def __repr__(self) -> str:
        return f"Fallback({', '.join(repr(name_of(model)) for model in self.models)})"

    @property
    def name(self) -> str:
        """ "fallback:" and the names of all models."""
        return "fallback:" + ",".join(name_of(model) for model in self.models)

    @property
    def priced(self) -> bool:
        """Whether the cost of every model is known."""
        return all(getattr(model, "priced", False) for model in self.models)

    def missing_key(self) -> str | None:
        """Return the variable of the first model's key if every model lacks its key, else None."""
        missing = [missing_key(model) for model in self.models]
        return missing[0] if all(missing) else None

    async def call(self, request: ModelInput) -> ModelResponse:
        """Call the models in order until one answers, or fails with an error not in *on*."""
        passed: list[ModelResponse] = []
        response = UNANSWERED
        async for item in self.call_each(request):
            if isinstance(item, ModelRetried):
                passed.append(item.response)
            elif isinstance(item, ModelResponse):
                response = item
        return with_earlier(response, passed)

    def call_each(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Like :meth:`call`, but report each failed model at once, by a ``ModelRetried``.

        A run calls this, so that the reply of a model counts before the next one is called.

        Yields:
            A ``ModelRetried`` whenever the next model is called, then the last reply, which has the
            usage, cost and duration of the last model alone.
        """
        return self._each(request, _whole)

    def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Like :meth:`call_each`, with deltas; those before a ``ModelRetried`` are void."""
        return self._each(request, _items_of)

    async def _each(
        self,
        request: ModelInput,
        items_of: Callable[[Model, ModelRequest], AsyncIterator[StreamItem]],
    ) -> AsyncIterator[StreamItem]:
        asked = ModelRequest.of(request)
        names = [name_of(model) for model in self.models]
        replies: list[ModelResponse] = []
        accounts: list[Json] = []
        for model, name, following in zip(self.models, names, [*names[1:], ""], strict=True):
            response, passed = UNANSWERED, list[ModelResponse]()
            # Closed before the next model is called, so that a partly read stream frees its
            # connection.
            async with aclosing(read_stream(partial(items_of, model, asked))) as items:
                async for item in items:
                    if isinstance(item, ModelResponse):
                        response = self._read(item)
                        continue
                    if isinstance(item, ModelRetried):
                        passed.append(item.response)
                    yield item
            replies.append(response)
            accounts.append(_to_account(name, with_earlier(response, passed)))
            if not self._falls_back(response):
                break
            if following:
                yield ModelRetried(model=name, next_model=following, response=response)
        yield self._choose(replies, accounts)

    def _read(self, response: ModelResponse) -> ModelResponse:
        # Codes that are not in *on* are left for the agent to judge.
        response = judged(response, allow_empty=ErrorCode.EMPTY_REPLY not in self._on)
        return judge_answer(response, allow_filtered=ErrorCode.CONTENT_FILTER not in self._on)

    def _falls_back(self, response: ModelResponse) -> bool:
        return response.error is not None and response.error.code in self._on

    def _choose(self, replies: Sequence[ModelResponse], accounts: list[Json]) -> ModelResponse:
        """Return the final reply, with the last model's content and usage."""
        last = replies[-1]
        if len(replies) == 1:
            return last
        chosen = last
        if self._falls_back(last):
            # All have failed. A retry waits as long as this error says, so choose the one with the
            # shortest wait.
            chosen = min(replies, key=_retry_order)
        error = chosen.error
        if error is not None and last.error is not None and error.was_free != last.error.was_free:
            # The error is from another model, whose reply has been counted.
            error = replace(error, details={**error.details, "charged": not last.error.was_free})
        return replace(
            chosen,
            parts=last.parts,
            usage=last.usage,
            cost=last.cost,
            error=error,
            provider_data={**chosen.provider_data, "fallback": accounts},
            duration_ms=last.duration_ms,
        )


def _retry_order(reply: ModelResponse) -> tuple[bool, float]:
    """Return a sort key: retryable errors first, shortest wait first; equals stay in order."""
    error = reply.error
    if error is None or not error.retryable:
        return True, 0
    if error.retry_after_s is not None:
        return False, error.retry_after_s
    return False, (reply.rate_limit.retry_after or 0) if reply.rate_limit is not None else 0


def _to_account(name: str, reply: ModelResponse) -> JsonObject:
    account: JsonObject = {"model": name, "duration_ms": reply.duration_ms}
    error = reply.error
    if error is not None:
        account |= {"code": str(error.code), "message": error.message}
        if error.status_code is not None:
            account["status_code"] = error.status_code
    if reply.usage:
        account["usage"] = msgspec.to_builtins(reply.usage)
    if reply.cost is not None:
        account["cost"] = float(reply.cost)
    return account


def _items_of(model: Model, request: ModelRequest) -> AsyncIterator[StreamItem]:
    """Return the stream of *model*, or just its whole reply if it cannot stream."""
    return model.stream(request) if hasattr(model, "stream") else _whole(model, request)


async def _whole(model: Model, request: ModelRequest) -> AsyncIterator[StreamItem]:
    call_each = getattr(model, "call_each", None)
    if call_each is None:
        yield await _reply(model, request)
        return
    async for item in call_each(request):
        yield item


async def _reply(model: Model, request: ModelRequest) -> ModelResponse:
    """Return the reply of *model*; an exception of its client becomes one."""
    try:
        # A user's model may have a plain call().
        made: Any = model.call(request)
        return await made if inspect.isawaitable(made) else made
    except Exception as error:
        return reply_or_raise(error)
