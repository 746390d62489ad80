"""Wish: whether the run shall stop, to be looked at or asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator

from ..contract import Interrupt, InterruptCause

__all__ = ["Wish"]


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
