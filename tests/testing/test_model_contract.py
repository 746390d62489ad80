"""The suite of models: run on those that ship, on sound ones and on broken ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tests.testing.suites import assert_red, assert_skipped, checks_of, tried_by
from upshot import AgentError, Fallback, ModelRequest, ModelResponse, TextDelta, resolve
from upshot.models import ScriptedModel
from upshot.models.batch_model import BatchModel
from upshot.testing import ModelContract


class Answer:
    """A sound model, for others to break."""

    name = "test:sound"

    async def call(self, request: Any) -> Any:
        await asyncio.sleep(0)
        return ModelResponse(content=ModelRequest.of(request).messages[-1].text)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        response = await self.call(request)
        yield TextDelta(text=response.content)
        yield response


class Wire:
    """A transport that answers every request, whole or streamed."""

    @asynccontextmanager
    async def send(self, method, url, headers, body, *, timeouts):
        await asyncio.sleep(0)
        message = {"role": "assistant", "content": "Hello yourself."}
        if json.loads(body).get("stream"):
            choice = {"index": 0, "delta": message, "finish_reason": "stop"}
            chunk = json.dumps({"model": "any", "choices": [choice]})
            kind, text = "text/event-stream", f"data: {chunk}\n\ndata: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            kind, text = "application/json", json.dumps({"model": "any", "choices": [choice]})

        async def pieces():
            yield text.encode()

        yield 200, [("content-type", kind)], pieces()


class TestModel(ModelContract):
    def make(self) -> Any:
        return ScriptedModel(["Hello yourself."])


class TestSoundModel(ModelContract):
    async def make(self) -> Any:
        return Answer()


class TestFallback(ModelContract):
    def make(self) -> Any:
        down = AgentError("server_error", "Down.")
        return Fallback(ScriptedModel([down], name="test:down"), Answer())


class TestHttpModel(ModelContract):
    def make(self) -> Any:
        return resolve("openai:any", transport=Wire(), api_key="any")


class TestBatchModel(ModelContract):
    """Asked at once; tests/engines/test_batch_engine.py asks it by batches."""

    def make(self) -> Any:
        return BatchModel.of(resolve("openai:any", transport=Wire(), api_key="any"))


class TestSyncModel(ModelContract):
    """The least that a model has."""

    def make(self) -> Any:
        class Sync:
            def call(self, request: ModelRequest) -> ModelResponse:
                return ModelResponse(content=request.messages[-1].text)

        return Sync()


def bare(**facts: Any) -> Any:
    """A model that only takes requests, and has *facts*."""

    async def call(request: ModelRequest) -> ModelResponse:
        return ModelResponse(content=request.messages[-1].text)

    return lambda: SimpleNamespace(call=call, **facts)


@pytest.mark.parametrize(
    ("make", "check", "words"),
    [
        (bare(), "test_its_name_says_provider_and_model", "the model has no name"),
        (bare(name="me"), "test_its_name_says_provider_and_model", "its name is 'me'"),
        (bare(), "test_it_answers_a_text", "it takes requests only"),
        (bare(), "test_it_answers_messages", "it takes requests only"),
        (bare(), "test_a_stream_ends_in_its_response", "the model has no stream"),
        (bare(), "test_a_cancel_of_a_stream_is_not_swallowed", "the model has no stream"),
    ],
)
def test_what_a_model_does_not_have_is_skipped(make: Any, check: str, words: str) -> None:
    assert_skipped(ModelContract, check, make, words)


class Nameless(Answer):
    name = ""


class Silent(Answer):
    async def call(self, request: Any) -> Any:
        return ModelResponse()


class Down(Answer):
    async def call(self, request: Any) -> Any:
        return ModelResponse(error=AgentError("server_error", "It is down."))


class Raising(Answer):
    async def call(self, request: Any) -> Any:
        raise ConnectionError("nobody there")


class Plain(Answer):
    async def call(self, request: Any) -> Any:
        return "Hello yourself."


class Narrow(Answer):
    """Takes texts only."""

    async def call(self, request: Any) -> Any:
        assert isinstance(request, str), "give me a text"
        return await super().call(request)


class Chatty(Answer):
    """Says another thing in pieces than as a whole."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield TextDelta(text="Well, ")
        async for item in super().stream(request):
            yield item


class Endless(Answer):
    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield TextDelta(text="and so on")


class Twice(Answer):
    async def stream(self, request: Any) -> AsyncIterator[Any]:
        for _ in range(2):
            yield await self.call(request)


class Whole(Answer):
    async def stream(self, request: Any) -> Any:
        return await self.call(request)


class Unstoppable(Answer):
    async def call(self, request: Any) -> Any:
        try:
            return await super().call(request)
        except asyncio.CancelledError:
            return ModelResponse(content="Anyway.")


class UnstoppableLater(Answer):
    """Lets itself be cancelled in its first wait only."""

    async def call(self, request: Any) -> Any:
        await asyncio.sleep(0)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return ModelResponse(content="Anyway.")


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Nameless, "test_its_name_says_provider_and_model", "its name is '' and no text"),
        (Silent, "test_it_answers_a_text", "its answer has no text"),
        (Down, "test_it_answers_a_text", "It is down."),
        (Raising, "test_it_answers_a_text", "call() raised ConnectionError('nobody there')"),
        (Plain, "test_it_answers_a_text", "it gave a str and no ModelResponse"),
        (Narrow, "test_it_answers_messages", "give me a text"),
        (Narrow, "test_it_answers_a_request", "give me a text"),
        (Chatty, "test_a_stream_ends_in_its_response", "its deltas say 'Well, Hello'"),
        (Endless, "test_a_stream_ends_in_its_response", "the stream gave ['TextDelta']"),
        (Twice, "test_a_stream_ends_in_its_response", "['ModelResponse', 'ModelResponse']"),
        (Whole, "test_a_stream_ends_in_its_response", "stream() gave a coroutine and no async"),
        (Raising, "test_a_stream_ends_in_its_response", "stream() raised ConnectionError"),
        (Unstoppable, "test_a_cancel_is_not_swallowed", "it was cancelled, and it gave"),
        (UnstoppableLater, "test_a_cancel_is_not_swallowed", "it was cancelled, and it gave"),
        (Unstoppable, "test_a_cancel_of_a_stream_is_not_swallowed", "it was cancelled"),
    ],
)
def test_a_broken_model_is_found_out(broken: Any, check: str, words: str) -> None:
    assert_red(ModelContract, check, broken, words)


def test_every_check_of_the_suite_is_tried() -> None:
    assert tried_by(test_a_broken_model_is_found_out) == checks_of(ModelContract)
