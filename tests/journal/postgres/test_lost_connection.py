"""Connections that are cut and servers that crash: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

import pytest

from tests.journal.postgres.proxy import CuttingProxy, cutting_proxy
from tests.postgres import NAMED, PostgresServer
from upshot.contract import AgentResult, Event, RunSettled, RunStarted, StepStarted
from upshot.errors import JournalError
from upshot.journal import PostgresJournal
from upshot.journal.postgres.server import LEASE_S, Server

# As many cuts as are wanted: `UPSHOT_TEST_CUTS=1000 make postgres`.
CUTS = int(os.environ.get("UPSHOT_TEST_CUTS", "15"))


@pytest.fixture(autouse=True)
def ours(postgres: PostgresServer) -> None:
    if not postgres.is_ours:
        pytest.skip(f"the server that {NAMED} names is not stopped, and no proxy is put before it")


def started(run_id: str, seq: int = 1) -> Event:
    return RunStarted(run_id=run_id, seq=seq)


def step(run_id: str, seq: int) -> Event:
    return StepStarted(run_id=run_id, seq=seq, key=f"step {seq} of {run_id}")


def settled(run_id: str, seq: int) -> Event:
    return RunSettled(run_id=run_id, seq=seq, result=AgentResult(run_id=run_id))


async def work(journal: PostgresJournal, name: str, proxy: CuttingProxy) -> list[list[Event]]:
    """Claim runs three times each, and append to them, until all cuts were made."""
    runs: list[list[Event]] = []
    while proxy.left or not runs:
        run_id = f"{name}-{len(runs)}"
        runs.append(told := [])
        for turn in (1, 2, 3):
            # A claim that was made twice would have used up an epoch.
            assert await journal.claim(run_id) == turn
            for make in (started, *[step] * 8, settled):
                told.append(make(run_id, len(told) + 1))
                journal.append(told[-1], epoch=turn)
                await journal.durable(run_id, len(told), epoch=turn)
    return runs


async def read(journal: PostgresJournal, run_id: str) -> list[Any]:
    return [event async for event in journal.events(run_id)]


async def test_a_cut_connection_loses_nothing_and_doubles_nothing(
    postgres: PostgresServer, database: str
) -> None:
    async with cutting_proxy(postgres.port) as proxy:
        journal = await PostgresJournal.open(postgres.url(database, port=proxy.port))
        proxy.left = CUTS
        made = await asyncio.gather(*(work(journal, name, proxy) for name in "abcd"))
        await journal.aclose()
        assert sum(proxy.cuts.values()) == CUTS and all(proxy.cuts.values())
    direct = await PostgresJournal.open(postgres.url(database))
    for told in itertools.chain(*made):
        assert await read(direct, told[0].run_id) == told
        assert await direct.damage(told[0].run_id) is None
    await direct.aclose()


async def test_work_of_every_kind_is_done_once_over_cut_connections(
    postgres: PostgresServer, database: str, tmp_path: Any
) -> None:
    async with cutting_proxy(postgres.port, seed=2) as proxy:
        journal = await PostgresJournal.open(postgres.url(database, port=proxy.port))
        proxy.left = 20
        round = 0
        while proxy.left:
            round += 1
            run_id = f"run-{round}"
            journal.append(started(run_id))
            file = await journal.artifacts.put(run_id, "call", b"data", "text/plain")
            journal.append(settled(run_id, 2))
            await journal.durable(run_id, 2)
            path = tmp_path / f"{round}.jsonl"
            assert await journal.export(run_id, path) == 2
            assert (await journal.remove_runs([run_id])).artifacts == 1
            assert await journal.import_(path) == run_id
            page = await journal.artifacts.read(file.id, run_id=run_id)
            assert page["text"] == "data"
            assert (await journal.artifacts.prune(max_bytes=0, run_id=run_id)).count == 1
        assert len(await journal.runs()) == round
        await journal.aclose()


async def test_a_server_that_crashes_loses_nothing_that_was_acknowledged(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    epoch = await journal.claim("r")
    told = [started("r"), *(step("r", seq) for seq in range(2, 61))]

    async def write() -> None:
        for event in told:
            journal.append(event, epoch=epoch)
            await journal.durable("r", event.seq, epoch=epoch)

    writing = asyncio.create_task(write())
    for seq in (10, 30, 50):
        while journal._writer.written.get("r", 0) < seq:
            await asyncio.sleep(0)
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
    await writing
    assert await read(journal, "r") == told
    await journal.aclose()


async def test_a_log_that_the_database_has_lost_a_part_of_is_never_written_over(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    epoch = await journal.claim("r")
    for event in (started("r"), step("r", 2), step("r", 3)):
        journal.append(event, epoch=epoch)
    await journal.durable("r", 3)
    postgres.do("DELETE FROM events WHERE id & 4294967295 = 3", database)
    journal.append(step("r", 4), epoch=epoch)
    with pytest.raises(JournalError, match="ends with event 2, and does not have event 3 as"):
        await journal.durable("r", 4)
    assert len(await read(journal, "r")) == 2
    await journal.aclose()


async def test_an_event_that_another_one_stands_in_for_ends_the_writing(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    epoch = await journal.claim("r")
    journal.append(started("r"), epoch=epoch)
    await journal.durable("r", 1)
    postgres.do("UPDATE events SET crc = crc + 1", database)
    journal.append(step("r", 2), epoch=epoch)
    with pytest.raises(JournalError, match="does not have event 1 as it was acknowledged"):
        await journal.durable("r", 2)
    await journal.aclose()


async def test_one_run_that_was_lost_fails_alone_in_its_group(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    other = await PostgresJournal.open(postgres.url(database))
    runs = [f"run-{number}" for number in range(5)]
    epochs = {run_id: await journal.claim(run_id) for run_id in runs}
    for run_id in runs:
        journal.append(started(run_id), epoch=epochs[run_id])
    await journal.flush()
    await other.claim("run-2")
    for run_id in runs:
        journal.append(step(run_id, 2), epoch=epochs[run_id])
    done = await asyncio.gather(
        *(journal.durable(run_id, 2, epoch=epochs[run_id]) for run_id in runs),
        return_exceptions=True,
    )
    assert [type(one) for one in done] == [type(None)] * 2 + [JournalError] + [type(None)] * 2
    assert "epoch 2 has taken it" in str(done[2])
    await journal.aclose()
    await other.aclose()


async def test_what_is_acknowledged_is_on_disk_whatever_the_user_has_set(
    postgres: PostgresServer, database: str
) -> None:
    """The server crashes just after each barrier; what is not on disk by then is lost."""
    postgres.do(f"ALTER DATABASE {database} SET synchronous_commit = off")
    journal = await PostgresJournal.open(postgres.url(database))
    for epoch in (1, 2, 3):
        assert await journal.claim("r") == epoch
        postgres.stop()
        postgres.start()
    told = [started("r"), *(step("r", seq) for seq in range(2, 7))]
    for event in told:
        journal.append(event, epoch=epoch)
        await journal.durable("r", event.seq, epoch=epoch)
        postgres.stop()
        postgres.start()
        assert await read(journal, "r") == told[: event.seq]
    await journal.aclose()


async def test_who_stands_still_in_a_transaction_keeps_its_locks_for_a_lease_at_most(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    await journal.claim("r")
    connection = Server(postgres.url(database)).connect()
    connection.begin()
    connection.lock_run("r")
    (limit,) = connection.do("SHOW idle_in_transaction_session_timeout").fetchone() or ()
    assert limit == f"{LEASE_S:g}s"
    # As that setting would do after so long.
    (pid,) = connection.do("SELECT pg_backend_pid()").fetchone() or ()
    claim = asyncio.create_task(journal.claim("r"))
    postgres.do(f"SELECT pg_terminate_backend({pid})")
    assert await claim == 2
    connection.close()
    await journal.aclose()
