"""What the tests of graphs share: runs of a graph, whole and cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.runs.kit import log_of
from upshot import Agent, AgentResult, Board, Event, Graph, GraphEngine, Message, Request, run
from upshot import resume as go_on
from upshot.journal import MemoryJournal

AGENT: Agent[Any] = Agent("walker")


async def walk(graph: Graph, **options: Any) -> AgentResult[Any]:
    """Run *graph* without a journal."""
    agent = options.pop("agent", AGENT)
    return await run(agent, Request("Go.", run_id="run-1"), engine=GraphEngine(graph), **options)


async def logged(graph: Graph, **options: Any) -> tuple[AgentResult[Any], list[Event]]:
    """Run *graph*; the result and all that was logged."""
    journal = MemoryJournal()
    result = await walk(graph, journal=journal, **options)
    return result, await log_of(journal, "run-1")


async def cut_and_resumed(
    graph: Graph, events: list[Event], **options: Any
) -> tuple[AgentResult[Any], list[Event]]:
    """Go on with a run of which only *events* reached the disk."""
    journal = MemoryJournal()
    epoch = await journal.claim("run-1")
    for event in events:
        journal.append(event, epoch=epoch)
    agent = options.pop("agent", AGENT)
    result = await go_on("run-1", agent, journal=journal, engine=GraphEngine(graph), **options)
    return result, await log_of(journal, "run-1")


def board_of(events: list[Event]) -> Board:
    """The board that the log shows."""
    board = Board()
    for event in events:
        if event.kind == "attempt_started":
            # A seed that was cut off is sown again.
            board = Board()
        if event.kind == "board_changed":
            board.apply(event)  # type: ignore[arg-type]
    return board


async def variables_of(graph: Graph, **options: Any) -> dict[str, Any]:
    """What is on the board when *graph* has completed."""
    result, log = await logged(graph, **options)
    assert result.success, result.error
    return board_of(log).variables()


def sets(**values: Any) -> Callable[[Board], None]:
    """A node that sets variables."""

    def work(board: Board) -> None:
        for name, value in values.items():
            board.set(name, value)

    return work


def says(text: str) -> Callable[[Board], None]:
    """A node that says something."""

    def work(board: Board) -> None:
        board.append(Message("assistant", text))

    return work


def spoken(result: AgentResult[Any]) -> list[str]:
    return [message.text for message in result.messages]


def nothing(board: Board) -> None:
    """A node that does nothing."""
