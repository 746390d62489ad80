import asyncio
import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import upshot.journal
from upshot.contract import RunStarted
from upshot.errors import JournalError, Misuse, UpshotError
from upshot.journal import MemoryJournal, SqliteJournal, open_journal


async def open_and_close(where: object, *, create: bool = True) -> None:
    async with open_journal(where, create=create):  # pyright: ignore[reportCallIssue, reportArgumentType]
        pass


def make_foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.close()


async def test_a_path_is_a_file_and_memory_is_none(tmp_path: Path):
    async with open_journal(tmp_path / "runs.db") as journal:
        assert isinstance(journal, SqliteJournal)
    async with open_journal("memory:") as journal:
        assert isinstance(journal, MemoryJournal)


async def test_a_new_file_is_private(tmp_path: Path):
    path = tmp_path / "runs.db"
    async with open_journal(path) as journal:
        journal.append(RunStarted(run_id="r", seq=1))
        await journal.durable("r", 1)
        modes = {stat.S_IMODE(os.stat(file).st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o600}


async def test_an_empty_file_becomes_a_journal(tmp_path: Path):
    path = tmp_path / "runs.db"
    path.touch()
    async with open_journal(path) as journal:
        assert await journal.runs() == []


async def test_an_open_journal_is_given_back_and_not_closed():
    journal = MemoryJournal()
    async with open_journal(journal) as same:
        assert same is journal
    assert journal.usable


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are not listed here")
async def test_a_journal_that_was_closed_leaves_no_thread_and_no_descriptor(tmp_path: Path):
    before = {thread.ident for thread in threading.enumerate()}
    async with open_journal(tmp_path / "runs.db") as journal:
        journal.append(RunStarted(run_id="r", seq=1))
        assert [event.kind async for event in journal.events("r")] == ["run_started"]
    for thread in threading.enumerate():
        if thread.ident not in before:
            thread.join(60)
            assert not thread.is_alive(), thread.name
    held = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert not [path for path in held if path.startswith(str(tmp_path))]


async def test_users_of_one_place_share_one_journal(tmp_path: Path):
    async with open_journal(tmp_path / "runs.db") as first:
        async with open_journal(f"{tmp_path}/../{tmp_path.name}/runs.db") as second:
            assert second is first
        assert first.usable
    assert not first.usable


async def test_a_place_opened_by_many_at_once_is_opened_once(tmp_path: Path):
    seen: set[int] = set()

    async def use() -> None:
        async with open_journal(tmp_path / "runs.db") as journal:
            seen.add(id(journal))
            await asyncio.sleep(0.02)

    await asyncio.gather(*(use() for _ in range(10)))
    assert len(seen) == 1


async def test_memory_is_shared_while_somebody_has_it():
    async with open_journal("memory:") as first, open_journal("memory:") as second:
        first.append(RunStarted(run_id="r", seq=1))
        assert await second.last_seq("r") == 1
    async with open_journal("memory:") as third:
        assert await third.last_seq("r") == 0


async def test_what_was_written_is_there_when_opened_again(tmp_path: Path):
    for seq in (1, 2, 3):
        async with open_journal(tmp_path / "runs.db") as journal:
            assert await journal.last_seq("r") == seq - 1
            journal.append(RunStarted(run_id="r", seq=seq))


def test_every_event_loop_has_a_journal_of_its_own(tmp_path: Path):
    for _ in range(2):
        asyncio.run(open_and_close(tmp_path / "runs.db"))


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("redis://host", "no journals at redis"),
        ("", "a path"),
        (":memory:", 'a journal in memory is "memory:"'),
        (b"runs.db", "not bytes"),
        (7, "not int"),
        ("a\0b", "null"),
    ],
    ids=repr,
)
async def test_what_is_no_place_is_misuse(where: object, said: str):
    with pytest.raises(Misuse, match=said):
        await open_and_close(where)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "it is not a file"),
        ("missing/runs.db", "there is no folder"),
        ("notes.txt", "not an SQLite database"),
        ("notes.txt/runs.db", "there is no folder"),
        ("foreign.db", "another program"),
    ],
)
async def test_a_bad_place_is_misuse_and_stays_as_it_was(tmp_path: Path, name: str, said: str):
    (tmp_path / "notes.txt").write_text("These are my notes, and no database at all.")
    make_foreign(tmp_path / "foreign.db")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(Misuse, match=said):
        await open_and_close(tmp_path / name)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


async def test_a_missing_file_is_misuse_where_none_may_be_made(tmp_path: Path):
    with pytest.raises(Misuse, match="there is no journal at"):
        await open_and_close(tmp_path / "runs.db", create=False)
    assert list(tmp_path.iterdir()) == []


async def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path):
    path = tmp_path / "runs.db"
    await open_and_close(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalError, match="is of format 99, and this version"):
        await open_and_close(path)


async def test_a_journal_that_is_opened_to_be_read_takes_nothing_and_shows_all(tmp_path: Path):
    path = tmp_path / "runs.db"
    async with open_journal(path) as journal:
        journal.append(RunStarted(run_id="r", seq=1))
        journal.append(RunStarted(run_id="r", seq=2))
    before = path.read_bytes()
    journal = await SqliteJournal.open(path, read_only=True)
    assert [event.kind async for event in journal.events("r")] == ["run_started"] * 2
    assert [run.run_id for run in await journal.runs()] == ["r"]
    assert await journal.export("r", tmp_path / "r.jsonl") == 2
    with pytest.raises(JournalError, match="cannot be written: it is read-only"):
        await journal.claim("r")
    with pytest.raises(JournalError, match="read-only"):
        journal.append(RunStarted(run_id="r", seq=3))
    assert journal.usable
    await journal.aclose()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "said"), [("none.db", "there is no journal"), ("foreign.db", "another program")]
)
async def test_what_is_no_journal_cannot_be_opened_to_be_read(tmp_path: Path, name: str, said: str):
    make_foreign(tmp_path / "foreign.db")
    with pytest.raises(Misuse, match=said):
        await SqliteJournal.open(tmp_path / name, read_only=True)


@pytest.mark.parametrize("size", [20, 100, 4096, 9000])
async def test_a_file_that_was_cut_short_is_a_clear_error(tmp_path: Path, size: int):
    path = tmp_path / "runs.db"
    async with open_journal(path) as journal:
        for seq in range(1, 100):
            journal.append(RunStarted(run_id="r", seq=seq))
    os.truncate(path, size)
    with pytest.raises(UpshotError):
        async with open_journal(path) as journal:
            [event async for event in journal.events("r")]
            await journal.runs()


async def test_a_place_that_failed_can_be_used_when_it_is_mended(tmp_path: Path):
    path = tmp_path / "folder" / "runs.db"
    with pytest.raises(Misuse):
        await open_and_close(path)
    path.parent.mkdir()
    await open_and_close(path)


def test_importing_the_package_does_not_load_sqlite():
    code = "import sys, upshot.journal; sys.exit('sqlite3' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=60)


def test_parameters_of_statements_have_no_numbers() -> None:
    # From Python 3.14 on sqlite3 takes a sequence of values for plain question marks only.
    folder = Path(upshot.journal.__file__).parent
    numbered = [path.name for path in folder.rglob("*.py") if re.search(r"\?\d", path.read_text())]
    assert numbered == []
