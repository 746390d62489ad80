"""Trip: what all nodes of one pass through a graph share, and how it keeps the log in step.

What a node changed is in the log as the value of its step. The run's own board follows: it
shows what the branches that met have done. A resumed run walks the graph again from its start;
steps that are settled give back what they changed and are not done again, and what the board
shows already is not put on it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from ..contract import BoardSnapshot, Effect, JsonObject
from ..runs import Board, Interrupted, Run, RunHost
from .graph_board import Added, BoardCopy, Change
from .graph_turnstile import Turnstile
from .point import keeps_points, save_point

__all__ = ["Trip"]

# Steps that wait for nothing would keep timers, cancels and other runs waiting: after so many of
# them the event loop gets its turn.
_STEPS_A_TURN = 32


class Trip:
    """One pass of an engine through its graph or machine.

    Args:
        run: The run.
        host: Its host.
        board: The run's own.
        name: Of what is gone through, for the keys of its steps.

    Attributes:
        run: The run.
        host: Its host.
        key: What all keys of its steps begin with.
        questions: Keeps questions in the order in which they were first asked.
        origin: What the log says of the beginning.
    """

    def __init__(self, run: Run, host: RunHost, board: Board, *, name: str = "graph") -> None:
        self.run = run
        self.host = host
        self.key: str = f"{name}-{run.attempt}/"
        self.questions: Turnstile = Turnstile(host, f"{self.key}question-")
        self.origin: JsonObject = {}
        self._board = board
        self._keeps_points = keeps_points(host)
        # How many messages of each channel an earlier sitting has put on the board.
        self._shown: dict[str, int] = {}
        self._messages: list[Added] = []
        self._variables: JsonObject = {}
        self._steps = 0

    async def begin(self, *, facts: JsonObject | None = None) -> Board:
        """The board as it was before any node ran, also when the run goes on.

        Args:
            facts: What else is to be known of the beginning when the run goes on.
        """
        now = self._board.snapshot()
        counts = {channel: len(messages) for channel, messages in now.channels.items()}
        form = await self.host.step(
            f"{self.key}start",
            Effect.READ,
            lambda: {"variables": now.variables, "messages": counts, **(facts or {})},
        )
        self.origin = cast("JsonObject", form)
        first = cast("dict[str, JsonObject]", form)
        seeds = cast("dict[str, int]", first["messages"])
        self._shown = {channel: count - seeds.get(channel, 0) for channel, count in counts.items()}
        before = BoardSnapshot(
            channels={channel: now.channels[channel][:count] for channel, count in seeds.items()},
            variables=first["variables"],
            seeded=now.seeded,
        )
        return BoardCopy(Board.restore(before), run=self._board)

    def commit(self, story: Sequence[Change]) -> None:
        """Have the run's board show *story* before anything else is really done."""
        for change in story:
            self._messages += change.messages
            self._variables.update(change.variables)

    def flush(self) -> None:
        """Put on the run's board what it shall show and does not yet."""
        for channel, messages in self._messages:
            shown = min(self._shown.get(channel, 0), len(messages))
            if shown:
                self._shown[channel] -= shown
            self._board.extend(messages[shown:], channel)
        self._messages.clear()
        if self._variables:
            for name, value in self._variables.items():
                if not self._board.shows(name, value):
                    self._board.set(name, value)
            self._variables.clear()

    async def name_point(self, step: str, key: str, iteration: int) -> None:
        """Give the host a checkpoint before *step*, if it keeps any and the step is to be done.

        Args:
            step: The node or state that comes next, and is all that comes next.
            key: What it has in the log.
            iteration: How many there were before it.
        """
        if self._keeps_points and not self.host.is_settled(key):
            self.flush()
            await save_point(self.run, self.host, self._board, step=step, iteration=iteration)

    async def stop_if_asked(self) -> None:
        """Follow a wish to stop, before a step.

        Raises:
            Interrupted: There is one.
        """
        self._steps += 1
        if self._steps % _STEPS_A_TURN == 0:
            await asyncio.sleep(0)
        wish = await self.host.interrupts()
        if wish:
            raise Interrupted(wish.cause, wish.detail)
