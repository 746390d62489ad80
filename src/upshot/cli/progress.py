"""Progress: what a run is doing now, as a moving picture or line by line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Self, TypeAlias

from rich.live import Live
from rich.text import Text

from ..contract import Event, RunResumed, RunStarted
from .figures import clean, count, duration, money, tokens
from .glyphs import Glyphs, glyphs_for
from .step import Step
from .story import Story
from .terminal import Terminal
from .timeline import STYLES, ending, fit, label

__all__ = ["Mode", "Progress", "choose_mode", "picture", "settled_line"]

Mode: TypeAlias = Literal["live", "lines", "none"]

_NAME_WIDTH = 22
_TOOK_WIDTH = 9
_MAX_SHOWN = 6
_REFRESH_S = 0.1
_SPINNER = "|/-\\"


def choose_mode(wished: str, terminal: Terminal, *, streaming: bool) -> Mode:
    """How progress is shown.

    Args:
        wished: "auto", "live", "lines" or "none".
        terminal: Where it is shown.
        streaming: Whether text comes out at the same time, which a picture would tear apart.

    Returns:
        For "auto": a picture on a terminal, nothing in a pipe.
    """
    moves = terminal.err.is_terminal and not terminal.err.is_dumb_terminal
    match wished:
        case "none":
            return "none"
        case "lines":
            return "lines"
        case "live":
            return "live" if moves and not streaming else "lines"
        case _ if not terminal.err.is_terminal:
            return "none"
        case _:
            return "live" if moves and not streaming else "lines"


class Progress:
    """Shows a run on stderr while it is under way; an async context manager.

    Args:
        story: What is shown; this adds the events to it.
        terminal: Where.
        mode: How.
    """

    def __init__(self, story: Story, terminal: Terminal, mode: Mode) -> None:
        self._story = story
        self._terminal = terminal
        self._mode: Mode = mode
        self._glyphs = glyphs_for(terminal.err.encoding)
        self._told = 0
        self._live: Live | None = None
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._mode == "live":
            # Refreshed by the loop and not by a thread, which would read a story half told.
            self._live = Live(
                console=self._terminal.err,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            self._ticker = asyncio.get_running_loop().create_task(self._tick())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._live is not None:
            self._live.update(Text(""))
            self._live.stop()

    def take(self, event: Event) -> None:
        """Take the next event and show what it changed."""
        self._story.add(event)
        if self._mode == "none":
            return
        if isinstance(event, RunStarted | RunResumed):
            # First of all, so that it is known what to resume should the process die.
            self._tell(Text(f" {event.run_id}", "dim"))
        ended = self._story.ended
        while self._told < len(ended):
            self._tell(settled_line(ended[self._told], self._terminal.err.width, self._glyphs))
            self._told += 1

    def _tell(self, line: Text) -> None:
        if self._live is not None:
            self._live.console.print(line)
        else:
            self._terminal.tell(line)

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(_REFRESH_S)

    def _show(self) -> None:
        if self._live is not None:
            width = self._terminal.err.width
            now_s = self._story.offset_s(datetime.now(UTC))
            frame = int(time.monotonic() / _REFRESH_S)
            lines = picture(self._story, now_s=now_s, width=width, glyphs=self._glyphs, frame=frame)
            self._live.update(Text("\n").join(lines), refresh=True)


def settled_line(step: Step, width: int, glyphs: Glyphs) -> Text:
    """A step that ended, in one line of *width* columns."""
    ended = ending(step)
    style = STYLES[ended.tone]
    sign = {"good": glyphs.good, "bad": glyphs.bad}.get(ended.tone, glyphs.odd)
    took = "" if step.took_s is None or step.kind == "mark" else duration(step.took_s)
    said = f"{clean(ended.word)}  {clean(ended.detail)}" if ended.word else clean(ended.detail)
    name_width = _name_width(width)
    left = max(1, width - name_width - _TOOK_WIDTH - 6)
    return Text.assemble(
        (f" {sign} ", style),
        (fit(label(step), name_width), "bold" if step.kind == "model" else ""),
        f" {took:>{_TOOK_WIDTH}} ",
        " ",
        (fit(said.strip(), left).rstrip(), style),
        no_wrap=True,
        overflow="crop",
    )


def picture(
    story: Story, *, now_s: float, width: int, glyphs: Glyphs, frame: int = 0
) -> Iterator[Text]:
    """What the run does at this moment, and what it has used.

    Args:
        story: The run so far.
        now_s: Seconds of work since its start.
        width: Columns of the terminal.
        glyphs: What to draw with.
        frame: Counts up, and turns the spinner.

    Yields:
        A line for each step under way, at most ``_MAX_SHOWN``, and one with the figures.
    """
    spinner = _SPINNER[frame % len(_SPINNER)]
    running = story.running
    for step in running[:_MAX_SHOWN]:
        yield _running_line(step, story, now_s, width, spinner)
    if len(running) > _MAX_SHOWN:
        yield Text(f"   and {len(running) - _MAX_SHOWN} more", "dim")
    figures = [
        duration(now_s),
        f"{tokens(story.usage)} tokens",
        f"cost {money(story.cost)}",
        count(len(story.records), "tool call"),
    ]
    yield Text(fit(" " + f" {glyphs.dot} ".join(figures), width - 1).rstrip(), "dim")


def _running_line(step: Step, story: Story, now_s: float, width: int, spinner: str) -> Text:
    waits_s = step.start_s - now_s
    if waits_s > 0:
        said, took = f"waits {duration(waits_s)}", ""
    else:
        said, took = _doing(step, story), duration(now_s - step.start_s)
    name_width = _name_width(width)
    left = max(1, width - name_width - _TOOK_WIDTH - 7)
    return Text.assemble(
        (f" {spinner} ", "cyan"),
        (fit(label(step), name_width), "bold" if step.kind == "model" else ""),
        f" {took:>{_TOOK_WIDTH}} ",
        (" " + fit(said, left).rstrip(), "dim"),
        no_wrap=True,
        overflow="crop",
    )


def _name_width(width: int) -> int:
    """Columns for a name; on a narrow terminal names and what came of them share the room."""
    return max(1, min(_NAME_WIDTH, (width - _TOOK_WIDTH - 7) // 2))


def _doing(step: Step, story: Story) -> str:
    if step.kind != "model":
        return clean(step.note)
    return f"writes, {count(story.text, 'character')}" if story.text else clean(step.name)
