"""The search index finds what reading all logs finds."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from upshot import Agent, Request, ScriptedModel, ToolCall, fork, resume, run, tool
from upshot.errors import UpshotError
from upshot.journal import open_journal
from upshot.journal.archive import ArchiveFiles, archive_runs, restore_file
from upshot.journal.log_text import has_text, normal

WORDS = ("Müller", "Okafor", "straße 7", "ab", 'q"uote', "50%_off\\", "emoji 🎉!", "nul\0byte", "ﬁne")
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
        for run_id in reversed(done.run_ids[:3]):
            await restore_file(files, files.path_of(run_id), self.journal)

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
    await desk._make("")
    done: set[str] = set()
    for _ in range(8):
        done |= {await desk.act() for _ in range(4)}
        await check(journal)
    await index_all(journal)
    await check(journal)
    assert len(done - {""}) > 7, done
