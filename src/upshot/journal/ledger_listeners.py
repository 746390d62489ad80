"""Listeners for effects in this process, such as telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from upshot.contract.effects import EffectEntry
from upshot.contract.tool_calls import Settlement
from upshot.journal.work_listeners import Listeners


class LedgerListener(Protocol):
    """Gets notified about effects. Its methods must not wait or raise."""

    def settled(self, entry: EffectEntry, /) -> None:
        """An unknown effect was settled through this process."""
        ...

    def unknown(self, counts: Mapping[str, int], /) -> None:
        """Report how many effects of a journal are unknown now, by the name of the effect."""
        ...


_listeners = Listeners[LedgerListener]()
listen_to_effects: Callable[[LedgerListener], Callable[[], None]] = _listeners.add


def effect_listeners() -> tuple[LedgerListener, ...]:
    """Return the listeners."""
    return _listeners.all


def notify_settled(entry: EffectEntry, given: Settlement) -> EffectEntry:
    """Notify listeners if *given*, and not an earlier answer, settled *entry*; return *entry*."""
    if entry.settled == given:
        for listener in _listeners.all:
            listener.settled(entry)
    return entry
