"""``make effects``: fifteen ways to request one refund, tried on upshot and on others.

``python -m bench.effects [--only NAME,...] [--ways 1,2,...] [--runs 3] [--picture FOLDER]``
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.effects.bank import Bank
from bench.effects.columns import COLUMNS, LEASE_S
from bench.effects.picture import write_pictures
from bench.effects.table import Cell, Table, cell_of, worst
from bench.effects.ways import WAYS, Job, Way

STARTS_S, ENDS_S = 180.0, 75.0
_HERE = Path(__file__).resolve().parents[2]


class Workers:
    """The processes of a column."""

    def __init__(self, name: str) -> None:
        self._name, self._column = name, COLUMNS[name]
        self._ready: subprocess.Popen[str] | None = None
        self.versions: dict[str, str] = {}

    def _start(self) -> subprocess.Popen[str]:
        python = _HERE / ".venv-crewai/bin/python" if self._column.needs == "crewai" else None
        process = subprocess.Popen(
            [str(python or sys.executable), "-m", "bench.effects.worker", self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=_HERE,
        )
        assert process.stdout is not None
        self.versions = json.loads(process.stdout.readline() or "{}")
        while (line := process.stdout.readline()) != "ready\n":
            if not line:
                raise RuntimeError(f"{self._name} did not start")
        return process

    def begin(self, jobs: list[dict[str, Any]]) -> list[subprocess.Popen[str]]:
        """Start jobs at the same moment; returns the processes that end with them."""
        lines = [f"{json.dumps(one)}\n" for one in jobs]
        if not self._column.forks:
            # All have imported the framework before the first starts.
            started = [self._start() for _ in lines]
            for process, line in zip(started, lines, strict=True):
                assert process.stdin is not None
                process.stdin.write(line)
                process.stdin.flush()
            return started
        if self._ready is None:
            self._ready = self._start()
        assert self._ready.stdin is not None
        self._ready.stdin.writelines(lines)
        self._ready.stdin.flush()
        return []

    def close(self) -> None:
        """End the processes."""
        if self._ready is not None:
            self._ready.kill()
            self._ready.wait()


def try_way(workers: Workers, way: Way, bank: Bank, folder: Path, case: str) -> Cell:
    """Try a way once."""
    bank.open(case, list(way.faults))
    told: list[str] = []
    numbers = itertools.count()
    for stage in way.stages:
        jobs = [_line(job, bank, folder, case, next(numbers)) for job in stage]
        started = workers.begin(jobs)
        if any(job.dies for job in stage):
            _wait_until(lambda: bank.refunds(case) > 0)
            # Long enough for frameworks with leases.
            time.sleep(LEASE_S + 1)
            told.append("")
            continue
        for line in jobs:
            found = folder / f"{line['number']}.json"
            _wait_until(found.exists)
            texts = json.loads(found.read_text()) if found.exists() else ["it did not end"]
            if texts is None:
                return Cell("-")
            told += texts
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
    return cell_of(way, bank.refunds(case), told)


def _line(job: Job, bank: Bank, folder: Path, case: str, number: int) -> dict[str, Any]:
    return {
        "do": job.do,
        "replies": job.replies,
        "session": job.session,
        "dies": job.dies,
        "refused": job.refused,
        "bank": f"{bank.url}/{case}",
        "folder": str(folder),
        "number": number,
    }


def _wait_until(is_so: Any) -> None:
    ends = time.monotonic() + ENDS_S
    while not is_so() and time.monotonic() < ends:
        time.sleep(0.02)


@contextlib.contextmanager
def databases(*, needed: bool) -> Iterator[Any]:
    """Yield a function that makes a database for a case, or None without a server."""
    if not needed:
        yield None
        return
    from tests.postgres import find_postgres, started_server

    if find_postgres() is None and "UPSHOT_TEST_POSTGRES" not in os.environ:
        yield None
        return
    with started_server() as server:
        yield server


def prepare(name: str, folder: Path, server: Any) -> None:
    """Prepare what a case of the column needs."""
    if COLUMNS[name].needs != "postgres":
        return
    url = server.url(server.new_database())
    (folder / "postgres").write_text(url)
    if name == "idemkit":
        command = [str(Path(sys.executable).parent / "idemkit"), "init-pg", url]
        subprocess.run(command, check=True, capture_output=True)


def try_column(name: str, ways: list[Way], runs: int, bank: Bank, server: Any) -> list[Cell]:
    """Return the cells of a column, printing its line on the way."""
    workers, cells = Workers(name), []
    began = time.monotonic()
    try:
        for way in ways:
            found = []
            for number in range(runs):
                folder = Path(tempfile.mkdtemp(prefix="effects-"))
                prepare(name, folder, server)
                case = f"{name}-{WAYS.index(way)}-{number}"
                found.append(try_way(workers, way, bank, folder, case))
                if os.environ.get("UPSHOT_BENCH_KEEP"):
                    print(f"  {way.name}: {found[-1]} {folder}", flush=True)
                else:
                    shutil.rmtree(folder, ignore_errors=True)
            cells.append(worst(found))
    finally:
        workers.close()
    took = time.monotonic() - began
    said = " ".join(f"{one} {version}" for one, version in workers.versions.items())
    print(f"{COLUMNS[name].title}: {said or sys.version.split()[0]}, {took:.0f} s", flush=True)
    return cells


def main(given: list[str]) -> int:
    """Try the columns, print the table, and draw it."""
    parser = argparse.ArgumentParser(prog="make effects")
    parser.add_argument("--only", default="", help=f"of {','.join(COLUMNS)}")
    parser.add_argument("--ways", default="", help="numbers from 1 to 15")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--picture", type=Path, help="a folder for effects.svg and effects.png")
    parser.add_argument(
        "--save", type=Path, help="a file for the table as JSON; others' stay in it"
    )
    options = parser.parse_args(given)
    names = [one for one in options.only.split(",") if one] or list(COLUMNS)
    unknown = [one for one in names if one not in COLUMNS]
    if unknown:
        parser.error(f"no column {unknown[0]!r}: there are {', '.join(COLUMNS)}")
    numbers = [int(one) for one in options.ways.split(",") if one] or range(1, len(WAYS) + 1)
    ways = [WAYS[one - 1] for one in numbers]
    table = Table.read(options.save)
    bank = Bank()
    with databases(needed=any(COLUMNS[one].needs == "postgres" for one in names)) as server:
        for name in names:
            if COLUMNS[name].needs == "postgres" and server is None:
                print(f"{COLUMNS[name].title}: left out, there is no PostgreSQL", flush=True)
                continue
            table.add(name, ways, try_column(name, ways, options.runs, bank, server))
            table.write(options.save)
    bank.close()
    print(table)
    if options.picture:
        write_pictures(table, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
