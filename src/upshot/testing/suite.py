"""What the contract suites share: making a subject and checking it against its role.

A suite is a class with async tests for pytest-asyncio. Each test makes its subject with ``async
with self._made() as subject``, which closes it again and limits its time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Generic, NamedTuple, TypeVar, cast

import pytest

from upshot.contract.base.structs import RunEvent
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, TextDelta
from upshot.contract.protocols import StreamItem
from upshot.contract.result import AgentResult
from upshot.contract.usage import Usage
from upshot.models.aiohttp_transport import aclose_transports

S = TypeVar("S")

# Plain values, which ``make`` may return by mistake.
_VALUES = (str, bytes, int, float, complex, dict, list, tuple, set, frozenset)


class Role(NamedTuple):
    """What ``make`` must return."""

    noun: str
    needs: tuple[str, ...] = ()
    some_of: tuple[str, ...] = ()

    def check(self, subject: object, who: str) -> None:
        """Check *subject*, which *who* returned."""
        assert subject is not None, f"{who} gave None: return {self.noun}"
        assert not isinstance(subject, type), (
            f"{who} gave the class {subject.__name__}: return {self.noun} made of it"
        )
        gave = f"{who} gave {_describe(subject)}, which is not {self.noun}"
        assert not isinstance(subject, _VALUES), gave
        for name in self.needs:
            assert callable(getattr(subject, name, None)), f"{gave}: it has no method {name}"
        lacks_all = self.some_of and not any(hasattr(subject, name) for name in self.some_of)
        assert not lacks_all, f"{gave}: it has none of {', '.join(self.some_of)}"


class Suite(Generic[S]):
    """What the contract suites share.

    Attributes:
        patience_s: How many seconds a check may take; a longer one fails.
    """

    pytestmark: pytest.MarkDecorator = pytest.mark.asyncio
    patience_s: float = 30.0
    _role: Role

    def make(self) -> S | Awaitable[S] | AbstractAsyncContextManager[S]:
        """Return the subject, or a coroutine or an async context manager of it."""
        raise NotImplementedError(f"{type(self).__name__} gives {self._role.noun} in make()")

    @asynccontextmanager
    async def _made(self) -> AsyncGenerator[Any]:
        """Yield what ``make`` returns: open, checked against its role, with a time limit."""
        who, failure = f"{type(self).__name__}.make()", None
        limit = asyncio.timeout(self.patience_s)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(aclose_transports)
            try:
                async with limit:
                    subject = await self._enter(stack, who)
                    yield subject
            except TimeoutError as error:
                failure = error
                if limit.expired():
                    words = f"it did not end within {self.patience_s:g} s (patience_s)"
                    failure = AssertionError(words)
                raise failure from error
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            # A context manager of the subject swallowed it.
            raise failure

    async def _enter(self, stack: AsyncExitStack, who: str) -> Any:
        made: Any = self.make()
        if inspect.isasyncgen(made):
            made = asynccontextmanager(_constant(made))()
        elif inspect.isgenerator(made):
            made = contextmanager(_constant(made))()
        elif inspect.isawaitable(made) and not hasattr(made, "__aenter__"):
            made = await made
        is_class = isinstance(cast("object", made), type)
        if hasattr(made, "__aenter__") and not is_class:
            made = await stack.enter_async_context(cast("Any", made))
        elif hasattr(made, "__enter__") and not is_class:
            made = stack.enter_context(cast("Any", made))
        else:
            self._role.check(made, who)
            stack.push_async_callback(self._close, made)
        self._role.check(made, who)
        return made

    async def _close(self, subject: Any) -> None:
        """Close what no context manager closes; does nothing unless overridden."""


async def value_of(given: object) -> Any:
    """Return the value of a sync or async function."""
    return await given if inspect.isawaitable(given) else given


def _constant(made: object) -> Callable[[], Any]:
    return lambda: made


def _describe(subject: object) -> str:
    kind = type(subject).__name__
    return f"{subject!r:.60} ({kind})" if isinstance(subject, _VALUES) else f"a {kind}"


TOKENS = 15


class PlainModel:
    """A model that answers everything at once, or never."""

    name = "contract:plain"

    def __init__(self, *, answers: bool = True, error: AgentError | None = None) -> None:
        self.calls: int = 0
        self.later_calls: int = 0
        self._under_way = 0
        self.asked: asyncio.Event = asyncio.Event()
        self.answers = answers
        self.error = error

    async def call(self, request: ModelInput) -> ModelResponse:
        """Answer with the text of the last message; 10 tokens in, 5 out."""
        self.later_calls += self.calls > 0 and not self._under_way
        self.calls += 1
        self.asked.set()
        self._under_way += 1
        try:
            # The answer takes a moment, so that concurrent calls overlap.
            await (asyncio.sleep(0) if self.answers else asyncio.Event().wait())
        finally:
            self._under_way -= 1
        usage = Usage(input_tokens=10, output_tokens=TOKENS - 10, api_calls=1)
        if self.error is not None:
            return ModelResponse(error=self.error, usage=usage, finish_reason="error")
        messages = ModelRequest.of(request).messages
        text = f"You said: {messages[-1].text if messages else ''}"
        return ModelResponse(content=text, usage=usage, finish_reason="stop")

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Stream the same answer, its text as one delta."""
        response = await self.call(request)
        if response.content:
            yield TextDelta(text=response.content)
        yield response


class Witness:
    """An observer that counts the ends of runs."""

    def __init__(self) -> None:
        self.ends: int = 0

    def on_run_end(self, info: object, result: object) -> None:
        """Count one end."""
        self.ends += 1


class Seen(NamedTuple):
    """One run as seen from outside."""

    result: AgentResult[Any]
    events: list[RunEvent]
    ends: int

    @property
    def reported(self) -> tuple[Any, ...]:
        """What is the same in an equal run."""
        result = self.result
        texts = tuple(message.text for message in result.messages)
        return result.status, result.content, result.output, texts


def ending(result: AgentResult[Any]) -> str:
    """Say how a run ended, for a message."""
    error = result.error
    text = f"it ended as {result.status}"
    return text if error is None else f"{text}, {error.code}: {error.message}"


def tasks_beside() -> set[asyncio.Task[Any]]:
    """Return all tasks except the current one."""
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


async def settle(wanted: Callable[[], bool], *, turns: int = 100) -> bool:
    """Yield to other tasks until *wanted* holds; return whether it does."""
    for _ in range(turns):
        if wanted():
            return True
        await asyncio.sleep(0)
    return wanted()
