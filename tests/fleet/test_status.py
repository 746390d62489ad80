"""What a process tells a monitor: whether it lives, whether it is ready, and its metrics."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.fleet.scraping import Scrape, desk, full_scrape
from tests.postgres import PostgresServer
from tests.processes import start_python
from upshot import Misuse
from upshot.fleet.status import Status, parse_place
from upshot.fleet.worker_list import drain_worker, read_workers

APP = """
import upshot
# Its call lasts until there is a file.
class Waiting:
    async def call(self, request):
        import asyncio, pathlib
        while not pathlib.Path("open").exists():
            await asyncio.sleep(0.02)
        return upshot.ModelResponse(content="Done.")
app = upshot.App([upshot.Agent("desk", model=Waiting())],
                 journal=WHERE, version="1")
"""


@contextmanager
def started(folder: Path, journal: str, *arguments: str) -> Iterator[tuple[Any, str]]:
    """A process of the command with ``--status``, and the address that it prints."""
    (folder / "app.py").write_text(APP.replace("WHERE", repr(journal)), "utf-8")
    given = ["-m", "upshot", *arguments, "--status", "127.0.0.1:0"]
    with start_python(*given, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            line = next(line for line in lines if line.startswith("status at "))
            yield process, line.split()[2].removesuffix("/metrics,")
        finally:
            process.kill()


def get(url: str) -> tuple[int, Any]:
    try:
        with urlopen(url) as reply:
            status, body = reply.status, reply.read()
    except HTTPError as error:
        status, body = error.code, error.read()
    return status, body if url.endswith("/metrics") else json.loads(body)


@pytest.mark.parametrize("command", [("work", "app.py"), ("serve", "app.py", "--port", "0")])
def test_a_process_says_that_it_lives_that_it_is_ready_and_what_it_did(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with started(tmp_path, "desk.db", *command) as (process, url):
        assert get(f"{url}/health")[1]["status"] == "ok"
        assert get(f"{url}/ready") == (200, {"ready": True})
        scrape = Scrape.of(get(f"{url}/metrics")[1])
        assert scrape.value("journal_up") == 1
        assert scrape.value("draining") == 0
        assert scrape.value("worker_concurrency") == 50
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.slow("serve-*")
@pytest.mark.parametrize(
    ("command", "is_ready"), [("work", False), ("serve", True)], ids=lambda one: f"{one}"
)
async def test_a_worker_that_an_operator_drains_says_so_and_a_server_goes_on_serving(
    tmp_path: Path, command: str, is_ready: bool
) -> None:
    arguments = [command, "app.py", *(["--port", "0"] if command == "serve" else [])]
    with started(tmp_path, "desk.db", *arguments) as (process, url):
        async with desk(tmp_path / "desk.db") as app, asyncio.timeout(60):
            journal = await app.open()
            run = await app.submit("desk", "?")
            while not (held := [one for one in await read_workers(journal) if one.runs]):
                await asyncio.sleep(0.02)
            await drain_worker(journal, held[0].id, by="ann")
            while Scrape.of(get(f"{url}/metrics")[1]).value("draining") == 0:
                await asyncio.sleep(0.02)
            why_not = {} if is_ready else {"why_not": "it is draining"}
            expected = (200 if is_ready else 503, {"ready": is_ready, **why_not})
            assert get(f"{url}/ready") == expected
            (tmp_path / "open").touch()
            assert await run.result() is not None
            if is_ready:
                # Its worker has ended, and it still says so.
                while await read_workers(journal):
                    await asyncio.sleep(0.02)
                assert Scrape.of(get(f"{url}/metrics")[1]).value("draining") == 1
                assert get(f"{url}/ready") == expected
                process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0


def test_a_gateway_says_so_too(tmp_path: Path) -> None:
    # It connects to its servers only when a client does.
    servers = '{"shop": {"url": "http://127.0.0.1:9/mcp"}}'
    (tmp_path / "gateway.yaml").write_text(f"journal: gateway.db\nservers: {servers}\n", "utf-8")
    arguments = ("gateway", "gateway.yaml", "--port", "0")
    with started(tmp_path, "gateway.db", *arguments) as (process, url):
        assert get(f"{url}/ready") == (200, {"ready": True})
        assert Scrape.of(get(f"{url}/metrics")[1]).value("journal_up") == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.slow
def test_a_worker_without_its_database_lives_and_is_not_ready(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    if not postgres.is_ours:
        pytest.skip("the server is not ours to stop")
    with started(tmp_path, f"{postgres.url(database)}?patience=0.1", "work", "app.py") as (_, url):
        assert get(f"{url}/ready")[0] == 200
        postgres.stop()
        try:
            while (found := get(f"{url}/ready"))[0] == 200:
                pass
            assert found == (503, {"ready": False, "why_not": "the journal cannot be reached"})
            assert get(f"{url}/health")[0] == 200
            assert Scrape.of(get(f"{url}/metrics")[1]).value("journal_up") == 0
        finally:
            postgres.start()
        while get(f"{url}/ready")[0] != 200:
            pass


async def test_a_process_that_can_never_write_again_asks_for_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path / "desk.db") as app:
        status = Status(app.open, app)
        assert (await status.healthy())[0]
        journal: Any = await app.open()
        await journal.aclose()
        assert (await status.healthy())[0] is False


async def test_a_process_that_drains_is_not_ready(tmp_path: Path) -> None:
    async with desk(tmp_path / "desk.db") as app:
        status = Status(app.open, app, is_draining=lambda: True)
        assert await status.ready() == (False, {"ready": False, "why_not": "it is draining"})


async def test_what_is_in_the_journal_is_told_whichever_process_did_it(tmp_path: Path) -> None:
    journal = tmp_path / "desk.db"
    await full_scrape(journal)
    async with desk(journal) as other:
        await other.submit("desk", "Later.")
        with Status(other.open, other) as status:
            scrape = Scrape.of(cast("bytes", await status.metrics()))
    assert scrape.value("journal_open_runs", state="queued") == 1
    assert scrape.value("journal_runs", state="due") == 1
    assert scrape.value("journal_inbox_items", older_than="0") == 1
    assert scrape.value("runs_ended_total", agent="desk", status="completed", error="") is None


async def test_every_process_counts_its_own_work_alone(tmp_path: Path) -> None:
    scrape = await full_scrape(tmp_path / "desk.db")
    assert scrape.value("runs_ended_total", agent="desk", status="completed", error="") == 1
    assert scrape.value("runs_parked_total", agent="desk") == 1
    assert scrape.value("tool_calls_total", tool="send", outcome="ok") == 1
    assert scrape.value("commit_seconds_count") != 0
    # Alarms need these from the start.
    lost = {"agent": "desk", "status": "failed", "error": "worker_lost"}
    assert scrape.value("runs_ended_total", **lost) == 0


async def test_monitors_that_ask_at_once_read_the_journal_once(tmp_path: Path) -> None:
    async with desk(tmp_path / "desk.db") as app:
        status = Status(app.open, app)
        first, *others = await asyncio.gather(*(status.read() for _ in range(5)))
    assert all(one is first for one in others)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("9464", ("127.0.0.1", 9464)),
        ("[::1]:0", ("::1", 0)),
    ],
)
def test_a_place_is_host_and_port(text: str, place: tuple[str, int]) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "h:70000", "h:-1", "h:٣"])
def test_a_place_that_is_none_is_misuse(text: str) -> None:
    with pytest.raises(Misuse, match="give HOST:PORT"):
        parse_place(text)
