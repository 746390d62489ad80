"""Time that passes when a test says so, for code that has no clock but its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Leaping(asyncio.SelectorEventLoop):
    """A loop whose time can be advanced."""

    leapt_s: float = 0.0

    def time(self) -> float:
        return super().time() + self.leapt_s

    def leap(self, delay_s: float) -> None:
        """Advance the time, from any thread."""
        self.leapt_s += delay_s
        self.call_soon_threadsafe(lambda: None)


def leap(delay_s: float) -> None:
    """Advance the time of the running loop, which is a `Leaping` one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Leaping)
    loop.leap(delay_s)


def run_leaping(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* in a loop whose time can be advanced."""
    with asyncio.Runner(loop_factory=Leaping) as runner:
        return runner.run(main)
