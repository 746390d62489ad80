"""Turnstile: questions that several branches ask keep their order when the run goes on.

A host numbers questions as they come. Branches may come in another order when some of their
nodes need not be run again, so the log keeps who came when.
"""

from __future__ import annotations

import asyncio

from ..contract import Effect, Json
from ..runs import RunHost

__all__ = ["Turnstile"]


class Turnstile:
    """Lets askers pass in the order in which they first came.

    Args:
        host: Asks people, and keeps the order in the log.
        key: What the keys of its steps begin with.
    """

    def __init__(self, host: RunHost, key: str) -> None:
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
            came = await self._host.step(f"{self._key}{place + 1}", Effect.READ, lambda: asker)
            if place == len(self._order):
                self._order.append(came)
        return self._order.index(asker)
