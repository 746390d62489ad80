"""Phase: the life of a run as one table, which the lifecycle drives by.

A sitting is in one phase at a time. What it did there gives a cue, and the table says
which phase that leads to. Nothing else knows the order of a life.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from ..contract import Status

__all__ = [
    "BROKEN",
    "CLOSED",
    "DECIDED",
    "DISPOSED",
    "FINAL",
    "FIRST",
    "NEXT",
    "OPENED",
    "PREPARED",
    "RECALLED",
    "RESUMED",
    "REVISED",
    "ROWS",
    "TOLD",
    "UNPREPARED",
    "WAITS",
    "WORKED",
    "Cue",
    "Phase",
    "Row",
    "cue_of_ending",
    "cue_of_verdict",
    "diagram",
]


class _Word(StrEnum):
    # That of an enum is written in Python; this is asked for at every step of every run.
    __hash__ = str.__hash__


class Phase(_Word):
    """Where a sitting stands."""

    OPENING = "opening"
    PREPARING = "preparing"
    ATTEMPTING = "attempting"
    DECIDING = "deciding"
    COMMITTING = "committing"
    ENDING = "ending"
    CLOSING = "closing"
    PARKED = "parked"
    SETTLED = "settled"


class Cue(_Word):
    """What came of a phase."""

    OPENED = "opened"
    RECALLED = "recalled"
    PREPARED = "prepared"
    UNPREPARED = "unprepared"
    WORKED = "worked"
    WAITS = "waits"
    REVISED = "revised"
    DECIDED = "decided"
    DISPOSED = "disposed"
    TOLD = "told"
    CLOSED = "closed"
    RESUMED = "resumed"
    BROKEN = "broken"


# By name too: a class of Python 3.11 is slow to give a member of its own.
OPENED = Cue.OPENED
RECALLED = Cue.RECALLED
PREPARED = Cue.PREPARED
UNPREPARED = Cue.UNPREPARED
WORKED = Cue.WORKED
WAITS = Cue.WAITS
REVISED = Cue.REVISED
DECIDED = Cue.DECIDED
DISPOSED = Cue.DISPOSED
TOLD = Cue.TOLD
CLOSED = Cue.CLOSED
RESUMED = Cue.RESUMED
BROKEN = Cue.BROKEN


class Row(NamedTuple):
    """One transition.

    Attributes:
        source: The phase that the sitting is in.
        cue: What came of it.
        target: The phase that follows.
        when: The condition under which the phase gives this cue, for people.
    """

    source: Phase
    cue: Cue
    target: Phase
    when: str


_PARKED = Status.INPUT_REQUIRED
FIRST = Phase.OPENING
FINAL = frozenset({Phase.PARKED, Phase.SETTLED})

_BROKEN = "the log is lost, the loop closes, or upshot has a fault"

ROWS = (
    Row(Phase.OPENING, OPENED, Phase.PREPARING, "an attempt is to be made or gone on with"),
    Row(Phase.OPENING, RECALLED, Phase.COMMITTING, "the log shows how the last attempt ended"),
    Row(Phase.OPENING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.PREPARING, PREPARED, Phase.ATTEMPTING, "the board stands"),
    Row(Phase.PREPARING, UNPREPARED, Phase.DECIDING, "the seeder raised, or it is too deep"),
    Row(Phase.PREPARING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.ATTEMPTING, WORKED, Phase.DECIDING, "the engine ended, well or not"),
    Row(Phase.ATTEMPTING, WAITS, Phase.ENDING, "people are waited for"),
    Row(Phase.ATTEMPTING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.DECIDING, REVISED, Phase.PREPARING, "a revision is wanted and an attempt left"),
    Row(Phase.DECIDING, DECIDED, Phase.COMMITTING, "else"),
    Row(Phase.DECIDING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.COMMITTING, DISPOSED, Phase.ENDING, "committed, or not"),
    Row(Phase.COMMITTING, BROKEN, Phase.ENDING, _BROKEN),
    Row(Phase.ENDING, TOLD, Phase.CLOSING, "observers were told of the end"),
    Row(Phase.ENDING, BROKEN, Phase.CLOSING, f"{_BROKEN}; nobody is told twice"),
    Row(Phase.CLOSING, CLOSED, Phase.SETTLED, "the result is in the log, and final"),
    Row(Phase.CLOSING, WAITS, Phase.PARKED, "the result is in the log: input_required"),
    Row(Phase.CLOSING, BROKEN, Phase.SETTLED, "the log could not be written to its end"),
    Row(Phase.PARKED, RESUMED, Phase.OPENING, "answers are there, in another sitting"),
)

# Where the cues of each phase lead.
NEXT = {phase: {row.cue: row.target for row in ROWS if row.source is phase} for phase in Phase}


def cue_of_ending(status: Status) -> Cue:
    """What the engine's end means: only a parked run goes by deciders and committers."""
    return WAITS if status is _PARKED else WORKED


def cue_of_verdict(*, wants_revision: bool, is_last: bool) -> Cue:
    """What the deciders' word means.

    Args:
        wants_revision: Whether it is a revision of a completed attempt.
        is_last: Whether no attempt is left.
    """
    return REVISED if wants_revision and not is_last else DECIDED


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "stateDiagram-v2"
    yield f"    [*] --> {FIRST}"
    for row in ROWS:
        yield f"    {row.source} --> {row.target}: {row.cue}"
    yield f"    {Phase.SETTLED} --> [*]"
