"""Locks: which bodies of one batch may run together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

__all__ = ["Claim", "Locks"]


@dataclass(eq=False, slots=True)
class Claim:
    """One body's wish to run.

    Attributes:
        writes: Whether it may change what it touches.
        resources: What it touches, None for anything.
        free: Done when it may run; None where it never had to wait.
    """

    writes: bool
    resources: frozenset[str] | None
    free: asyncio.Future[None] | None = field(default=None, init=False)

    def conflicts(self, other: Claim) -> bool:
        """Whether the two must not run together: one writes what the other touches."""
        if not (self.writes or other.writes):
            return False
        if self.resources is None or other.resources is None:
            return True
        return not self.resources.isdisjoint(other.resources)


class Locks:
    """Lets bodies run in the order of their claims where they conflict, else together.

    A body takes all it touches at once and never waits while it holds something, so there is
    no deadlock.
    """

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._writers = 0
        self._waiting = 0

    def enter(self, claim: Claim) -> bool:
        """Stand in line; returns whether the body may run now, else ``wait`` has to follow."""
        free = self._is_free(claim, len(self._claims))
        self._claims.append(claim)
        self._writers += claim.writes
        if not free:
            claim.free = asyncio.get_running_loop().create_future()
            self._waiting += 1
        return free

    async def wait(self, claim: Claim) -> None:
        """Wait until the body may run."""
        if claim.free is not None:
            await claim.free

    def leave(self, claim: Claim) -> None:
        """The body has ended, or does not want to run any more."""
        self._claims.remove(claim)
        self._writers -= claim.writes
        if claim.free is not None:
            self._waiting -= 1
        if not self._waiting:
            return
        for place, other in enumerate(self._claims):
            free = other.free
            if free is not None and not free.done() and self._is_free(other, place):
                free.set_result(None)

    def _is_free(self, claim: Claim, place: int) -> bool:
        # Spares a hundred parallel reads the comparison of each with each.
        if not claim.writes and self._writers == 0:
            return True
        return not any(claim.conflicts(earlier) for earlier in self._claims[:place])
