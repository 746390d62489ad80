"""A thousand runs waiting at the same time in one process, against a bare aiohttp session.

``in_flight`` is without TLS, ``in_flight_tls`` behind a certificate that is verified.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp

import upshot
from bench.server import serving
from bench.tls_server import CERTIFICATE, serving_tls
from upshot.models import AiohttpTransport

__all__ = ["in_flight", "in_flight_tls"]

COUNT = 1_000
WAIT_MS = 2_000
# A thousand handshakes take a while.
TLS_WAIT_S = 6
# Each round uses a separate process for each candidate, because peaks do not go down again.
ROUNDS = 5
AIM = 1.5
QUESTION = "Say it."
ANSWER = "That is all."


class Spent(NamedTuple):
    """What one run cost: memory while it waited, and CPU time."""

    kib: float
    cpu_s: float


def in_flight() -> None:
    """Memory and CPU of a run that waits for its provider."""
    _raise_file_limit()
    scenario = {"replies": [ANSWER], "latency": {"first_byte_ms": WAIT_MS}}
    with serving(scenario) as base_url:
        found = _rounds(base_url)
    _show(f"{COUNT:,} in flight, answered after {WAIT_MS // 1000} s", found)
    print(f"  (aim <= {AIM}x for each)")


def in_flight_tls() -> None:
    """The same over TLS, where asyncio's buffers weigh most."""
    _raise_file_limit()
    with serving_tls(ANSWER, TLS_WAIT_S) as base_url:
        found = _rounds(base_url)
    _show(f"{COUNT:,} in flight over TLS, answered after {TLS_WAIT_S} s", found)
    print("  (aim <= 100 KiB a run)")


def _rounds(base_url: str) -> dict[str, list[Spent]]:
    found: dict[str, list[Spent]] = {name: [] for name in CANDIDATES}
    for _ in range(ROUNDS):
        for name, spent in found.items():
            spent.append(_in_own_process(name, base_url))
    return found


def _show(what: str, found: dict[str, list[Spent]]) -> None:
    kib = {name: statistics.median(each.kib for each in spent) for name, spent in found.items()}
    cpu = {name: statistics.median(each.cpu_s for each in spent) for name, spent in found.items()}
    print(what)
    for name in CANDIDATES:
        print(
            f"  {name}: {kib[name]:.1f} KiB ({kib[name] / kib['raw']:.2f}x), "
            f"{cpu[name] * 1e3:.3f} ms CPU ({cpu[name] / cpu['raw']:.2f}x)"
        )


def _in_own_process(name: str, base_url: str) -> Spent:
    command = [sys.executable, "-m", "bench.in_flight", name, base_url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Spent(*json.loads(done.stdout))


async def _measure(name: str, base_url: str) -> Spent:
    one, aclose = CANDIDATES[name](base_url)
    await one()  # imports, and objects that are made once
    idle_kib = _resident_kib()
    begun = time.process_time()
    await asyncio.gather(*[one() for _ in range(COUNT)])
    cpu_s = time.process_time() - begun
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await aclose()
    return Spent((peak_kib - idle_kib) / COUNT, cpu_s / COUNT)


def _raw(base_url: str) -> tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]:
    context = ssl.create_default_context(cafile=CERTIFICATE)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=context))
    url = f"{base_url}/chat/completions"
    headers = {"content-type": "application/json", "authorization": "Bearer none"}

    async def ask() -> None:
        messages = [{"role": "user", "content": QUESTION}]
        body = json.dumps({"model": "bench", "messages": messages}).encode()
        async with session.post(url, data=body, headers=headers) as response:
            reply = json.loads(await response.read())
        assert reply["choices"][0]["message"]["content"] == ANSWER

    return ask, session.close


def _model(base_url: str) -> upshot.Model:
    transport = AiohttpTransport(ca_file=str(CERTIFICATE)) if "https" in base_url else None
    return upshot.resolve("openai:bench", base_url=base_url, api_key="none", transport=transport)


def _call(base_url: str) -> tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]:
    model = _model(base_url)

    async def ask() -> None:
        response = await model.call(QUESTION)
        assert response.content == ANSWER, response.error

    return ask, _nothing


def _run(base_url: str) -> tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]:
    model = _model(base_url)
    agent = upshot.Agent("bench", model=model)

    async def ask() -> None:
        result = await upshot.run(agent, QUESTION)
        assert result.content == ANSWER, result.error

    return ask, _nothing


async def _nothing() -> None:
    return None


CANDIDATES = {"raw": _raw, "model.call": _call, "run": _run}


def _resident_kib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


def _raise_file_limit() -> None:
    """Allow a socket for each run, here and in the processes started from here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(*sys.argv[1:]))))
