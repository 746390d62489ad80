"""Faults: what is wrong with a machine, each with its place, what was found and what is wanted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from ..errors import Misuse

__all__ = ["BrokenMachine", "MachineFault", "Mark", "nearest"]

Severity = Literal["fault", "warning"]

# More would only bury the first.
_MOST_TOLD = 50
_TELLING = 3


class Mark(NamedTuple):
    """A place in a machine.

    Attributes:
        file: As it was given, "" where the machine is no file.
        line: From 1; 0 where there is no text.
        column: From 1; 0 where there is no text.
        path: The way to it, such as "states.draft.transitions[0].to".
    """

    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.line:
            return f"{self.file or 'machine'}:{self.line}:{self.column}"
        return ": ".join(filter(None, (self.file, self.path))) or "machine"


class MachineFault(NamedTuple):
    """One thing that is wrong with a machine.

    Attributes:
        mark: Where.
        found: What stands there.
        expected: What should.
        severity: "fault", or "warning" for what may be meant so.
        kind: A word for it, such as "unknown_state".
    """

    mark: Mark
    found: str
    expected: str
    severity: Severity = "fault"
    kind: str = "wrong"

    def __str__(self) -> str:
        word = "" if self.severity == "fault" else f"{self.severity}: "
        return f"{self.mark}: {word}{self.found}: expected {self.expected}"


class BrokenMachine(Misuse):
    """A machine cannot be loaded; the message lists all that is wrong with it.

    Attributes:
        faults: All of it, in the order of the text.
    """

    def __init__(self, faults: Sequence[MachineFault]) -> None:
        self.faults: tuple[MachineFault, ...] = tuple(faults)
        fatal = [fault for fault in faults if fault.severity == "fault"]
        lines = [str(fault) for fault in fatal[:_MOST_TOLD]]
        if more := len(fatal) - len(lines):
            lines.append(f"and {more} more")
        if len(lines) > 1:
            lines.insert(0, f"the machine has {len(fatal)} faults")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[BrokenMachine], tuple[tuple[MachineFault, ...]]]:
        return type(self), (self.faults,)


def nearest(word: str, known: Iterable[str], what: str) -> str:
    """What is expected instead of *word*: the nearest names, else those there are.

    Args:
        word: What was found.
        known: All names that would do.
        what: What they are, such as "a state".
    """
    names = list(known)
    near = difflib.get_close_matches(word, names, n=_TELLING)
    if near:
        return f"{what}; did you mean {' or '.join(map(repr, near))}?"
    if not names:
        return f"{what}; there are none"
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{what}: one of {listed}"
