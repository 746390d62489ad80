"""A reply with nothing in it is no silent success."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.runs.kit import ADD, add, kinds, log_of, measured
from upshot import (
    Agent,
    AgentError,
    ModelResponse,
    Reasoning,
    ReasoningDelta,
    Retry,
    ServerToolBlock,
    TextDelta,
    run,
    start,
)
from upshot.journal import MemoryJournal


class Says:
    """A model that gives these replies in turn, the last one for ever."""

    name = "m"

    def __init__(self, *replies: ModelResponse) -> None:
        self.replies = replies
        self.asked = 0

    async def call(self, request: Any) -> ModelResponse:
        self.asked += 1
        return self.replies[min(self.asked, len(self.replies)) - 1]


class Streams(Says):
    """The same as a stream, with its thoughts and text as pieces."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        reply = await self.call(request)
        for thought in reply.reasoning:
            yield ReasoningDelta(text=thought.text)
        if reply.content:
            yield TextDelta(text=reply.content)
        yield reply


THOUGHT = ModelResponse(parts=(Reasoning(text="hm"),))
EMPTY: Sequence[ModelResponse] = [
    ModelResponse(),
    measured(None),
    measured(" \n"),
    measured(None, finish_reason="length"),
    THOUGHT,
    measured(None, finish_reason="tool_use"),
]


@pytest.mark.parametrize("reply", EMPTY)
@pytest.mark.parametrize("retry", [None, Retry(max_tries=1), Retry(max_tries=9)])
async def test_an_empty_reply_is_tried_once_more_and_then_an_error(
    reply: ModelResponse, retry: Retry | None
) -> None:
    model = Says(reply)
    result = await run(Agent("a", model=model, retry=retry), "?")
    assert (result.status, result.error and result.error.code) == ("failed", "empty_reply")
    assert (model.asked, result.usage.api_calls) == (2, 2)


async def test_the_next_try_may_answer() -> None:
    journal, model = MemoryJournal(), Says(ModelResponse(), measured("Hi."))
    result = await run(Agent("a", model=model, retry=None), "?", journal=journal)
    assert (result.content, result.warnings) == ("Hi.", ())
    assert "model_retried" in kinds(await log_of(journal, result.run_id))


@pytest.mark.parametrize("empty", [ModelResponse(), THOUGHT, ModelResponse(content=" ")])
async def test_a_stream_with_nothing_in_it_is_tried_once_more(empty: ModelResponse) -> None:
    model = Streams(empty, measured("Hi."))
    async with start(Agent("a", model=model, retry=None), "?") as live:
        async for _ in live:
            pass
        result = await live.finish()
    assert (result.content, model.asked) == ("Hi.", 2)


async def test_each_call_of_a_run_has_its_own_second_try() -> None:
    empty = ModelResponse()
    model = Says(empty, measured(None, ADD), empty, measured("3"))
    result = await run(Agent("a", model=model, tools=[add], retry=None), "?")
    assert (result.content, model.asked) == ("3", 4)


async def test_an_agent_may_say_nothing_if_it_says_so() -> None:
    model = Says(ModelResponse())
    result = await run(Agent("a", model=model, allow_empty=True), "?")
    assert (result.status, result.content, model.asked) == ("completed", None, 1)


@pytest.mark.parametrize(
    "reply",
    [
        ModelResponse(refusal="No."),
        ModelResponse(output={"a": 1}),
        ModelResponse(parts=(ServerToolBlock({"type": "image"}, "p"),)),
    ],
)
async def test_a_reply_with_anything_in_it_is_not_empty(reply: ModelResponse) -> None:
    model = Says(reply)
    result = await run(Agent("a", model=model), "?")
    assert (result.status, model.asked) == ("completed", 1)


@pytest.mark.parametrize(
    ("finish", "code"),
    [("content_filter", "content_filter"), ("aborted", "canceled"), ("error", "server_error")],
)
async def test_a_reply_that_says_that_it_failed_is_no_answer(finish: str, code: str) -> None:
    text = None if finish == "content_filter" else "Hal"
    model = Says(measured(text, finish_reason=finish))
    result = await run(Agent("a", model=model, retry=None), "?")
    assert (result.status, result.error and result.error.code) == ("failed", code)
    assert (result.finish_reason, model.asked) == (finish, 1)


async def test_a_last_reply_that_was_cut_short_is_told() -> None:
    result = await run(Agent("a", model=Says(measured("abc", finish_reason="length"))), "?")
    assert (result.content, [one.code for one in result.warnings]) == ("abc", ["truncated"])


async def test_a_cut_reply_with_calls_is_not_the_last() -> None:
    model = Says(measured(None, ADD, finish_reason="length"), measured("3"))
    result = await run(Agent("a", model=model, tools=[add]), "?")
    assert (result.content, [one.code for one in result.warnings]) == ("3", ["truncated"])


def test_an_empty_reply_may_be_tried_again() -> None:
    from upshot import from_contract

    error = from_contract({"error": {"code": "empty_reply", "message": "nothing"}}).error
    assert isinstance(error, AgentError)
    assert error.retryable


@pytest.mark.parametrize("reply", [ModelResponse(), ModelResponse(error=AgentError("timeout"))])
async def test_a_model_that_is_asked_once_is_asked_once(reply: ModelResponse) -> None:
    model = Says(reply)
    vars(model)["tries_once"] = True
    await run(Agent("a", model=model), "?", retry=Retry(base_s=0))
    assert model.asked == 1
