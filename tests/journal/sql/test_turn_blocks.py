"""A turn reads the logs of the last turns only, and what is stored of those before."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.journal.sql.test_conversations import Counting
from upshot import Agent, Compaction, ScriptedModel, run
from upshot.journal import open_journal
from upshot.journal.sql.conversations import committed_of, read_turns
from upshot.state.turns import BLOCK_TURNS, CommittedTurns, KeptTurns


async def take_turns(place: Path, first: int, count: int) -> None:
    """Take turns, each in a journal that was opened for it."""
    for number in range(first, first + count):
        agent = Agent("talker", model=ScriptedModel([f"Re {number}."]))
        async with open_journal(place) as journal:
            result = await run(agent, f"{number}?", journal=journal, conversation="ada")
            assert result.success, result.error


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with 34 turns, which is copied."""
    place = tmp_path_factory.mktemp("talked") / "j.db"
    asyncio.run(take_turns(place, 0, 34))
    return place


@pytest.fixture
def place(talked: Path, tmp_path: Path) -> Path:
    """A journal with 34 turns."""
    return Path(shutil.copyfile(talked, tmp_path / "j.db"))


async def events_read(place: Path) -> int:
    """How many events are read for the turn that comes next."""
    async with open_journal(place) as journal:

        def look(connection: Any) -> int:
            counting = Counting(connection, only="FROM events WHERE id > ")
            read_turns(counting, "ada", None, KeptTurns(), without="next")
            return counting.rows

        await journal.flush()
        return await journal.read(look)


async def said(place: Path) -> list[str]:
    async with open_journal(place) as journal:
        return [one.text for one in (await journal.conversation("ada")).messages]


def all_of(count: int) -> list[str]:
    return [text for number in range(count) for text in (f"{number}?", f"Re {number}.")]


async def do(place: Path, statement: str, *values: object) -> None:
    async with open_journal(place) as journal:
        await journal.write(lambda connection: connection.execute(statement, values))


async def test_a_late_turn_reads_no_more_logs_than_an_early_one(place: Path) -> None:
    early = await events_read(place)
    await take_turns(place, 34, 2 * BLOCK_TURNS)
    assert await events_read(place) == early > 0
    assert await said(place) == all_of(34 + 2 * BLOCK_TURNS)


@pytest.mark.slow("another body", "another checksum", "one missing")
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM turn_blocks",
        "UPDATE turn_blocks SET body = x'00'",
        "UPDATE turn_blocks SET crc = crc + 1",
        "UPDATE turn_blocks SET crc = crc + 1 WHERE number = 2",
        "DELETE FROM turn_blocks WHERE number = 1",
    ],
    ids=["thrown away", "another body", "another checksum", "one damaged", "one missing"],
)
async def test_nothing_is_lost_with_what_is_stored(place: Path, statement: str) -> None:
    await do(place, statement)
    assert await said(place) == all_of(34)
    await take_turns(place, 34, 1)
    assert await said(place) == all_of(35)


async def test_a_turn_that_was_removed_is_not_in_what_is_stored(place: Path) -> None:
    async with open_journal(place) as journal:
        last, *_ = await journal.runs()
        await journal.remove_runs([last.run_id])
        stored = await journal.read(
            lambda connection: connection.execute("SELECT * FROM turn_blocks").fetchall()
        )
    assert stored == []
    assert await said(place) == all_of(33)


async def test_what_is_stored_of_a_turn_does_not_grow(tmp_path: Path) -> None:
    place = tmp_path / "j.db"
    await take_turns(place, 100, 3 * BLOCK_TURNS + 1)
    async with open_journal(place) as journal:
        rows = await journal.read(
            lambda connection: connection.execute(
                "SELECT length(body) FROM turn_blocks ORDER BY number"
            ).fetchall()
        )
    sizes = [size for (size,) in rows]
    assert len(sizes) == 3
    assert max(sizes) < 1.05 * min(sizes)


async def test_what_is_stored_is_what_the_logs_say(tmp_path: Path) -> None:
    """Also where older messages were replaced, within a block and at its edges."""
    place = tmp_path / "j.db"
    for number in range(3 * BLOCK_TURNS + 2):
        compaction = None
        if number % 5 == 4 or number in (BLOCK_TURNS, BLOCK_TURNS + 1, 2 * BLOCK_TURNS - 1):
            compaction = Compaction(at_tokens=1, keep_last=1)
        agent = Agent("talker", model=ScriptedModel([f"Re {number}."]), compaction=compaction)
        async with open_journal(place) as journal:
            result = await run(agent, f"{number}?", journal=journal, conversation="ada")
            assert result.success, result.error
    stored = await _committed(place)
    await do(place, "DELETE FROM turn_blocks")
    folded = await _committed(place)
    assert _all_of(stored) == _all_of(folded)
    assert len({*map(len, _all_of(folded)["at"])}) > 3


async def _committed(place: Path) -> CommittedTurns:
    async with open_journal(place) as journal:
        return await journal.read(lambda connection: committed_of(connection, "ada", KeptTurns()))


def _all_of(turns: CommittedTurns) -> dict[str, Any]:
    told = {name: value for name, value in vars(turns).items() if not name.startswith("_")}
    at = [turns.at(revision) for revision in range(turns.revision + 1)]
    return {**told, "at": at, "reference": turns.reference("ada")}
