"""The cost of the life of a run that does next to nothing."""

from __future__ import annotations

from typing import Any

import upshot
from bench.interleave import measure
from upshot.journal import MemoryJournal

__all__ = ["lifecycle"]

RUNS = 500


def lifecycle() -> None:
    """CPU of a run whose script returns at once, without a log and with one in memory."""
    figures = measure({"no log": lambda: _run(None), "memory": lambda: _run(MemoryJournal())})
    for name, cost_s in figures.items():
        print(f"a trivial run, {name}\n  {cost_s / RUNS * 1e6:.0f} us CPU a run (aim <= 60 us)")


async def _run(journal: MemoryJournal | None) -> None:
    async def script(run: Any, host: Any, board: Any) -> str:
        return "done"

    agent = upshot.Agent("bench", engine=upshot.ScriptEngine(script))
    for _ in range(RUNS):
        result = await upshot.run(agent, "Go.", journal=journal)
        assert result.success, result.error
