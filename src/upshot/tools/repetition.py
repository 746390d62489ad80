"""Equal calls: loop detection, and no second call after a success."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from upshot.contract.base.enums import DeniedReason, Effect
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
)

NO_PROGRESS = DeniedReason("no_progress")
TOLD_AT = 3
"""At which equal result the model is told; a further call is denied."""
_ENDS_AT = 6


class LoopDetector:
    """Counts how often in a row a call gave the same result.

    The third result carries a note, the fourth call is denied, and at the sixth ``stalled``
    says why the run should end. Any other success starts the count anew. A failure is no result:
    it may be tried again. A duplicate counts, for it would have given what is known already.

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

    def count(self, outcome: ToolOutcome, *, key: str, repeatable: bool) -> None:
        """Count the outcome of the call that *key*, its digest, stands for."""
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


def is_step(outcome: ToolOutcome, key: Hashable, counted: set[Hashable], *, reads: bool) -> bool:
    """Whether an outcome counts beside those of its equals in the same reply.

    Each read counts that ran. A write, a denial and the like count once a reply: the model has
    not seen yet what the first gave, and may have meant the write several times.

    Args:
        outcome: The outcome of a call.
        key: What it and its equals in the reply are known by.
        counted: What has counted in the reply; noted here.
        reads: Whether its tool only reads.
    """
    ran = isinstance(outcome, ToolExecutionResult | ToolArtifactReference)
    counts = key not in counted or (reads and ran)
    counted.add(key)
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


class _Call(Protocol):
    """What ``Deduplication`` needs of a call.

    Attributes:
        resources: What it touches, None for anything.
        is_deduplicated: Whether it was let pass by ``enter`` and has not ended.
        is_stale: Whether its resources were written to since its body began.
        is_overtaken: Whether a write that shares a resource is in line behind it.
        ended: Done when it has ended; None while no equal call waits for that.
    """

    resources: frozenset[str] | None
    is_deduplicated: bool
    is_stale: bool
    is_overtaken: bool
    ended: asyncio.Future[None] | None

    @property
    def digest(self) -> str: ...


K = TypeVar("K", bound=Hashable)


class _ByResource(Generic[K]):
    """Items by what they touch, so that a write finds those it shares something with."""

    def __init__(self) -> None:
        self._items: dict[K, frozenset[str] | None] = {}
        self._named: dict[str | None, dict[K, None]] = {}

    def add(self, item: K, resources: frozenset[str] | None) -> None:
        self._items[item] = resources
        for name in (None,) if resources is None else resources:
            self._named.setdefault(name, {})[item] = None

    def discard(self, item: K) -> None:
        if item in self._items:
            resources = self._items.pop(item)
            for name in (None,) if resources is None else resources:
                del self._named[name][item]

    def take(self, resources: frozenset[str] | None) -> list[K]:
        """Remove the items that share a resource, and return them."""
        if resources is None:
            found = list(self._items)
        else:
            named = (self._named.get(name, ()) for name in (None, *resources))
            found = list(dict.fromkeys(item for items in named for item in items))
        for item in found:
            self.discard(item)
        return found


class Deduplication:
    """Knows which calls succeeded, and which are under way.

    A call is known by the digest of its tool and validated arguments.
    """

    def __init__(self) -> None:
        # The ids of the calls that succeeded, by digest.
        self._done: dict[str, str] = {}
        self._under_way: dict[str, list[_Call]] = {}
        # Indexes: a reply of thousands of calls must not compare each with each.
        self._done_by: _ByResource[str] = _ByResource()
        self._not_overtaken: _ByResource[_Call] = _ByResource()
        self._running: _ByResource[_Call] = _ByResource()

    def done_by(self, digest: str) -> str | None:
        """The id of the call that succeeded already, None where none has."""
        return self._done.get(digest)

    def enter(self, call: _Call) -> str | asyncio.Future[None] | None:
        """Ask to make a call.

        Returns:
            None: it may be made, and ``leave`` or ``record`` has to follow. A string: it
            succeeded already, as the call of that id. A future: an equal call is under way; ask
            again when it is done.
        """
        if call.digest in self._done:
            return self._done[call.digest]
        equals = self._under_way.setdefault(call.digest, [])
        # Behind one that a write overtook, it is a call of its own: it comes after the write.
        if equals and not equals[-1].is_overtaken:
            last = equals[-1]
            if last.ended is None:
                last.ended = asyncio.get_running_loop().create_future()
            return last.ended
        call.is_deduplicated, call.is_stale, call.is_overtaken = True, False, False
        equals.append(call)
        self._not_overtaken.add(call, call.resources)
        return None

    def begin(self, call: _Call) -> None:
        """Take note that the body of a call starts: it sees what was written until now."""
        if call.is_deduplicated:
            self._running.add(call, call.resources)

    def leave(self, call: _Call) -> bool:
        """Take back ``enter``: the call is not made, or has ended.

        Returns:
            Whether it had entered, nothing wrote to its resources meanwhile, and nothing is
            about to.
        """
        if not call.is_deduplicated:
            return False
        call.is_deduplicated = False
        equals = self._under_way[call.digest]
        equals.remove(call)
        if not equals:
            del self._under_way[call.digest]
        self._not_overtaken.discard(call)
        self._running.discard(call)
        if call.ended is not None and not call.ended.done():
            call.ended.set_result(None)
        call.ended = None
        return not call.is_stale and not call.is_overtaken

    def expect_write(self, call: _Call) -> None:
        """Take note that *call*, which may write, has its place in line.

        What is asked for after it comes after it, and may find something else.
        """
        self._forget_done(call.resources)
        for other in self._not_overtaken.take(call.resources):
            other.is_overtaken = other is not call
        if call.is_deduplicated and not call.is_overtaken:
            self._not_overtaken.add(call, call.resources)

    def record(self, call: _Call, outcome: ToolOutcome, *, may_write: bool) -> None:
        """Take note of the outcome of a call; *may_write* says whether its tool may."""
        # A read that was overtaken by a write has seen what is no longer so.
        fresh = self.leave(call)
        if may_write and outcome.effect in (Effect.APPLIED, Effect.UNKNOWN):
            self._forget_done(call.resources)
            # What has not begun will see what was written.
            for other in self._running.take(call.resources):
                other.is_stale = True
        if fresh and isinstance(outcome, ToolExecutionResult | ToolArtifactReference):
            self._done[call.digest] = outcome.call_id
            self._done_by.add(call.digest, call.resources)

    def _forget_done(self, resources: frozenset[str] | None) -> None:
        """What shares a resource with a write may answer differently now."""
        for digest in self._done_by.take(resources):
            del self._done[digest]
