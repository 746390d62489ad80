"""Ladder: what happens where a model makes the same call again and again and learns nothing."""

from __future__ import annotations

from collections.abc import Hashable

from ..contract import (
    DeniedReason,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
)

__all__ = ["NO_PROGRESS", "TOLD_AT", "Ladder", "is_step"]

NO_PROGRESS = DeniedReason("no_progress")
TOLD_AT = 3
"""At which equal result the model is told; a further call is denied."""
_ENDS_AT = 6


class Ladder:
    """Counts how often in a row a call gave the same result.

    The third result carries a note, the fourth call is denied, and at the sixth ``stalled``
    says why the run should end. Any other success begins anew. A failure is no result: it may
    be tried again. A duplicate counts, for it would have given what is known already.

    Attributes:
        stalled: Why there is no progress, "" while there may be.
    """

    def __init__(self) -> None:
        self.stalled: str = ""
        self._key = ""
        self._last: ToolOutcome | None = None
        self._steps = 0
        self._notes: dict[tuple[str, str], str] = {}

    def is_stuck(self) -> bool:
        """Whether some call would be the fourth; cheap to ask."""
        return self._steps >= TOLD_AT

    def is_fourth(self, key: str) -> bool:
        """Whether one more call would be the fourth or a later one."""
        return self.is_stuck() and key == self._key

    def climb(self, outcome: ToolOutcome, *, key: str, repeatable: bool) -> None:
        """Take note of what came of a call.

        Args:
            outcome: What came of it.
            key: Digest of its tool and arguments.
            repeatable: Whether repetitions of it make sense.
        """
        if isinstance(outcome, ToolDenied):
            if outcome.reason in (NO_PROGRESS, DeniedReason.DUPLICATE) and key == self._key:
                self._step(outcome)
            return
        if not isinstance(outcome, ToolExecutionResult | ToolArtifactReference):
            return
        is_same = key == self._key and self._last is not None and _is_same(outcome, self._last)
        if not is_same:
            self._steps, self.stalled = 0, ""
        self._key, self._last = key, outcome
        if not repeatable:
            self._step(outcome)

    def note_of(self, outcome: ToolOutcome) -> str:
        """What the model is to be told beside *outcome*, "" for nothing."""
        return self._notes.get((outcome.call_id, outcome.tool_name), "")

    def _step(self, outcome: ToolOutcome) -> None:
        self._steps += 1
        name = outcome.tool_name
        if self._steps == TOLD_AT and not isinstance(outcome, ToolDenied):
            self._notes[outcome.call_id, name] = (
                f"Note: {name} has now given this same result to the same arguments {TOLD_AT} "
                "times in a row. Calling it so again will be refused: use what it said, or do "
                "something else."
            )
        if self._steps >= _ENDS_AT:
            self.stalled = (
                f"{name} was called {self._steps} times in a row with the same arguments, and "
                "gave the same result each time that it ran"
            )


def is_step(outcome: ToolOutcome, key: Hashable, climbed: set[Hashable], *, reads: bool) -> bool:
    """Whether an outcome counts beside those of its equals in the same reply.

    Each read counts that ran. A write, a denial and the like count once a reply: the model has
    not seen yet what the first gave, and may have meant the write several times.

    Args:
        outcome: What came of a call.
        key: What it and its equals in the reply are known by.
        climbed: What has counted in the reply; noted here.
        reads: Whether its tool only reads.
    """
    ran = isinstance(outcome, ToolExecutionResult | ToolArtifactReference)
    counts = key not in climbed or (reads and ran)
    climbed.add(key)
    return counts


def _is_same(one: ToolOutcome, other: ToolOutcome) -> bool:
    match one, other:
        case ToolExecutionResult(output=output), ToolExecutionResult(output=earlier):
            return output == earlier
        case ToolArtifactReference(), ToolArtifactReference():
            # The output is gone from memory; its size and beginning tell nearly as much.
            return (one.size_bytes, one.summary) == (other.size_bytes, other.summary)
        case _:
            return False
