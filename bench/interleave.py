"""Measuring candidates side by side: A B A B, CPU time of this process, medians."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

__all__ = ["ROUNDS", "measure", "show"]

ROUNDS = 9


def measure(
    candidates: Mapping[str, Callable[[], Awaitable[object]]],
    *,
    rounds: int = ROUNDS,
    closing: Callable[[], Awaitable[object]] | None = None,
) -> dict[str, float]:
    """Run every candidate in turn, *rounds* times, after one round that does not count.

    Args:
        candidates: What is measured, by name.
        rounds: How many times each is measured.
        closing: Awaited at the end, in the same event loop.

    Returns:
        Median CPU seconds of one call, by name.
    """
    spent: dict[str, list[float]] = {name: [] for name in candidates}

    async def rounds_of_all() -> None:
        for number in range(rounds + 1):
            for name, candidate in candidates.items():
                gc.collect()
                begun = time.process_time()
                await candidate()
                if number:
                    spent[name].append(time.process_time() - begun)
        if closing is not None:
            await closing()

    asyncio.run(rounds_of_all())
    return {name: statistics.median(times) for name, times in spent.items()}


def show(what: str, figures: Mapping[str, float], *, per: int, unit: str, aim: float) -> None:
    """Print two figures and their ratio: the first is ours, the second the raw loop's."""
    (our_name, ours), (raw_name, raw) = figures.items()
    print(
        f"{what}\n  {our_name} {ours / per * 1e3:.3f} ms, {raw_name} {raw / per * 1e3:.3f} ms "
        f"CPU a {unit}: {ours / raw:.2f}x (aim <= {aim:g}x)"
    )
