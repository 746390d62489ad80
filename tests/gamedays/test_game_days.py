"""Each incident of the runbook is caused, and its commands are followed until the alarm clears."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.gamedays.game_day import BLOCK, ROOT, GameDay
from tests.postgres import (
    PostgresServer,
    fast_folder,
    find_postgres,
    free_port,
    other_user,
    started_server,
)

# Its model answers once there is a file ``go``; a request may name a tool to call first.
DESK = """
import asyncio, os, pathlib, signal, upshot
from upshot import ModelResponse, ToolCall

HERE = pathlib.Path(__file__).parent

@upshot.tool(effect="write")
async def pay() -> str:
    "Pay."
    (HERE / "paid").touch()
    while not (HERE / "go").exists():
        await asyncio.sleep(0.05)
    return "paid"

@upshot.tool(effect="write", approval=True)
def send() -> str:
    "Send."
    return "sent"

@upshot.tool(effect="read")
def crash() -> str:
    "Crash."
    if (HERE / "poison").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"

TOOLS = {"pay": pay, "send": send, "crash": crash}

class Model:
    async def call(self, request):
        word = request.messages[0].text
        answered = any(message.role == "tool" for message in request.messages)
        if word in TOOLS and not answered:
            return ModelResponse(tool_calls=(ToolCall("c", word, {}),))
        while word == "wait" and not (HERE / "go").exists():
            await asyncio.sleep(0.05)
        return ModelResponse(content="Done.")

