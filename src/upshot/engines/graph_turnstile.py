"""Turnstile: questions that several branches ask keep their order when the run goes on.

A host numbers questions as they come. Branches may come in another order when some of their
nodes need not be run again, so the log keeps who came when.
"""

from __future__ import annotations

import asyncio

from ..contract import Effect, ErrorCode, Json
from ..runs import Failed, RunHost

__all__ = ["Turnstile"]


class Turnstile:
    """Lets askers pass in the order in which they first came.

    Args:
        host: Asks people, and keeps the order in the log.
        key: What the keys of its steps begin with.

    Attributes:
        has_changed: Whether the graph has changed since: who asked first may not come any more.
    """

    def __init__(self, host: RunHost, key: str) -> None:
        self.has_changed: bool = False
        self._host = host
        self._key = key
        self._order: list[Json] = []
        self._passed = 0
        self._moved = asyncio.Event()

    async def ask(self, asker: str, question: str, choices: tuple[str, ...]) -> Json:
        """Ask a person, when all who came before have asked.

        Args:
            asker: Unique in the run, and the same when the run goes on.
            question: What is asked.
            choices: What may be answered, empty for anything.

        Returns:
            The answer.

        Raises:
            Parked: Nobody can answer now.
            Failed: The graph has changed, and others have asked who have not come yet; code
                dead_end. Their answers would be taken for those of this one.
        """
        place = await self._place_of(asker)
        while self._passed < place:
            await self._moved.wait()
        self._passed += 1
        moved, self._moved = self._moved, asyncio.Event()
        # The host takes its number before it first waits, so the next may come at once.
        moved.set()
        return await self._host.ask_user(question, choices=choices)

    async def _place_of(self, asker: str) -> int:
        while asker not in self._order:
            place = len(self._order)
            if self.has_changed and place > self._passed:
                self._check_known(f"{self._key}{place + 1}", asker)
            came = await self._host.step(f"{self._key}{place + 1}", Effect.READ, lambda: asker)
            if place == len(self._order):
                self._order.append(came)
        return self._order.index(asker)

    def _check_known(self, key: str, asker: str) -> None:
        if not self._host.is_settled(key):
            before = self._order[self._passed]
            message = (
                f"the graph asks at {asker!r} now, and the run was to be answered at {before!r}"
            )
            raise Failed(ErrorCode.DEAD_END, message, details={"node": before})
