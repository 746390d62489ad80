"""Whether a late turn of a long run costs more than an early one, apart from sending."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import aiohttp

import upshot
from bench.interleave import ROUNDS
from bench.server import serving, tool_calls_then_answer
from bench.tool_step import RESULT
from upshot.models import AiohttpTransport, Answered, Timeouts

__all__ = ["turns"]

CALLS = 200
# Some turns around the tenth and the hundred-ninetieth: a single one is too short to measure.
EARLY = slice(5, 16)
LATE = slice(185, 196)


def turns() -> None:
    """CPU of turn 190 against turn 10, less the cost of sending the ready bytes."""
    with serving(tool_calls_then_answer(CALLS)) as base_url:
        ours, raw = asyncio.run(_measure(base_url))
    early, late = (
        statistics.median(ours[which]) - statistics.median(raw[which]) for which in (0, 1)
    )
    print(
        "turn 190 against turn 10 of a run of 200 tool calls, above sending the ready bytes\n"
        f"  turn 10 {early * 1e3:.3f} ms, turn 190 {late * 1e3:.3f} ms CPU: "
        f"{late / early:.2f}x (aim <= 2x); sending them alone costs "
        f"{statistics.median(raw[0]) * 1e3:.3f} and {statistics.median(raw[1]) * 1e3:.3f} ms"
    )


async def _measure(base_url: str) -> tuple[list[list[float]], list[list[float]]]:
    """Return CPU seconds of single turns: ours and raw, each early and late ones."""
    ours: list[list[float]] = [[], []]
    raw: list[list[float]] = [[], []]
    keeper = BodyKeeper()
    async with aiohttp.ClientSession() as session:
        for number in range(ROUNDS + 1):
            keeper.bodies.clear()
            spent = await _run(base_url, keeper)
            for which, turns in enumerate((EARLY, LATE)):
                sent = await _send(session, base_url, keeper.bodies[turns])
                if number:
                    ours[which] += spent[turns]
                    raw[which] += sent
    return ours, raw


async def _run(base_url: str, keeper: BodyKeeper) -> list[float]:
    """Run all turns and return the time of each."""
    stamps: list[float] = []

    @upshot.tool(effect="read")
    async def lookup(key: str) -> dict[str, str]:
        """Look a key up."""
        stamps.append(time.process_time())
        return RESULT

    model = upshot.resolve("openai:bench", base_url=base_url, api_key="none", transport=keeper)
    budget = upshot.Budget(max_turns=None)
    agent = upshot.Agent("bench", model=model, tools=[lookup], budget=budget)
    result = await upshot.run(agent, "Look everything up.")
    assert len(result.tool_outcomes) == CALLS, result.error
    return [after - before for before, after in itertools.pairwise(stamps)]


async def _send(session: aiohttp.ClientSession, base_url: str, bodies: list[bytes]) -> list[float]:
    """Send ready bytes and read the replies."""
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    spent: list[float] = []
    for body in bodies:
        begun = time.process_time()
        url = f"{base_url}/chat/completions"
        async with session.post(url, data=body, headers=headers) as response:
            await response.read()
        spent.append(time.process_time() - begun)
    return spent


class BodyKeeper:
    """A transport that keeps the bodies that it sends."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._inner = AiohttpTransport()

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        timeouts: Timeouts,
    ) -> AbstractAsyncContextManager[Answered]:
        """Keep *body* and send it."""
        self.bodies.append(body)
        return self._inner.send(method, url, headers, body, timeouts=timeouts)
