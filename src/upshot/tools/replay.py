"""ReplayControl: the same call of an idempotent tool is not made twice after a success."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ..contract import Effect, ToolArtifactReference, ToolExecutionResult, ToolOutcome

__all__ = ["ReplayControl"]


@dataclass(slots=True)
class _Flight:
    """A call that was let pass and has no outcome yet."""

    ended: asyncio.Future[None] | None = None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class _Done:
    call_id: str
    resources: frozenset[str] | None


class ReplayControl:
    """Knows which calls succeeded, and which are under way.

    A call is known by the digest of its tool and validated arguments.
    """

    def __init__(self) -> None:
        self._done: dict[str, _Done] = {}
        self._flights: dict[str, _Flight] = {}
        self._resources: dict[str, frozenset[str] | None] = {}

    def clear(self) -> None:
        """Forget what succeeded; what is under way stays."""
        self._done.clear()

    def done_by(self, key: str) -> str | None:
        """The id of the call that succeeded already, None where none has."""
        done = self._done.get(key)
        return None if done is None else done.call_id

    def enter(
        self, key: str, resources: frozenset[str] | None
    ) -> str | asyncio.Future[None] | None:
        """Ask to make a call.

        Returns:
            None: it may be made, and ``leave`` or ``record`` has to follow. A string: it
            succeeded already, as the call of that id. A future: its twin is under way; ask
            again when it is done.
        """
        if key in self._done:
            return self._done[key].call_id
        flight = self._flights.get(key)
        if flight is not None:
            if flight.ended is None:
                flight.ended = asyncio.get_running_loop().create_future()
            return flight.ended
        self._flights[key] = _Flight()
        self._resources[key] = resources
        return None

    def leave(self, key: str) -> bool:
        """Take back ``enter``: the call is not made, or has ended.

        Returns:
            Whether nothing wrote to its resources meanwhile.
        """
        flight = self._flights.pop(key, None)
        self._resources.pop(key, None)
        if flight is None:
            return False
        if flight.ended is not None and not flight.ended.done():
            flight.ended.set_result(None)
        return not flight.stale

    def record(
        self,
        outcome: ToolOutcome,
        *,
        key: str | None,
        resources: frozenset[str] | None,
        may_write: bool,
    ) -> None:
        """Take note of what came of a call.

        Args:
            outcome: What came of it.
            key: Under which it entered, None if it is not held back from repetition.
            resources: What it touched, None for anything.
            may_write: Whether what it did may have changed them.
        """
        # A read that was overtaken by a write has seen what is no longer so.
        fresh = key is not None and self.leave(key)
        if may_write and outcome.effect in (Effect.APPLIED, Effect.UNKNOWN):
            self._forget(resources)
        if (
            fresh
            and key is not None
            and isinstance(outcome, ToolExecutionResult | ToolArtifactReference)
        ):
            self._done[key] = _Done(outcome.call_id, resources)

    def restore(self, key: str, call_id: str, resources: frozenset[str] | None) -> None:
        """Take note of an earlier success."""
        self._done[key] = _Done(call_id, resources)

    def _forget(self, resources: frozenset[str] | None) -> None:
        """What shares a resource with a write may answer differently now."""
        for key in [key for key, done in self._done.items() if _shared(done.resources, resources)]:
            del self._done[key]
        for key, flight in self._flights.items():
            if _shared(self._resources[key], resources):
                flight.stale = True


def _shared(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    return one is None or other is None or not one.isdisjoint(other)
