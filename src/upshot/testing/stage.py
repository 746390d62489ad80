"""What the contract suites of engines and hosts share: a model, and runs that are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from ..contract import (
    AgentError,
    AgentResult,
    ModelInput,
    ModelRequest,
    ModelResponse,
    RunEvent,
    StreamItem,
    TextDelta,
    Usage,
)

__all__ = ["TOKENS", "PlainModel", "Seen", "Witness", "ending", "settle", "tasks_beside"]

TOKENS = 15


class PlainModel:
    """A model that answers everything at once, or never.

    Attributes:
        name: "contract:plain".
        calls: How often it was asked.
        later_calls: How often after an answer, and while it was answering nobody else.
        asked: Set when it was asked first.
        answers: Whether it ever answers.
        error: What it ends with instead of an answer, None for an answer.
    """

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
            # Its answer takes a moment, so that calls at the same time are seen to be that.
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
        """The same, its text as one delta."""
        response = await self.call(request)
        if response.content:
            yield TextDelta(text=response.content)
        yield response


class Witness:
    """An observer that counts the ends of runs."""

    def __init__(self) -> None:
        self.ends: int = 0

    def on_run_end(self, info: object, result: object) -> None:
        """Count one."""
        self.ends += 1


class Seen(NamedTuple):
    """One run as it was seen from outside.

    Attributes:
        result: What came of it.
        events: All of it.
        ends: How often observers were told of its end.
    """

    result: AgentResult[Any]
    events: list[RunEvent]
    ends: int

    @property
    def said(self) -> tuple[Any, ...]:
        """What an equal run says too."""
        result = self.result
        texts = tuple(message.text for message in result.messages)
        return result.status, result.content, result.output, texts


def ending(result: AgentResult[Any]) -> str:
    """How a run ended, for a message."""
    error = result.error
    said = f"it ended as {result.status}"
    return said if error is None else f"{said}, {error.code}: {error.message}"


def tasks_beside() -> set[asyncio.Task[Any]]:
    """All tasks but the current one."""
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


async def settle(wanted: Callable[[], bool], *, turns: int = 100) -> bool:
    """Let other tasks have their turn until *wanted* holds; whether it does."""
    for _ in range(turns):
        if wanted():
            return True
        await asyncio.sleep(0)
    return wanted()
