"""An experiment of 1,000 cases and 3 variants, against the same runs without the lab."""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from upshot import Agent, Message, Request, ScriptedModel, ToolCall, open_journal, run, tool
from upshot import lab as upshot_lab
from upshot.lab.report_page import report_page

__all__ = ["lab"]

CASES = 1_000
VARIANTS = ("today", "shorter", "mini")
ROUNDS = 3
AIM = 1.3


class Spent(NamedTuple):
    """What one candidate cost: CPU time, peak memory, and the size of its page."""

    cpu_s: float
    mib: float
    html_mib: float


@tool(effect="read")
async def find_order(number: int) -> dict[str, Any]:
    """Find an order."""
    return {"number": number, "article": "oak table", "cents": 100 * number}


@tool(effect="write")
async def refund(number: int, cents: int) -> str:
    """Refund an order."""
    return f"order {number}: {cents} cents are on their way"


def _reply(messages: Sequence[Message]) -> str | ToolCall:
    number, done = int(messages[0].text.rpartition(" ")[2]), len(messages)
    if done == 1:
        return ToolCall("c1", "find_order", {"number": number})
    if done == 3:
        return ToolCall("c2", "refund", {"number": number, "cents": 100 * number})
    return f"Order {number} is refunded; the money will be with you in two or three days."


AGENT: Agent[str] = Agent("support", model=ScriptedModel(_reply), tools=[find_order, refund])


def lab() -> None:
    """CPU time and memory of an experiment."""
    found: dict[str, list[Spent]] = {"lab": [], "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        _measured("record", folder)
        for _ in range(ROUNDS):
            for name, spent in found.items():
                spent.append(_measured(name, folder))
    cpu = {name: statistics.median(one.cpu_s for one in spent) for name, spent in found.items()}
    mib = {name: statistics.median(one.mib for one in spent) for name, spent in found.items()}
    print(f"lab: {CASES:,} cases x {len(VARIANTS)} variants, median of {ROUNDS}")
    for name in found:
        print(f"  {name:<5} {cpu[name]:6.1f} s CPU  {mib[name]:5.0f} MiB at most")
    html = max(one.html_mib for one in found["lab"])
    print(f"  {cpu['lab'] / cpu['runs']:.2f}x CPU (aim <= {AIM}x), a page of {html:.1f} MiB")


def _measured(name: str, folder: str) -> Spent:
    asked = [sys.executable, "-m", "bench.lab", name, folder]
    done = subprocess.run(asked, check=True, stdout=subprocess.PIPE)
    return Spent(*json.loads(done.stdout))


async def _record(folder: Path) -> None:
    await _runs(folder / "record.db", ("record",))
    async with open_journal(folder / "record.db") as journal:
        dataset = await upshot_lab.Dataset.from_journal(journal, name="refunds")
    dataset.write(folder / "refunds.jsonl")


async def _runs(path: Path, variants: Sequence[str]) -> None:
    slots = asyncio.Semaphore(10)

    async def one(variant: str, number: int) -> None:
        async with slots:
            request = Request(f"Refund order {number}", run_id=f"{variant}-{number}")
            result = await run(AGENT, request, journal=journal)
            assert result.success

    async with open_journal(path) as journal, asyncio.TaskGroup() as group:
        for number in range(CASES):
            for variant in variants:
                group.create_task(one(variant, number))


async def _experiment(folder: Path, path: Path) -> upshot_lab.Report:
    dataset = upshot_lab.Dataset.read(folder / "refunds.jsonl")
    scorers = [upshot_lab.same_effects(), upshot_lab.trajectory(), upshot_lab.completed()]
    return await upshot_lab.run(
        dataset, dict.fromkeys(VARIANTS, AGENT), scorers=scorers, journal=path
    )


def _main(name: str, folder: Path) -> None:
    html = ""
    with tempfile.TemporaryDirectory() as own:
        path = Path(own) / "runs.db"
        if name == "record":
            asyncio.run(_record(folder))
        elif name == "runs":
            asyncio.run(_runs(path, VARIANTS))
        else:
            report = asyncio.run(_experiment(folder, path))
            assert len(report.rows) == CASES * (1 + len(VARIANTS))
        cpu_s, kib = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if name == "lab":
            html = report_page(report)
    print(json.dumps([cpu_s, kib / 1024, len(html.encode()) / 2**20]))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
