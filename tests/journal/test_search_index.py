"""The search index finds what reading all logs finds."""

from __future__ import annotations

import random
import signal
import sqlite3
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from msgspec.structs import replace

from tests.processes import start_python
from upshot import Agent, Request, ScriptedModel, ToolCall, fork, resume, run, tool
from upshot.contract.events import Event
from upshot.errors import Misuse, UpshotError
from upshot.journal import SqliteJournal, open_journal
from upshot.journal.archive import ArchiveFiles, archive_runs, restore_file
from upshot.journal.log_text import has_text, normal
from upshot.journal.sql.search_rows import MOST_CHARS

WORDS = (
    "Müller",
    "Okafor",
    "straße 7",
    "ab",
    'q"uote',
    "50%_off\\",
    "emoji 🎉!",
    "nul\0byte",
    "ﬁne",
)
MISSING = ("Mueller", "kafor-", "tool_settled", "zzz", "Müllerx")
LATER = timedelta(days=1)


@tool(effect="write", approval=True)
def send(text: str) -> dict[str, str]:
    """Send."""
    return {"sent": text, "by": "Ödön"}


@tool(effect="read")
def look(text: str) -> str:
    """Look."""
    return f"seen {text}"


@pytest.fixture(params=["memory", "file", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    place = {"memory": "memory:", "file": str(tmp_path / "j.db")}.get(request.param)
    if place is None:
        server = request.getfixturevalue("postgres")
        place = server.url(request.getfixturevalue("database"))
    async with open_journal(place) as opened:
        yield opened


def agent(word: str, *, asks: bool = False) -> Agent[Any]:
    call = ToolCall("c", "send" if asks else "look", {"text": word})
    return Agent("desk", model=ScriptedModel([[call], f"Done with {word}."]), tools=[send, look])


async def add(journal: Any, number: int, word: str, *, asks: bool = False) -> str:
    """Make a run that has ended, or waits for an approval."""
    word = word.replace("\0", "") if type(journal).__name__ == "PostgresJournal" else word
    asked = Request(f"Please, {word}", run_id=f"run-{number}")
    await run(agent(word, asks=asks), asked, journal=journal, conversation=f"talk-{number}")
    return asked.run_id


async def found(journal: Any, text: str, *, index: bool) -> list[str]:
    listed = await (journal.candidates(text) if index else journal.runs())
    return [one.run_id for one in listed if await has_text(one.run_id, normal(text), journal)]


async def index_all(journal: Any) -> None:
    while hasattr(journal, "index_runs") and await journal.index_runs():
        pass


async def check(journal: Any) -> None:
    for word in (*WORDS, *MISSING, "seen", "done with", "ödön", unicodedata.normalize("NFD", "ü")):
        assert await found(journal, word, index=True) == await found(journal, word, index=False)


class Desk:
    """A journal to which anything happens."""

    def __init__(self, journal: Any, folder: Path, seed: int) -> None:
        self.journal = journal
        self.folder = folder
        self.rng = random.Random(seed)
        self.count = 0

    async def act(self) -> str:
        """Do anything; returns what was done, "" if that was refused."""
        name = self.rng.choice(
            ("end", "end", "park", "begin", "answer", "fork", "redact", "remove", "prune",
             "archive", "index", "index", "make")
        )  # fmt: skip
        self.count += 1
        runs = [one.run_id for one in await self.journal.runs()]
        try:
            await getattr(self, f"_{name}")(self.rng.choice(runs) if runs else "")
        except UpshotError:
            # For example, a fork reads the run that was to be removed.
            return ""
        return name

    async def _end(self, run_id: str) -> None:
        await add(self.journal, self.count, self.rng.choice(WORDS))

    async def _park(self, run_id: str) -> None:
        await add(self.journal, self.count, self.rng.choice(WORDS), asks=True)

    async def _begin(self, run_id: str) -> None:
        """Copy the first events of a run: that of a process that died."""
        events = [event async for event in self.journal.events(run_id)] if run_id else []
        for event in events[:4]:
            self.journal.append(replace(event, run_id=f"open-{self.count}"))

    async def _answer(self, run_id: str) -> None:
        for item in (await self.journal.inbox())[:1]:
            word, answer = self.rng.choice(WORDS[:3]), item.pending.approve(by="ann")
            await resume(
                item.run_id, agent(word, asks=True), answers=[answer], journal=self.journal
            )

    async def _fork(self, run_id: str) -> None:
        await fork(run_id, at=3, journal=self.journal)

    async def _redact(self, run_id: str) -> None:
        await self.journal.redact(conversation=await self._talk_of(run_id), by="oz")

    async def _remove(self, run_id: str) -> None:
        await self.journal.remove_runs(conversation=await self._talk_of(run_id))

    async def _talk_of(self, run_id: str) -> str:
        return (await self.journal.runs(run_id=run_id))[0].context_id if run_id else ""

    async def _prune(self, run_id: str) -> None:
        if self.rng.random() < 0.3:
            await self.journal.remove_runs(ended_before=datetime.now(UTC))

    async def _archive(self, run_id: str) -> None:
        place = str(self.folder / f"archive-{self.count}")
        done = await archive_runs(
            self.journal, place, ended_before=datetime.now(UTC) + LATER, keep={}
        )
        files = ArchiveFiles(place)
        for one in reversed(done.run_ids[:3]):
            await restore_file(files, files.path_of(one), self.journal)

    async def _index(self, run_id: str) -> None:
        await index_all(self.journal)

    async def _make(self, run_id: str) -> None:
        if hasattr(self.journal, "make_search_index"):
            if self.rng.random() < 0.2:
                await self.journal.drop_search_index()
            await self.journal.make_search_index()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_the_index_finds_what_reading_finds(journal: Any, tmp_path: Path, seed: int) -> None:
    desk = Desk(journal, tmp_path, seed)
    if hasattr(journal, "make_search_index"):
        await journal.make_search_index()
    done: set[str] = set()
    for _ in range(8):
        done |= {await desk.act() for _ in range(4)}
        await check(journal)
    await index_all(journal)
    await check(journal)
    assert len(done - {""}) > 7, done


@pytest.fixture
async def file(tmp_path: Path) -> AsyncGenerator[Any]:
    async with open_journal(str(tmp_path / "j.db")) as opened:
        yield opened


async def test_the_index_is_asked_and_logs_that_it_lacks_are_read(file: Any) -> None:
    await add(file, 1, "Müller")
    assert await file.search_index() is None
    assert await file.make_search_index()
    assert not await file.make_search_index()
    assert await file.search_index() == (0, 1)
    assert await file.index_runs() == 1
    await add(file, 2, "Okafor")
    assert [one.run_id for one in await file.candidates("MÜLLER")] == ["run-2", "run-1"]
    assert await file.index_runs() == 1
    assert await file.index_runs() == 0
    assert await file.search_index() == (2, 0)
    assert [one.run_id for one in await file.candidates("MÜLLER")] == ["run-1"]
    assert [one.run_id for one in await file.candidates("mueller")] == []
    # Shorter than a trigram.
    assert len(await file.candidates("ü")) == 2
    assert await file.drop_search_index()
    assert not await file.drop_search_index()
    assert len(await file.candidates("MÜLLER")) == 2


def stored(path: Path) -> bytes:
    """All bytes of a journal, with its log."""
    return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


# Letters of which no other text has any, so that a trigram of them is stored whole.
RARE = "ᚠ𐌰あ"


@pytest.mark.parametrize("how", ["redact", "remove"])
async def test_nothing_that_was_removed_stays_in_the_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "j.db"
    async with open_journal(str(path)) as journal:
        journal: Any
        await journal.make_search_index()
        await add(journal, 1, RARE)
        await index_all(journal)
        await add(journal, 2, "Okafor")
        await index_all(journal)
    with sqlite3.connect(path) as connection:
        blocks = connection.execute("SELECT block FROM run_grams_data").fetchall()
    gram = RARE.encode()
    assert any(gram in block for (block,) in blocks)
    async with open_journal(str(path)) as journal:
        if how == "redact":
            await journal.redact(conversation="talk-1", by="oz")
        else:
            await journal.remove_runs(["run-1"])
        assert "run-2" in [one.run_id for one in await journal.candidates("okafor")]
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert gram not in stored(path)


class Watched(SqliteJournal):
    """A journal that calls back when the log of a run was read."""

    async def on_read(self) -> None:
        """Called after the last event."""

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        async for event in super().events(run_id, after):
            yield event
        await self.on_read()


async def test_a_run_that_is_redacted_while_it_is_indexed_is_read_again(tmp_path: Path) -> None:
    journal: Any = await Watched.open(tmp_path / "j.db")
    await journal.make_search_index()
    await add(journal, 1, "Müller")

    async def redact() -> None:
        del journal.on_read
        await journal.redact(conversation="talk-1", by="oz")

    journal.on_read = redact
    assert await journal.index_runs() == 1
    assert await journal.search_index() == (1, 0)
    assert not await journal.candidates("müller")
    await journal.aclose()


class Counted(SqliteJournal):
    """A journal that counts its transactions, and can be one that dies before it erases."""

    count = 0
    dies = False

    async def write(self, work: Any) -> Any:
        self.count += 1
        return await super().write(work)

    async def erase_removed(self) -> None:
        if not self.dies:
            await super().erase_removed()


@pytest.mark.slow
async def test_removed_texts_are_erased_in_short_transactions(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    journal: Any = await Counted.open(path)
    await journal.make_search_index()
    rng = random.Random(1)
    for number in range(1, 4):
        # Nearly all trigrams of a text are its own.
        await add(journal, number, "".join(map(chr, rng.choices(range(0x4E00, 0x9FFF), k=60_000))))
        await index_all(journal)
    await add(journal, 4, RARE)
    await index_all(journal)
    journal.dies = True
    await journal.remove_runs(["run-4"])
    assert RARE.encode() in stored(path)
    journal.dies, before = False, journal.count
    await journal.index_runs()
    assert journal.count > before + 3
    # The next one has nothing to do.
    before = journal.count
    assert await journal.index_runs() == 0
    assert journal.count == before
    await journal.aclose()
    assert RARE.encode() not in stored(path)


INDEXER = """
import asyncio, os, signal, sys
from upshot.journal import SqliteJournal

class Killed(SqliteJournal):
    left = int(sys.argv[2])

    async def write(self, work):
        def then(connection):
            result = work(connection)
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return await super().write(then)

async def main():
    journal = await Killed.open(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    while await journal.index_runs():
        pass
    print(*await journal.search_index(), flush=True)
    await journal.aclose()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_processes_index_at_once_and_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with open_journal(str(path)) as journal:
        journal: Any
        for number in range(70):
            await add(journal, number, WORDS[number % 3])
        await journal.make_search_index()
    processes = [
        start_python("-c", INDEXER, path, left, stdin=PIPE, stdout=PIPE, text=True)
        for left in (0, 2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, -signal.SIGKILL]
    assert said == ["70 0\n", ""]
    async with open_journal(str(path)) as journal:
        await check(journal)


async def test_an_sqlite_without_trigrams_is_named(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
    with pytest.raises(Misuse, match=r"cannot make a search index: use a Python with SQLite 3\.34"):
        await file.make_search_index()


async def test_a_log_with_a_damaged_end_is_left_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with open_journal(str(path)) as journal:
        await add(journal, 1, "Müller")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE events SET crc = crc + 1 WHERE id = (SELECT max(id) FROM events)")
    async with open_journal(str(path)) as journal:
        await journal.make_search_index()
        assert await journal.index_runs() == 1
        assert await journal.search_index() == (0, 0)
        assert await found(journal, "Müller", index=True) == ["run-1"]


@pytest.mark.parametrize("depth", [985, 5_000])
async def test_a_text_of_deeply_nested_json_is_found_as_a_text(file: Any, depth: int) -> None:
    word = "[" * depth + "]" * depth
    await file.make_search_index()
    await add(file, 1, word)
    assert await file.index_runs() == 1
    assert await found(file, word[:-1], index=True) == ["run-1"]


@pytest.mark.slow
async def test_a_run_with_very_much_text_is_left_to_be_read(file: Any) -> None:
    await file.make_search_index()
    await add(file, 1, "x" * MOST_CHARS)
    assert await file.index_runs() == 1
    assert await file.search_index() == (0, 0)
    assert await found(file, "xxxx", index=True) == ["run-1"]
