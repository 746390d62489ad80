"""``python -m tests.whole [COUNT] [SEED]``: make random runs, and check each against the truth.

The truth is what ``provider`` billed and the effects of the tools in ``book``. Each case (``case``)
is run by its own path (``paths``), and again by a plain ``run`` if it is deterministic. ``checks``
says what must hold, and that both results agree.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import count

from tests.whole.case import Case, make_case
from tests.whole.checks import essence, faults_of
from tests.whole.doors import DOORS, SITES
from tests.whole.paths import PATHS, Outcome
from tests.whole.provider import Provider, World
from tests.whole.world import Life
from upshot import open_journal
from upshot.clock import SYSTEM_CLOCK
from upshot.journal import MemoryJournal
from upshot.models import AiohttpTransport
from upshot.sim.http_server import Listener

NEWLINE = "\n"
TOLD_EVERY = 500
"""How many cases are run between two progress messages."""
SIDE_BY_SIDE = 6
"""How many cases wait for their processes, servers and files at the same time."""


class Bench:
    """A provider, a transport and a folder for running cases."""

    def __init__(self, folder: str) -> None:
        self._folder, self._numbers = folder, count()
        self._provider, self._port, self.transport = Provider(), 0, AiohttpTransport()
        # Closing a site ends the streams of every other site in the process.
        self._site = asyncio.Lock()

    async def open(self) -> Listener:
        """Start the provider."""
        listener = Listener(self._provider, lambda received: None, SYSTEM_CLOCK)
        self._port = await listener.open("127.0.0.1", 0)
        return listener

    async def live(self, case: Case, path: str) -> tuple[Outcome, list[str]]:
        """Run *case* by *path*; returns the outcome and all faults."""
        number = next(self._numbers)
        folder = os.path.join(self._folder, str(number))
        os.mkdir(folder)
        world = World(number, case)
        self._provider.worlds[number] = world
        life = Life(world, folder, self._port, self.transport)
        try:
            async with AsyncExitStack() as stack:
                if path in SITES:
                    await stack.enter_async_context(self._site)
                journal = MemoryJournal() if case.journal else None
                if case.journal == "sqlite":
                    journal = await stack.enter_async_context(open_journal(life.journal))
                outcome = await {**PATHS, **DOORS}[path](life, journal)
                return outcome, [f"by {path}: {one}" for one in await faults_of(life, outcome)]
        finally:
            del self._provider.worlds[number]
            shutil.rmtree(folder, ignore_errors=True)

    async def judge(self, seed: int) -> list[str]:
        """Return all faults of case number *seed*."""
        case = make_case(seed)
        try:
            outcome, found = await self.live(case, case.path)
            if case.is_calm and case.path not in ("run", "conversation"):
                plain, more = await self.live(case, "run")
                found += more
                found += _differences(case.path, essence(outcome.result), essence(plain.result))
        except (Exception, asyncio.CancelledError):
            # A cancellation is a fault too: no case is cancelled from outside.
            found = [traceback.format_exc()]
        return found


def _differences(path: str, one: dict[str, object], other: dict[str, object]) -> list[str]:
    return [
        f"{key} by {path} is {one[key]}, by run {other[key]}"
        for key in one
        if one[key] != other[key]
    ]


async def search(seeds: Sequence[int], folder: str) -> int:
    """Judge the cases of *seeds*, some at a time; returns how many are broken."""
    bench, broken, done, left = Bench(folder), 0, 0, iter(seeds)
    listener = await bench.open()

    async def judge() -> None:
        nonlocal broken, done
        for seed in left:
            found = await bench.judge(seed)
            done += 1
            if done % TOLD_EVERY == 0:
                print(f"{done} of {len(seeds)} cases: {broken} broken", file=sys.stderr, flush=True)
            if found:
                broken += 1
                report(seed, found, brief=len(seeds) > 20)

    try:
        async with aclosing(bench.transport), asyncio.TaskGroup() as group:
            for _ in range(SIDE_BY_SIDE):
                group.create_task(judge())
    finally:
        await listener.aclose()
    # Every seed is accounted for; otherwise the search ended early.
    assert done == len(seeds), (done, len(seeds))
    return broken


def report(seed: int, found: list[str], *, brief: bool = False) -> None:
    """Print the faults of a case, and how to reproduce it."""
    print(f"-- case {seed}; again: make whole COUNT=1 SEED={seed}")
    for one in found:
        print(f"   {' ... '.join(one.split(NEWLINE)[-4:])[-600:] if brief else one}")
    if not brief:
        print(make_case(seed).describe())
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Judge a number of cases (2,000 by default), starting from a seed (random by default)."""
    many = int(arguments[0]) if arguments else 2000
    first = int(arguments[1]) if len(arguments) > 1 else random.SystemRandom().randrange(2**32)
    began = time.monotonic()
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        broken = asyncio.run(search(range(first, first + many), folder))
    took = time.monotonic() - began
    print(f"{many} cases from {first} in {took:.0f} s: {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
