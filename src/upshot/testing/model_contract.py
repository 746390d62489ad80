"""ModelContract: what every model must do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from unittest import SkipTest

from upshot.contract.message import Message
from upshot.contract.model_calls import (
    ModelInput,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    PartDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.protocols import Model
from upshot.contract.usage import Usage
from upshot.testing.suite import Role, Suite, value_of

_PIECES = (TextDelta, ReasoningDelta, ToolCallDelta, PartDelta, Usage, ModelRetried)
# After how many turns of the loop a call is cancelled: during its first waits.
_TURNS = (1, 2, 4)


class ModelContract(Suite[Model]):
    """A suite for pytest: inherit, and define a ``make`` that returns a model.

    A model has ``call``, sync or async, which takes a ModelRequest. Checks of optional parts are
    skipped if they are missing: ``stream``, ``name``, and calls with a text or messages.

    Attributes:
        prompt: A text that the model answers with a text, at least once.
    """

    prompt: str = "Hello"
    _role: Role = Role("a model", ("call",))

    async def test_its_name_says_provider_and_model(self) -> None:
        """The name is "provider:name", for logs and prices."""
        async with self._made() as model:
            name: object = getattr(model, "name", None)
        if name is None:
            raise SkipTest("the model has no name: logs call it by its class")
        assert isinstance(name, str) and name.strip(), f"its name is {name!r:.60} and no text"
        provider, _, rest = name.partition(":")
        if not (provider and rest):
            raise SkipTest(f"its name is {name!r}: without provider:name it has no price")

    async def test_it_answers_a_text(self) -> None:
        """A text is answered without an error, and with text."""
        await self._ask_also(self.prompt)

    async def test_it_answers_messages(self) -> None:
        """A sequence of messages works like a text."""
        await self._ask_also([Message("user", self.prompt)])

    async def test_it_answers_a_request(self) -> None:
        """A whole request works too; runs send those."""
        await self._ask(self._request)

    async def test_a_stream_ends_in_its_response(self) -> None:
        """The response comes last and once; the deltas after any ``ModelRetried`` are its text."""
        async with self._streaming() as model:
            items = [item async for item in _stream(model, self._request)]
        kinds = [type(item).__name__ for item in items]
        assert items and isinstance(items[-1], ModelResponse), f"the stream gave {kinds}"
        *pieces, last = items
        assert all(isinstance(item, _PIECES) for item in pieces), f"the stream gave {kinds}"
        deltas_say = ""
        for item in pieces:
            if isinstance(item, ModelRetried):
                deltas_say = ""
            elif isinstance(item, TextDelta):
                deltas_say += item.text
        text = _check_answer(last).content
        assert deltas_say == text, f"its deltas say {deltas_say!r}, and its response says {text!r}"

    async def test_a_cancel_is_not_swallowed(self) -> None:
        """A cancelled call returns no answer."""
        await self._cancel(lambda model: _call(model, self._request))

    async def test_a_cancel_of_a_stream_is_not_swallowed(self) -> None:
        """A cancelled reader receives nothing more."""

        async def read(model: Model) -> None:
            async for _ in _stream(model, self._request):
                pass

        async with self._streaming():
            pass
        await self._cancel(read)

    @property
    def _request(self) -> ModelRequest:
        return ModelRequest(messages=(Message("user", self.prompt),))

    @asynccontextmanager
    async def _streaming(self) -> AsyncGenerator[Any]:
        """Yield the model, if it streams."""
        async with self._made() as model:
            if getattr(model, "stream", None) is None:
                raise SkipTest("the model has no stream: it replies whole to every subscriber")
            yield model

    async def _ask_also(self, request: ModelInput) -> None:
        """Ask something that a run never asks, but other callers of the model may."""
        try:
            await self._ask(request)
        except AssertionError as error:
            # Fails here if the model does not even answer a request.
            await self._ask(self._request)
            why = "it takes requests only; ModelRequest.of(...) makes one of texts and messages"
            raise SkipTest(f"{why} ({error})") from error

    async def _ask(self, request: ModelInput) -> None:
        async with self._made() as model:
            _check_answer(await _call(model, request))

    async def _cancel(self, work: Callable[[Model], Awaitable[object]]) -> None:
        for turns in _TURNS:
            async with self._made() as model:
                task = asyncio.ensure_future(work(model))
                # Let it enter the body: a task that has not started is cancelled whatever the model
                # does.
                for _ in range(turns):
                    await asyncio.sleep(0)
                if not task.cancel():
                    # It never waited, or it answered before.
                    task.result()
                    continue
                await asyncio.wait((task,))
                came = task.cancelled() or task.exception() or "an answer"
                assert task.cancelled(), f"it was cancelled, and it gave {came!r}"


async def _call(model: Model, request: ModelInput) -> ModelResponse:
    try:
        return cast("ModelResponse", await value_of(model.call(request)))
    except Exception as error:
        # A model must not raise; report it as a breach of the contract.
        raise AssertionError(f"call() raised {error!r}: errors are values") from error


async def _stream(model: Model, request: ModelInput) -> AsyncIterator[object]:
    given: object = model.stream(request)
    if inspect.iscoroutine(given):
        given.close()
    kind = type(given).__name__
    assert hasattr(given, "__aiter__"), f"stream() gave a {kind} and no async iterator"
    try:
        async for item in cast("AsyncIterator[object]", given):
            yield item
    except Exception as error:
        # A model must not raise; report it as a breach of the contract.
        raise AssertionError(f"stream() raised {error!r}: errors are values") from error


def _check_answer(response: object) -> ModelResponse:
    """Check that *response* is an answer with a text."""
    kind = type(response).__name__
    assert isinstance(response, ModelResponse), f"it gave a {kind} and no ModelResponse"
    assert response.error is None, f"it failed: {response.error}"
    assert response.content, "its answer has no text"
    return response
