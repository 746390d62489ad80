"""A durable run, against the journal's own writer thread fed the same bytes by a bare loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field

import upshot
from bench.interleave import ROUNDS
from bench.tool_step import RESULT
from upshot.contract import Event
from upshot.journal import SqliteJournal
from upshot.journal.event_codec import Entry, to_entry
from upshot.journal.sqlite.tables import open_database
from upshot.journal.sqlite.writer import Batch, Writer

__all__ = ["journal"]

SHORT, LONG = 10, 400
AIM = 1.5


@upshot.tool(effect="read")
async def lookup(key: str) -> dict[str, str]:
    """Look a key up."""
    return RESULT


def journal() -> None:
    """CPU and bytes of a durable step, in a short and in a long run."""
    with tempfile.TemporaryDirectory() as folder:
        figures = {steps: asyncio.run(_measure(folder, steps)) for steps in (SHORT, LONG)}
    print("durable run, scripted model in process")
    for steps, spent in figures.items():
        durable, writer, plain, memory, size = (each / steps for each in spent)
        print(
            f"  {steps} steps: {durable * 1e3:.3f} ms CPU a step, the writer alone "
            f"{writer * 1e3:.3f} ms: {durable / writer:.2f}x (aim <= {AIM}x); "
            f"in one thread {plain * 1e3:.3f} ms, without a journal {memory * 1e3:.3f} ms; "
            f"{size / 1024:.2f} KiB a step"
        )


@dataclass(slots=True)
class Tape:
    """What one run gave its journal: groups of entries, each ended by a barrier."""

    groups: list[list[Entry]] = field(default_factory=lambda: [[]])

    def renamed(self, run_id: str) -> Tape:
        """The same for another run."""
        return Tape([[e._replace(run_id=run_id, epoch=0) for e in group] for group in self.groups])

    @property
    def size_bytes(self) -> int:
        """Of all bodies."""
        return sum(len(entry.body) for group in self.groups for entry in group)


class TapedJournal(SqliteJournal):
    """A journal that also notes what it is given."""

    tape: Tape | None = None

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Note the entry, and take it."""
        super().append(event, epoch=epoch)
        if self.tape is not None:
            self.tape.groups[-1].append(to_entry(event, event.run_id, event.seq, 0))

    async def durable(self, run_id: str, seq: int) -> None:
        """Note the barrier, and wait."""
        if self.tape is not None:
            self.tape.groups.append([])
        await super().durable(run_id, seq)


async def _measure(folder: str, steps: int) -> tuple[float, float, float, float, float]:
    """Median CPU seconds: durable, the writer alone, one thread, no journal; and bytes."""
    ours = await TapedJournal.open(os.path.join(folder, f"ours-{steps}.db"))
    assert isinstance(ours, TapedJournal)
    writer = Writer(os.path.join(folder, f"raw-{steps}.db"))
    await writer.open(create=True)
    ours.tape = tape = Tape()
    await _run(steps, ours)
    ours.tape = None
    spent: list[list[float]] = [[], [], [], []]
    with closing(open_database(os.path.join(folder, f"plain-{steps}.db"))) as connection:
        for number in range(ROUNDS + 1):
            mine = tape.renamed(f"run-{number}")
            candidates: list[Callable[[], Awaitable[None]]] = [
                lambda: _run(steps, ours),
                lambda mine=mine: _feed(writer, mine),
                lambda mine=mine: _write_here(connection, mine),
                lambda: _run(steps, None),
            ]
            for times, candidate in zip(spent, candidates, strict=True):
                begun = time.process_time()
                await candidate()
                if number:
                    times.append(time.process_time() - begun)
    await writer.aclose()
    await ours.aclose()
    durable, fed, plain, memory = map(statistics.median, spent)
    return durable, fed, plain, memory, tape.size_bytes


async def _run(steps: int, log: SqliteJournal | None) -> None:
    calls = [upshot.ToolCall(f"c{n}", "lookup", {"key": f"k{n}"}) for n in range(steps)]
    budget = upshot.Budget(max_turns=None)
    agent = upshot.Agent("bench", tools=[lookup], budget=budget)
    model = upshot.ScriptedModel([*calls, "done"])
    result = await upshot.run(agent, "Go.", model=model, journal=log)
    assert len(result.tool_outcomes) == steps, result.error


async def _feed(writer: Writer, tape: Tape) -> None:
    """The same entries and barriers for the writer, by a bare loop."""
    for group in tape.groups:
        for entry in group:
            writer.put(entry)
        if group:
            await writer.flush()


async def _write_here(connection: sqlite3.Connection, tape: Tape) -> None:
    """The same transactions in this thread."""
    for group in tape.groups:
        if group:
            Batch(connection).write(group)
