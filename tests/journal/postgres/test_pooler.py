"""A pooler that gives each transaction another session: nothing is set for longer than one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.postgres import NAMED, START_S, PostgresServer, free_port, other_user
from tests.processes import watched
from upshot import Agent, ScriptedModel, Status, ToolCall, run, tool
from upshot.contract import RunStarted, StepStarted, TextDelta
from upshot.journal import PostgresJournal
from upshot.journal.pieces import pieces_of
from upshot.journal.watching import of_run
from upshot.testing import JournalContract

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user=upshot
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_lifetime = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""


# The tests of the module may take long on a busy machine.
MODULE_S = 600


@pytest.fixture(scope="module")
def pooler(postgres: PostgresServer) -> Iterator[int]:
    """The port of PgBouncer before the server, in transaction mode."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no PgBouncer: `make postgres` installs it")
    if not postgres.is_ours:
        pytest.skip(f"no pooler is put before the server that {NAMED} names")
    port, user = free_port(), other_user()
    folder = Path(tempfile.mkdtemp(prefix="upshot-pgbouncer-"))
    if user:
        os.chown(folder, user["user"], user["group"])
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=postgres.port, port=port, folder=folder))
    process = watched(subprocess.Popen([program, "-q", settings], **user), max_s=MODULE_S)
    for _ in range(START_S * 50):
        with suppress(psycopg.OperationalError):
            psycopg.connect(postgres.url(port=port)).close()
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            raise AssertionError((folder / "log").read_text())
    yield port
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


class TestPooledJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _pooler(self, postgres: PostgresServer, pooler: int):
        self.server, self.port = postgres, pooler

    async def make(self) -> PostgresJournal:
        return await PostgresJournal.open(
            self.server.url(self.server.new_journal(), port=self.port)
        )


async def test_a_run_goes_through_a_pooler(
    postgres: PostgresServer, database: str, pooler: int
) -> None:
    @tool(effect="write")
    async def change() -> str:
        return "changed"

    model = ScriptedModel([ToolCall("c", "change"), "Done."])
    url = postgres.url(database, port=pooler)
    result = await run(Agent("a", model=model, tools=[change]), "Go.", journal=url)
    assert result.status == Status.COMPLETED
    assert postgres.do("SELECT status FROM runs", database) == [("completed",)]


@pytest.mark.parametrize("is_direct", [True, False])
async def test_who_waits_behind_a_pooler_is_woken(
    postgres: PostgresServer,
    database: str,
    pooler: int,
    caplog: pytest.LogCaptureFixture,
    *,
    is_direct: bool,
) -> None:
    pooled, direct = postgres.url(database, port=pooler), quote(postgres.url(database), safe="")
    own = await PostgresJournal.open(pooled)
    other = await PostgresJournal.open(f"{pooled}?listen={direct}" if is_direct else pooled)
    epoch = await own.claim("r")
    own.append(RunStarted(run_id="r", seq=1), epoch=epoch)
    await own.durable("r", 1)
    with other.watch(of_run("r"), pieces_of("r")) as changes:
        assert await changes.changed(30)
        while not postgres.do("SELECT 1 FROM runs WHERE shown_until > now()", database):
            await changes.changed(1)
        own.append(StepStarted(run_id="r", seq=2, key="k"), epoch=epoch)
        await own.durable("r", 2)
        while await other.last_seq("r") < 2:
            assert await changes.changed(30)
        assert own.is_watched("r")
        own.show(TextDelta(run_id="r", seq=2, part=1, text="Hello"))
        while not other.pieces("r", 2, 0):
            assert await changes.changed(30)
    await own.aclose()
    await other.aclose()
    warned = [one for one in caplog.records if "?listen=URL of a direct connection" in one.message]
    assert len(warned) == (not is_direct)
