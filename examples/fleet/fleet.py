"""A fleet: three Restate nodes and two services work on runs, while each is killed in turn.

    make restate
    .venv-restate/bin/python examples/fleet/fleet.py [--journal postgresql://...]

Every run pays five bills, which must not be paid twice. Killed are a service, a node, and a process
that has just answered what runs wait for. At the end stand what was done twice, what was lost, and
how soon the runs went on. All of it listens on 127.0.0.1. The journal is a file unless a database
is named, as it would be on several machines.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from nodes import START_S, Fleet
from service import STEPS, make_app

from upshot import App, PendingApproval, RunHandle, Status, ToolSettled

ROOT = Path(__file__).parent
CLOSING = "Pay all bills and close the books."


async def kill_service(fleet: Fleet, app: App, count: int) -> list[RunHandle]:
    """Kill a service that has runs in hand."""
    runs = [await app.submit("clerk", "Pay all bills.") for _ in range(count)]
    await until(lambda: len(fleet.effects()) > count)
    killed = fleet.effects()[-1].pid
    fleet.kill_service(next(one for one in fleet.services if one.pid == killed))
    then = time.time()
    last = {one.run_id: one for one in fleet.effects()}
    in_hand = [run_id for run_id, one in last.items() if one.pid == killed]
    fleet.start_service()
    await results(runs)
    tell(
        "a service is killed", fleet, [run_id for run_id in in_hand if last[run_id].bill < 3], then
    )
    return runs


async def kill_node(fleet: Fleet, app: App, count: int) -> list[RunHandle]:
    """Kill each node in turn, submit runs, and start it again."""
    runs: list[RunHandle] = []
    for node in fleet.nodes:
        node.kill()
        then = time.time()
        new = [await app.submit("clerk", "Pay all bills.") for _ in range(count)]
        await results(new)
        tell(f"node {node.name} is killed", fleet, [run.id for run in new], then)
        fleet.start(node)
        await fleet.ready(node)
        runs += new
    return runs


async def kill_answerer(fleet: Fleet, app: App, count: int) -> list[RunHandle]:
    """Kill all services, and whoever answers as soon as that is in the journal."""
    runs = [await app.submit("clerk", CLOSING) for _ in range(count)]
    await results(runs)
    for service in [*fleet.services]:
        fleet.kill_service(service)
    program = [sys.executable, str(ROOT / "fleet.py"), "--journal", fleet.journal, "--answer"]
    done = subprocess.run([*program, *(run.id for run in runs)], check=False)
    assert done.returncode == -signal.SIGKILL
    then = time.time()
    fleet.start_service()
    fleet.start_service()
    await results(runs, Status.COMPLETED)
    tell("who answered is killed", fleet, [run.id for run in runs], then)
    return runs


async def answer(app: App, run_ids: Iterable[str]) -> None:
    """Approve what runs wait for, and die."""
    for run_id in run_ids:
        run = await app.run(run_id)
        parked = await run.result(0)
        assert parked is not None
        (item,) = parked.pending
        assert isinstance(item, PendingApproval)
        await run.answer(item.approve(by="ann"))
    signal.raise_signal(signal.SIGKILL)


async def results(runs: Iterable[RunHandle], status: Status | None = None) -> None:
    """Wait until all have ended or wait, or have ended."""
    async with asyncio.timeout(START_S):
        for run in runs:
            while (result := await run.result()) is None or status not in (None, result.status):
                await asyncio.sleep(0.05)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(START_S):
        while not is_so():
            await asyncio.sleep(0.02)


def tell(what: str, fleet: Fleet, run_ids: Iterable[str], then: float) -> None:
    """Say how soon each of the runs did something again."""
    first: dict[str, float] = {}
    for one in fleet.effects():
        if one.at > then:
            first.setdefault(one.run_id, one.at - then)
    waited = sorted(first.get(run_id, float("inf")) for run_id in run_ids)
    if waited:
        half = waited[len(waited) // 2]
        print(f"{what}: {len(waited)} runs went on after {half:.1f} s, the last {waited[-1]:.1f} s")


async def lost(fleet: Fleet, runs: Iterable[RunHandle]) -> tuple[int, int]:
    """How many bills nobody paid or knows of, and of how many a log says that it is unknown."""
    paid = {(one.run_id, one.bill) for one in fleet.effects() if one.what == "paid"}
    missing = unknown = 0
    for run in runs:
        settled = [event async for event in run.events() if isinstance(event, ToolSettled)]
        told = {event.call_id for event in settled if event.record.effect == "unknown"}
        unknown += len(told)
        missing += sum(
            (run.id, bill) not in paid and f"p{bill}" not in told for bill in range(STEPS)
        )
    return missing, unknown


async def main(journal: str | None, count: int, answered: list[str]) -> None:
    """Start everything, kill it in turn, and show what came of it."""
    if answered:
        async with make_app(journal or "") as app:
            await answer(app, answered)
    with tempfile.TemporaryDirectory() as folder:
        place = journal or str(Path(folder) / "runs.db")
        async with make_app(place) as app, Fleet(Path(folder), place) as fleet:
            print("three nodes and two services are up")
            runs = await kill_service(fleet, app, count)
            runs += await kill_node(fleet, app, count)
            runs += await kill_answerer(fleet, app, count)
            missing, unknown = await lost(fleet, runs)
            print(f"{len(runs)} runs, {len(fleet.effects())} effects: {len(fleet.twice())} twice,")
            print(f"{missing} lost, {unknown} cut off and told as unknown")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--journal", help="a database or a file; without it a file that is removed")
    parser.add_argument("--runs", type=int, default=20, help="how many runs for each kill")
    parser.add_argument("--answer", nargs="+", default=[], help=argparse.SUPPRESS)
    given = parser.parse_args()
    asyncio.run(main(given.journal, given.runs, given.answer))
