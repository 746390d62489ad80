"""A durable run in PostgreSQL, against psycopg inserting the same bytes with the same commits."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

import upshot
from bench.durable import AIM, Tape, TapedJournal, lookup, run_steps, store
from bench.interleave import ROUNDS
from tests.postgres import NAMED, PostgresServer, find_postgres, started_server
from upshot.journal import PostgresJournal
from upshot.journal.event_codec import checksum
from upshot.journal.postgres.batch import ServerCommitter
from upshot.journal.postgres.server import Line, Server
from upshot.journal.sql.leases import claim_run
from upshot.journal.sql.own_lease import OwnLease
from upshot.journal.sql.writer import Job

if TYPE_CHECKING:
    import psycopg

__all__ = ["postgres"]

STEPS = 100
_TABLE = """CREATE TABLE bare (run text, seq bigint, epoch bigint, kind text, time bigint,
    body bytea, crc bigint, PRIMARY KEY (run, seq))"""
_ROW = "INSERT INTO bare VALUES (%s, %s, %s, %s, %s, %s, %s)"


def postgres() -> None:
    """CPU of a durable step in this process, of tools that read and that write."""
    if NAMED not in os.environ and find_postgres() is None:
        print("durable run in PostgreSQL: there is none here, `make postgres` installs it")
        return
    print("durable run in PostgreSQL, scripted model in process")
    with started_server() as server:
        for tool in (lookup, store):
            spent = asyncio.run(_measure(server, tool))
            durable, bare, memory, writer = (each / STEPS for each in spent)
            print(
                f"  {STEPS} steps of {tool.name}: {durable * 1e3:.3f} ms CPU a step, without a "
                f"journal {memory * 1e3:.3f} ms, psycopg alone {bare * 1e3:.3f} ms: "
                f"{(durable - memory) / bare:.2f}x of it for the log (aim <= {AIM}x); what the "
                f"writer's thread does {writer * 1e3:.3f} ms: {writer / bare:.2f}x"
            )


async def _measure(server: PostgresServer, tool: upshot.Tool) -> list[float]:
    """Median CPU seconds: durable, psycopg alone, no journal, the committer alone."""
    import psycopg

    tape = await _record(tool)
    database = server.new_database()
    ours = await PostgresJournal.open(server.url(database))
    spent: list[list[float]] = [[], [], [], []]
    lease = OwnLease()
    committer = ServerCommitter(Line(Server(server.url(database))), lease, lambda held: None)
    with psycopg.connect(server.url(database), prepare_threshold=None) as connection:
        connection.execute(_TABLE)
        connection.commit()
        for number in range(ROUNDS + 1):
            mine = tape.renamed(f"run-{number}")
            for times, candidate in zip(
                spent,
                (
                    lambda: run_steps(STEPS, ours, tool),
                    lambda mine=mine: asyncio.to_thread(_insert, connection, mine),
                    lambda: run_steps(STEPS, None, tool),
                    lambda mine=mine: asyncio.to_thread(_commit, committer, mine),
                ),
                strict=True,
            ):
                begun = time.process_time()
                await candidate()
                if number:
                    times.append(time.process_time() - begun)
    committer.close()
    await ours.aclose()
    server.drop(database)
    return [*map(statistics.median, spent)]


async def _record(tool: upshot.Tool) -> Tape:
    """What one run gives its journal."""
    with tempfile.TemporaryDirectory() as folder:
        taped = await TapedJournal.open(os.path.join(folder, "taped.db"))
        assert isinstance(taped, TapedJournal)
        taped.tape = tape = Tape()
        await run_steps(STEPS, taped, tool)
        await taped.aclose()
        return tape


def _insert(connection: psycopg.Connection[tuple[object, ...]], tape: Tape) -> None:
    for group in tape.groups:
        if group:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_ROW, [(*entry[:6], checksum(entry)) for entry in group])


def _commit(committer: ServerCommitter, tape: Tape) -> None:
    run_id = f"{tape.groups[0][0].run_id}-apart"
    own = OwnLease()
    take = Job(
        lambda it: claim_run(it, run_id, own, cut=False, take_over=True), lambda lease, error: None
    )
    committer.commit([take])
    for group in tape.groups:
        if group:
            entries = [entry._replace(run_id=run_id, epoch=1) for entry in group]
            assert not committer.commit(entries).failed
