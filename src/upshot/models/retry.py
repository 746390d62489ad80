"""Calls a model again after errors that may pass, and reads the exceptions of API clients."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, FinishReason, Origin
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Reasoning, Text
from upshot.contract.model_calls import ModelResponse
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import Retry
from upshot.contract.usage import Usage
from upshot.native.objects import find_headers, find_rate_limit
from upshot.native.returned import client_error
from upshot.state.run_state import NO_TRIES, FailedTries
from upshot.wire.accumulator import mark_cut


def reply_of(exception: Exception) -> ModelResponse | None:
    """Return the response of a model call that raised *exception*; None if it is a bug."""
    error = client_error(exception)
    if error is None:
        return None
    headers = find_headers(exception)
    data: JsonObject = {"raw_headers": {**headers}} if headers else {}
    is_limit = error.code == ErrorCode.RATE_LIMIT
    return ModelResponse(
        error=replace(error, origin=Origin.MODEL),
        usage=Usage(api_calls=1),
        rate_limit=find_rate_limit(headers, limited=is_limit, retry_after_s=error.retry_after_s),
        provider_data=data,
    )


OnRetry: TypeAlias = Callable[[int, float, ModelResponse], Awaitable[None] | None]
"""Called before each wait: the number of failed tries, seconds to wait, the last response."""

UNANSWERED = ModelResponse(
    error=AgentError(
        ErrorCode.INTERNAL,
        "the model's stream ended without a ModelResponse: yield one as its last item",
        origin=Origin.MODEL,
    )
)
"""The response of a stream that ended without one."""


async def read_stream(
    attempt: Callable[[], AsyncIterator[StreamItem]],
) -> AsyncGenerator[StreamItem]:
    """Yield the items of a model's stream; an exception of its client becomes the response."""
    items: AsyncIterator[StreamItem] | None = None
    try:
        items = attempt()
        async for item in items:
            yield item
    except Exception as error:
        # A user's model may raise an exception of its API client: it becomes a value here.
        yield reply_or_raise(error)
    finally:
        # A partly read stream would keep its connection until it is garbage-collected.
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def reply_or_raise(error: Exception) -> ModelResponse:
    """Return the response of a model call that raised *error*; raise it if it is a bug."""
    response = reply_of(error)
    if response is None:
        raise error
    return response


# Looked up once: accessing an enum member is slow in Python 3.11.
_ABORTED = FinishReason.ABORTED
_ERROR = FinishReason.ERROR
_FILTER = FinishReason.CONTENT_FILTER
_LENGTH = FinishReason.LENGTH
_CUT_SHORT = "; it reached the limit on tokens, so raise max_tokens or ask for less reasoning"


def judged(response: ModelResponse, *, allow_empty: bool = False) -> ModelResponse:
    """Return *response*, with an error added if it is not an answer.

    It is not an answer if its finish reason says that it failed or was aborted, or if it is empty:
    no call, no refusal, and no text except blanks. A reply with only thoughts is empty.

    Args:
        response: The reply of a model.
        allow_empty: Whether an empty reply is an answer.
    """
    if response.error is not None:
        return response
    finish = response.finish_reason
    if finish is _ABORTED:
        error = AgentError(ErrorCode.CANCELED, "the reply was aborted")
    elif finish is _ERROR:
        text = "the model stopped with an error"
        error = AgentError(ErrorCode.SERVER_ERROR, text, retryable=True)
    elif not _is_empty(response):
        return response
    elif finish is _FILTER:
        error = AgentError(ErrorCode.CONTENT_FILTER, "the provider's filter held the reply back")
    elif allow_empty:
        return response
    else:
        why = _CUT_SHORT if finish is _LENGTH else ""
        text = f"the model replied with nothing: no text, no call, no refusal{why}"
        error = AgentError(ErrorCode.EMPTY_REPLY, text, retryable=True)
    return replace(response, error=error)


def judge_answer(
    response: ModelResponse, *, allow_filtered: bool = False, is_typed: bool = False
) -> ModelResponse:
    """Return *response*, with an error if a filter cut it off, or if it refuses a typed answer.

    The text of a refusal becomes its content. The calls of a failed reply, and an incomplete last
    call of a reply that was cut off, are marked as ``cut``, so that no engine makes them.

    Args:
        response: The reply of a model, judged.
        allow_filtered: Whether a reply that a filter cut off is an answer.
        is_typed: Whether the answer has a schema, which a refusal cannot follow.
    """
    finish = response.finish_reason
    error, is_filtered = response.error, finish is _FILTER
    if error is None and is_filtered and not allow_filtered:
        error = FILTERED
    if error is not None or is_filtered or finish is _LENGTH:
        parts = mark_cut(response.parts, fails=error is not None)
        return replace(response, parts=parts, error=error)
    refusal = response.refusal
    if refusal is None:
        return response
    if response.content is None:
        response = replace(response, parts=(*response.parts, Text(refusal)))
    error = AgentError(ErrorCode.REFUSAL, refusal, origin=Origin.MODEL)
    return replace(response, finish_reason=FinishReason.REFUSAL, error=error if is_typed else None)


FILTERED = AgentError(
    ErrorCode.CONTENT_FILTER,
    "the provider's filter cut the reply off: allow_filtered=True takes it as an answer",
    origin=Origin.MODEL,
)
"""The error of a reply that a safety filter cut off."""


