"""Listeners for effects in this process, such as telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from upshot.contract.effects import EffectEntry
from upshot.contract.tool_calls import Settlement


class LedgerListener(Protocol):
    """Gets notified about effects. Its methods must not wait or raise."""

    def settled(self, entry: EffectEntry, /) -> None:
        """An unknown effect was settled through this process."""
        ...

    def unknown(self, counts: Mapping[str, int], /) -> None:
        """Report how many effects of a journal are unknown now, by the name of the effect."""
        ...


# Replaced, never changed, so that other threads always read a whole tuple.
_listeners: tuple[LedgerListener, ...] = ()


def listen_to_effects(listener: LedgerListener) -> Callable[[], None]:
    """Notify *listener* from now on; returns a function that ends that."""
    global _listeners  # noqa: PLW0603  # the one list of a process
    _listeners = (*_listeners, listener)

    def end() -> None:
        global _listeners  # noqa: PLW0603
        _listeners = tuple(known for known in _listeners if known is not listener)

    return end


def effect_listeners() -> tuple[LedgerListener, ...]:
    """Return the listeners."""
    return _listeners


def notify_settled(entry: EffectEntry, given: Settlement) -> EffectEntry:
    """Notify listeners if *given*, and not an earlier answer, settled *entry*; return *entry*."""
    if entry.settled == given:
        for listener in _listeners:
            listener.settled(entry)
    return entry
