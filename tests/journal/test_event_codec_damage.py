import asyncio
import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.searching import examples
from upshot.contract import AgentResult, RunSettled, RunStarted, StepSettled
from upshot.errors import JournalError, UpshotError
from upshot.journal import SqliteJournal

COUNT = 30


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of one run with COUNT events, the last of them settled."""
    path = tmp_path_factory.mktemp("damage") / "runs.db"

    async def write() -> None:
        journal = await SqliteJournal.open(path)
        epoch = await journal.claim("run-1")
        journal.append(RunStarted(run_id="run-1", seq=1), epoch=epoch)
        for seq in range(2, COUNT):
            value = f"value {seq} " * 20
            journal.append(StepSettled(run_id="run-1", seq=seq, key=f"{seq}", value=value))
        journal.append(
            RunSettled(run_id="run-1", seq=COUNT, result=AgentResult(run_id="run-1")), epoch=epoch
        )
        await journal.aclose()

    asyncio.run(write())
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "runs.db"))


def change(path: Path, statement: str, values: Sequence[object] = ()) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def flip(path: Path, seq: int) -> None:
    """Flip one bit of an event's stored text, as a failing disk would."""
    data = bytearray(path.read_bytes())
    place = data.index(b"value %d value" % seq)
    data[place] ^= 1
    path.write_bytes(data)


async def read(journal: SqliteJournal) -> list[int]:
    return [event.seq async for event in journal.events("run-1")]  # pyright: ignore


async def test_a_sound_run_has_no_damage(path: Path):
    journal = await SqliteJournal.open(path)
    assert await journal.damage("run-1") is None
    assert await read(journal) == list(range(1, COUNT + 1))
    await journal.aclose()


async def test_a_flipped_bit_in_the_middle_gives_the_exact_prefix_and_an_error(path: Path):
    flip(path, 20)
    journal = await SqliteJournal.open(path)
    read: list[object] = []
    with pytest.raises(JournalError, match="damaged after event 19: the checksum") as told:
        async for event in journal.events("run-1"):
            read.append(event)
    assert len(read) == 19
    assert (told.value.run_id, told.value.seq) == ("run-1", 19)
    await journal.aclose()


async def test_sound_events_after_damage_are_cut_only_when_asked_for(path: Path):
    flip(path, 20)
    journal = await SqliteJournal.open(path)
    with pytest.raises(JournalError, match="cut=True"):
        await journal.claim("run-1")
    await journal.claim("run-1", cut=True)
    assert await read(journal) == list(range(1, 20))
    damage = await journal.damage("run-1")
    assert damage is not None
    assert (damage.sound_to, damage.lost, damage.tail, damage.cut) == (19, 11, False, True)
    await journal.aclose()


async def test_damage_at_the_end_is_reported_and_cut_by_a_claim(
    path: Path, caplog: pytest.LogCaptureFixture
):
    change(path, "UPDATE events SET body = substr(body, 1, 40) WHERE id & 4294967295 >= 28")
    journal = await SqliteJournal.open(path)
    assert await read(journal) == list(range(1, 28))
    assert "damaged after event 27" in caplog.text
    found = await journal.damage("run-1")
    assert found is not None
    assert (found.sound_to, found.lost, found.tail, found.cut) == (27, 3, True, False)
    epoch = await journal.claim("run-1")
    journal.append(StepSettled(run_id="run-1", seq=28), epoch=epoch)
    await journal.durable("run-1", 28)
    assert await read(journal) == list(range(1, 29))
    await journal.aclose()


async def test_a_run_whose_end_was_cut_is_no_longer_settled(path: Path):
    change(path, "UPDATE events SET crc = crc + 1 WHERE id & 4294967295 = ?", (COUNT,))
    journal = await SqliteJournal.open(path)
    assert [run.status for run in await journal.runs()] == ["completed"]
    await journal.claim("run-1")
    assert [run.status for run in await journal.runs()] == ["running"]
    await journal.aclose()


async def test_events_that_are_gone_from_the_end_are_damage(
    path: Path, caplog: pytest.LogCaptureFixture
):
    change(path, "DELETE FROM events WHERE id & 4294967295 > 25")
    journal = await SqliteJournal.open(path)
    assert await read(journal) == list(range(1, 26))
    assert "event 26 is missing" in caplog.text
    damage = await journal.damage("run-1")
    assert damage is not None
    assert (damage.sound_to, damage.lost, damage.tail) == (25, 5, True)
    await journal.aclose()


async def test_a_missing_event_is_never_skipped(path: Path):
    change(path, "DELETE FROM events WHERE id & 4294967295 = 10")
    journal = await SqliteJournal.open(path)
    with pytest.raises(JournalError, match="event 10 is missing"):
        await read(journal)
    await journal.aclose()


async def test_a_list_of_runs_that_fell_behind_is_mended_by_a_claim(path: Path):
    change(path, "UPDATE runs SET last_seq = 3, epoch = 0")
    journal = await SqliteJournal.open(path)
    assert await journal.claim("run-1") == 2
    assert await journal.last_seq("run-1") == COUNT
    await journal.aclose()


async def test_a_damaged_run_is_not_exported(path: Path, tmp_path: Path):
    flip(path, 20)
    journal = await SqliteJournal.open(path)
    with pytest.raises(JournalError, match="damaged after event 19"):
        await journal.export("run-1", tmp_path / "run.jsonl")
    assert not (tmp_path / "run.jsonl").exists()
    await journal.aclose()


@examples(150)
@given(st.data())
def test_any_flipped_byte_gives_an_exact_prefix_or_a_clear_error(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
):
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flip") / "runs.db"
    path.write_bytes(content)
    original = asyncio.run(read_events(whole))[0]
    logging.getLogger("upshot.journal").setLevel(logging.CRITICAL + 1)
    events, told = asyncio.run(read_events(path))
    assert events == original[: len(events)]
    assert told or len(events) == len(original)
    asyncio.run(claim(path))
    logging.getLogger("upshot.journal").setLevel(logging.NOTSET)


async def claim(path: Path) -> None:
    """Take the run and append to it, where that can be done."""
    with contextlib.suppress(UpshotError):
        journal = await SqliteJournal.open(path)
        try:
            epoch = await journal.claim("run-1", cut=True)
            seq = await journal.last_seq("run-1") + 1
            journal.append(StepSettled(run_id="run-1", seq=seq, key="more"), epoch=epoch)
            await journal.durable("run-1", seq)
            assert await read(journal) == list(range(1, seq + 1))
        finally:
            await journal.aclose()


async def read_events(path: Path) -> tuple[list[object], bool]:
    """The events that can be read, and whether anything was told to be wrong."""
    events: list[object] = []
    try:
        journal = await SqliteJournal.open(path)
    except UpshotError:
        return events, True
    try:
        async for event in journal.events("run-1"):
            events.append(event)
        await journal.runs()
        return events, await journal.damage("run-1") is not None
    except UpshotError:
        return events, True
    finally:
        await journal.aclose()
