"""What is saved of a journal that SQLite refuses."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from upshot.contract import AgentResult, Event, Request, RunSettled, RunStarted, StepSettled
from upshot.errors import JournalError, Misuse
from upshot.journal import SqliteJournal
from upshot.journal.sqlite.salvage import Salvaged, salvage_file

RUNS, EVENTS = 24, 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with bodies small and large, and an artifact a run."""
    path = tmp_path_factory.mktemp("salvage") / "runs.db"

    async def write() -> None:
        journal = await SqliteJournal.open(path)
        for number in range(RUNS):
            run_id = f"run-{number}"
            await journal.claim(run_id)
            start = Request("Why?", context_id="talk")
            journal.append(RunStarted(run_id=run_id, seq=1, request=start))
            for seq in range(2, EVENTS):
                value = "x" * (20_000 if seq == 5 else 300)
                journal.append(StepSettled(run_id=run_id, seq=seq, key=f"{seq}", value=value))
            result = AgentResult(run_id=run_id)
            journal.append(RunSettled(run_id=run_id, seq=EVENTS, result=result))
            await journal.artifacts.put(run_id, "c", b"data " * 3000, "text/plain")
        await journal.aclose()

    asyncio.run(write())
    return path


async def contents(path: Path) -> dict[str, list[Event]]:
    journal = await SqliteJournal.open(path)
    found = {
        run.run_id: [event async for event in journal.events(run.run_id)]
        for run in await journal.runs()
    }
    await journal.aclose()
    return found


async def test_a_sound_journal_is_copied_whole(whole: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    saved = salvage_file(str(whole), str(new))
    assert saved == Salvaged(runs=RUNS, events=RUNS * EVENTS, artifacts=RUNS)
    assert await contents(new) == await contents(whole)
    old, copy = await SqliteJournal.open(whole), await SqliteJournal.open(new)
    assert await copy.runs() == await old.runs()
    assert await copy.claim("run-1") == 2
    await old.aclose()
    await copy.aclose()


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.99])
async def test_of_a_file_that_was_cut_short_each_run_keeps_its_beginning(
    whole: Path, tmp_path: Path, part: float
) -> None:
    cut, new = tmp_path / "cut.db", tmp_path / "new.db"
    data = whole.read_bytes()
    cut.write_bytes(data[: int(len(data) * part)])
    saved = salvage_file(str(cut), str(new))
    told, original = await contents(new), await contents(whole)
    assert all(events == original[run_id][: len(events)] for run_id, events in told.items())
    assert (saved.runs, saved.events) == (len(told), sum(map(len, told.values())))
    assert saved.events > part * RUNS * EVENTS / 2


async def test_of_a_file_with_overwritten_bytes_nothing_wrong_is_copied(
    whole: Path, tmp_path: Path
) -> None:
    original, chance = await contents(whole), random.Random(7)
    for number in range(8):
        data = bytearray(whole.read_bytes())
        for _ in range(40):
            data[chance.randrange(200, len(data))] = chance.randrange(256)
        damaged, new = tmp_path / f"{number}.db", tmp_path / f"{number}-new.db"
        damaged.write_bytes(data)
        salvage_file(str(damaged), str(new))
        for run_id, events in (await contents(new)).items():
            assert events == original[run_id][: len(events)]


async def test_what_stands_in_the_log_beside_the_file_is_saved_too(tmp_path: Path) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    journal = await SqliteJournal.open(path)
    journal.append(RunStarted(run_id="r", seq=1))
    await journal.durable("r", 1)
    for end in ("", "-wal"):
        Path(f"{copy}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
    assert salvage_file(str(copy), str(tmp_path / "new.db")).events == 1
    with pytest.raises(JournalError, match="is open here"):
        salvage_file(str(path), str(tmp_path / "other.db"))
    await journal.aclose()


async def test_removed_runs_are_not_found_again(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(whole.read_bytes())
    journal = await SqliteJournal.open(path)
    removed = await journal.remove_runs(["run-3", "run-4"])
    assert (removed.artifacts, removed.size_bytes) == (2, 30_000)
    await journal.aclose()
    salvage_file(str(path), str(tmp_path / "new.db"))
    assert set(await contents(tmp_path / "new.db")) == {
        f"run-{number}" for number in range(RUNS) if number not in (3, 4)
    }


@pytest.mark.parametrize("name", ["none.db", "notes.txt"])
def test_what_is_no_journal_is_misuse_and_no_file_is_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("These are my notes.")
    with pytest.raises(Misuse):
        salvage_file(str(tmp_path / name), str(tmp_path / "new.db"))
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_file_that_is_there_is_not_written_over(whole: Path) -> None:
    with pytest.raises(Misuse, match="exists already"):
        salvage_file(str(whole), str(whole))
