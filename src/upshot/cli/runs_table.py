"""The table of a journal's runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from ..contract import RunSummary
from .figures import clean, moment
from .report import status_style, status_words
from .timeline import fit

__all__ = ["runs_table"]

_AGENT_WIDTH = 14
_STATUS_WIDTH = 15
_TIME_WIDTH = 16


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
    id_width = max(cell_len(run.run_id) for run in runs)
    fixed = id_width + _STATUS_WIDTH + _AGENT_WIDTH + _TIME_WIDTH + 4
    left = max(8, width - fixed)

    def row(*cells: str, styles: Sequence[str]) -> Text:
        widths = (id_width, _STATUS_WIDTH, _AGENT_WIDTH, _TIME_WIDTH, left)
        fitted = [fit(cell, columns) + " " for cell, columns in zip(cells, widths, strict=True)]
        line = Text.assemble(*zip(fitted, styles, strict=True), no_wrap=True, overflow="crop")
        line.rstrip()
        return line

    yield row("run", "status", "agent", "started (UTC)", "request", styles=["dim"] * 5)
    for run in runs:
        yield row(
            clean(run.run_id),
            status_words(run.status),
            clean(run.agent_id),
            moment(run.started_at).removesuffix(" UTC")[:_TIME_WIDTH],
            clean(run.request),
            styles=["bold", status_style(run.status), "", "dim", ""],
        )
