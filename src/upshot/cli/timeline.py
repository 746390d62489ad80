"""Rows and bars for the steps of a run, finished or in progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, Self, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.live import Live
from rich.text import Span, Text

from upshot.cli.stopping import time_left
from upshot.cli.terminal import Glyphs, Terminal, glyphs_for
from upshot.contract.base.words import clean, count, duration, figures
from upshot.contract.events import Event, RunResumed, RunStarted
from upshot.runs.task_supervisor import Stopping
from upshot.state.activity import Activity, Ended, Step, Tone, ending_of, label_of

STYLES: dict[Tone, str] = {"good": "green", "odd": "yellow", "bad": "red", "plain": ""}

_TIME_WIDTH = 8
_MAX_NAME_WIDTH = 22
_OUTCOME_WIDTH = 20
_MIN_BAR_WIDTH = 10
_MIN_NAME_WIDTH = 8
_WIDE_ENOUGH_FOR_MOMENTS = 56
# The first cells of a row are times.
_TIMES = 2


def timeline(activity: Activity, *, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """Draw the steps of a run, one row each, and another line for a long detail."""
    if not activity.steps:
        return
    names = max(*map(cell_len, map(label_of, activity.steps)), len("step"))
    row = _Row(_widths(min(_MAX_NAME_WIDTH, names), width), activity.length_s, glyphs)
    yield row.heading()
    for step in activity.steps:
        yield row.of(step)
        detail = ending_of(step).detail
        if detail and not row.inline(ending_of(step)):
            indent = row.detail_indent
            yield Text(" " * indent + fit(clean(detail), width - indent).rstrip(), "dim")


def bar(step: Step, *, length_s: float, width: int, glyphs: Glyphs) -> str:
    """Return a line of *width* characters with a bar for the time of *step* in *length_s* seconds.

    A step is at least one character wide, however short; the wait after it is drawn lighter.
    """
    first = min(width - 1, int(_share(step.start_s, length_s) * width))
    if step.kind == "mark":
        return (" " * first + glyphs.mark).ljust(width)
    end_s = length_s if step.end_s is None else step.end_s
    last = max(first + 1, round(_share(end_s, length_s) * width))
    until = max(last, round(_share(end_s + step.wait_s, length_s) * width))
    work, wait = glyphs.work * (last - first), glyphs.wait * (until - last)
    return (" " * first + work + (wait if step.wait_s else ""))[:width].ljust(width)


@lru_cache(maxsize=4096)
def fit(text: str, width: int) -> str:
    """Return *text* in exactly *width* columns, cut with an ellipsis or padded with spaces."""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)


class _Widths(NamedTuple):
    """Columns of each cell of a row; 0 leaves the cell out."""

    at: int
    took: int
    name: int
    bar: int
    outcome: int


def _widths(names: int, width: int) -> _Widths:
    bar = width - 2 * (_TIME_WIDTH + 1) - (names + 1) - 1 - _OUTCOME_WIDTH
    if bar >= _MIN_BAR_WIDTH:
        return _Widths(_TIME_WIDTH, _TIME_WIDTH, names, bar, _OUTCOME_WIDTH)
    at = _TIME_WIDTH if width >= _WIDE_ENOUGH_FOR_MOMENTS else 0
    left = width - (at + 1 if at else 0) - (_TIME_WIDTH + 1) - 1
    name = max(_MIN_NAME_WIDTH, min(names, left // 2))
    return _Widths(at, _TIME_WIDTH, name, 0, max(1, left - name))


class _Row:
    """The layout of the rows of one timeline."""

    def __init__(self, widths: _Widths, length_s: float, glyphs: Glyphs) -> None:
        self._widths = widths
        self._length_s = length_s
        self._glyphs = glyphs

    @property
    def detail_indent(self) -> int:
        """The column where the detail below a row starts."""
        times = (self._widths.at, self._widths.took)
        return sum(width + 1 for width in times if width) + 2

    def heading(self) -> Text:
        scale = "0" + duration(self._length_s).rjust(self._widths.bar - 1)
        return self._line(
            ("at", "dim"), ("took", "dim"), ("step", "dim"), (scale, "dim"), ("outcome", "dim")
        )

    def of(self, step: Step) -> Text:
        ended = ending_of(step)
        style = STYLES[ended.tone]
        is_mark = step.kind == "mark"
        took = "" if step.took_s is None or is_mark else duration(step.took_s)
        width = max(1, self._widths.bar)
        drawn = bar(step, length_s=self._length_s, width=width, glyphs=self._glyphs)
        return self._line(
            (f"{step.start_s:.2f} s", "dim"),
            (took, ""),
            (label_of(step), "bold" if step.kind == "model" else ""),
            (drawn, style),
            (self.inline(ended) or clean(ended.word), style),
        )

    def inline(self, ended: Ended) -> str:
        """Return word and detail of an ending if both fit into its column, else ""."""
        both = clean(", ".join(filter(None, (ended.word, ended.detail))))
        return both if cell_len(both) <= self._widths.outcome else ""

    def _line(self, *cells: tuple[str, str]) -> Text:
        drawn, spans = "", list[Span]()
        for place, (width, (text, style)) in enumerate(zip(self._widths, cells, strict=True)):
            if not width:
                continue
            cell = text.rjust(width) if place < _TIMES else fit(text, width)
            drawn += f" {cell}" if drawn else cell
            shown = len(cell.rstrip())
            if style and shown:
                begin = len(drawn) - len(cell)
                spans.append(Span(begin, begin + shown, style))
        # In one call: appending cell by cell takes three times as long, and a run may have tens of
        # thousands of rows.
        return Text(drawn.rstrip(), no_wrap=True, overflow="crop", spans=spans)


def _share(at_s: float, length_s: float) -> float:
    """Return where a moment lies in the whole, from 0 to 1."""
    return min(1.0, max(0.0, at_s / length_s)) if length_s > 0 else 0.0


Mode: TypeAlias = Literal["live", "lines", "none"]

_NAME_WIDTH = 22
_TOOK_WIDTH = 9
_MAX_SHOWN = 6
_REFRESH_S = 0.1
_SPINNER = "|/-\\"


def choose_mode(wanted: str, terminal: Terminal, *, streaming: bool) -> Mode:
    """Return how progress is shown."""
    is_screen = terminal.err.is_terminal
    if wanted == "none" or (wanted == "auto" and not is_screen):
        return "none"
    can_redraw = is_screen and not terminal.err.is_dumb_terminal and not streaming
    return "live" if wanted != "lines" and can_redraw else "lines"


class Progress:
    """Shows a run on stderr while it works; an async context manager.

    Args:
        activity: What the run has done.
        terminal: The terminal to write to.
        mode: How to show it.
        stopping: Returns the state of a requested stop; None if none was requested.
    """

    def __init__(
        self,
        activity: Activity,
        terminal: Terminal,
        mode: Mode,
        *,
        stopping: Callable[[], Stopping | None] = lambda: None,
    ) -> None:
        self._activity = activity
        self._stopping = stopping
        self._terminal = terminal
        self._mode: Mode = mode
        self._glyphs = glyphs_for(terminal.err.encoding)
        self._printed = 0
        self._live: Live | None = None
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._mode == "live":
            # Refreshed by the loop and not by a thread, which could read a half-updated state.
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

    async def __aexit__(self, *raised: object) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._live is not None:
            self._live.update(Text(""))
            self._live.stop()

    def add(self, event: Event) -> None:
        """Add the next event and show what it changed."""
        self._activity.add(event)
        if self._mode == "none":
            return
        if isinstance(event, RunStarted | RunResumed):
            # Shown first, so that the run can be resumed if the process dies.
            self.print_line(Text(f" {event.run_id}", "dim"))
        ended = self._activity.ended
        while self._printed < len(ended):
            self.print_line(
                settled_line(ended[self._printed], self._terminal.err.width, self._glyphs)
            )
            self._printed += 1

    def print_line(self, line: Text) -> None:
        """Show one more line, above the part that is redrawn."""
        if self._live is not None:
            self._live.console.print(line)
        else:
            self._terminal.report(line)

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(_REFRESH_S)

    def _show(self) -> None:
        if self._live is not None:
            width = self._terminal.err.width
            now_s = self._activity.offset_s(datetime.now(UTC))
            frame = int(time.monotonic() / _REFRESH_S)
            lines = [
                *picture(self._activity, now_s=now_s, width=width, glyphs=self._glyphs, frame=frame)
            ]
            if (stopping := self._stopping()) is not None:
                notice = f" stopping: {time_left(stopping)}"
                lines.append(Text(fit(notice, width - 1).rstrip(), "yellow"))
            self._live.update(Text("\n").join(lines), refresh=True)


def settled_line(step: Step, width: int, glyphs: Glyphs) -> Text:
    """Return a finished step as one line of *width* columns."""
    ended = ending_of(step)
    style = STYLES[ended.tone]
    sign = {"good": glyphs.good, "bad": glyphs.bad}.get(ended.tone, glyphs.odd)
    took = "" if step.took_s is None or step.kind == "mark" else duration(step.took_s)
    detail = f"{clean(ended.word)}  {clean(ended.detail)}" if ended.word else clean(ended.detail)
    return _progress_line((f" {sign} ", style), step, took, (detail.strip(), style), width)


def picture(
    activity: Activity, *, now_s: float, width: int, glyphs: Glyphs, frame: int = 0
) -> Iterator[Text]:
    """Yield lines with what the run is doing now, and what it has used."""
    spinner = _SPINNER[frame % len(_SPINNER)]
    running = activity.running
    for step in running[:_MAX_SHOWN]:
        yield _running_line(step, activity, now_s, width, spinner)
    if len(running) > _MAX_SHOWN:
        yield Text(f"   and {len(running) - _MAX_SHOWN} more", "dim")
    spent = figures(now_s, *activity.spent, len(activity.state.records))
    yield Text(fit(" " + f" {glyphs.dot} ".join(spent), width - 1).rstrip(), "dim")


def _running_line(step: Step, activity: Activity, now_s: float, width: int, spinner: str) -> Text:
    waits_s = step.start_s - now_s
    if waits_s > 0:
        detail, took = f"waits {duration(waits_s)}", ""
    else:
        detail, took = _doing(step, activity), duration(now_s - step.start_s)
    # The last column stays free: a full line would wrap while it is drawn.
    return _progress_line((f" {spinner} ", "cyan"), step, took, (detail, "dim"), width - 1)


def _progress_line(
    sign: tuple[str, str], step: Step, took: str, detail: tuple[str, str], width: int
) -> Text:
    """Return a step as one line; on a narrow terminal its name and its text share the width."""
    name_width = max(1, min(_NAME_WIDTH, (width - _TOOK_WIDTH - 6) // 2))
    left = max(1, width - name_width - _TOOK_WIDTH - 6)
    return Text.assemble(
        sign,
        (fit(label_of(step), name_width), "bold" if step.kind == "model" else ""),
        f" {took:>{_TOOK_WIDTH}}  ",
        (fit(detail[0], left).rstrip(), detail[1]),
        no_wrap=True,
        overflow="crop",
    )


def _doing(step: Step, activity: Activity) -> str:
    if step.kind != "model":
        return clean(step.note)
    return f"writes, {count(activity.text, 'character')}" if activity.text else clean(step.name)
