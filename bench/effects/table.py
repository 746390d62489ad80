"""The table: the result of each way in each column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.effects.columns import COLUMNS
from bench.effects.ways import WAYS, Way

__all__ = ["Cell", "Table", "cell_of", "worst"]

# Phrases that say that the refund was made, is being made or may have been made.
_SAYS = re.compile(
    r"may have|unknown|not known|nobody knows|ambiguous|already (?!exists)|under way|in.progress"
    r"|duplicate|was asked for before",
    re.I,
)
# The worst first.
WORDS = ("twice", "lost", "untold", "unknown", "once", "-")


@dataclass(frozen=True)
class Cell:
    """The result of a way.

    Attributes:
        word: "once"; "unknown": one refund, and the repeated request was told that it may have
            been made; "untold": one refund, and the repeated request was not told so; "twice",
            "lost"; "-" if the framework has no such interface.
    """

    word: str


def cell_of(way: Way, refunds: int, told: Sequence[str]) -> Cell:
    """Judge by the refunds and by what the repeated requests were told."""
    if refunds != 1:
        return Cell("twice" if refunds else "lost")
    # The first call cannot know; of two at the same moment either may be the first.
    is_refused = way.stages[0][0].refused > 0
    later = told[-1:] if is_refused else told[1:]
    if all("re_7_1" in text for text in later):
        return Cell("once")
    if all("re_7_1" in text or _SAYS.search(text) for text in later):
        return Cell("unknown" if way.is_unknown else "once")
    return Cell("untold")


def worst(cells: Iterable[Cell]) -> Cell:
    """Return the worst of several runs."""
    return min(cells, key=lambda one: WORDS.index(one.word))


@dataclass
class Table:
    """The cells, by column and way."""

    cells: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path | None) -> Table:
        """Return the table stored in a file, or an empty one."""
        if file is None or not file.exists():
            return cls()
        return cls(json.loads(file.read_text()))

    def write(self, file: Path | None) -> None:
        """Store the table."""
        if file is not None:
            file.write_text(json.dumps(self.cells, indent=1) + "\n")

    def add(self, name: str, ways: Sequence[Way], cells: Sequence[Cell]) -> None:
        """Add the cells of a column."""
        known = self.cells.setdefault(name, {})
        known.update((way.name, cell.word) for way, cell in zip(ways, cells, strict=True))

    @property
    def columns(self) -> list[str]:
        """Return its columns in order."""
        return [name for name in COLUMNS if name in self.cells]

    def word(self, name: str, way: Way) -> str:
        """Return a cell, "" if it was not tried."""
        return self.cells[name].get(way.name, "")

    def kept(self, name: str) -> tuple[int, int]:
        """Return how many ways had one refund that later requests knew of, and of how many."""
        words = [word for word in self.cells[name].values() if word != "-"]
        return sum(word in ("once", "unknown") for word in words), len(words)

    def __str__(self) -> str:
        wide = max(len(way.name) for way in WAYS) + 4
        lines = [f"{at:>2} {COLUMNS[name].title}" for at, name in enumerate(self.columns, 1)]
        head = " " * wide + "".join(f"{at:>9}" for at in range(1, len(self.columns) + 1))
        lines += ["", head]
        for at, way in enumerate(WAYS, 1):
            words = "".join(f"{self.word(name, way):>9}" for name in self.columns)
            lines.append(f"{at:>2}. {way.name}".ljust(wide) + words)
        kept = "".join("{:>9}".format("{}/{}".format(*self.kept(name))) for name in self.columns)
        return "\n".join([*lines, "    one refund, and known".ljust(wide) + kept])
