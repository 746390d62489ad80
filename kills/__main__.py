"""``python -m kills [KILLS] [SEED]``: kill runs with SIGKILL at random moments until they end.

Each run works in its own process on a SQLite journal that others use at the same time. It is killed
up to eight times, resumed by a new process each time (sometimes by two at once), and finally left
to end. Then its log and result are compared with what its tools really did:

- lost: an effect that is in no log, a run that does not end, a result that says otherwise;
- repeated: a call that was made again after its outcome was on disk;
- doubled: a write, not declared idempotent, that took effect twice.

Any violation is printed with the number of its run, from which it can be reproduced.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import pkgutil
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import upshot
from kills.scenario import EFFECTS, READS, REPEATABLE, TOOLS, Done, Scenario, effects
from upshot import AgentResult, Misuse, PendingApproval, Status, ToolRecord, ToolSettled

MAX_KILLS = 8
# No run takes longer than this on its own, whatever else the machine does.
HANGS_S = 120
ENDED, BUSY, FAULTY = 0, 3, 4
RUNS_A_FILE = 40


# -- in a child process


async def work(scenario: Scenario, path: str) -> int:
    """Start or resume the run, and answer its questions, until it ends."""
    async with upshot.open_journal(path) as journal:
        # In this order, because another process may start the run at the same time.
        began = effects(scenario.run_id)
        known = await journal.runs(run_id=scenario.run_id)
        try:
            if known:
                result = await upshot.resume(scenario.run_id, scenario.agent(), journal=journal)
            else:
                if began:
                    print(f"{scenario.run_id}: lost: it had effects and no log")
                    return FAULTY
                request = upshot.Request("Go.", run_id=scenario.run_id)
                result = await upshot.run(scenario.agent(), request, journal=journal)
            while result.status is Status.INPUT_REQUIRED:
                answers = [_answer(one) for one in result.pending]
                result = await upshot.resume(
                    scenario.run_id, scenario.agent(), journal=journal, answers=answers
                )
        except (Misuse, upshot.JournalError) as error:
            # Another process has the run, claimed it, or started it first.
            if any(word in str(error) for word in ("process", "epoch", "already")):
                return BUSY
            raise
    return ENDED


def _answer(pending: Any) -> Any:
    assert isinstance(pending, PendingApproval)
    number = int(pending.call_id.rpartition("/")[2].removeprefix("pay"))
    return pending.deny("no") if number % 4 == 0 else pending.approve(by="kills")


async def judge(scenario: Scenario, path: str) -> int:
    """Compare the log of the run, and of its child runs, with its effects."""
    faults: list[str] = []
    done: defaultdict[str, list[Done]] = defaultdict(list)
    for one in effects(scenario.run_id):
        done[one.tag].append(one)
    async with upshot.open_journal(path) as journal:
        result = await upshot.resume(scenario.run_id, scenario.agent(), journal=journal)
        records, settled = await _records(journal, scenario.run_id)
    faults += _of_result(result)
    for tag in {**done, **records}:
        faults += _of_call(tag, done[tag], records.get(tag), settled.get(tag))
    for fault in faults:
        print(f"{scenario.run_id} ({scenario.engine}): {fault}")
    return FAULTY if faults else ENDED


async def _records(journal: Any, run_id: str) -> tuple[dict[str, ToolRecord], dict[str, float]]:
    """Return the record of each call from the logs of a run and its child runs, with its time."""
    records: dict[str, ToolRecord] = {}
    settled: dict[str, float] = {}
    async for event, _ in upshot.states(journal.events(run_id)):
        if isinstance(event, ToolSettled):
            assert event.time is not None
            records[event.record.call_id] = event.record
            settled.setdefault(event.record.call_id, event.time.timestamp())
    for child in await journal.runs(parent_run_id=run_id):
        more, times = await _records(journal, child.run_id)
        records |= more
        settled |= times
    return records, settled


def _of_result(result: AgentResult[Any]) -> list[str]:
    if result.status is Status.COMPLETED:
        return []
    # An interrupted step that must not be repeated ends the run with this error.
    if result.error is not None and result.error.code == "interrupted":
        return []
    return [f"lost: it ended {result.status}: {result.error}"]


def _of_call(
    tag: str, done: list[Done], record: ToolRecord | None, settled: float | None
) -> list[str]:
    name = tag.rstrip("0123456789")
    faults: list[str] = []
    if name not in REPEATABLE and len(done) > 1:
        faults.append(f"doubled: {tag} took effect {len(done)} times")
    if name not in TOOLS:
        return faults
    if record is None:
        return [*faults, f"lost: {tag} took effect, and no log tells of it"]
    effect = record.outcome.effect
    if done and effect == "none" and name not in READS:
        faults.append(f"lost: {tag} took effect, and its outcome says that it did not")
    if not done and effect == "applied":
        faults.append(f"lost: {tag} took no effect, and its outcome says that it did")
    if settled is not None and done and done[-1].at_s > settled:
        faults.append(f"repeated: {tag} was made again after its outcome was logged")
    return faults


# -- in the process that kills


def fork(work: Callable[[], Any]) -> int:
    """Start a child process that runs *work* and exits with its return value."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = FAULTY
    try:
        code = asyncio.run(work())
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(pid: int, within_s: float) -> int | None:
    """Return how a child process ended (exit code or negative signal), or None if it still runs."""
    end = time.monotonic() + within_s
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(min(0.001, within_s))


