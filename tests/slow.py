"""Which tests `make test` leaves to `make slow`. The choice is the same on every machine.

``@pytest.mark.slow`` marks a test. ``@pytest.mark.slow("*-16", "script-*")`` marks its cases whose
ids match a pattern. A test that runs on SQLite and on PostgreSQL keeps one of the two: which one
depends on its name and its other parameters, so that each journal meets every kind of test. The
tests of the journals themselves (``tests/journal``) keep both.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from zlib import crc32

import pytest

__all__ = ["mark_slow"]

SQLITE = ("sqlite", "file")
POSTGRES = "postgres"
EACH_POSTGRES = 3
"""One of so many tests keeps PostgreSQL, which takes three times as long as SQLite."""


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the slow ones of *items*, and unmark the cases that no pattern of a mark names."""
    on_journals: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        case = item.nodeid.partition("[")[2].removesuffix("]")
        item.own_markers[:] = [mark for mark in item.own_markers if _applies(mark, case)]
        if not item.nodeid.startswith("tests/journal/"):
            words = case.split("-")
            for name in {*SQLITE, POSTGRES} & {*words}:
                others = [word for word in words if word != name]
                test = "-".join([item.nodeid.partition("[")[0], *others])
                on_journals.setdefault(test, {})[name] = item
    for test, on in on_journals.items():
        keeps_postgres = crc32(test.encode()) % EACH_POSTGRES == 0
        if POSTGRES in on and len(on) > 1:
            for name, item in on.items():
                if (name == POSTGRES) != keeps_postgres:
                    item.add_marker(pytest.mark.slow)


def _applies(mark: pytest.Mark, case: str) -> bool:
    """Whether a mark of a test holds for one of its cases."""
    return mark.name != "slow" or not mark.args or any(fnmatchcase(case, one) for one in mark.args)
