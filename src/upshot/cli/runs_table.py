"""The table of a journal's runs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from ..contract import RunSummary
from ..journal import Holder
from .figures import clean
from .glyphs import Glyphs
from .report import LEFT_BEHIND, status_style, status_words
from .timeline import fit

__all__ = ["runs_table"]

_MAX_AGENT_WIDTH = 20
_MIN_REQUEST_WIDTH = 8
_HEADING = ("run", "status", "agent", "started (UTC)", "request")
_REQUEST = 4
# What goes first where there is no room.
_LEAST_NEEDED = (3, 2, _REQUEST)


def runs_table(
    runs: Sequence[RunSummary],
    *,
    width: int | None,
    glyphs: Glyphs,
    holders: Mapping[str, Holder] | None = None,
    left: Container[str] = (),
) -> Iterator[Text]:
    """Lay runs out as rows: id, status, agent, start and what was asked.

    Args:
        runs: What to show, in order; empty gives nothing. One that another one of them has
            started stands below that.
        width: Columns to fill, None for as many as needed. The request gets what is left; where
            that is too little, columns are left out.
        glyphs: What to draw with.
        holders: The processes that took runs, by run; None where none are known.
        left: The runs that are open while one round them has ended.

    Yields:
        A heading, then a line for each run.
    """
    if not runs:
        return
    placed = list(_placed(runs))
    known = holders or {}
    rows = [
        _cells(run, depth, glyphs, _state(run, known.get(run.run_id), left))
        for run, depth in placed
    ]
    widths = [max(map(cell_len, column)) for column in zip(_HEADING, *rows, strict=True)]
    widths[2] = min(widths[2], _MAX_AGENT_WIDTH)
    shown = _fitting(widths, width)
    yield _row(_HEADING, widths, shown, ["dim"] * len(widths))
    for (run, _), cells in zip(placed, rows, strict=True):
        yield _row(cells, widths, shown, ["bold", status_style(run.status), "", "dim", ""])


def _placed(runs: Sequence[RunSummary]) -> Iterator[tuple[RunSummary, int]]:
    """The runs with how deep they are inside others, each below the one that started it."""
    ids = {run.run_id for run in runs}
    below: dict[str, list[RunSummary]] = {}
    for run in runs:
        parent = run.parent_run_id
        below.setdefault(parent if parent in ids else "", []).append(run)
    # A stack and no recursion: runs may be nested as deep as they like.
    stack = [(run, int(bool(run.parent_run_id))) for run in reversed(below.get("", []))]
    while stack:
        run, depth = stack.pop()
        yield run, depth
        inner = below.get(run.run_id, []) if run.run_id else []
        stack += [(one, depth + 1) for one in reversed(inner)]


def _state(run: RunSummary, holder: Holder | None, left: Container[str]) -> str:
    """How a run stands; who works on one that was left behind says more of it."""
    is_held = holder is not None and holder.state in ("lives", "stopped")
    return LEFT_BEHIND if run.run_id in left and not is_held else status_words(run.status, holder)


def _fitting(widths: list[int], width: int | None) -> list[int]:
    """The columns for which there is room; the width of the request is set to what is left."""
    shown = list(range(len(widths)))
    if width is None:
        return shown
    left = _left(widths, shown, width)
    for column in _LEAST_NEEDED:
        if left >= _MIN_REQUEST_WIDTH:
            break
        shown.remove(column)
        left = _left(widths, shown, width)
    widths[_REQUEST] = max(1, left)
    return shown


def _left(widths: Sequence[int], shown: Sequence[int], width: int) -> int:
    return width - sum(widths[one] + 1 for one in shown if one != _REQUEST)


def _cells(run: RunSummary, depth: int, glyphs: Glyphs, state: str) -> tuple[str, ...]:
    inside = f"{'  ' * (depth - 1)}{glyphs.inner} " if depth else ""
    return (
        inside + clean(run.run_id),
        state,
        clean(run.agent_id),
        "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M}",
        clean(run.request),
    )


def _row(
    cells: Sequence[str], widths: Sequence[int], shown: Sequence[int], styles: Sequence[str]
) -> Text:
    line = Text(no_wrap=True, overflow="crop")
    for column in shown:
        line.append(fit(cells[column], widths[column]) + " ", styles[column])
    line.rstrip()
    return line
