"""Listeners in this process for its effects, and for what it does beside its runs, for telemetry.

Runs have listeners of their own, ``upshot.runs.recorder``. These facts belong to no event of a run:
how long commits take, which runs were lost to another process, whether notifications arrive, what
the gateway calls, how an unknown effect was settled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from upshot.contract.effects import EffectEntry
from upshot.contract.tool_calls import Settlement, ToolOutcome


class WorkListener(Protocol):
    """Gets notified about the work of this process, in any thread.

    Its methods must not wait or raise.
    """

    def committed(self, took_s: float, /) -> None:
        """A journal has committed a group of events."""
        ...

    def lost(self, runs: int, /) -> None:
        """Other processes have claimed that many runs that this process was working on."""
        ...

    def notified(self, *, is_delivered: bool) -> None:
        """A notification of an inbox item was sent, and was accepted or not."""
        ...

    def called(self, tool: str, outcome: ToolOutcome, /) -> None:
        """A tool was called outside a run, as by the gateway."""
        ...


class LedgerListener(Protocol):
    """Gets notified about effects. Its methods must not wait or raise."""

    def settled(self, entry: EffectEntry, /) -> None:
        """An unknown effect was settled through this process."""
        ...

    def unknown(self, counts: Mapping[str, int], /) -> None:
        """Report how many effects of a journal are unknown now, by the name of the effect."""
        ...


L = TypeVar("L")


class Listeners(Generic[L]):
    """The listeners of one kind in this process."""

    def __init__(self) -> None:
        # Replaced, never changed, so that other threads always read a whole tuple.
        self.all: tuple[L, ...] = ()

    def add(self, listener: L) -> Callable[[], None]:
        """Notify *listener* from now on; returns a function that ends that."""
        self.all = (*self.all, listener)

        def end() -> None:
            self.all = tuple(known for known in self.all if known is not listener)

        return end


_work = Listeners[WorkListener]()
listen_to_work: Callable[[WorkListener], Callable[[], None]] = _work.add
_effects = Listeners[LedgerListener]()
listen_to_effects: Callable[[LedgerListener], Callable[[], None]] = _effects.add


def work_listeners() -> tuple[WorkListener, ...]:
    """Return the listeners for the work of this process."""
    return _work.all


def effect_listeners() -> tuple[LedgerListener, ...]:
    """Return the listeners for effects."""
    return _effects.all


def notify_settled(entry: EffectEntry, given: Settlement) -> EffectEntry:
    """Notify listeners if *given*, and not an earlier answer, settled *entry*; return *entry*."""
    if entry.settled == given:
        for listener in _effects.all:
            listener.settled(entry)
    return entry
