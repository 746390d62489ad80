"""Effects by identity where several processes, deaths and removals meet."""

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.places import Place
from tests.processes import start_python
from upshot.contract import Effect, Request, Settlement, Status, ToolExecutionResult
from upshot.contract.events import REDACTED
from upshot.errors import Misuse
from upshot.journal import MemoryJournal, SqliteJournal
from upshot.journal.sqlite.salvage import salvage_file
from upshot.testing.ledger_contract import Run, effect_id, started_call

CALLERS = 64
PROCESSES = 4

# Claims one key from many runs at once, and says how many of them got it.
CALLER = """
import asyncio, sys
from upshot import open_journal
from upshot.testing.ledger_contract import Run

async def main(where, number, rounds, callers):
    async with open_journal(where) as journal:
        runs = [await Run(journal, f"run-{number}-{one}").begin() for one in range(callers)]
        for round in range(rounds):
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            key = f"order {round}"
            got = await asyncio.gather(*(run.start(f"call {round}", key) for run in runs))
            print(sum(got), flush=True)

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""

# Begins an effect, and is killed.
HOLDER = """
import asyncio, sys
from upshot import open_journal
from upshot.testing.ledger_contract import Run

async def main(where):
    async with open_journal(where) as journal:
        run = await Run(journal, "killed").begin()
        print(await run.start("a", "7"), flush=True)
        await asyncio.sleep(3600)

