"""``python -m stress [SECONDS] [SEED]``: run the tests of time, processes and journals under load.

All cores are kept busy, and the processes that run the tests are frozen (SIGSTOP) at random for up
to a second and a half, so that the clock jumps for them. Processes that tests start are not frozen,
because upshot handles a suspended process as a case of its own. No reply may block the loop for
50 ms of processor time. Exits with 1 if a test failed in any round.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HELD_MS = 50
LONGEST_S = 1.5
TESTS = (
    "tests/cli/test_lease.py",
    "tests/cli/test_process.py",
    "tests/entry/test_many.py",
    "tests/entry/test_run_lease.py",
    "tests/entry/test_side_by_side.py",
    "tests/journal",
    "tests/models/test_hostile_replies.py",
    "tests/models/test_retry.py",
    "tests/models/test_transport.py",
    "tests/runs/test_budget_limits.py",
    "tests/runs/test_cancel.py",
    "tests/runs/test_crashes.py",
    "tests/runs/test_kill.py",
    "tests/runs/test_live_run.py",
    "tests/runs/test_task_supervisor.py",
    "tests/runs/test_working_time.py",
    "tests/testing/test_transport_contract.py",
    "tests/tools/execution",
    "tests/tools/mcp",
)


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep each core busy with two processes."""
    count = 2 * (os.cpu_count() or 1)
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def freeze(pid: int, rng: random.Random, over: threading.Event) -> None:
    """Freeze the children of *pid*, one after another, until *over* is set."""
    while not over.wait(rng.uniform(0.05, 0.5)):
        children = Path("/proc", str(pid), "task", str(pid), "children")
        with suppress(OSError, ProcessLookupError, IndexError):
            child = int(rng.choice(children.read_text().split()))
            os.kill(child, signal.SIGSTOP)
            time.sleep(rng.expovariate(10) if rng.random() < 0.9 else rng.uniform(0.5, LONGEST_S))
            os.kill(child, signal.SIGCONT)


def run_once(rng: random.Random, workers: int) -> list[str]:
    """Run the tests once; returns the lines of the failed ones."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--tb=short", *TESTS]
    over = threading.Event()
    tests = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "UPSHOT_HELD_MS": str(HELD_MS)},
    )
    freezing = threading.Thread(target=freeze, args=(tests.pid, rng, over))
    freezing.start()
    try:
        said, _ = tests.communicate()
    finally:
        over.set()
        freezing.join()
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    print(said if failed else said.splitlines()[-1], flush=True)
    return failed or ([] if tests.returncode == 0 else [f"pytest exited with {tests.returncode}"])


def main(seconds: float = 600, seed: int | None = None) -> int:
    """Run the tests repeatedly for a number of seconds, at least once."""
    seed = random.randrange(2**32) if seed is None else seed
    print(f"seed {seed}", flush=True)
    rng, until, rounds = random.Random(seed), time.monotonic() + seconds, 0
    failed: Counter[str] = Counter()
    with busy_cores():
        while not rounds or time.monotonic() < until:
            failed.update(run_once(rng, workers=2))
            rounds += 1
    for line, times in failed.most_common():
        print(f"{times} of {rounds}: {line}")
    print(f"{rounds} rounds, {failed.total()} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
