"""Eight processes in one line of a provider and under one cap, with calls cut and killed.

Small by default; ``UPSHOT_FLEET=1`` makes 300 calls at a provider's limits, beside a plain retry
and litellm's router (of the Python that ``UPSHOT_LITELLM`` names, if this one has none), and 1,000
under a cap. The figures are printed (``-s``).
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple

import pytest

from tests.fleet.calling import CAP_USD
from tests.processes import LARGE_S, start_python
from upshot.sim import Simulator

IS_LARGE = bool(os.environ.get("UPSHOT_FLEET"))
LITELLM = os.environ.get("UPSHOT_LITELLM", "")
SCRIPT: dict[str, Any] = {"replies": [{"text": "word " * 75}], "when_spent": "last"}
ROOT = Path(__file__).resolve().parents[2]
# Else litellm asks the network for prices.
_OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
PROCESSES = 8 if IS_LARGE else 3
# Of the requests, which are all of one size: what they use by the simulator's count.
PRICE = 5e-6, 15e-6


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "j.db")
    if not IS_LARGE:
        pytest.skip("takes a minute: UPSHOT_FLEET=1")
    server = request.getfixturevalue("postgres")
    return server.url(request.getfixturevalue("database"))


class Figures(NamedTuple):
    """What came of the calls.

    Attributes:
        ended: How they ended.
        took_s: From the first request to the last answer.
        sent: How many requests came.
    """

    ended: list[str]
    took_s: float
    sent: int


class Caller:
    """A process that makes calls, and is begun anew where it is killed."""

    def __init__(self, how: str, base_url: str, place: str, calls: int) -> None:
        self.left = calls
        self.ended: list[str] = []
        self._given = how, base_url, place
        self.process: subprocess.Popen[str] | None = None

    async def begin(self) -> None:
        given = [ROOT / "tests" / "fleet" / "calling.py", *self._given, self.left]
        streams: Any = {"stdin": PIPE, "stdout": PIPE, "text": True}
        streams["env"] = {**os.environ, **_OFFLINE}
        if self._given[0] == "litellm":
            command = [LITELLM or sys.executable, *map(str, given)]
            streams["env"]["PYTHONPATH"] = str(ROOT / "src")
            self.process = subprocess.Popen(command, **streams)
        else:
            self.process = start_python(*given, max_s=LARGE_S, **streams)
        while (line := await self._read()) and line != "ready\n":
            pass

    async def _read(self) -> str:
        assert self.process is not None and self.process.stdout is not None
        return await asyncio.to_thread(self.process.stdout.readline)

    async def work(self) -> None:
        """Let it make its calls, until it is through or killed."""
        process = self.process
        assert process is not None and process.stdin is not None
        with suppress(BrokenPipeError), process:
            process.stdin.write("go\n")
            process.stdin.flush()
            while line := await self._read():
                self.ended.append(line.strip())
                self.left -= 1

    async def work_on(self) -> None:
        """The same, begun anew whenever it is killed."""
        await self.work()
        while self.left > 0:
            await self.begin()
            await self.work()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


async def called(sim: Simulator, how: str, place: str, calls: int) -> Figures:
    """Make calls in all processes at once."""
    before = len(sim.requests)
    share = calls // PROCESSES
    callers = [Caller(how, sim.base_url, place, share) for _ in range(PROCESSES)]
    try:
        await asyncio.gather(*(caller.begin() for caller in callers))
        working = asyncio.gather(*(caller.work() for caller in callers))
        while len(sim.requests) == before and not working.done():
            await asyncio.sleep(0.01)
        began = time.monotonic()
        await working
        took_s = time.monotonic() - began
    finally:
        for caller in callers:
            caller.kill()
    ended = [word for caller in callers for word in caller.ended]
    return Figures(ended, took_s, len(sim.requests) - before)


@pytest.mark.skipif(not IS_LARGE, reason="takes minutes: UPSHOT_FLEET=1")
@pytest.mark.parametrize("how", ["pacer", "retry", "litellm"])
async def test_eight_processes_share_a_providers_limits(place: str, how: str) -> None:
    calls, per_minute = 304, 150
    ideal_s = (calls - per_minute) / per_minute * 60
    if how == "litellm" and not (LITELLM or importlib.util.find_spec("litellm")):
        pytest.skip("litellm is not installed: name a Python that has it by UPSHOT_LITELLM")
    if how != "pacer" and place.startswith("postgresql"):
        pytest.skip("it is compared once")
    limits = {"requests_per_minute": per_minute, "tokens_per_minute": 1_000_000}
    async with Simulator(SCRIPT, limits=limits, keep_requests=None) as sim:
        one = await called(sim, how, place, calls)
    failed, refused = calls - one.ended.count("ok"), one.sent - one.ended.count("ok")
    print(
        f"{how}: {failed} of {calls} failed, {refused} refused, {one.took_s:.1f} s, "
        f"{one.took_s / ideal_s:.2f} of the ideal"
    )
    if how == "pacer":
        assert failed == 0
        assert refused <= 0.02 * calls
        assert one.took_s <= 1.05 * ideal_s


async def test_no_death_passes_a_cap_on_money(place: str) -> None:
    calls, cuts, kills = (1000, 20, 8) if IS_LARGE else (24, 3, 1)
    dice = random.Random(13)
    faults = [{"kind": "cut", "times": cuts}]
    async with Simulator(SCRIPT, faults=faults, keep_requests=None) as sim:
        share = calls // PROCESSES
        callers = [Caller("quota", sim.base_url, place, share) for _ in range(PROCESSES)]
        killing = asyncio.ensure_future(kill_some(sim, callers, kills, dice))
        try:
            await asyncio.gather(*(caller.begin() for caller in callers))
            await asyncio.gather(*(caller.work_on() for caller in callers))
        finally:
            killing.cancel()
            with suppress(asyncio.CancelledError):
                await killing
            for caller in callers:
                caller.kill()
        each = await cost_of_one(sim)
        billed = each * (len(sim.requests) - 1)
    words = [word for caller in callers for word in caller.ended]
    print(f"billed {billed:.4f} of {CAP_USD}, {len(sim.requests) - 1} sent, each {each:.6f}")
    assert billed <= CAP_USD
    if IS_LARGE:
        assert words.count("budget_exceeded") > 0
        assert billed >= 0.9 * CAP_USD
    else:
        assert words.count("budget_exceeded") == 0


async def kill_some(sim: Simulator, callers: list[Caller], kills: int, dice: random.Random) -> None:
    """Kill a process whenever some more requests have come."""
    step = 60 if IS_LARGE else 8
    for number in range(1, kills + 1):
        while len(sim.requests) < number * step:
            await asyncio.sleep(0.01)
        dice.choice(callers).kill()


async def cost_of_one(sim: Simulator) -> float:
    """What the simulator bills for a call, by the usage that it tells."""
    from upshot.models import resolve

    body: Any = sim.requests[-1].body
    model = resolve("openai:gpt-4o-mini", base_url=sim.base_url, api_key="k")
    usage = (await model.call(str(body["messages"][-1]["content"]))).usage
    return (usage.input_tokens or 0) * PRICE[0] + (usage.output_tokens or 0) * PRICE[1]
