"""Models of users, that have no more than they must have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runs.kit import Do, kinds, log_of, measured
from upshot import (
    Agent,
    AgentResult,
    Fallback,
    Misuse,
    ModelResponse,
    Status,
    TextDelta,
    run,
    start,
)
from upshot.journal import MemoryJournal


class Plain:
    """A model that only answers, and has no name."""

    async def call(self, request: Any) -> ModelResponse:
        return measured("Hi.")


class Sync:
    def call(self, request: Any) -> ModelResponse:
        return measured("Hi.")


class Streaming(Plain):
    async def stream(self, request: Any) -> Any:
        yield TextDelta(text="Hi.")
        yield measured("Hi.")


PLAIN: Any = Plain()
STREAMING: Any = Streaming()


def of(model: Any) -> Agent[str]:
    return Agent("a", model=model)


@pytest.mark.parametrize("model", [PLAIN, Sync(), STREAMING, Fallback(PLAIN, PLAIN)])
async def test_a_model_without_a_name_is_called_by_its_class(model: Any) -> None:
    name, journal = getattr(model, "name", type(model).__name__), MemoryJournal()
    result = await run(of(model), "?", journal=journal)
    log: list[Any] = await log_of(journal, result.run_id)
    assert (result.status, result.content) == ("completed", "Hi.")
    assert log[0].options["model"] == name
    assert {event.model for event in log if event.kind.startswith("model_")} == {name}


@pytest.mark.parametrize(
    ("model", "deltas"),
    [
        (PLAIN, 0),
        (Sync(), 0),
        (STREAMING, 1),
        (Fallback(PLAIN), 0),
        (Fallback(STREAMING), 1),
    ],
)
async def test_a_model_that_only_answers_can_be_watched(model: Any, deltas: int) -> None:
    async with start(of(model), "?") as live:
        events = [event async for event in live]
        result = await live.result()
    assert (result.content, kinds(events).count("text_delta")) == ("Hi.", deltas)


class Mute:
    """A model that only streams."""

    stream = Streaming.stream


async def test_a_model_that_cannot_be_called_is_misuse() -> None:
    with pytest.raises(Misuse, match="a Model"):
        of(Mute())

    async def work(run: Any, host: Any, board: Any) -> None:
        await run.call_model("?", model=Mute())

    result: AgentResult[Any] = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert "a model of type Mute: give a Model" in result.error.message


class Odd:
    async def call(self, request: Any) -> Any:
        return "Hi."


async def test_what_is_no_reply_is_told_with_the_name_of_the_model() -> None:
    result = await run(of(Odd()), "?")
    assert result.error is not None
    assert result.error.message == (
        "the model 'Odd' returned a value of type str: return a ModelResponse(content=...)"
    )


class Rambling(Plain):
    async def stream(self, request: Any) -> Any:
        for item in ("Hi.", {"text": "Hi."}, TextDelta(text="Hi."), measured("Hi.")):
            yield item


async def test_what_is_no_piece_of_a_reply_is_passed_over() -> None:
    async with start(of(Rambling()), "?") as live:
        told = [text async for text in live.text()]
        assert (await live.result()).content == "Hi."
    assert told == ["Hi."]


class Unclosable(Plain):
    """Its stream cannot be left in the middle."""

    async def stream(self, request: Any) -> Any:
        try:
            for _ in range(1_000):
                yield TextDelta(text="Hi. ")
                await asyncio.sleep(0)
        finally:
            raise OSError("It is stuck.")


async def test_a_run_is_interrupted_in_a_reply_that_cannot_be_left_too() -> None:
    async with start(of(Unclosable()), "?") as live:
        async for event in live:
            if isinstance(event, TextDelta):
                live.interrupt("user_input")
        result = await live.result()
    assert (result.status, result.content) == (Status.INTERRUPTED, "Hi. ")
    assert result.usage.unmeasured_calls == 1
    (warning,) = result.warnings
    assert (warning.code, warning.message) == (
        "model_failed",
        "the model 'Unclosable', left in a reply, raised OSError: It is stuck.",
    )
