"""Listeners for what this process does beside its runs, such as metrics.

Runs have listeners of their own, ``upshot.runs.recorder``, and effects theirs,
``upshot.journal.ledger_listeners``. These facts belong to no event of a run: how long commits take,
which runs were lost to another process, whether notifications arrive, what the gateway calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from upshot.contract.tool_calls import ToolOutcome


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


_listeners = Listeners[WorkListener]()
listen_to_work: Callable[[WorkListener], Callable[[], None]] = _listeners.add


def work_listeners() -> tuple[WorkListener, ...]:
    """Return the listeners."""
    return _listeners.all
