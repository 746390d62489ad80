"""A game day: processes of an App, a Prometheus with the alarms, and the runbook's commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.request import urlopen

import pytest

from tests.postgres import free_port
from upshot import Agent, App, ScriptedModel, open_journal

__all__ = ["GameDay"]

ROOT = Path(__file__).resolve().parents[2]
ALARMS = (ROOT / "docs" / "operation" / "alarms.yml").read_text("utf-8")
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What the runbook starts in a terminal of its own.
WORK = "upshot work desk.py --status 127.0.0.1:9464"
PATIENCE_S = 90.0
T = TypeVar("T")
CONFIG = """
global: {scrape_interval: 1s, evaluation_interval: 500ms, scrape_timeout: 1s}
rule_files: [alarms.yml]
scrape_configs:
  - job_name: upshot
    file_sd_configs: [{files: [targets.json], refresh_interval: 500ms}]
"""


def quickened(alarms: str, numbers: Mapping[str, str]) -> str:
    """The alarms, so that they fire and clear within seconds; *numbers* replaces some of theirs."""
    for old, new in numbers.items():
        assert old in alarms
        alarms = alarms.replace(old, new)
    alarms = re.sub(r"for: \w+", "for: 1s", alarms)
    alarms = re.sub(r"offset \d+[mh]", "offset 10s", alarms)
    return re.sub(r"\[\d+[mh]\]", "[10s]", alarms)


class GameDay:
    """A folder with ``desk.py``, its journal, and what was started there.

    Attributes:
        folder: The folder.
        env: The environment of every command.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._targets: list[str] = []
        self._places: dict[int, str] = {}
        self._prometheus = ""
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "UPSHOT_JOURNAL": str(folder / "desk.db"),
            "XDG_STATE_HOME": str(folder / "state"),
            "COLUMNS": "200",
        }

    def __enter__(self) -> Self:
        if shutil.which("prometheus") is None:
            pytest.skip("there is no Prometheus: `make gamedays` installs it")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        if kind is not None:
            for log in sorted(self.folder.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}")

    # -- processes

    def write(self, program: str, name: str = "desk.py") -> None:
        """Write the file of the App."""
        (self.folder / name).write_text(program, "utf-8")

    def start(self, *command: str, **env: str) -> subprocess.Popen[bytes]:
        """Start a command, whose output goes to a log."""
        log = self.folder / f"{len(self._processes)}-{Path(command[0]).name}.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**self.env, **env}, stdout=out, stderr=out
            )
        self._processes.append(process)
        return process

    def work(self, **env: str) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self._reporting(["upshot", "work", "desk.py"], env)

    def watch(self) -> subprocess.Popen[bytes]:
        """Start a console that works on nothing, so that the journal is watched without workers."""
        return self._reporting(["upshot", "serve", "desk.py", "--no-work", "--port", "0"], {})

    def _reporting(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        place = f"127.0.0.1:{free_port()}"
        process = self.start(*command, "--status", place, **env)
        self._targets.append(place)
        self._places[process.pid] = place
        self._write_targets()
        self.until(lambda: self.is_healthy(process), "it serves its status")
        return process

    def is_healthy(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether a process says that it lives and needs no restart."""
        return _is_reached(f"http://{self._places[process.pid]}/health")

    def kill(self, process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGKILL) -> None:
        """End a process."""
        process.send_signal(how)
        process.wait(60)

    # -- the monitor

    def monitor(self, **numbers: str) -> None:
        """Start Prometheus with the documented alarms; *numbers* replaces some of theirs."""
        self.write(quickened(ALARMS, numbers), "alarms.yml")
        self.write(CONFIG, "prometheus.yml")
        self._write_targets()
        port = free_port()
        self.start(
            "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=metrics",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        self._prometheus = f"http://127.0.0.1:{port}"
        self.until(lambda: _is_reached(f"{self._prometheus}/-/ready"), "Prometheus is ready")

    def _write_targets(self) -> None:
        path = self.folder / "targets.json"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps([{"targets": self._targets}]))
        beside.rename(path)

    def firing(self) -> set[str]:
        """The alarms that fire now."""
        with urlopen(f"{self._prometheus}/api/v1/alerts") as reply:
            alerts = json.load(reply)["data"]["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def fires(self, alarm: str, *, each: Callable[[], object] = list) -> None:
        """Wait until an alarm fires; call *each* until then."""

        def fires() -> bool:
            each()
            return alarm in self.firing()

        self.until(fires, f"{alarm} fires")

    def clears(self, alarm: str) -> None:
        """Wait until an alarm no longer fires."""
        self.until(lambda: alarm not in self.firing(), f"{alarm} clears")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
            time.sleep(0.1)

    # -- the runbook

    def follow(
        self,
        section: str,
        steps: Sequence[int] | None = None,
        *,
        may_fail: bool = False,
        given: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Run the commands of a section of the runbook, in order; return what each block printed.

        Args:
            section: The heading.
            steps: Which blocks, from 0; None for all.
            may_fail: Whether a command may exit with another code than 0.
            given: Variables that the text of the section explains, such as ``RUN``.
        """
        text = RUNBOOK.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        blocks = BLOCK.findall(text)
        assert blocks
        return [
            self._run(blocks[n], given or {}, may_fail=may_fail)
            for n in (range(len(blocks)) if steps is None else steps)
        ]

    def _run(self, block: str, given: Mapping[str, str], *, may_fail: bool) -> str:
        """Run a block in a shell; a worker is started beside it."""
        lines = block.splitlines()
        shown = "\n".join(line for line in lines if line != WORK)
        done = subprocess.run(
            ["bash", "-euc", shown],
            cwd=self.folder,
            env={**self.env, **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert may_fail or done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        if WORK in lines:
            self.work()
        return done.stdout + done.stderr

    # -- the journal, as any process sees it

    def submit(self, *texts: str) -> list[str]:
        """Submit runs; return their ids."""

        async def submit() -> list[str]:
            agent = Agent("desk", model=ScriptedModel([]))
            async with App([agent], journal=self.env["UPSHOT_JOURNAL"], version="1") as app:
                return [(await app.submit("desk", text)).id for text in texts]

        return asyncio.run(submit())

    def read(self, what: Callable[[Any], Awaitable[T]]) -> T:
        """Return what *what* reads from the journal."""

        async def read() -> T:
            async with open_journal(self.env["UPSHOT_JOURNAL"]) as journal:
                return await what(journal)

        return asyncio.run(read())

    def statuses(self, *run_ids: str) -> list[str]:
        """The statuses of runs."""
        listed = self.read(lambda journal: journal.runs(limit=None))
        found = {one.run_id: one.status for one in listed}
        return [found.get(run_id, "") for run_id in run_ids]

    def is_completed(self, *run_ids: str) -> Callable[[], bool]:
        """Whether runs have completed, to be asked again and again."""
        return lambda: set(self.statuses(*run_ids)) == {"completed"}

    def last_before_call(self, run_id: str) -> str:
        """The number of the last event before the last model call, as `show --events` lists it."""

        async def kinds(journal: Any) -> list[str]:
            return [type(event).__name__ async for event in journal.events(run_id)]

        found = self.read(kinds)
        return str(max(n for n, kind in enumerate(found) if kind == "ModelStarted"))


def _is_reached(url: str) -> bool:
    try:
        with urlopen(url) as reply:
            return reply.status == 200
    except OSError:
        return False