app = upshot.App([upshot.Agent("desk", model=Model(), tools=[*TOOLS.values()])], version="1")
"""


def test_worker_lost(day: GameDay) -> None:
    day.write(DESK)
    day.watch()
    worker = day.work()
    day.monitor()
    (run,) = day.submit("wait")
    day.until(lambda: day.statuses(run) == ["running"], "the run is worked on")
    day.kill(worker)
    day.fires("UpshotWorkerLost")
    (day.folder / "go").touch()
    first, _ = day.follow("Worker lost", [0, 1])
    assert run in first and "died" in first
    day.clears("UpshotWorkerLost")
    day.until(day.is_completed(run), "the run completes")
    assert run not in day.follow("Worker lost", [2])[0]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with started_server() as found:
        if not found.is_ours:
            pytest.skip("the server is not ours to stop")
        yield found


def test_database_away(day: GameDay, server: PostgresServer) -> None:
    day.env["UPSHOT_JOURNAL"] = f"{server.url(server.new_database())}?patience=0.5"
    day.write(DESK)
    day.work()
    day.monitor()
    (run,) = day.submit("pay")
    day.until((day.folder / "paid").exists, "it is being paid")
    server.stop()
    day.fires("UpshotJournalAway")
    (day.folder / "go").touch()
    server.start()
    _, unknown = day.follow("Database away")
    day.clears("UpshotJournalAway")
    day.until(lambda: day.statuses(run) != ["running"], "the run goes on")
    # It was paid, or the list says that this is not known.
    assert day.statuses(run) == ["completed"] or "pay" in unknown


class Standbys:
    """Further servers that follow another one."""

    def __init__(self, server: PostgresServer) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="upshot-standby-", dir=fast_folder()))
        self._user = other_user()
        if self._user:
            os.chown(self._folder, self._user["user"], self._user["group"])
        self._running: list[subprocess.Popen[bytes]] = []
        self.database = server.new_database()

    def follow(self, port: int) -> int:
        """Start a server that follows the one at a port; return its own port."""
        data, own = str(self._folder / f"data-{port}"), free_port()
        self._do("pg_basebackup", "-h127.0.0.1", f"-p{port}", "-Uupshot", f"-D{data}", "-R")
        options = ["-h127.0.0.1", f"-p{own}", f"-k{self._folder}", "-cfsync=off"]
        program = [f"{find_postgres()}/postgres", f"-D{data}", *options]
        with open(self._folder / "log", "ab") as log:
            server: Any = subprocess.Popen(program, stdout=log, stderr=log, **self._user)
        self._running.append(server)
        return own

    def promote(self, port: int) -> None:
        """Make the server that followed *port* a primary."""
        self._do("pg_ctl", "promote", "-w", f"-D{self._folder / f'data-{port}'}")

    def _do(self, program: str, *arguments: str) -> None:
        command = [f"{find_postgres()}/{program}", *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **self._user)

    def close(self) -> None:
        """Stop them."""
        for server in reversed(self._running):
            server.send_signal(signal.SIGQUIT)
            server.wait(60)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def standbys(server: PostgresServer) -> Iterator[Standbys]:
    with closing(Standbys(server)) as found:
        yield found


def test_standby_promoted(day: GameDay, server: PostgresServer, standbys: Standbys) -> None:
    first = server.port
    second = standbys.follow(first)
    hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
    name = f"{standbys.database}?target_session_attrs=read-write"
    day.env["UPSHOT_JOURNAL"] = f"postgresql://upshot@{hosts}/{name}"
    server.do("ALTER SYSTEM SET synchronous_standby_names = '*'")
    server.do("SELECT pg_reload_conf()")
    day.write(DESK)
    day.work()
    day.monitor()
    before = day.submit("Hello.", "Hello.")
    day.until(day.is_completed(*before), "runs complete")
    server.stop()
    standbys.promote(first)
    day.fires("UpshotNoSynchronousStandby")
    # Nothing that was acknowledged is lost.
    assert day.statuses(*before) == ["completed"] * 2
    assert "none that commits wait for" in day.follow("Standby promoted", [0])[0]
    standbys.follow(second)
    # The user of the journal is no superuser in production, so the page names the primary apart.
    primary = {"PRIMARY": f"postgresql://upshot@127.0.0.1:{second}/postgres"}
    day.until(
        lambda: "streaming" in day.follow("Standby promoted", [1], given=primary)[0],
        "the new standby is connected",
    )
    day.follow("Standby promoted", [2], given=primary)
    day.clears("UpshotNoSynchronousStandby")
    assert "a commit waits for it" in day.follow("Standby promoted", [0])[0]
    day.until(day.is_completed(*day.submit("Hello.")), "runs complete again")
    server.start()


def test_poisoned_run(day: GameDay) -> None:
    day.write(DESK)
    (day.folder / "poison").touch()
    day.watch()
    (run,) = day.submit("crash")
    # Its supervisor starts a worker again whenever it dies.
    for _ in range(2):
        day.start("upshot", "work", "desk.py").wait(60)
    day.monitor()
    day.work()
    day.fires("UpshotPoisonedRun")
    (beside,) = day.submit("Hello.")
    day.until(day.is_completed(beside), "its neighbours complete")
    listed = day.follow("Poisoned run", [0], given={"RUN": run})[0]
    assert run in listed and "crash" in listed
    (day.folder / "poison").unlink()
    fork = day.follow("Poisoned run", [1], given={"RUN": run, "AT": day.last_before_call(run)})[0]
    day.until(day.is_completed(fork.split()[0]), "the run completes")
    day.clears("UpshotPoisonedRun")


def test_unknown_effects(day: GameDay) -> None:
    day.write(DESK)
    day.watch()
    worker = day.work()
    day.monitor()
    day.submit("pay")
    day.until((day.folder / "paid").exists, "it is being paid")
    day.kill(worker)
    day.work()
    day.fires("UpshotUnknownEffects")
    (listed,) = day.follow("Unknown effects", [0])
    assert "pay" in listed
    (effect,) = day.read(lambda journal: journal.effects(state="unknown"))
    last = day.follow("Unknown effects", [1, 3], given={"EFFECT": effect.id})[-1]
    assert "pay" not in last
    day.clears("UpshotUnknownEffects")


def test_inbox_flooded(day: GameDay) -> None:
    day.write(DESK)
    day.work()
    day.monitor(**{'older_than="3600"': 'older_than="0"'})
    runs = day.submit(*["send"] * 21)
    day.fires("UpshotInboxFlooded")
    assert runs[0] in day.follow("Inbox flooded", [0])[0]
    day.follow("Inbox flooded", [1], may_fail=True, given={"RUN": runs[0]})
    day.follow("Inbox flooded", [2], given={"RUN": runs[1]})
    day.clears("UpshotInboxFlooded")
    day.until(day.is_completed(runs[0]), "what was approved goes on")
    assert day.statuses(runs[1]) == ["canceled"]


# Its provider is a process, which is away, refuses the key, or answers.
BOUGHT = """
import os, upshot
model = upshot.resolve("openai:gpt-5", base_url=os.environ["PROVIDER"], api_key="a key")
agent = upshot.Agent("desk", model=model, retry=upshot.Retry(max_tries=1))
app = upshot.App([agent], version="1")
"""


class Provider:
    """A provider on a port of its own, whose replies change."""

    def __init__(self, day: GameDay) -> None:
        self._day, self._port = day, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        day.env["PROVIDER"] = f"http://127.0.0.1:{self._port}/v1"

    def answer(self, **scenario: Any) -> None:
        """Start it anew with a scenario."""
        if self._process is not None:
            self._day.kill(self._process)
        self._day.write(json.dumps({"replies": ["Done."], **scenario}), "scenario.json")
        given = ("--scenario", "scenario.json", "--port", str(self._port))
        self._process = self._day.start("upshot", "sim", *given)
        self._day.until(self._is_open, "the provider answers")

    def _is_open(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@pytest.mark.parametrize(
    ("section", "alarm", "status", "code"),
    [
        ("Provider down", "UpshotProviderDown", 503, "server_error"),
        ("Key revoked", "UpshotKeyRevoked", 401, "auth_error"),
    ],
)
def test_provider(day: GameDay, section: str, alarm: str, status: int, code: str) -> None:
    provider = Provider(day)
    provider.answer(faults=[{"kind": "status", "status": status, "times": None}])
    day.write(BOUGHT)
    worker = day.work()
    day.monitor()
    runs = list[str]()
    day.fires(alarm, each=lambda: runs.extend(day.submit("Hello.")))
    run = runs[-1]
    day.until(lambda: day.statuses(run) == ["failed"], "the run has failed")
    provider.answer()
    if section == "Key revoked":
        day.kill(worker, signal.SIGTERM)
    given = {"RUN": run, "AT": day.last_before_call(run)}
    listed, printed = day.follow(section, given=given)
    assert run in listed
    day.until(day.is_completed(printed.split()[0]), "what failed continues")
    day.clears(alarm)


def test_wrong_deploy(day: GameDay) -> None:
    day.monitor()
    day.write(DESK.replace('return ModelResponse(content="Done.")', "raise KeyError"))
    wrong = day.work()
    since = datetime.now(UTC).isoformat(timespec="seconds")
    runs = day.submit(*["Hello."] * 5)
    day.fires("UpshotManyFailures", each=lambda: day.submit("Hello."))
    day.write(DESK)
    day.follow("Wrong deploy", [0])
    day.kill(wrong, signal.SIGTERM)
    given = {"RUN": runs[0], "AT": day.last_before_call(runs[0]), "SINCE": since}
    (printed,) = day.follow("Wrong deploy", [1], given=given)
    assert all(run in printed for run in runs)
    fork = printed.splitlines()[-1]
    day.until(day.is_completed(fork, *day.submit("Hello.")), "runs complete again")
    day.clears("UpshotManyFailures")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A volume of 12 MB."""
    folder = tmp_path / "volume"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if subprocess.run(mounted, check=False, capture_output=True).returncode:
        pytest.skip("a volume cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_disk_full(day: GameDay, volume: Path) -> None:
    day.env["UPSHOT_JOURNAL"] = str(volume / "desk.db")
    day.write(DESK)
    worker, console = day.work(), day.watch()
    day.monitor(**{"< 1e9": "< 2e6"})
    day.until(day.is_completed(*day.submit("Hello.")), "runs complete")
    ballast = volume / "ballast"
    with suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    day.fires("UpshotDiskFull")
    worker.wait(60)
    # The console says that it needs a restart.
    day.until(lambda: not day.is_healthy(console), "the console is not healthy")
    day.kill(console)
    ballast.unlink()
    seen = day.follow("Disk full")
    assert "works" in seen[1]
    day.clears("UpshotDiskFull")
    day.until(day.is_completed(*day.submit("Hello.")), "runs complete again")


def test_restore_from_a_backup(day: GameDay) -> None:
    day.write(DESK)
    worker = day.work()
    paying, waiting = day.submit("pay", "wait")
    day.until((day.folder / "paid").exists, "it is being paid")
    journal, backup = day.env["UPSHOT_JOURNAL"], str(day.folder / "backup.db")
    with closing(sqlite3.connect(journal)) as old, closing(sqlite3.connect(backup)) as new:
        old.backup(new)
    day.kill(worker)
    # What the killed process wrote after the backup would be applied to a plain copy of it.
    assert Path(f"{journal}-wal").exists()
    page = (ROOT / "docs" / "production.md").read_text("utf-8").partition("### Restore")[2]
    restore = BLOCK.findall(page)[0]
    subprocess.run(["bash", "-euc", restore], cwd=day.folder, check=True)
    listed = "".join(day.follow("Restore from a backup", [0, 1]))
    assert paying in listed and waiting in listed
    day.follow("Restore from a backup", [2], given={"RUN": paying})
    (day.folder / "go").touch()
    day.follow("Restore from a backup", [3])
    day.until(day.is_completed(waiting), "what only read goes on")
    assert day.statuses(paying) == ["canceled"]
    assert waiting not in day.follow("Restore from a backup", [4])[0]


def test_clock_off(day: GameDay, server: PostgresServer) -> None:
    day.env["UPSHOT_JOURNAL"] = server.url(server.new_database())
    day.write(DESK)
    day.monitor()
    ahead = {"LD_PRELOAD": _faketime(), "FAKETIME": "+30s"}
    worker = day.work(**ahead)
    day.fires("UpshotClockOff")
    assert "clock" in day.follow("Clock off", given=ahead)[0]
    day.until(day.is_completed(*day.submit("Hello.")), "runs go on meanwhile")
    # The clock is right again.
    day.kill(worker, signal.SIGTERM)
    day.work()
    day.clears("UpshotClockOff")
    assert not re.search(r"clock\s+\d", day.follow("Clock off")[0])


def _faketime() -> str:
    return str(next(Path("/usr/lib").rglob("libfaketime.so.1")))
