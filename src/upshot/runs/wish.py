"""Wish: whether the run shall stop, to be looked at or asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from enum import Enum
from typing import Any, cast

from ..contract import Interrupt, InterruptCause
from .signals import Interrupted

__all__ = ["Wish", "wish_of"]


def wish_of(asked: object) -> Interrupt:
    """What somebody's host gave for the wish that a run stop, in our words.

    Args:
        asked: An Interrupt or an Interrupted; a text, which is the cause; a mapping or any other
            object with ``cause`` and ``detail``, of which both may be missing.
    """
    if isinstance(asked, Interrupt):
        return asked
    if isinstance(asked, Interrupted):
        return asked.interrupt
    if isinstance(asked, str):
        return Interrupt(asked)
    return Interrupt(InterruptCause(_text_of(asked, "cause")), _text_of(asked, "detail"))


def _text_of(asked: object, name: str) -> str:
    if isinstance(asked, Mapping):
        found = cast("Mapping[object, Any]", asked).get(name)
    else:
        found = getattr(asked, name, None)
    if isinstance(found, Enum):
        found = found.value
    return "" if found is None else str(found)


class Wish:
    """``await host.interrupts()`` asks whether the run shall stop; ``if host.interrupts:`` looks.

    Looking asks nobody who has to be waited for, such as an async method of the user's host.

    Args:
        look: Gives the wish that is known now, None for none.
        ask: Asks the user's host too.
    """

    def __init__(
        self,
        look: Callable[[], Interrupt | None],
        ask: Callable[[], Awaitable[Interrupt | None]],
    ) -> None:
        self._look = look
        self._ask = ask

    def __call__(self) -> Awaitable[Interrupt | None]:
        """Ask for the wish, None for none."""
        return self._ask()

    def __await__(self) -> Generator[object, None, Interrupt | None]:
        return self._ask().__await__()

    def __bool__(self) -> bool:
        return self._look() is not None

    @property
    def cause(self) -> InterruptCause:
        """Why the run shall stop, "" where it shall not."""
        wish = self._look()
        return InterruptCause.NONE if wish is None else wish.cause

    @property
    def detail(self) -> str:
        """What was said about it, "" for nothing."""
        wish = self._look()
        return "" if wish is None else wish.detail
