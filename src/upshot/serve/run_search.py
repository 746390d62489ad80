"""Finds runs by any text in their logs: what was asked, arguments, outputs, answers.

There is no index, so no step pays for one, and masked or redacted text is not found. A search reads
the logs of matching runs one after another, for a limited time; the next one continues there.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from upshot.contract.base.secrets import hide_all_marks
from upshot.contract.codec import encode
from upshot.contract.protocols import Journal, RunSummary
from upshot.contract.user import User
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
        some = await site.runs_of(user, status, limit=_READ_AT_ONCE, before=before, **filters)
        for run in some:
            searched += 1
            if await has_text(run.run_id, wanted, journal):
                found.append(run)
            if len(found) == limit or time.monotonic() >= ends:
                return Found(found, searched, run)
        if len(some) < _READ_AT_ONCE:
            return Found(found, searched, None)
        before = some[-1].run_id


async def has_text(run_id: str, wanted: str, journal: Journal) -> bool:
    """Whether a text of a run's log contains *wanted*, which is normalised."""
    is_escaped = msgspec.json.encode(wanted).decode() != f'"{wanted}"'
    async for event in journal.events(run_id):
        body = hide_all_marks(encode(event).decode())
        # Arguments may be JSON in JSON, with its letters escaped.
        if ("\\u" in body or is_escaped or wanted in normal(body)) and any(
            wanted in normal(one) for one in _texts(msgspec.json.decode(body))
        ):
            return True
    return False


def normal(text: str) -> str:
    """Return *text* normalised, so that case and the encoding of accents do not matter."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _texts(value: object) -> Iterator[str]:
    """Yield the texts and numbers in JSON, but no names of fields."""
    match value:
        case str():
            yield value
            if value[:1] in ("{", "["):
                try:
                    inner: object = msgspec.json.decode(value)
                except msgspec.DecodeError:
                    return
                yield from _texts(inner)
        case dict():
            for name, one in cast("dict[str, object]", value).items():
                # The kind of a value says nothing that a person wrote.
                if name != "kind":
                    yield from _texts(one)
        case list():
            for one in cast("list[object]", value):
                yield from _texts(one)
        case int() | float() if not isinstance(value, bool):
            yield str(value)
        case _:
            return
