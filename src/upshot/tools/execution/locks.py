"""Which bodies of one reply may run at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Claim:
    """One body's claim on what it touches.

    Attributes:
        writes: Whether it may change what it touches.
        resources: What it touches, None for anything.
        free: Done when it may run; None if it never had to wait.
        ahead: The claims it was queued behind, None for none.
        waits_for: How many of them have not left yet.
        behind: The claims queued behind it, None for none.
        is_gone: Whether it has left, so that those behind it do not wait for it.
        is_joint: Whether it runs nothing and only stands for the claims ahead of it.
    """

    writes: bool
    resources: frozenset[str] | None
    free: asyncio.Future[None] | None = field(default=None, init=False)
    ahead: list[Claim] | None = field(default=None, init=False)
    waits_for: int = field(default=0, init=False)
    behind: list[Claim] | None = field(default=None, init=False)
    is_gone: bool = field(default=False, init=False)
    is_joint: bool = field(default=False, init=False)

    def conflicts(self, other: Claim) -> bool:
        """Whether the two must not overlap: one writes what the other touches."""
        if self.is_joint or other.is_joint:
            return True
        if not (self.writes or other.writes):
            return False
        if self.resources is None or other.resources is None:
            return True
        return not self.resources.isdisjoint(other.resources)


@dataclass(slots=True)
class _Resource:
    """The last claims on one resource: the writer, and the readers since."""

    writer: Claim | None = None
    readers: list[Claim] = field(default_factory=list[Claim])


class Locks:
    """Runs conflicting bodies in the order of their claims, and others concurrently.

    A body claims everything it touches at once and never waits while it holds a claim, so there is
    no deadlock. A claim is queued only behind the last claims that it conflicts with, because
    earlier ones end before those. So thousands of calls in a reply are not compared pairwise.
    """

    def __init__(self) -> None:
        self._in_line = 0
        self._reset()

    def _reset(self) -> None:
        self._named = dict[str, _Resource]()
        # Claims on anything: the last writer, and the readers since.
        self._any_writer: Claim | None = None
        self._any_readers = list[Claim]()
        # Claims on named resources since then, for the next claim on anything.
        self._writers = list[Claim]()
        self._readers = list[Claim]()

    def enter(self, claim: Claim) -> bool:
        """Queue *claim*; returns whether the body may run now, otherwise call ``wait``."""
        self._in_line += 1
        ahead = [] if self._any_writer is None else [self._any_writer]
        if claim.resources is None:
            ahead += self._enter_any(claim)
        else:
            ahead += self._enter_named(claim, claim.resources)
        _queue_behind(claim, ahead)
        if claim.waits_for:
            claim.free = asyncio.get_running_loop().create_future()
        return not claim.waits_for

    async def wait(self, claim: Claim) -> None:
        """Wait until the body may run."""
        if claim.free is not None:
            await claim.free

    def leave(self, claim: Claim) -> None:
        """Release *claim*: the body has ended, or will not run."""
        if claim.waits_for:
            for other in claim.behind or ():
                # They relied on its order, so now they wait for the claims that it waited for.
                _queue_behind(other, [one for one in claim.ahead or () if one.conflicts(other)])
        gone = [claim]
        while gone:
            one = gone.pop()
            one.is_gone = True
            for other in one.behind or ():
                other.waits_for -= 1
                if other.waits_for or other.is_gone:
                    continue
                # It runs nothing, so it leaves at once and releases those behind it.
                if other.is_joint:
                    gone.append(other)
                elif other.free is not None and not other.free.done():
                    other.free.set_result(None)
            one.ahead = one.behind = None
        self._in_line -= 1
        # With an empty queue there is no order to keep, and no reason to keep claims alive.
        if not self._in_line:
            self._reset()

    def _enter_any(self, claim: Claim) -> list[Claim]:
        """Add a claim on anything; returns the claims that it waits for."""
        if not claim.writes:
            self._any_readers.append(claim)
            # Joined into one. Otherwise a reply with many reads of anything behind many writers
            # would link each read with each writer.
            self._writers = _join(self._writers)
            return self._writers
        # This claim waits for all earlier ones, so later ones need only wait for it: the lists are
        # reset.
        ahead = [*self._any_readers, *self._writers, *self._readers]
        self._reset()
        self._any_writer = claim
        return ahead

    def _enter_named(self, claim: Claim, names: frozenset[str]) -> list[Claim]:
        """Add a claim on named resources; returns the claims that it waits for."""
        ahead: list[Claim] = []
        for name in names:
            resource = self._named.setdefault(name, _Resource())
            if not claim.writes:
                resource.readers.append(claim)
            # Readers since the last writer already wait for it, so a writer behind those readers
            # needs no link to it.
            if resource.writer is not None and (not claim.writes or not resource.readers):
                ahead.append(resource.writer)
            if claim.writes:
                ahead += resource.readers
                resource.writer, resource.readers = claim, []
        if not claim.writes:
            self._readers.append(claim)
            return ahead
        self._writers.append(claim)
        self._any_readers = _join(self._any_readers)
        return [*ahead, *self._any_readers]


def _queue_behind(claim: Claim, ahead: list[Claim]) -> None:
    for one in ahead:
        if not one.is_gone and one is not claim:
            one.behind, claim.ahead = one.behind or [], claim.ahead or []
            one.behind.append(claim)
            claim.ahead.append(one)
            claim.waits_for += 1


def _join(claims: list[Claim]) -> list[Claim]:
    """Return one claim that leaves once all of *claims* have, to be waited for in their place."""
    if len(claims) < 2:
        return claims
    joint = Claim(writes=False, resources=frozenset())
    joint.is_joint = True
    _queue_behind(joint, claims)
    joint.is_gone = not joint.waits_for
    return [joint]
