"""What a MemoryJournal keeps beside its logs: notes, answers, stop requests, shared values."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from upshot.contract.protocols import Note
from upshot.journal.run_list import no_such_run
from upshot.journal.shared import MemoryValues, PlacedAnswer, SharedValues, Stop, Unsent

if TYPE_CHECKING:
    from upshot.journal.memory_log import MemoryLog

T = TypeVar("T")


class MemoryNotes:
    """What users and other sessions leave for a run; a part of MemoryJournal."""

    def __init__(self) -> None:
        # By run, then by question.
        self._wishes: dict[str, dict[str, PlacedAnswer]] = {}
        self._stops: dict[str, dict[str, Stop]] = {}
        # By run, then by name and author.
        self._notes: dict[str, dict[tuple[str, str], Note]] = {}
        # When items are due for notification and how often that was tried, by run and question.
        self._notifications: dict[tuple[str, str], tuple[float, int]] = {}
        self._values = MemoryValues()

    if TYPE_CHECKING:

        def _open(self) -> dict[str, MemoryLog]: ...

    async def keep_note(self, note: Note) -> None:
        """See ``SharedJournal.keep_note``."""
        if note.run_id not in self._open():
            raise no_such_run(note.run_id)
        self._put_note(note)

    def _put_note(self, note: Note) -> None:
        kept, key = self._notes.setdefault(note.run_id, {}), (note.name, note.by)
        kept.pop(key, None)
        if note.value is not None:
            kept[key] = note

    async def notes(self, run_id: str) -> Sequence[Note]:
        """See ``SharedJournal.notes``."""
        self._open()
        return [*self._notes.get(run_id, {}).values()]

    async def value(self, name: str) -> str:
        """See ``SharedJournal.value``."""
        self._open()
        return self._values.read(name)

    async def values(self, first: str, end: str) -> Mapping[str, str]:
        """See ``SharedJournal.values``."""
        self._open()
        return self._values.between(first, end)

    async def placed_answers(self, run_id: str) -> Sequence[PlacedAnswer]:
        """See ``SharedJournal.placed_answers``."""
        self._open()
        return [*self._wishes.get(run_id, {}).values()]

    async def mark_sent(self, one: Unsent, *, again_s: float | None) -> None:
        """See ``SharedJournal.mark_sent``."""
        if (key := (one.asking, one.question)) in self._notifications:
            again = math.inf if again_s is None else time.monotonic() + again_s
            self._notifications[key] = again, one.tries + 1

    async def stops(self, run_ids: Sequence[str]) -> Sequence[Stop]:
        """See ``SharedJournal.stops``."""
        return [stop for run_id in run_ids for stop in self._stops.get(run_id, {}).values()]

    async def drop_stops(self, run_id: str) -> None:
        """See ``SharedJournal.drop_stops``."""
        self._stops.pop(run_id, None)

    async def change_values(self, change: Callable[[SharedValues], T]) -> T:
        """See ``SharedJournal.change_values``."""
        self._open()
        return self._values.change(change)

    async def settle_claim(self, run_id: str) -> None:
        """See ``SharedJournal.settle_claim``."""

    def together(self) -> AbstractContextManager[None]:
        """See ``SharedJournal.together``."""
        return nullcontext()

    def begin_change(self, change: Callable[[SharedValues], T]) -> Awaitable[T]:
        """See ``SharedJournal.begin_change``."""
        return self.change_values(change)
