"""Listeners for effects in this process, such as telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from upshot.contract.effects import EffectEntry
from upshot.contract.tool_calls import Settlement


class LedgerListener(Protocol):
    """Is told what becomes of effects; it must not wait, and not raise."""

    def settled(self, entry: EffectEntry, /) -> None:
        """An unknown effect was settled through this process."""
        ...

    def unknown(self, counts: Mapping[str, int], /) -> None:
        """So many effects are unknown in a journal now, by the name of the effect."""
        ...


# Replaced and never changed, so that other threads read it whole.
_listeners: tuple[LedgerListener, ...] = ()


def listen_to_effects(listener: LedgerListener) -> Callable[[], None]:
    """Tell *listener* from now on; returns what ends that."""
    global _listeners  # noqa: PLW0603  # the one list of a process
    _listeners = (*_listeners, listener)

    def end() -> None:
        global _listeners  # noqa: PLW0603
        _listeners = tuple(known for known in _listeners if known is not listener)

    return end


def effect_listeners() -> tuple[LedgerListener, ...]:
    """Who is told."""
    return _listeners


def tell_settled(entry: EffectEntry, given: Settlement) -> EffectEntry:
    """Tell of *entry* if it was *given* that settled it, and not an earlier answer; returns it."""
    if entry.settled == given:
        for listener in _listeners:
            listener.settled(entry)
    return entry
