"""How long the queries behind the console's overview take beside a million runs."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, aclosing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.postgres import NAMED, find_postgres, started_server
from upshot.journal import PostgresJournal, SqliteJournal
from upshot.journal.run_counts import FINEST, HOUR, FigureQuery
from upshot.journal.sql.connection import WriteConnection
from upshot.journal.sql.count_rows import COLUMNS, count_again
from upshot.journal.sql.sql_journal import SqlJournal

__all__ = ["fill_runs", "overview"]

RUNS = int(os.environ.get("RUNS", "1000000"))
DAYS, AGENTS, MODELS, TOOLS, TENANTS, OWNERS = 30, 20, 6, 30, 4, 1000
WAITING, OPEN, HELD = 10_000, 1_000, 50
AIM_MS = 50
TIMES = 20

_NUMBERS = (
    f"""WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS - 1})"""
)


def _mod(number: int) -> str:
    # The two databases share no other remainder that the driver does not read as a placeholder.
    return f"(i - i / {number} * {number})"


def _call(kind: str, names: int, more: str) -> str:
    took = f"""CASE {_mod(7)} WHEN 0 THEN '2' WHEN 1 THEN '0,2' WHEN 2 THEN '0,0,1,1'
        WHEN 3 THEN '0,0,0,0,2' WHEN 4 THEN '0,0,0,0,0,1,1' ELSE '0,0,0,0,0,0,0,1,1' END"""
    head = f"""'{{"type":"{kind}","name":"{kind}-' || {_mod(names)} || '","calls":2,"failed":'"""
    failed = f"""CASE {_mod(40)} WHEN 0 THEN 1 ELSE 0 END"""
    return f"""{head} || {failed} || {more} || ',"took":[' || {took} || ']}}'"""


_WINDOWS = """',"at":"2026-11-28T12:00:00Z","windows":[{"name":"requests_per_minute","limit":500,'
    || '"remaining":312,"reset_at":1795867200},{"name":"tokens_per_minute","resource":"tokens",'
    || '"limit":200000,"remaining":150000,"reset_at":1795867200}]'"""
_SLOWEST = f"""',"slowest":"call_1","slowest_ms":' || (10 + {_mod(9000)})"""
_CALLS = f"""'[' || {_call("model", MODELS, _WINDOWS)} || ','
    || {_call("tool", TOOLS, _SLOWEST)} || ']'"""
_STATUS = f"""CASE WHEN i < {WAITING} THEN 'input_required' WHEN {_mod(20)} = 7 THEN 'failed'
    WHEN {_mod(50)} = 3 THEN 'interrupted' ELSE 'completed' END"""
_CODE = f"""CASE WHEN i < {WAITING} OR {_mod(20)} <> 7 THEN ''
    WHEN {_mod(80)} < 20 THEN 'timeout'
    WHEN {_mod(80)} < 40 THEN 'rate_limit' WHEN {_mod(80)} < 60 THEN 'internal'
    ELSE 'refusal' END"""
_RUNS = f"""INSERT INTO runs (run_id, agent_id, status, last_seq, started_at, error_code, cost,
        currency, tokens, effect, took, owner, tenant, request, answer, tools, calls)
    {_NUMBERS} SELECT 'run-' || i, 'agent-' || {_mod(AGENTS)}, {_STATUS}, 9,
    now_us() - CAST(i AS BIGINT) * {DAYS * 86_400_000_000 // RUNS}, {_CODE}, {_mod(90)} / 1000.0,
    CASE WHEN {_mod(90)} = 0 THEN '' WHEN {_mod(9)} = 1 THEN 'EUR' ELSE 'USD' END, 1200,
    CASE WHEN {_mod(3)} = 0 THEN 1 WHEN {_mod(500)} = 1 THEN 2 ELSE 0 END, {_mod(600)} / 10.0,
    'user-' || {_mod(OWNERS)}, 'tenant-' || {_mod(TENANTS)}, 'What becomes of order ' || i,
    'It is under way.', '',
    {_CALLS} FROM n"""
_INBOX = """INSERT INTO inbox (root_no, run_no, place, item, tool, body, asked_at)
    SELECT run_no, run_no, 0, 'q', '', '', started_at FROM runs WHERE status = 'input_required'"""
_EFFECTS = f"""INSERT INTO effects (id, started_at, run_no, call, state, name)
    SELECT {{digest}}, started_at, run_no, 1, CASE WHEN run_no <= {OPEN} THEN 3 ELSE 1 END, 'refund'
    FROM runs"""
_SPREAD = f"""INSERT INTO run_counts
    SELECT {", ".join("1" if name == "slot" else name for name in COLUMNS)} FROM run_counts"""
_DIGESTS = {
    "SQLite": "CAST(run_id AS BLOB)",
    "PostgreSQL": "CAST(run_id AS bytea)",
}


def overview() -> None:
    """Time of each query of the overview, beside many runs of a month."""
    print(f"the overview beside {RUNS:,} runs, {WAITING:,} items, {RUNS:,} effects")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        asyncio.run(_measure("SQLite", lambda: SqliteJournal.open(f"{folder}/runs.db")))
        if NAMED in os.environ or find_postgres() is not None:
            server = stack.enter_context(started_server())
            place = server.url(server.new_database())
            asyncio.run(_measure("PostgreSQL", lambda: PostgresJournal.open(place)))


async def _measure(name: str, open_journal: Callable[[], Awaitable[SqlJournal]]) -> None:
    async with aclosing(await open_journal()) as journal:
        began = time.perf_counter()
        await journal.write(partial(fill_runs, name))
        filled = time.perf_counter()
        await journal.write(count_again)
        counted = time.perf_counter()
        await journal.write(partial(_spread, name))
        print(
            f"  {name}: written in {filled - began:.0f} s, counted in {counted - filled:.0f} s, "
            f"{await journal.read(_rows)} rows of counts"
        )
        for label, query in _queries(journal).items():
            took: list[float] = []
            spent_s = time.process_time() + _server_cpu_s()
            for _ in range(TIMES):
                started = time.perf_counter()
                await query()
                took.append((time.perf_counter() - started) * 1e3)
            cpu_ms = (time.process_time() + _server_cpu_s() - spent_s) * 1e3 / TIMES
            took.sort()
            worst = took[int(0.95 * len(took))]
            print(
                f"    {label}: p50 {statistics.median(took):.1f} ms, p95 {worst:.1f} ms, "
                f"CPU {cpu_ms:.1f} ms"
                f"{'' if worst <= AIM_MS else f'  (over the aim of {AIM_MS} ms)'}"
            )


def _server_cpu_s() -> float:
    """Return how much CPU the processes of PostgreSQL that serve upshot have used so far."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile.
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(b"postgres: upshot"):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _queries(journal: SqlJournal) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    minute -= timedelta(minutes=minute.minute % 5)
    today = now.replace(hour=0)
    day = FigureQuery(now - 23 * HOUR, HOUR, 24)
    week = FigureQuery(today - timedelta(days=6), 24 * HOUR, 7)
    hour = FigureQuery(minute - 11 * FINEST, FINEST, 12)
    tenant, owner = {"tenant": "tenant-1"}, {"owner": "user-1", "tenant": "tenant-1"}
    return {
        "an hour": partial(journal.figures, hour),
        "an hour of a tenant": partial(journal.figures, hour._replace(**tenant)),
        "a day": partial(journal.figures, day),
        "a day of a tenant": partial(journal.figures, day._replace(**tenant)),
        "a day of a user": partial(journal.figures, day._replace(**owner)),
        "a week": partial(journal.figures, week),
        "a week of a tenant": partial(journal.figures, week._replace(**tenant)),
        "a week of a user": partial(journal.figures, week._replace(**owner)),
        "what is open": journal.open_work,
        "what is open of a tenant": partial(journal.open_work, **tenant),
        "what is open of a user": partial(journal.open_work, **owner),
    }


def fill_runs(name: str, connection: WriteConnection) -> None:
    """Write the rows of `RUNS` runs of a month, without their logs."""
    connection.execute(_RUNS)
    connection.execute(_INBOX)
    connection.execute(_EFFECTS.format(digest=_DIGESTS[name]))
    running = "UPDATE runs SET status = 'running' WHERE run_id = ?"
    connection.executemany(running, [(f"run-{WAITING + n}",) for n in range(HELD)])


def _spread(name: str, connection: WriteConnection) -> None:
    """Fill a second slot, as two writers of a server do that are always busy."""
    if name != "SQLite":
        connection.execute(_SPREAD)
        # A server does that by itself, after a minute.
        connection.execute("ANALYZE")


def _rows(connection: Any) -> int:
    return connection.execute("SELECT count(*) FROM run_counts").fetchone()[0]
