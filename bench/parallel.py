"""Many concurrent reads, and the cost of the gates."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from upshot.tools import Toolbox, ToolCall, tool

__all__ = ["gates", "parallel"]

CALLS = 100
READ_S = 0.01
ROUNDS = 15


@tool(effect="read")
async def read(key: str) -> str:
    """Read a key slowly."""
    await asyncio.sleep(READ_S)
    return key


def parallel() -> None:
    """Wall time of 100 reads of 10 ms in one reply, compared with as many bare sleeps."""
    spent: dict[str, list[float]] = {"dispatch": [], "bare sleeps": []}

    async def rounds() -> None:
        for number in range(ROUNDS + 1):
            for name, work in (("dispatch", _dispatch), ("bare sleeps", _sleep)):
                took = await _time(work)
                if number:
                    spent[name].append(took)

    asyncio.run(rounds())
    print(f"{CALLS} parallel reads of {READ_S * 1e3:g} ms, wall time")
    for name, times in spent.items():
        aim = " (aim <= 30 ms)" if name == "dispatch" else ""
        best, median = min(times) * 1e3, statistics.median(times) * 1e3
        print(f"  {name}: best {best:.1f} ms, median {median:.1f} ms{aim}")


def gates() -> None:
    """CPU of the gates alone: a dry run, which makes no call."""
    box = Toolbox([read])

    async def rounds() -> list[float]:
        found: list[float] = []
        for number in range(ROUNDS + 1):
            calls = [ToolCall(f"{number}-{n}", "read", {"key": f"k{n}"}) for n in range(CALLS)]
            begun = time.process_time()
            for call in calls:
                await box.check(call)
            if number:
                found.append((time.process_time() - begun) / CALLS)
        return found

    times = asyncio.run(rounds())
    best, median = min(times) * 1e6, statistics.median(times) * 1e6
    print(f"gates alone\n  best {best:.0f} us, median {median:.0f} us CPU a call (aim <= 40 us)")


async def _time(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def _dispatch() -> None:
    calls = [ToolCall(f"c{n}", "read", {"key": f"k{n}"}) for n in range(CALLS)]
    outcomes = await Toolbox([read]).dispatch(calls)
    assert len(outcomes) == CALLS


async def _sleep() -> None:
    await asyncio.gather(*(asyncio.sleep(READ_S) for _ in range(CALLS)))
