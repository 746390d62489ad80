"""What the tests of guarded tools share: the bank's book, and the ways to take a guard in."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kills.__main__ import ended, fork

__all__ = ["HANGS_S", "Book", "changed_lines", "end_at_once"]

HANGS_S = 60
_DESKS = Path(__file__).parents[2] / "examples" / "beside"


class Book:
    """Rows that any process may add to a file, each by one system call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, row: object) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{row}\n".encode())
        os.close(file)

    @property
    def rows(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def orders(self) -> list[str]:
        """The first word of each."""
        return [row.split()[0] for row in self.rows]


def end_at_once(make: Callable[[int], Callable[[], Any]], processes: int) -> list[int | None]:
    """How so many processes end that *make* has wait for a byte of a pipe, which come at once."""
    gate, opener = os.pipe()
    pids = [fork(make(gate)) for _ in range(processes)]
    os.write(opener, b"x" * processes)
    return [ended(pid, HANGS_S) for pid in pids]


def changed_lines(framework: str) -> int:
    """In how many lines the two desks of a framework differ."""
    plain, guarded = (
        (_DESKS / f"{framework}_{way}.py").read_text().splitlines() for way in ("plain", "guarded")
    )
    return sum(line[0] in "+-" for line in difflib.ndiff(plain, guarded))
