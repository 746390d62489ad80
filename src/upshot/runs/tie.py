"""Tie: what a run inside another has to do with that one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ..contract import AgentResult, Event, Interrupt, StepStarted
from ..errors import JournalError
from .box import Box
from .kin import settled_step, step_of
from .plan import Parent

__all__ = ["Tie"]


class Tie:
    """Between a sitting and the run round it, which may live in the loop of another thread.

    Args:
        parent: The run round it.
        run_id: The run inside.
        box: Its tools.
        interrupt: Interrupts it.
    """

    def __init__(
        self, parent: Parent, run_id: str, *, box: Box, interrupt: Callable[[Interrupt], None]
    ) -> None:
        self._parent = parent
        self._run_id = run_id
        self._box = box
        self._interrupt = interrupt
        self._loop = asyncio.get_running_loop()
        self._let_go: Callable[[], None] | None = None

    def begin(self) -> None:
        """Log in the outer run that this one begins."""
        self._tell(StepStarted(key=step_of(self._run_id)))

    def follow(self) -> None:
        """Stop from now on where the outer run shall, at once if that is wished already."""
        is_near = self._parent.loop is self._loop
        self._let_go = self._parent.admit(self._interrupt if is_near else self._hear_from_afar)
        if is_near:
            self._look(self._interrupt)
        else:
            # Its host belongs to its own loop, which may be gone by now.
            with contextlib.suppress(RuntimeError):
                self._parent.loop.call_soon_threadsafe(self._look, self._hear_from_afar)

    def inherit_distrust(self) -> None:
        """Distrust what the outer run has in its context."""
        if self._parent.box.tainted:
            self._box.distrust(f"{self._parent.box.tainted}, in the outer run")

    def bequeath_distrust(self) -> None:
        """Have the outer run distrust what this one has in its context."""
        if self._box.tainted:
            self._parent.box.distrust(f"{self._box.tainted}, in a run inside")

    def settle(self, result: AgentResult[Any], tools: Mapping[str, int]) -> None:
        """Log in the outer run how a sitting of this one ended, and what it used."""
        self._tell(settled_step(result, tools))

    def leave(self) -> None:
        """Hear of no more wishes."""
        if self._let_go is not None:
            self._let_go()

    def _tell(self, event: Event) -> None:
        parent = self._parent
        # A log that is lost, or a loop that is closed, is that run's own concern.
        with contextlib.suppress(JournalError, RuntimeError):
            if parent.loop is self._loop:
                parent.tell(event)
            else:
                parent.loop.call_soon_threadsafe(parent.tell, event)

    def _look(self, hear: Callable[[Interrupt], None]) -> None:
        wish = self._parent.wish()
        if wish is not None:
            hear(wish)

    def _hear_from_afar(self, wish: Interrupt) -> None:
        # The loop of this run may have ended by now.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._interrupt, wish)
