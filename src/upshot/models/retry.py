"""Calls a model again after errors that may pass, and reads what clients of an API raise."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeAlias

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelResponse
from upshot.contract.protocols import Clock, StreamItem
from upshot.contract.settings import Retry
from upshot.contract.usage import Usage
from upshot.native.objects import find_headers, find_rate_limit
from upshot.wire.error_classification import classify_error

_OURS = __name__.partition(".")[0]
_NO_FAILURES = (ErrorCode.INTERNAL, ErrorCode.CANCELED)


def client_error(exception: Exception) -> AgentError | None:
    """The failure that a client of an API reports by *exception*; None where it is a bug.

    Its status, headers and causes are looked at. Python's own exceptions but ``OSError`` are bugs,
    for they say "timeout" of an argument as of a network.
    """
    error = classify_error(exception=exception)
    if error.code in _NO_FAILURES:
        return None
    is_foreign = isinstance(exception, OSError) or type(exception).__module__ != "builtins"
    return error if is_foreign or error.status_code is not None else None


def reply_of(exception: Exception) -> ModelResponse | None:
    """The response of a model call that raised *exception*; None if that is a bug, or our own."""
    if type(exception).__module__.partition(".")[0] == _OURS:
        return None
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
    """What a model's stream gives; an exception of its client becomes the response."""
    items: AsyncIterator[StreamItem] | None = None
    try:
        items = attempt()
        async for item in items:
            yield item
    except Exception as error:
        # A user's model may let an exception of its client pass: it becomes a value here.
        yield reply_or_raise(error)
    finally:
        # Left in the middle, it would hold its connection until it is collected.
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def reply_or_raise(error: Exception) -> ModelResponse:
    """The response of a model call that raised *error*; raises it where that is a bug, or ours."""
    response = reply_of(error)
    if response is None:
        raise error
    return response


async def call_with_retry(
    attempt: Callable[[], Awaitable[ModelResponse]],
    retry: Retry | None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    deadline_monotonic: float | None = None,
    on_retry: OnRetry | None = None,
    draw: Callable[[], float] = random.random,
) -> tuple[ModelResponse, int]:
    """Call until there is an answer, or an error that another try would not change.

    Args:
        attempt: Makes one call; called for every try.
        retry: How many tries, and how long to wait; None is one try.
        clock: Used to wait.
        deadline_monotonic: The moment on *clock* that no wait may reach, None for none.
        on_retry: Called before each wait. The responses of failed tries are given only here, so
            this is where their usage is added up. What it raises ends the call.
        draw: Returns a number from 0 to below 1 for the jitter.

    Returns:
        The response of the last try, and the number of tries. An error that was not tried again
        because of its wait says in retry_after_s how long that would have been.
    """
    tries = _Tries(retry, clock, deadline_monotonic, on_retry, draw)
    while True:
        response = await attempt()
        if response.error is None:
            return response, tries.count
        if not await tries.wait_after(response):
            return _tell_wait(response), tries.count


async def stream_with_retry(
    attempt: Callable[[], AsyncIterator[StreamItem]],
    retry: Retry | None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    deadline_monotonic: float | None = None,
    on_retry: OnRetry | None = None,
    draw: Callable[[], float] = random.random,
) -> AsyncGenerator[StreamItem]:
    """Stream as :func:`call_with_retry` calls; once a delta has been yielded, a try is the last.

    Yields:
        The deltas of the last try, then its response. The number of tries is one more than
        *on_retry* was called.
    """
    tries = _Tries(retry, clock, deadline_monotonic, on_retry, draw)
    while True:
        response = UNANSWERED
        begun = False
        async with aclosing(read_stream(attempt)) as items:
            async for item in items:
                if isinstance(item, ModelResponse):
                    response = item
                else:
                    begun = True
                    yield item
        if begun or not await tries.wait_after(response):
            yield _tell_wait(response)
            return


class _Tries:
    """Counts the tries of one call and waits between them."""

    def __init__(
        self,
        retry: Retry | None,
        clock: Clock,
        deadline: float | None,
        on_retry: OnRetry | None,
        draw: Callable[[], float],
    ) -> None:
        self.count = 1
        self._retry = retry
        self._clock = clock
        self._deadline = deadline
        self._on_retry = on_retry
        self._draw = draw

    async def wait_after(self, response: ModelResponse) -> bool:
        """Wait if there is another try; False if there is none."""
        wait_s = self._wait_s(response)
        if wait_s is None:
            return False
        if self._on_retry is not None:
            told = self._on_retry(self.count, wait_s, response)
            if told is not None:
                await told
        await self._clock.sleep(wait_s)
        self.count += 1
        return True

    def _wait_s(self, response: ModelResponse) -> float | None:
        """Seconds to wait before the next try, None if there is none."""
        retry, error = self._retry, response.error
        if retry is None or error is None or not error.retryable or self.count >= retry.max_tries:
            return None
        wait_s = retry.wait_s(self.count, floor_s=_floor_s(response), draw=self._draw)
        if wait_s is None:
            return None
        if self._deadline is not None and self._clock.monotonic() + wait_s >= self._deadline:
            return None
        return wait_s


def _floor_s(response: ModelResponse) -> float | None:
    """Seconds that the provider asks to wait at least, None where it says nothing."""
    if response.error is not None and response.error.retry_after_s is not None:
        return response.error.retry_after_s
    return response.rate_limit.retry_after if response.rate_limit is not None else None


def _tell_wait(response: ModelResponse) -> ModelResponse:
    """*response*, its error saying how long to wait where the response does."""
    error, floor_s = response.error, _floor_s(response)
    if error is None or not error.retryable or floor_s is None or error.retry_after_s is not None:
        return response
    return replace(response, error=replace(error, retry_after_s=float(floor_s)))
