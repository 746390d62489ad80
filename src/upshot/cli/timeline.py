"""The timeline of a run: a row for each step, with a bar where its time lies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Span, Text

from .figures import clean, duration
from .glyphs import Glyphs
from .step import Ended, Step, Tone
from .story import Story

__all__ = ["STYLES", "bar", "ending", "fit", "label", "timeline"]

STYLES: dict[Tone, str] = {"good": "green", "odd": "yellow", "bad": "red", "plain": ""}

_TIME_WIDTH = 8
_MAX_NAME_WIDTH = 22
_OUTCOME_WIDTH = 20
_MIN_BAR_WIDTH = 10
_MIN_NAME_WIDTH = 8
_WIDE_ENOUGH_FOR_MOMENTS = 56
# The first cells of a row are times.
_TIMES = 2


def timeline(story: Story, *, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """Draw the steps of a run, with a line more where there is more to say of one.

    Args:
        story: The run; one without steps gives nothing.
        width: Columns to fill. Where they are few the bars go first, then the moments.
        glyphs: What to draw with.

    Yields:
        Lines of at most *width* columns.
    """
    if not story.steps:
        return
    names = max(*map(cell_len, map(label, story.steps)), len("step"))
    row = _Row(_widths(min(_MAX_NAME_WIDTH, names), width), story.length_s, glyphs)
    yield row.heading()
    for step in story.steps:
        yield row.of(step)
        detail = ending(step).detail
        if detail and not row.inline(ending(step)):
            indent = row.detail_indent
            yield Text(" " * indent + fit(clean(detail), width - indent).rstrip(), "dim")


def bar(step: Step, *, length_s: float, width: int, glyphs: Glyphs) -> str:
    """A line of *width* characters with a bar where *step* lies in *length_s* seconds.

    A step is at least one character wide, whatever its length; what was waited after it
    is drawn lighter.
    """
    first = min(width - 1, int(_share(step.start_s, length_s) * width))
    if step.kind == "mark":
        return (" " * first + glyphs.mark).ljust(width)
    end_s = length_s if step.end_s is None else step.end_s
    last = max(first + 1, round(_share(end_s, length_s) * width))
    until = max(last, round(_share(end_s + step.wait_s, length_s) * width))
    work, wait = glyphs.work * (last - first), glyphs.wait * (until - last)
    return (" " * first + work + (wait if step.wait_s else ""))[:width].ljust(width)


def label(step: Step) -> str:
    """What a step is called: ``model 2``, ``model 2 again``, a tool's name, a state."""
    if step.kind == "model":
        return f"model {step.number}{' again' if step.again else ''}"
    return clean(step.title or step.name, 60)


def ending(step: Step) -> Ended:
    """What came of a step, also where nothing is known of it."""
    if step.ended is not None:
        return step.ended
    return Ended("no outcome", "odd", "its process ended") if step.lost else Ended("under way")


@lru_cache(maxsize=4096)
def fit(text: str, width: int) -> str:
    """*text* in exactly *width* columns, cut with an ellipsis or filled with spaces."""
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
    """How the rows of one timeline are laid out."""

    def __init__(self, widths: _Widths, length_s: float, glyphs: Glyphs) -> None:
        self._widths = widths
        self._length_s = length_s
        self._glyphs = glyphs

    @property
    def detail_indent(self) -> int:
        """Where what is said below a row begins."""
        times = (self._widths.at, self._widths.took)
        return sum(width + 1 for width in times if width) + 2

    def heading(self) -> Text:
        scale = "0" + duration(self._length_s).rjust(self._widths.bar - 1)
        return self._line(
            ("at", "dim"), ("took", "dim"), ("step", "dim"), (scale, "dim"), ("outcome", "dim")
        )

    def of(self, step: Step) -> Text:
        ended = ending(step)
        style = STYLES[ended.tone]
        is_mark = step.kind == "mark"
        took = "" if step.took_s is None or is_mark else duration(step.took_s)
        width = max(1, self._widths.bar)
        drawn = bar(step, length_s=self._length_s, width=width, glyphs=self._glyphs)
        return self._line(
            (f"{step.start_s:.2f} s", "dim"),
            (took, ""),
            (label(step), "bold" if step.kind == "model" else ""),
            (drawn, style),
            (self.inline(ended) or clean(ended.word), style),
        )

    def inline(self, ended: Ended) -> str:
        """Word and detail of an ending where both fit into its column, else ""."""
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
        # In one go: to append cell by cell takes three times as long, and a run may have
        # ten thousands of rows.
        return Text(drawn.rstrip(), no_wrap=True, overflow="crop", spans=spans)


def _share(at_s: float, length_s: float) -> float:
    """Where a moment lies in the whole, from 0 to 1."""
    return min(1.0, max(0.0, at_s / length_s)) if length_s > 0 else 0.0
