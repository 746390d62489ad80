"""Guard: a limit to what an expression goes through.

The library has none: macros inside of macros multiply, and hold up the whole process while they
do. So what a macro does for an item is written into a list of one, whose place is asked of a
function that counts. One item too many, or one too late, and there is nothing at that place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["COUNTER", "MAX_ITEMS", "MAX_S", "ItemCount", "guarded"]

MAX_ITEMS = 50_000
# The library copies what map and filter have so far for each item, so that time is counted too.
MAX_S = 1.0
# What the function is called; no expression can name it, since it is none of the known ones.
COUNTER = "upshot_count_item"

_MARK = re.compile(
    r"//[^\n]*"
    r'|[rR][bB]?(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"[^"\n]*"|\'[^\'\n]*\')'
    r'|"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<macro>\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\()"
    r"|(?P<mark>[()\[\]{},])"
)


class ItemCount:
    """Counts the items of one evaluation, and the time that it computes.

    Args:
        clock: Gives seconds; by default those that this thread has computed.

    Attributes:
        is_spent: Whether it was more than it may be.
    """

    __slots__ = ("_clock", "_end", "_left", "is_spent")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = MAX_ITEMS
        self._end = clock() + MAX_S
        self.is_spent: bool = False

    def __call__(self) -> int:
        """Count an item: 0, and 1 for one too many."""
        self._left -= 1
        if self._left < 0 or self._clock() > self._end:
            self.is_spent = True
        return int(self.is_spent)


class _Open(NamedTuple):
    """A bracket that is open: whether it is that of a macro, and the commas in it so far."""

    is_macro: bool
    commas: int = 0


def guarded(source: str) -> str:
    """*source* with its items counted; as it is where it has no macro.

    Args:
        source: An expression that can be parsed.
    """
    parts: list[str] = []
    done = 0
    for place, text in _insertions(source):
        parts += (source[done:place], text)
        done = place
    return "".join((*parts, source[done:]))


def _insertions(source: str) -> Iterator[tuple[int, str]]:
    """What is written where, in order."""
    opened: list[_Open] = []
    for found in _MARK.finditer(source):
        mark = found["mark"]
        if found["macro"] is not None:
            opened.append(_Open(is_macro=True))
        elif mark is None:
            continue
        elif mark in "([{":
            opened.append(_Open(is_macro=False))
        elif opened:
            top = opened.pop()
            # After the first comma stands what is done for each item.
            if top.is_macro and top.commas == 1:
                yield found.start(), f"][{COUNTER}()]"
            if mark == ",":
                if top.is_macro and top.commas == 0:
                    yield found.end(), "["
                opened.append(_Open(top.is_macro, top.commas + 1))
