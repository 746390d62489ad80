"""Equal calls: loop detection, and no second success."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

from upshot.contract.base.enums import DeniedReason, Effect
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
)

__all__ = ["Flight", "LoopDetector", "NO_PROGRESS", "Deduplication", "TOLD_AT", "is_step"]

NO_PROGRESS = DeniedReason("no_progress")
TOLD_AT = 3
"""At which equal result the model is told; a further call is denied."""
_ENDS_AT = 6


class LoopDetector:
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


@dataclass(slots=True, eq=False)
class Flight:
    """A call that was let pass and has no outcome yet.

    Attributes:
        key: What it is known by.
        resources: What it touches, None for anything.
        ended: Done when it has ended; None while nobody waits for that.
        began: Whether its body was started.
        stale: Whether its resources were written to since it began.
        overtaken: Whether a write that shares a resource is in line behind it.
    """

    key: str
    resources: frozenset[str] | None
    ended: asyncio.Future[None] | None = None
    began: bool = False
    stale: bool = False
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class _Done:
    call_id: str
    resources: frozenset[str] | None


class Deduplication:
    """Knows which calls succeeded, and which are under way.

    A call is known by the digest of its tool and validated arguments.
    """

    def __init__(self) -> None:
        self._done: dict[str, _Done] = {}
        self._flights: dict[str, list[Flight]] = {}

    def clear(self) -> None:
        """Forget what succeeded; what is under way stays."""
        self._done.clear()

    def done_by(self, key: str) -> str | None:
        """The id of the call that succeeded already, None where none has."""
        done = self._done.get(key)
        return None if done is None else done.call_id

    def enter(
        self, key: str, resources: frozenset[str] | None
    ) -> str | asyncio.Future[None] | Flight:
        """Ask to make a call.

        Returns:
            A flight: it may be made, and ``leave`` or ``record`` has to follow. A string: it
            succeeded already, as the call of that id. A future: its twin is under way; ask
            again when it is done.
        """
        if key in self._done:
            return self._done[key].call_id
        flights = self._flights.setdefault(key, [])
        # After one that a write stands behind, it is a call of its own: it comes after the write.
        if flights and not flights[-1].overtaken:
            last = flights[-1]
            if last.ended is None:
                last.ended = asyncio.get_running_loop().create_future()
            return last.ended
        flight = Flight(key, resources)
        flights.append(flight)
        return flight

    def leave(self, flight: Flight) -> bool:
        """Take back ``enter``: the call is not made, or has ended.

        Returns:
            Whether nothing wrote to its resources meanwhile, and nothing is about to.
        """
        flights = self._flights.get(flight.key, [])
        if flight not in flights:
            return False
        flights.remove(flight)
        if not flights:
            del self._flights[flight.key]
        if flight.ended is not None and not flight.ended.done():
            flight.ended.set_result(None)
        return not flight.stale and not flight.overtaken

    def expect_write(self, resources: frozenset[str] | None, *, held: Flight | None) -> None:
        """Take note that a call that may write has its place in line.

        What is asked for after it comes after it, and may find something else.

        Args:
            resources: What it touches, None for anything.
            held: Its own flight, None where it is not held back from repetition.
        """
        self._forget_done(resources)
        for flight in self._sharing(resources):
            flight.overtaken = flight.overtaken or flight is not held

    def record(
        self,
        outcome: ToolOutcome,
        *,
        held: Flight | None,
        resources: frozenset[str] | None,
        may_write: bool,
    ) -> None:
        """Take note of what came of a call.

        Args:
            outcome: What came of it.
            held: With which it entered, None if it is not held back from repetition.
            resources: What it touched, None for anything.
            may_write: Whether what it did may have changed them.
        """
        # A read that was overtaken by a write has seen what is no longer so.
        fresh = held is not None and self.leave(held)
        if may_write and outcome.effect in (Effect.APPLIED, Effect.UNKNOWN):
            self._forget_done(resources)
            for flight in self._sharing(resources):
                # What has not begun will see what was written.
                flight.stale = flight.stale or flight.began
        if (
            fresh
            and held is not None
            and isinstance(outcome, ToolExecutionResult | ToolArtifactReference)
        ):
            self._done[held.key] = _Done(outcome.call_id, resources)

    def restore(self, key: str, call_id: str, resources: frozenset[str] | None) -> None:
        """Take note of an earlier success."""
        self._done[key] = _Done(call_id, resources)

    def _forget_done(self, resources: frozenset[str] | None) -> None:
        """What shares a resource with a write may answer differently now."""
        for key in [key for key, done in self._done.items() if _shared(done.resources, resources)]:
            del self._done[key]

    def _sharing(self, resources: frozenset[str] | None) -> list[Flight]:
        return [
            flight
            for flights in self._flights.values()
            for flight in flights
            if _shared(flight.resources, resources)
        ]


def _shared(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    return one is None or other is None or not one.isdisjoint(other)
