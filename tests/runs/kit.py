"""Shared by the tests of runs: an engine from a function, and recording observers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from upshot import Event, Journal, Message, ModelResponse, ToolCall, Usage
from upshot.journal import MemoryJournal
from upshot.journal.shared import PlacedAnswer
from upshot.state.stored_events import states

ADD = ToolCall("call-1", "add", {"a": 1, "b": 2})


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def measured(content: str | None = None, *calls: ToolCall, **facts: Any) -> ModelResponse:
    """A reply that reports its usage: 10 tokens in, 5 out."""
    usage = Usage(input_tokens=10, output_tokens=5, api_calls=1)
    finish = "tool_use" if calls else "stop"
    facts = {"usage": usage, "finish_reason": finish} | facts
    return ModelResponse(content=content, tool_calls=calls, **facts)


class Do:
    """An engine that calls a function of (run, host, board), sync or async."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        value = self._work(run, host, board)
        return await value if inspect.isawaitable(value) else value


def raising(error: BaseException) -> Do:
    """An engine that raises *error*."""

    def work(run: Any, host: Any, board: Any) -> None:
        raise error

    return Do(work)


def say(text: str) -> Message:
    return Message("assistant", text)


class Witness:
    """An observer that records its notifications, in order."""

    def __init__(self, name: str = "", book: list[Any] | None = None) -> None:
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self.book = book if book is not None else []
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., None]:
        if not method.startswith("on_"):
            raise AttributeError(method)

        def tell(info: Any, *facts: Any) -> None:
            self.told.append((method, facts))
            self.book.append(f"{self._name}{method}")

        return tell

    def names(self) -> list[str]:
        return [name for name, _ in self.told]

    def facts(self, method: str) -> list[tuple[Any, ...]]:
        return [facts for name, facts in self.told if name == method]


async def copied(events: list[Event], journal: MemoryJournal, run_id: str = "run-1") -> None:
    epoch = await journal.claim(run_id)
    for event in events:
        journal.append(event, epoch=epoch)


async def log_of(journal: Journal, run_id: str) -> list[Event]:
    """Return every durable event of a run, in order."""
    return [event async for event, _ in states(journal.events(run_id))]


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


class Ordered(MemoryJournal):
    """A journal that records the order of the events of all its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[Event] = []

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        super().append(event, epoch=epoch)
        self.order.append(event)

    def cut(self, length: int) -> Ordered:
        """Return the journal as it was if its process had died after *length* events."""
        shorter = Ordered()
        for event in self.order[:length]:
            shorter.append(event)
        return shorter


class Safe(Ordered):
    """A journal that records how much of it was on disk at the last barrier."""

    def __init__(self) -> None:
        super().__init__()
        self.safe: list[Event] = []

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        await super().durable(run_id, seq, epoch=epoch)
        self.safe = [*self.order]


class Raced(MemoryJournal):
    """A journal whose run another process continues just before it is claimed or answered.

    Args:
        before: The events in the journal.
        at: The run whose claim or answer comes too late.
        then: The events that the other process writes.
    """

    def __init__(self, before: list[Event], at: str, then: list[Event]) -> None:
        super().__init__()
        self._at, self._then = at, then
        for event in before:
            self.append(event)

    async def claim(self, run_id: str, *, cut: bool = False) -> int:
        self._go_on(run_id)
        return await super().claim(run_id, cut=cut)

    async def place_answer(self, answer: PlacedAnswer, **more: Any) -> PlacedAnswer | None:
        self._go_on(answer.run_id)
        return await super().place_answer(answer, **more)

    def _go_on(self, run_id: str) -> None:
        if run_id == self._at:
            then, self._then = self._then, []
            for event in then:
                self.append(event)
