"""What the pages and steps of people cost in a journal of many runs that wait or have ended.

``UPSHOT_FLEET=1`` has 10,000 that wait and 100,000 that have ended, prints the CPU seconds of each,
and holds them to 20 ms; in PostgreSQL those of the server are printed beside them.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.places import Place
from upshot import (
    Agent,
    App,
    Event,
    ModelResponse,
    Request,
    ScriptedModel,
    Text,
    ToolCall,
    answer,
    run,
    tool,
)
from upshot.contract import Cost, Usage
from upshot.journal import MemoryJournal
from upshot.journal.event_codec import Entry, to_entry
from upshot.journal.sql.connection import WriteConnection
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.sql.writer import note_entries

IS_LARGE = bool(os.environ.get("UPSHOT_FLEET"))
WAITING, ENDED = (10_000, 100_000) if IS_LARGE else (60, 120)
# One in so many of those that wait has a long log.
LONG_EACH = 20
MOST_CPU_S = 0.020
TRIES = 20 if IS_LARGE else 1
CHUNK = 500
WHEN = datetime.now(UTC) + timedelta(days=30)


@tool(effect="write", approval=True)
def send(to: str, text: str) -> str:
    """Send a letter."""
    return "sent"


@tool(effect="read", repeatable=True)
def look(at: int) -> str:
    """Look something up."""
    return f"This stands on page {at}. " * 10


def desk(steps: int, *, asks: bool = True) -> Agent[Any]:
    """Looks something up so many times, and asks whether to send a letter."""
    usage = Usage(api_calls=1, input_tokens=900, output_tokens=90)
    looked = [[ToolCall(f"l{n}", "look", {"at": n})] for n in range(steps)]
    letter = [ToolCall("s", "send", {"to": "ann", "text": "Dear Ann, " * 20})]
    last = ModelResponse(
        parts=(Text("All is well."),), usage=usage, cost=Cost(total=Decimal("0.01"))
    )
    return Agent(
        "desk", model=ScriptedModel([*looked, letter if asks else last]), tools=[look, send]
    )


async def log_of(agent: Agent[Any]) -> list[Entry]:
    """The log of a run as it is stored."""
    journal = MemoryJournal()
    await run(agent, Request("What becomes of order 7?", run_id="r"), journal=journal)
    events: list[Event] = [event async for event in journal.events("r")]
    return [to_entry(event, "r", seq, 0) for seq, event in enumerate(events, 1)]


def later(entry: Entry, run_id: str, minutes: int) -> Entry:
    """The same event of another run, which began so much later."""
    change, time = entry.change, entry.time
    if change is not None and change.started_at is not None:
        owner = "ann" if minutes % 3 else "bob"
        began = change.started_at + timedelta(minutes=minutes)
        change = change._replace(started_at=began, owner=owner, tenant="acme")
    if change is not None and change.took_s is not None:
        change = change._replace(took_s=1 + minutes % 100)
    time = None if time is None else time + minutes * 60_000_000
    return entry._replace(run_id=run_id, time=time, change=change)


def write(connection: WriteConnection, logs: Sequence[tuple[str, list[Entry], int]]) -> None:
    """Write runs as an import does."""
    places = ", ".join(["(?)"] * len(logs))
    connection.execute(f"INSERT INTO runs (run_id) VALUES {places}", [one[0] for one in logs])
    names = ", ".join("?" * len(logs))
    found = connection.execute(
        f"SELECT run_id, run_no FROM runs WHERE run_id IN ({names})", [one[0] for one in logs]
    )
    numbers = dict(found.fetchall())
    for run_id, log, minutes in logs:
        entries = [later(entry, run_id, minutes) for entry in log]
        connection.insert_events(numbers[run_id], entries)
        note_entries(connection, numbers[run_id], entries)


async def fill(journal: SqlJournal) -> None:
    """Have many runs in a journal, those that wait among those that have ended."""
    short, long, ended = (
        await log_of(desk(1)),
        await log_of(desk(49)),
        await log_of(desk(1, asks=False)),
    )
    assert 10 <= len(short) <= 20 and 290 <= len(long) <= 310, (len(short), len(long))
    each = ENDED // WAITING

    def all_runs() -> Iterator[tuple[str, list[Entry], int]]:
        for n in range(WAITING):
            yield f"w{n}", long if n % LONG_EACH == 0 else short, n * (each + 1)
            for m in range(each):
                yield f"e{n}.{m}", ended, n * (each + 1) + m + 1

    runs = all_runs()
    while some := list(islice(runs, CHUNK)):
        await journal.write(lambda connection: write(connection, some))


def server_cpu_s(pids: Iterable[int]) -> dict[int, float]:
    """The CPU seconds that processes of this machine have used, of those that still run."""
    used: dict[int, float] = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            used[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return used


async def backends_of(journal: SqlJournal) -> list[int]:
    """The server's processes for a journal, as far as they are on this machine."""
    if "://" not in journal.path:
        return []
    asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    pids: Any = await journal.read(lambda connection: connection.execute(asked).fetchall())
    return [pid for (pid,) in pids if Path(f"/proc/{pid}/schedstat").exists()]


