"""The table of a journal's runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from ..contract import RunSummary
from .figures import clean
from .report import status_style, status_words
from .timeline import fit

__all__ = ["runs_table"]

_MAX_AGENT_WIDTH = 20
_HEADING = ("run", "status", "agent", "started (UTC)", "request")


def runs_table(runs: Sequence[RunSummary], *, width: int) -> Iterator[Text]:
    """Lay runs out as rows: id, status, agent, start and what was asked.

    Args:
        runs: What to show, in order; empty gives nothing.
        width: Columns to fill; the request gets what is left.

    Yields:
        A heading, then a line for each run.
    """
    if not runs:
        return
    rows = [_cells(run) for run in runs]
    widths = [max(map(cell_len, column)) for column in zip(_HEADING, *rows, strict=True)]
    widths[2] = min(widths[2], _MAX_AGENT_WIDTH)
    widths[-1] = max(8, width - sum(widths[:-1]) - len(widths))
    yield _row(_HEADING, widths, ["dim"] * len(widths))
    for run, cells in zip(runs, rows, strict=True):
        yield _row(cells, widths, ["bold", status_style(run.status), "", "dim", ""])


def _cells(run: RunSummary) -> tuple[str, ...]:
    return (
        clean(run.run_id),
        status_words(run.status),
        clean(run.agent_id),
        "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M}",
        clean(run.request),
    )


def _row(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Text:
    fitted = (fit(cell, width) + " " for cell, width in zip(cells, widths, strict=True))
    line = Text.assemble(*zip(fitted, styles, strict=True), no_wrap=True, overflow="crop")
    line.rstrip()
    return line
