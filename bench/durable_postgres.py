"""A durable run in PostgreSQL, against psycopg inserting the same bytes with the same commits.

If a program waits between two commits, each of them costs more than twice as much as in a tight
loop, because threads are woken and caches are cold. So psycopg inserts at the same moments of the
same run, and the tight loop is shown next to it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import upshot
from bench.durable import AIM, Tape, TapedJournal, lookup, run_steps, store
from bench.interleave import ROUNDS
from tests.postgres import NAMED, PostgresServer, find_postgres, started_server
from upshot.journal import MemoryJournal, PostgresJournal
from upshot.journal.event_codec import Entry, checksum
from upshot.journal.postgres.postgres_journal import ServerCommitter
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


class BareJournal(MemoryJournal):
    """Keeps a run in memory, and inserts at each barrier what a journal received in such a run.

    Args:
        tape: A recording of that run; each group is inserted once.
        insert: Inserts a group and commits.
    """

    def __init__(self, tape: Tape, insert: Callable[[list[Entry]], None]) -> None:
        super().__init__()
        self.left = [group for group in tape.groups if group]
        self._insert = insert
        self._seq = 0

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Insert the group, and wait."""
        await super().durable(run_id, seq, epoch=epoch)
        if seq > self._seq and self.left:
            self._seq = seq
            await asyncio.to_thread(self._insert, self.left.pop(0))


def postgres() -> None:
    """CPU of a durable step in this process, for tools that read and tools that write."""
    if NAMED not in os.environ and find_postgres() is None:
        print("durable run in PostgreSQL: there is none here, `make postgres` installs it")
        return
    print("durable run in PostgreSQL, scripted model in process")
    with started_server() as server:
        for tool in (lookup, store):
            spent = asyncio.run(_measure(server, tool))
            durable, bare, kept, memory, loop, writer = (each / STEPS * 1e3 for each in spent)
            print(
                f"  {STEPS} steps of {tool.name}: {durable:.3f} ms CPU a step, without a journal "
                f"{memory:.3f} ms; psycopg alone at the same moments {bare - kept:.3f} ms: "
                f"{(durable - memory) / (bare - kept):.2f}x of it for the log (aim <= {AIM}x); "
                f"psycopg alone in a tight loop {loop:.3f} ms, our writer's thread there "
                f"{writer:.3f} ms"
            )


async def _measure(server: PostgresServer, tool: upshot.Tool) -> list[float]:
    """Return median CPU seconds: durable, psycopg alone within a run that is kept in memory, that
    run without it, no journal, psycopg alone and the committer alone in a tight loop.
    """
    import psycopg

    tape = await _record(tool)
    database = server.new_database()
    ours = await PostgresJournal.open(server.url(database))
    lease = OwnLease()
    committer = ServerCommitter(Line(Server(server.url(database))), lease, lambda held: None)
    with psycopg.connect(server.url(database), prepare_threshold=None) as connection:
        connection.execute(_TABLE)
        connection.commit()
        insert = partial(_insert, connection)

        async def run_bare(name: str) -> None:
            bare = BareJournal(tape.renamed(f"{name}-within"), insert)
            await run_steps(STEPS, bare, tool)
            assert not bare.left, f"{len(bare.left)} groups were not inserted"

        candidates: list[Callable[[str], Awaitable[None]]] = [
            lambda _: run_steps(STEPS, ours, tool),
            run_bare,
            lambda _: run_steps(STEPS, MemoryJournal(), tool),
            lambda _: run_steps(STEPS, None, tool),
            lambda name: asyncio.to_thread(_insert_all, insert, tape.renamed(name)),
            lambda name: asyncio.to_thread(_commit, committer, tape.renamed(name)),
        ]
        spent: list[list[float]] = [[] for _ in candidates]
        for number in range(ROUNDS + 1):
            for times, candidate in zip(spent, candidates, strict=True):
                begun = time.process_time()
                await candidate(f"run-{number}")
                if number:
                    times.append(time.process_time() - begun)
    committer.close()
    await ours.aclose()
    server.drop(database)
    return [*map(statistics.median, spent)]


async def _record(tool: upshot.Tool) -> Tape:
    """Return what one run writes to its journal."""
    with tempfile.TemporaryDirectory() as folder:
        taped = await TapedJournal.open(os.path.join(folder, "taped.db"))
        assert isinstance(taped, TapedJournal)
        taped.tape = tape = Tape()
        await run_steps(STEPS, taped, tool)
        await taped.aclose()
        return tape


def _insert(connection: psycopg.Connection[tuple[object, ...]], group: list[Entry]) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(_ROW, [(*entry[:6], checksum(entry)) for entry in group])


def _insert_all(insert: Callable[[list[Entry]], None], tape: Tape) -> None:
    for group in tape.groups:
        if group:
            insert(group)


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
