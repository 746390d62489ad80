"""What each test of a session costs: ``UPSHOT_TEST_TIMES=FILE``, which `make test TIMES=FILE` sets.

Every worker adds a line for each of its tests to the file. ``python -m tests.times FILE`` prints
the sums and the dearest tests. The processes that the fork server starts are not counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter

import pytest

__all__ = ["Times"]


class Times:
    """A plugin that adds ``[test, own CPU, CPU of children, time]`` to a file, in seconds."""

    def __init__(self, path: str) -> None:
        self._path = path

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = _now()
        try:
            return (yield)
        finally:
            costs = [round(b - a, 4) for a, b in zip(before, _now(), strict=True)]
            with open(self._path, "a") as file:
                file.write(json.dumps([item.nodeid, *costs]) + "\n")


def _now() -> tuple[float, float, float]:
    own, children = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return (own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime, perf_counter())


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    sums = [round(sum(row[at] for row in rows)) for at in (1, 2, 3)]
    print("{} s of CPU, {} s of children, {} s of time in {} tests".format(*sums, len(rows)))
    for name, own, children, time in sorted(rows, key=lambda row: -row[1] - row[2])[:100]:
        print(f"{own:8.2f} {children:8.2f} {time:8.2f}  {name}")
