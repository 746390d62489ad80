"""The timeline of a run: a row for each step, with a bar where its time lies."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.text import Text

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
_GAPS = 4
_DETAIL_INDENT = 2 * (_TIME_WIDTH + 1) + 2


def timeline(story: Story, *, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """Draw the steps of a run, with a line more where there is more to say of one.

    Args:
        story: The run; one without steps gives nothing.
        width: Columns to fill, at least 70 or the bars are cut at the right.
        glyphs: What to draw with.

    Yields:
        Lines of at most *width* columns.
    """
    if not story.steps:
        return
    names = max(*map(cell_len, map(label, story.steps)), len("step"))
    name_width = min(_MAX_NAME_WIDTH, names)
    fixed = 2 * _TIME_WIDTH + name_width + _OUTCOME_WIDTH + _GAPS
    row = _Row(story.length_s, name_width, max(_MIN_BAR_WIDTH, width - fixed), glyphs)
    yield row.heading()
    for step in story.steps:
        yield row.of(step)
        detail = ending(step).detail
        if detail and not _inline(ending(step)):
            yield Text(" " * _DETAIL_INDENT + clean(detail, width - _DETAIL_INDENT), "dim")


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
    """What a step is called: ``model 2``, ``model 2 again``, a tool's name."""
    if step.kind == "model":
        return f"model {step.number}{' again' if step.again else ''}"
    return clean(step.name, 60)


def ending(step: Step) -> Ended:
    """What came of a step, also where nothing is known of it."""
    if step.ended is not None:
        return step.ended
    return Ended("no outcome", "odd", "its process ended") if step.lost else Ended("under way")


def fit(text: str, width: int) -> str:
    """*text* in exactly *width* columns, cut with an ellipsis or filled with spaces."""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)


class _Row:
    """How the rows of one timeline are laid out."""

    def __init__(self, length_s: float, name_width: int, bar_width: int, glyphs: Glyphs) -> None:
        self._length_s = length_s
        self._name_width = name_width
        self._bar_width = bar_width
        self._glyphs = glyphs

    def heading(self) -> Text:
        end = duration(self._length_s)
        scale = "0" + end.rjust(self._bar_width - 1)
        return self._line(
            ("at", "dim"), ("took", "dim"), ("step", "dim"), (scale, "dim"), ("outcome", "dim")
        )

    def of(self, step: Step) -> Text:
        ended = ending(step)
        style = STYLES[ended.tone]
        is_mark = step.kind == "mark"
        took = "" if step.took_s is None or is_mark else duration(step.took_s)
        drawn = bar(step, length_s=self._length_s, width=self._bar_width, glyphs=self._glyphs)
        return self._line(
            (f"{step.start_s:.2f} s", "dim"),
            (took, ""),
            (label(step), "bold" if step.kind == "model" else ""),
            (drawn, style),
            (_inline(ended) or clean(ended.word), style),
        )

    def _line(self, *cells: tuple[str, str]) -> Text:
        at, took, name, drawn, outcome = cells
        return Text.assemble(
            (at[0].rjust(_TIME_WIDTH) + " ", at[1]),
            (took[0].rjust(_TIME_WIDTH) + " ", took[1]),
            (fit(name[0], self._name_width) + " ", name[1]),
            (drawn[0] + " ", drawn[1]),
            (fit(outcome[0], _OUTCOME_WIDTH).rstrip(), outcome[1]),
            no_wrap=True,
            overflow="crop",
        )


def _inline(ended: Ended) -> str:
    """Word and detail of an ending where both fit into its column, else ""."""
    both = clean(", ".join(filter(None, (ended.word, ended.detail))))
    return both if cell_len(both) <= _OUTCOME_WIDTH else ""


def _share(at_s: float, length_s: float) -> float:
    """Where a moment lies in the whole, from 0 to 1."""
    return min(1.0, max(0.0, at_s / length_s)) if length_s > 0 else 0.0
