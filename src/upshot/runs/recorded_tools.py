"""RecordedTools: a Toolbox whose calls get what was recorded of them, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ..contract import Event, PendingApproval, ToolCall, ToolOutcome
from ..tools import Toolbox
from .recording import Recording

__all__ = ["RecordedTools"]


class RecordedTools:
    """Hands out outcomes as they were recorded; all else is the Toolbox itself.

    Args:
        tools: It.
        record: What was recorded.
        emit: Tells the recorded events again.
    """

    def __init__(self, tools: Toolbox, record: Recording, emit: Callable[[Event], None]) -> None:
        self._tools = tools
        self._record = record
        self._emit = emit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """Calls that waited for somebody's word when the record ended."""
        return self._record.waiting

    async def dispatch(self, calls: Sequence[ToolCall], *, turn: int = 0) -> list[ToolOutcome]:
        """See ``Toolbox.dispatch``.

        Raises:
            Failed: A call was not recorded so.
        """
        del turn  # A label of records, and these have theirs.
        found = [one for one in map(self._record.call, calls) if one is not None]
        events = [event for one in found for event in one.events]
        for event in sorted(events, key=lambda event: event.seq):
            self._emit(replace(event))
        self._tools.restore(tuple(one.record for one in found))
        return [one.record.outcome for one in found]

    async def resume(
        self, calls: Sequence[ToolCall], *_: object, **__: object
    ) -> list[ToolOutcome]:
        """See ``Toolbox.resume``; nothing of the record is left half done."""
        return await self.dispatch(calls)
