"""Attendance: watching a run in flight, and what Ctrl-C does to it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.text import Text

from ..contract import (
    DELTAS,
    AgentResult,
    Event,
    InterruptCause,
    ModelReplied,
    ModelRetried,
    RunStarted,
    StepSettled,
    StepStarted,
    TextDelta,
    ToolStarted,
)
from ..journal import open_journal
from ..runs import LiveRun, Where
from ..runs.kin import child_of
from .progress import Mode, Progress
from .story import Story
from .terminal import Terminal

__all__ = ["TextStream", "attend"]


class TextStream:
    """Writes a model's text to stdout as it comes.

    What else is told at the same time, on the same terminal, stands on lines of its own.

    Attributes:
        wrote: Whether anything has been written.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.wrote: bool = False
        self._terminal = terminal
        self._at_line_start = True

    def take(self, event: Event) -> None:
        """Write the text of a delta; the end of a reply and what is done ends its line."""
        if isinstance(event, TextDelta) and event.text:
            self._terminal.put(event.text)
            self.wrote = True
            self._at_line_start = event.text.endswith("\n")
        elif isinstance(event, ModelReplied | ModelRetried | ToolStarted) or (
            # What is told of it next must not stand behind half a line of text.
            self._terminal.is_one_screen and not isinstance(event, DELTAS)
        ):
            self.end_line()

    def end_line(self) -> None:
        """End the line that was begun."""
        if not self._at_line_start:
            self._terminal.put("\n")
            self._at_line_start = True


async def attend(
    live: LiveRun[Any],
    terminal: Terminal,
    *,
    mode: Mode,
    stream: TextStream | None = None,
    journal: Where | None = None,
) -> tuple[AgentResult[Any], Story]:
    """Watch a run to its end.

    Ctrl-C, and SIGTERM, ask it to stop at its next safe point; a second one cancels it, a
    third one ends the process.

    Args:
        live: The run.
        terminal: Where it is shown.
        mode: How its progress is shown.
        stream: Gets its text as it comes, None where it is not wanted.
        journal: Where its log is, for the names of the runs inside it; None calls them by id.

    Returns:
        What came of it, and its story.
    """
    story = Story()
    with _signals(live, terminal):
        async with Progress(story, terminal, mode) as progress:
            async for event in live:
                if stream is not None:
                    stream.take(event)
                if isinstance(event, StepStarted | StepSettled) and mode != "none":
                    await _name_inner(event.key, story, journal)
                progress.take(event)
        result = await live.result()
    if stream is not None:
        stream.end_line()
    return result, story


async def _name_inner(key: str, story: Story, journal: Where | None) -> None:
    """Have a step that is a run inside called as its agent, as soon as its log says who that is."""
    run_id = child_of(key)
    if journal is None or run_id is None:
        return
    async with open_journal(journal) as log:
        async for event in log.events(run_id):
            if isinstance(event, RunStarted):
                story.name_run(run_id, event.agent.id)
            return


@contextmanager
def _signals(live: LiveRun[Any], terminal: Terminal) -> Generator[None]:
    """Turn signals into wishes while *live* is under way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    received = 0

    def stop(cause: InterruptCause, detail: str) -> None:
        nonlocal received
        received += 1
        if received == 1:
            terminal.tell(
                Text("stopping at the next safe point; once more stops at once", "yellow")
            )
            live.interrupt(cause, detail)
        elif received == 2:
            live.cancel()
        else:
            raise KeyboardInterrupt

    numbers = {
        signal.SIGINT: (InterruptCause.USER_CANCEL, "Ctrl-C"),
        signal.SIGTERM: (InterruptCause.HOST_SHUTDOWN, "SIGTERM"),
    }
    before = {number: signal.getsignal(number) for number in numbers}
    for number, why in numbers.items():
        loop.add_signal_handler(number, stop, *why)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if number is not signal.SIGINT:
                signal.signal(number, handler)