async def cost_of(act: Callable[[], Awaitable[object]], journal: SqlJournal) -> tuple[float, float]:
    """The CPU seconds of *act* here and in the server, the least of some tries of each."""
    here: list[float] = []
    there: list[float] = []
    for _ in range(TRIES):
        pids = await backends_of(journal)
        began, served = time.process_time(), server_cpu_s(pids)
        await act()
        here.append(time.process_time() - began)
        there.append(sum(now - served[pid] for pid, now in server_cpu_s(served).items()))
    return min(here), min(there)


@pytest.fixture
async def journal(place: Place) -> AsyncGenerator[Any]:
    opened = await place.open()
    await fill(opened)
    yield opened
    await opened.aclose()


async def test_pages_and_answers_cost_little_among_many_runs(journal: Any) -> None:
    app = App(agents=[desk(1)], journal=journal)
    first = await journal.inbox(limit=50)
    assert [item.run_id for item in first] == [f"w{n}" for n in range(99) if n % LONG_EACH][:50]
    waiting = iter(await journal.inbox())

    async def answer_next() -> None:
        item = next(waiting)
        while int(item.run_id[1:]) % LONG_EACH:
            item = next(waiting)
        await answer(item.run_id, [item.pending.approve()], journal=journal)

    async with app:
        acts: dict[str, Callable[[], Awaitable[Any]]] = {
            "inbox page": lambda: journal.inbox(limit=50),
            "inbox page 2": lambda: journal.inbox(limit=50, before=first[-1].run_id),
            "inbox page of a tool": lambda: journal.inbox(limit=50, tool="send"),
            "inbox page of an agent": lambda: journal.inbox(limit=50, agent="desk"),
            "inbox of no tool": lambda: journal.inbox(limit=50, tool="none"),
            "runs page": lambda: journal.runs(limit=100),
            "runs page of ended": lambda: journal.runs("ended", limit=100),
            "runs page of parked": lambda: journal.runs("parked", limit=100),
            "runs page by cost": lambda: journal.runs(sort="cost", limit=100),
            "runs page by took": lambda: journal.runs(sort="took", limit=100),
            "runs page of an owner": lambda: journal.runs(owner="ann", tenant="acme", limit=100),
            "runs page of a tenant": lambda: journal.runs("ended", tenant="acme", limit=100),
            "runs page of a time": lambda: journal.runs(until=WHEN, limit=100),
            "runs page of a tool": lambda: journal.runs(tool="look", limit=100),
            "runs page of a text": lambda: journal.runs(text="ALL IS WELL", limit=100),
            "runs page of unknown": lambda: journal.runs(effect="unknown", limit=100),
            "submit": lambda: app.submit("desk", "And order 8?"),
            "answer": answer_next,
        }
        costs = {name: await cost_of(act, journal) for name, act in acts.items()}
        # These look at every run.
        scans: dict[str, Callable[[], Awaitable[Any]]] = {
            "runs of no tool": lambda: journal.runs(tool="none", limit=100),
            "counts": journal.counts,
            "counts of an owner": lambda: journal.counts(owner="ann", tenant="acme"),
            "runs of no text": lambda: journal.runs(text="no such text", limit=100),
        }
        scanned = {name: await cost_of(act, journal) for name, act in scans.items()}
    for name, (here, there) in (costs | scanned).items():
        print(f"{name:24}{here * 1e3:8.1f} ms CPU here{there * 1e3:8.1f} ms CPU in the server")
    assert len(await journal.runs(sort="cost", limit=100)) == 100
    if IS_LARGE:
        assert {name: cost for name, cost in costs.items() if cost[0] > MOST_CPU_S} == {}