def _is_empty(response: ModelResponse) -> bool:
    for part in response.parts:
        if isinstance(part, Text):
            if part.text and not part.text.isspace():
                return False
        elif not isinstance(part, Reasoning):
            return False
    return response.refusal is None and response.output is None and not response.paused


async def call_with_retry(
    attempt: Callable[[], Awaitable[ModelResponse]],
    retry: Retry | None,
    *,
    allow_empty: bool = False,
    clock: Clock = SYSTEM_CLOCK,
    deadline_monotonic: float | None = None,
    on_retry: OnRetry | None = None,
    draw: Callable[[], float] = random.random,
    before: FailedTries = NO_TRIES,
) -> tuple[ModelResponse, int]:
    """Call until there is an answer, or an error that a retry would not change.

    After an empty reply the model is called once more, whatever *retry* says, and without a wait
    unless the provider asks for one; a second empty reply is the error ``empty_reply``.

    Args:
        attempt: Makes one call; called for every try. If it streams deltas, they become void
            when *on_retry* is called.
        retry: How many tries, and how long to wait; None is one try.
        allow_empty: Whether an empty reply is an answer.
        clock: Used to wait.
        deadline_monotonic: The moment on *clock* that no wait may reach, None for none.
        on_retry: Called before each wait. The responses of failed tries are passed only here, so
            this is where their usage is added up. If it raises, the call ends.
        draw: Returns a random number in [0, 1) for the jitter.
        before: The tries of an earlier session, which count; the rest of its wait comes first.

    Returns:
        The response of the last try, and the number of tries. If there was no further try because
        the wait would be too long, the error's retry_after_s is that wait.
    """
    tries = _Tries(retry, clock, deadline_monotonic, on_retry, draw, before=before)
    if before.next_at is not None:
        await tries.wait_until(before.next_at)
    while True:
        response = judged(await attempt(), allow_empty=allow_empty)
        if response.error is None:
            return response, tries.count
        if not await tries.wait_after(response):
            return _with_wait(response), tries.count


class _Tries:
    """Counts the tries of one call and waits between them."""

    def __init__(
        self,
        retry: Retry | None,
        clock: Clock,
        deadline: float | None,
        on_retry: OnRetry | None,
        draw: Callable[[], float],
        *,
        before: FailedTries,
    ) -> None:
        self.count = before.count + 1
        self._retry = retry
        self._clock = clock
        self._deadline = deadline
        self._on_retry = on_retry
        self._draw = draw
        self._was_empty = before.was_empty

    async def wait_until(self, next_at: datetime) -> None:
        """Wait for the rest of an earlier session's wait."""
        left_s = (next_at - self._clock.now()).total_seconds()
        if left_s > 0:
            await self._clock.sleep(left_s)

    async def wait_after(self, response: ModelResponse) -> bool:
        """Wait and return True if there will be another try, else return False."""
        wait_s = self._wait_s(response)
        if wait_s is None:
            return False
        if self._on_retry is not None:
            # Before the wait: if the process dies in it, the log has the failed try and its usage.
            notified = self._on_retry(self.count, wait_s, response)
            if notified is not None:
                await notified
        await self._clock.sleep(wait_s)
        self.count += 1
        return True

    def _wait_s(self, response: ModelResponse) -> float | None:
        """Return seconds to wait before the next try, None if there is none."""
        retry, error = self._retry, response.error
        if error is None or not error.retryable:
            return None
        # Before the tries are counted, since this retry happens even without a Retry.
        if _is_empty_reply(response):
            wait_s = self._wait_after_empty_s(response)
        elif retry is None or self.count >= retry.max_tries:
            return None
        else:
            wait_s = retry.wait_s(self.count, floor_s=_floor_s(response), draw=self._draw)
        if wait_s is None:
            return None
        # A try that starts at the deadline has no time for its reply.
        if self._deadline is not None and self._clock.monotonic() + wait_s >= self._deadline:
            return None
        return wait_s

    def _wait_after_empty_s(self, response: ModelResponse) -> float | None:
        """Return the same after an empty reply, which is retried only once."""
        if self._was_empty:
            return None
        self._was_empty = True
        # An empty reply is no sign of overload, so wait only if the provider says so.
        wait_s = _floor_s(response) or 0.0
        most_s = 0.0 if self._retry is None else self._retry.most_s
        return wait_s if wait_s <= most_s else None


def _is_empty_reply(response: ModelResponse) -> bool:
    return response.error is not None and response.error.code == ErrorCode.EMPTY_REPLY


def _floor_s(response: ModelResponse) -> float | None:
    """Return the minimum seconds that the provider asks to wait, None if it asks for none."""
    if response.error is not None and response.error.retry_after_s is not None:
        return response.error.retry_after_s
    return response.rate_limit.retry_after if response.rate_limit is not None else None


def _with_wait(response: ModelResponse) -> ModelResponse:
    """Return *response* with its headers' wait as the error's ``retry_after_s``."""
    error, floor_s = response.error, _floor_s(response)
    if error is None or not error.retryable or floor_s is None or error.retry_after_s is not None:
        return response
    return replace(response, error=replace(error, retry_after_s=float(floor_s)))