class Lane:
    """Makes one run after the other, concurrently with other lanes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.kills = self.runs = self.faults = 0

    def live(self, seed: int) -> None:
        """Run one scenario to its end, and judge it."""
        scenario, rng = Scenario(seed), random.Random(f"kills {seed}")
        path = os.path.join(self._folder, f"runs-{seed // RUNS_A_FILE}.db")
        left = rng.randint(1, MAX_KILLS)
        self.runs += 1
        while True:
            rivals = 2 if rng.random() < 0.1 else 1
            pids = [fork(lambda: work(scenario, path)) for _ in range(rivals)]
            is_last = not left
            wait_s = HANGS_S if is_last else rng.uniform(0, 0.9 if rng.random() < 0.1 else 0.15)
            codes = [self._end(pid, wait_s) for pid in pids]
            killed = codes.count(-signal.SIGKILL)
            self.kills += killed
            left = max(0, left - killed)
            if ENDED in codes:
                break
            if is_last and killed:
                self._fault(f"{scenario.run_id}: lost: it did not end within {HANGS_S} s")
                return
            if any(code not in (BUSY, -signal.SIGKILL) for code in codes):
                self._fault(f"{scenario.run_id}: it ended with {codes}")
                return
        if self._end(fork(lambda: judge(scenario, path)), HANGS_S) != ENDED:
            self.faults += 1

    def _end(self, pid: int, within_s: float) -> int:
        code = ended(pid, within_s)
        if code is not None:
            return code
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status)

    def _fault(self, said: str) -> None:
        print(said)
        self.faults += 1


def load() -> None:
    """Import all of upshot once, so that no child has to."""
    for module in pkgutil.walk_packages(upshot.__path__, "upshot."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError:
            # It needs an extra that this environment does not have.
            continue


def live_until(folder: str, first: int, step: int, kills: int) -> tuple[int, int, int]:
    """Work one lane: the runs *first*, *first* + *step*, ...; returns runs, kills and faults."""
    lane = Lane(folder)
    while lane.kills < kills:
        lane.live(first + lane.runs * step)
    return lane.runs, lane.kills, lane.faults


def main() -> int:
    """Kill as often as the command line says; returns 1 if anything broke."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 24)
    lanes = os.cpu_count() or 1
    load()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[EFFECTS] = os.path.join(folder, "effects")
        os.mkdir(os.environ[EFFECTS])
        with ProcessPoolExecutor(lanes, multiprocessing.get_context("fork")) as pool:
            shares = [
                pool.submit(live_until, folder, first + lane, lanes, -(-kills // lanes))
                for lane in range(lanes)
            ]
            runs, killed, faults = map(sum, zip(*(share.result() for share in shares), strict=True))
    print(f"{runs} runs from {first} on, {killed} kills, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