asyncio.run(main(sys.argv[1]))
"""


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _closed_processes() -> Iterator[None]:
    """End every process of a test, and close its pipes."""
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.communicate()


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    process = start_python("-c", code, *arguments, stdin=PIPE, stdout=PIPE, text=True)
    _started.append(process)
    return process


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_of_64_callers_of_one_key_one_has_it(place: Place):
    rounds = int(os.environ.get("UPSHOT_EFFECT_ROUNDS", "1"))
    asyncio.run(make(place))
    each = CALLERS // PROCESSES
    processes = [start(CALLER, place.where, one, rounds, each) for one in range(PROCESSES)]
    for _ in range(rounds):
        assert [read_line(one) for one in processes] == ["ready"] * PROCESSES
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert sum(int(read_line(one)) for one in processes) == 1
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0


async def make(place: Place) -> None:
    await (await place.open()).aclose()


def test_what_a_killed_process_had_begun_is_unknown(place: Place):
    process = start(HOLDER, place.where)
    assert read_line(process) == "True"

    async def look() -> None:
        journal = await place.open()
        try:
            entry = await journal.effect(effect_id("7"))
            assert entry is not None
            assert entry.state == "begun"
            waits = asyncio.create_task(journal.wait_for_effect(entry, timeout_s=60))
            os.kill(process.pid, signal.SIGKILL)
            # It need not be waited for by its parent.
            await waits
            run = await Run(journal, "other").begin()
            assert not await run.start("b", "7")
            assert run.refusal is not None
            assert run.refusal.state == "unknown"
            assert await journal.effects(state="begun") == []
            settled = Settlement(effect=Effect.NONE, by="verify")
            assert (await journal.settle_effect(effect_id("7"), settled)).state == "none"
            assert await journal.claim_effect(started_call("other", 2, "b", "7")) is None
            found = await journal.effect(effect_id("7"))
            assert found is not None
            assert (found.state, found.run_id, found.attempts) == ("begun", "other", 2)
        finally:
            await journal.aclose()

    asyncio.run(look())
    process.wait(timeout=30)


def test_who_waits_hears_of_the_end_in_another_process(place: Place):
    async def wait() -> None:
        one, other = await place.open(), await place.open()
        try:
            run = await Run(one, "run-1").begin()
            await run.start("a", "7")
            entry = await other.effect(effect_id("7"))
            assert entry is not None
            waits = asyncio.create_task(other.wait_for_effect(entry, timeout_s=60))
            await asyncio.sleep(0)
            await run.end("a", Effect.APPLIED, "7")
            await waits
            found = await other.effect(effect_id("7"))
            assert found is not None
            assert found.state == "applied"
        finally:
            await one.aclose()
            await other.aclose()

    asyncio.run(wait())


# -- any order of things

KEYS = ("1", "2")
RUNS = ("run-1", "run-2", "run-3")
WORDS = ("start", "start", "again", "applied", "none", "unknown", "die", "settle", "deny")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(WORDS),
        st.sampled_from(RUNS),
        st.sampled_from(KEYS),
    ),
    min_size=8,
    max_size=24,
)


class World:
    """Runs of one journal, and what their calls did outside."""

    def __init__(self, journal: Any) -> None:
        self.journal = journal
        self.runs: dict[str, Run] = {}
        # The calls under way that have a claim, by run and key; and those that were refused.
        self.open: dict[tuple[str, str], str] = {}
        self.refused: dict[tuple[str, str], tuple[str, int]] = {}
        # How often it was made for sure, or may have been, since it was settled as none.
        self.made: dict[str, int] = dict.fromkeys(KEYS, 0)
        self.calls = 0

    async def do(self, step: str, run_id: str, key: str) -> None:
        run = self.runs.get(run_id)
        if run is None:
            run = self.runs[run_id] = await Run(self.journal, run_id).begin()
        place = run_id, key
        if step == "start" and place not in self.open:
            self.calls += 1
            call_id = f"call {self.calls}"
            if await run.start(call_id, key):
                self._begin(place, call_id)
            else:
                self.refused[place] = call_id, run.seq
        elif step == "again" and (place := self._near(self.refused, place)):
            call_id, seq = self.refused.pop(place)
            (run_id, key), run = place, self.runs[place[0]]
            again = started_call(run.run_id, seq, call_id, key)
            if await self.journal.claim_effect(again) is None:
                self._begin(place, call_id)
        elif step in ("applied", "none", "unknown") and (place := self._near(self.open, place)):
            call_id, key = self.open.pop(place), place[1]
            await self.runs[place[0]].end(call_id, Effect(step), key)
            if step == "none":
                self.made[key] -= 1
        elif step == "die":
            await self._die(run_id)
        elif step in ("settle", "deny"):
            await self._settle(key, step)

    def _begin(self, place: tuple[str, str], call_id: str) -> None:
        self.open[place] = call_id
        self.made[place[1]] += 1

    def _near(self, places: Any, place: tuple[str, str] | None) -> tuple[str, str] | None:
        """One of *places*, this one if it is among them; nearly every step finds one."""
        free = [one for one in places if places is self.open or one not in self.open]
        return place if place in free else min(free, default=None)

    async def _die(self, run_id: str) -> None:
        """Of its calls nothing is heard any more; another run comes in its place."""
        self.runs.pop(run_id).die()
        self.open = {one: call for one, call in self.open.items() if one[0] != run_id}
        self.refused = {one: call for one, call in self.refused.items() if one[0] != run_id}
        self.calls += 1
        self.runs[run_id] = await Run(self.journal, f"{run_id} {self.calls}").begin()

    async def _settle(self, key: str, step: str) -> None:
        effect = Effect.APPLIED if step == "settle" else Effect.NONE
        before = await self.journal.effect(effect_id(key))
        try:
            await self.journal.settle_effect(effect_id(key), Settlement(effect=effect, by="ann"))
        except Misuse:
            assert before is None or before.state != "unknown"
            return
        assert before is not None
        if before.state == "unknown" and effect is Effect.NONE:
            self.made[key] -= 1

    async def check(self) -> None:
        for key in KEYS:
            assert self.made[key] in (0, 1), f"{key} was begun or made {self.made[key]} times"
            entry = await self.journal.effect(effect_id(key))
            held = [place for place in self.open if place[1] == key]
            state = "none" if entry is None else entry.state
            assert (state != "none") == bool(self.made[key])
            assert not held or state == "begun"


async def play(journal: Any, steps: list[tuple[str, str, str]]) -> None:
    world = World(journal)
    try:
        for step in steps:
            await world.do(*step)
            await world.check()
    finally:
        await journal.aclose()


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_at_most_one_call_of_an_effect_is_begun_or_made_in_memory(steps: list[Any]):
    asyncio.run(play(MemoryJournal(), steps))


@pytest.mark.slow("[4-9]", "1?")
@pytest.mark.parametrize("seed", range(12))
async def test_at_most_one_call_of_an_effect_is_begun_or_made(seed: int, tmp_path: Path):
    chance = random.Random(seed)
    steps = [(chance.choice(WORDS), chance.choice(RUNS), chance.choice(KEYS)) for _ in range(40)]
    await play(MemoryJournal(), steps)
    await play(await SqliteJournal.open(tmp_path / "runs.db"), steps)


# -- redaction, exports, salvage


async def test_effects_are_salvaged(tmp_path: Path):
    path = tmp_path / "runs.db"
    journal = await SqliteJournal.open(path)
    run = await Run(journal, "run-1").begin()
    await run.start("a", "7")
    await run.end("a", Effect.APPLIED, "7")
    await journal.aclose()
    salvage_file(str(path), str(tmp_path / "new.db"))
    journal = await SqliteJournal.open(tmp_path / "new.db")
    entry = await journal.effect(effect_id("7"))
    assert entry is not None
    assert (entry.state, entry.run_id, entry.call_id) == ("applied", "run-1", "a")
    await journal.aclose()


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_redacted_key_is_masked_and_still_claimed(kind: str, tmp_path: Path):
    is_file = kind == "file"
    journal: Any = await SqliteJournal.open(tmp_path / "a.db") if is_file else MemoryJournal()
    run, other = Run(journal, "run-1"), await Run(journal, "run-2").begin()
    await run.begin(request=Request("refund", context_id="talk"))
    await run.start("a", "7")
    await run.end("a", Effect.UNKNOWN, "7")
    settled = Settlement(effect=Effect.APPLIED, by="ann", note="seen at the bank")
    await journal.settle_effect(effect_id("7"), settled)
    await run.park(Status.COMPLETED)
    await journal.redact(conversation="talk")
    entry = await journal.effect(effect_id("7"))
    assert (entry.key, entry.state, entry.call_id) == (REDACTED, "applied", "a")
    assert (entry.settled.by, entry.settled.note) == ("ann", REDACTED)
    assert "100" not in str(entry.others)
    assert not await other.start("b", "7")
    await journal.aclose()


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_an_imported_run_brings_the_effects_that_are_not_known(kind: str, tmp_path: Path):
    async def opened(name: str) -> Any:
        return await SqliteJournal.open(tmp_path / name) if kind == "file" else MemoryJournal()

    journal, there = await opened("a.db"), await opened("b.db")
    run, known = await Run(journal, "run-1").begin(), await Run(there, "run-2").begin()
    for key in ("7", "8"):
        await run.start(key, key)
        await run.end(key, Effect.APPLIED, key)
    await known.start("here", "8")
    await journal.export("run-1", tmp_path / "run.jsonl")
    await there.import_(tmp_path / "run.jsonl")
    entry = await there.effect(effect_id("7"))
    assert (entry.state, entry.run_id) == ("applied", "run-1")
    assert isinstance(await there.effect_outcome(entry), ToolExecutionResult)
    entry = await there.effect(effect_id("8"))
    assert (entry.state, entry.run_id) == ("begun", "run-2")
    assert there.refused_claim("run-1", "8") is None
    await journal.aclose()
    await there.aclose()
