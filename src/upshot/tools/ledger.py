"""Ledger: where the facts of tool calls are told and logged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from ..contract import DELTAS, Clock, Event, Journal, RunEvent
from ..contract.barrier import until_safe

__all__ = ["Barrier", "Emit", "JournalLedger", "Ledger", "ledger_of"]

Emit: TypeAlias = Callable[[Event], None]
Barrier: TypeAlias = Callable[[], Awaitable[None]]


class Ledger:
    """Hands events on to a run, which stamps and logs them."""

    def __init__(self, emit: Emit | None = None, barrier: Barrier | None = None) -> None:
        self._emit = emit
        self._barrier = barrier

    async def open(self) -> None:
        """Make it ready; called before each batch."""

    def emit(self, event: Event) -> None:
        """Tell *event*; run, attempt, time and place in the log are not its business."""
        if self._emit is not None:
            self._emit(event)

    async def barrier(self) -> None:
        """Wait until all that was told is safe."""
        if self._barrier is not None:
            await self._barrier()


class JournalLedger(Ledger):
    """Logs to a journal itself, for a Toolbox that no run surrounds."""

    def __init__(
        self, journal: Journal, run_id: str, *, clock: Clock, attempt: Callable[[], int]
    ) -> None:
        super().__init__()
        self._journal = journal
        self._run_id = run_id
        self._clock = clock
        self._attempt = attempt
        self._epoch: int | None = None
        self._opening: asyncio.Future[None] | None = None
        self._seq = 0

    async def open(self) -> None:
        """Claim the run and find the end of its log, once."""
        if self._opening is None:
            # Two batches may come first at once, and a second claim would end the first.
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        self._epoch = await self._journal.claim(self._run_id)
        async for event in self._journal.events(self._run_id):
            self._seq = max(self._seq, getattr(event, "seq", 0))

    def emit(self, event: Event) -> None:
        """Append *event*; progress is for watchers, and there is none.

        Raises:
            JournalError: The run was claimed by somebody else, or the journal is closed.
        """
        if isinstance(event, DELTAS) or not isinstance(event, RunEvent):
            return
        self._seq += 1
        stamped = msgspec.structs.replace(
            event,
            run_id=self._run_id,
            attempt=self._attempt(),
            time=self._clock.now(),
            seq=self._seq,
        )
        self._journal.append(stamped, epoch=self._epoch)

    async def barrier(self) -> None:
        """Wait until all that was appended is safe.

        Raises:
            JournalError: It could not be written.
        """
        await until_safe(self._journal, self._run_id, self._seq, epoch=self._epoch)


def ledger_of(
    journal: Journal | None,
    emit: Emit | None,
    barrier: Barrier | None,
    *,
    run_id: str,
    clock: Clock,
    attempt: Callable[[], int],
) -> Ledger:
    """The ledger of a Toolbox: a run's where it hands *emit* in, else the journal's own."""
    if journal is None or emit is not None:
        return Ledger(emit, barrier)
    return JournalLedger(journal, run_id, clock=clock, attempt=attempt)
