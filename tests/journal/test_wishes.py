"""What others want of a run is kept beside its log: one for each question, only while it waits."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.places import Place
from upshot.contract import Answer, RunStarted
from upshot.journal import MemoryJournal, SqliteJournal
from upshot.journal.shared import PlacedAnswer
from upshot.journal.sqlite.salvage import salvage_file

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def wish(item: str, value: str = "yes", *, by: str = "") -> PlacedAnswer:
    return PlacedAnswer(run_id="r", item=item, answer=Answer("q", value, by=by), at=NOW)


async def fill(journal: Any) -> None:
    """A run with one event that nobody holds."""
    epoch = await journal.claim("r")
    journal.append(RunStarted(run_id="r", seq=1), epoch=epoch)
    await journal.durable("r", 1)
    if hasattr(journal, "release"):
        journal.release("r", epoch)


async def hold_to_its_rules(journal: Any) -> None:
    await fill(journal)
    assert await journal.place_answer(wish("a"), seq=2) is None
    assert await journal.placed_answers("r") == []
    assert await journal.place_answer(wish("a"), seq=1) == wish("a")
    assert await journal.place_answer(wish("a", "no"), seq=1) == wish("a")
    # However the log has grown: whoever comes late is told what stands.
    assert await journal.place_answer(wish("a", "no"), seq=2) == wish("a")
    # The holder knows its log.
    assert await journal.place_answer(wish("b", "no")) == wish("b", "no")
    found = await journal.placed_answers("r")
    assert sorted(found, key=lambda one: one.item) == [wish("a"), wish("b", "no")]
    assert await journal.placed_answers("other") == []


async def test_the_first_wish_for_a_question_stands_in_memory() -> None:
    await hold_to_its_rules(MemoryJournal())


async def test_the_first_wish_for_a_question_stands(place: Place) -> None:
    journal = await place.open()
    await hold_to_its_rules(journal)
    await journal.aclose()


async def test_a_run_that_is_held_takes_no_wish_of_another(place: Place) -> None:
    journal, other = await place.open(), await place.open()
    await fill(journal)
    epoch = await journal.claim("r")
    assert await other.place_answer(wish("a"), seq=1) is None
    journal.release("r", epoch)
    await journal.flush()
    assert await other.place_answer(wish("a"), seq=1) == wish("a")
    await journal.aclose()
    await other.aclose()


async def test_of_two_journals_that_place_a_wish_at_once_one_does(place: Place) -> None:
    journals = [await place.open() for _ in range(2)]
    await fill(journals[0])
    await journals[0].flush()
    for n in range(20):
        placing = [
            one.place_answer(wish(str(n), by=f"{number}"), seq=1)
            for number, one in enumerate(journals)
        ]
        first, second = await asyncio.gather(*placing)
        assert first == second is not None
    for journal in journals:
        await journal.aclose()


async def test_salvage_saves_wishes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    journal = await SqliteJournal.open(path)
    await fill(journal)
    await journal.place_answer(wish("a"))
    await journal.place_answer(wish("b"))
    await journal.aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE wishes SET body = 'x' WHERE item = 'b'")
    salvage_file(str(path), str(tmp_path / "new.db"))
    saved = await SqliteJournal.open(tmp_path / "new.db")
    assert await saved.placed_answers("r") == [wish("a")]
    await saved.aclose()


async def test_a_wish_comes_back_as_it_was(place: Place) -> None:
    journal = await place.open()
    await fill(journal)
    wishes = [wish(str(n), value) for n, value in enumerate(["", "\0", "?", "ü"])]
    for one in wishes:
        await journal.place_answer(one)
    assert sorted(await journal.placed_answers("r"), key=lambda one: one.item) == wishes
    await journal.aclose()
