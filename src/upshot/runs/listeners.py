"""Listeners: who is told of every run in the process, such as telemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..contract import Event, ModelResponse
from .plan import Plan

__all__ = ["Listener", "Opener", "anybody_listens", "listen", "listeners_of"]

# Takes events, and what engines report that called a model by other ways; it must not wait.
Listener: TypeAlias = Callable[[Event | ModelResponse], None]
# Asked at each sitting, in the context of who runs it; None is no interest. It must not raise.
Opener: TypeAlias = Callable[[Plan], Listener | None]

# Replaced and never changed, so that runs of other threads read it whole.
_openers: tuple[Opener, ...] = ()


def listen(opener: Opener) -> Callable[[], None]:
    """Ask *opener* for a listener at every sitting that begins from now on.

    A listener that raises is told nothing more of that sitting, which gets a warning.

    Returns:
        Ends that; sittings under way are listened to until their end.
    """
    global _openers  # noqa: PLW0603  # the one list of a process
    _openers = (*_openers, opener)

    def end() -> None:
        global _openers  # noqa: PLW0603
        _openers = tuple(known for known in _openers if known is not opener)

    return end


def anybody_listens() -> bool:
    """Whether anybody is asked at each sitting."""
    return bool(_openers)


def listeners_of(plan: Plan) -> Iterator[Listener]:
    """Who wants to be told of a sitting that is about to begin."""
    for opener in _openers:
        listener = opener(plan)
        if listener is not None:
            yield listener
