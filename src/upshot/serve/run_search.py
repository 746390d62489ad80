"""Finds runs by any text in their logs: what was asked, arguments, outputs, answers.

A search reads the logs of matching runs one after another, for a limited time; the next one
continues there. If the journal has a search index, only logs that may have the text are read.
Masked or redacted text is not found.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from upshot.contract.protocols import RunSummary
from upshot.contract.user import User
from upshot.journal.log_text import has_text, normal
from upshot.serve.site import Site

SEARCH_S = 1.5
"""How long one search reads, in seconds."""
_READ_AT_ONCE = 50


class Found(NamedTuple):
    """The outcome of a search.

    Attributes:
        runs: The runs with the text, in the order of the list.
        searched: How many runs were read.
        last: The run that was read last, None if there are no more.
    """

    runs: list[RunSummary]
    searched: int
    last: RunSummary | None


async def search_runs(
    site: Site,
    user: User,
    text: str,
    status: str | None,
    filters: dict[str, Any],
    *,
    limit: int,
    for_s: float = SEARCH_S,
) -> Found:
    """Search the runs that a user may see, as the list orders them.

    Args:
        site: The site.
        user: The user.
        text: What to find; case and the form of accents are ignored.
        status: As for ``App.runs``.
        filters: As for ``App.runs``.
        limit: The maximum number of runs to find.
        for_s: How long to read; at least one run is read.
    """
    wanted, ends = normal(text), time.monotonic() + for_s
    journal = await site.app.open()
    found, searched, before = list[RunSummary](), 0, filters.pop("before", "")
    while True:
        some = await site.candidates_of(
            user, text, status, limit=_READ_AT_ONCE, before=before, **filters
        )
        for run in some:
            searched += 1
            if await has_text(run.run_id, wanted, journal):
                found.append(run)
            if len(found) == limit or time.monotonic() >= ends:
                return Found(found, searched, run)
        if len(some) < _READ_AT_ONCE:
            return Found(found, searched, None)
        before = some[-1].run_id
