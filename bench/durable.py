"""A durable run, against the journal's own writer thread fed the same bytes by a bare loop."""

from __future__ import annotations

import asyncio
import os
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
from upshot.journal.sql.writer import Writer
from upshot.journal.sqlite.sqlite_journal import FileBatch, FileCommitter, RunEnd
from upshot.journal.sqlite.tables import Database, open_database

__all__ = ["AIM", "Tape", "TapedJournal", "journal", "lookup", "run_steps", "store"]

SHORT, LONG = 10, 400
AIM = 1.5


@upshot.tool(effect="read")
async def lookup(key: str) -> dict[str, str]:
    """Look a key up."""
    return RESULT


@upshot.tool(effect="write")
async def store(key: str) -> dict[str, str]:
    """Store a key."""
    return RESULT


def journal() -> None:
    """CPU and bytes of a durable step, in a short and in a long run, for tools that read and tools
    that write, because these differ in barriers.
    """
    print("durable run, scripted model in process")
    for tool in (lookup, store):
        for steps in (SHORT, LONG):
            with tempfile.TemporaryDirectory() as folder:
                _show(tool, steps, asyncio.run(_measure(folder, steps, tool)))


def _show(tool: upshot.Tool, steps: int, spent: tuple[float, ...]) -> None:
    durable, writer, plain, memory, size = (each / steps for each in spent)
    print(
        f"  {steps} steps of {tool.name}: {durable * 1e3:.3f} ms CPU a step, without a journal "
        f"{memory * 1e3:.3f} ms, the writer alone {writer * 1e3:.3f} ms: "
        f"{(durable - memory) / writer:.2f}x of it for the log (aim <= {AIM}x); "
        f"written in one thread {plain * 1e3:.3f} ms; {size / 1024:.2f} KiB a step"
    )


@dataclass(slots=True)
class Tape:
    """What one run wrote to its journal: groups of entries, each ended by a barrier."""

    groups: list[list[Entry]] = field(default_factory=lambda: [[]])

    def renamed(self, run_id: str) -> Tape:
        """Return the same for another run."""
        return Tape([[e._replace(run_id=run_id, epoch=0) for e in group] for group in self.groups])

    @property
    def size_bytes(self) -> int:
        """Return the size of all bodies."""
        return sum(len(entry.body) for group in self.groups for entry in group)


class TapedJournal(SqliteJournal):
    """A journal that also records its input."""

    tape: Tape | None = None

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Record the entry, and append it."""
        super().append(event, epoch=epoch)
        if self.tape is not None:
            self.tape.groups[-1].append(to_entry(event, event.run_id, event.seq, 0))

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Record the barrier, and wait."""
        if self.tape is not None:
            self.tape.groups.append([])
        await super().durable(run_id, seq, epoch=epoch)


async def _measure(
    folder: str, steps: int, tool: upshot.Tool
) -> tuple[float, float, float, float, float]:
    """Median CPU seconds: durable, the writer alone, one thread, no journal; and bytes."""
    taped = await TapedJournal.open(os.path.join(folder, f"taped-{steps}.db"))
    assert isinstance(taped, TapedJournal)
    taped.tape = tape = Tape()
    await run_steps(steps, taped, tool)
    await taped.aclose()
    ours = await SqliteJournal.open(os.path.join(folder, f"ours-{steps}.db"))
    raw = os.path.join(folder, f"raw-{steps}.db")
    writer = Writer(raw)
    await writer.open(lambda: FileCommitter(open_database(raw), writer.lease, writer.report_held))
    spent: list[list[float]] = [[], [], [], []]
    with closing(open_database(os.path.join(folder, f"plain-{steps}.db"))) as connection:
        for number in range(ROUNDS + 1):
            mine = tape.renamed(f"run-{number}")
            candidates: list[Callable[[], Awaitable[None]]] = [
                lambda: run_steps(steps, ours, tool),
                lambda mine=mine: _feed(writer, mine),
                lambda mine=mine: _write_here(connection, mine),
                lambda: run_steps(steps, None, tool),
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


async def run_steps(steps: int, log: upshot.Journal | None, tool: upshot.Tool) -> None:
    """Make a run with *steps* calls of *tool*."""
    calls = [upshot.ToolCall(f"c{n}", tool.name, {"key": f"k{n}"}) for n in range(steps)]
    budget = upshot.Budget(max_turns=None)
    agent = upshot.Agent("bench", tools=[tool], budget=budget)
    model = upshot.ScriptedModel([*calls, "done"])
    result = await upshot.run(agent, "Go.", model=model, journal=log)
    assert len(result.tool_outcomes) == steps, result.error


async def _feed(writer: Writer, tape: Tape) -> None:
    """Feed the same entries and barriers to the writer in a bare loop."""
    for group in tape.groups:
        for entry in group:
            writer.put(entry)
        if group:
            await writer.flush()


async def _write_here(connection: Database, tape: Tape) -> None:
    """Make the same transactions in this thread."""
    ends: dict[str, RunEnd] = {}
    for group in tape.groups:
        if group:
            FileBatch(connection, ends).write(group)
