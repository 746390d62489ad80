"""Values that several processes change, alone or in the transaction of an event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from upshot.contract import Request, RunStarted
from upshot.contract.agent_spec import AgentSpec
from upshot.errors import JournalError
from upshot.journal import open_journal
from upshot.journal.shared import SharedValues
from upshot.journal.sql.writer import Committed, Writer


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    where = "memory:"
    if request.param == "sqlite":
        where = str(tmp_path / "j.db")
    elif request.param == "postgres":
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


def texts(*names: str) -> Callable[[SharedValues], list[str]]:
    return lambda values: [values.read(name) for name in names]


def add(name: str, by: int = 1) -> Callable[[SharedValues], int]:
    def change(values: SharedValues) -> int:
        total = int(values.read(name) or 0) + by
        values.write(name, str(total))
        return total

    return change


def started() -> RunStarted:
    return RunStarted(run_id="r", seq=1, agent=AgentSpec(id="a"), request=Request("Hi"))


async def test_changes_at_once_are_made_one_after_another(journal: Any) -> None:
    totals = await asyncio.gather(*(journal.change_values(add("n")) for _ in range(20)))
    assert sorted(totals) == list(range(1, 21))


async def test_a_change_that_raises_changes_nothing(journal: Any) -> None:
    def change(values: SharedValues) -> None:
        values.write("n", values.read("n") + "7")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await journal.change_values(change)
    assert await journal.change_values(texts("n")) == [""]


async def test_values_are_forgotten_by_the_beginning_of_their_names(journal: Any) -> None:
    for name in ("a/1", "a/2", "b/1"):
        await journal.change_values(add(name))

    def forget(values: SharedValues) -> None:
        values.forget("a/", "a0")

    await journal.change_values(forget)
    left = await journal.change_values(texts("a/1", "a/2", "b/1"))
    assert left == ["", "", "1"]


async def test_values_are_read_by_the_beginning_of_their_names(journal: Any) -> None:
    for name in ("a/2", "a/1", "b/1"):
        await journal.change_values(add(name))
    # What was only read is empty.
    await journal.change_values(texts("a/3"))
    assert await journal.values("a/", "a0") == {"a/1": "1", "a/2": "1"}


async def test_the_clock_of_the_values_goes_on(journal: Any) -> None:
    def now_us(values: SharedValues) -> int:
        return values.now_us

    one = await journal.change_values(now_us)
    assert 1_600_000_000_000_000 < one <= await journal.change_values(now_us)


async def test_an_event_and_its_change_are_kept_together(journal: Any) -> None:
    epoch = await journal.claim("r")
    await journal.settle_claim("r")
    with journal.together():
        journal.append(started(), epoch=epoch)
        changing = journal.begin_change(add("n", 5))
    assert await changing == 5
    await journal.durable("r", 1)
    assert [event.seq async for event in journal.events("r")] == [1]


class Counting:
    """A committer that notes how much it is given at a time."""

    rest_s = None

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def commit(self, items: Any) -> Committed:
        self.sizes.append(len(items))
        return Committed(settled=[(one, None, None) for one in items])

    def rest(self) -> None:
        """Nothing has to be done."""

    def announce(self, committed: Committed) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is open."""


def nothing(_: object) -> None:
    """Changes nothing."""


async def test_what_is_queued_together_is_committed_together() -> None:
    counting, writer = Counting(), Writer("nowhere")
    await writer.open(lambda: counting)
    for _ in range(20):
        with writer.together():
            first = writer.begin(nothing)
            # Time for the writer's thread to look.
            sum(range(1_000_000))
            second = writer.begin(nothing)
        await asyncio.gather(first, second)
    await writer.aclose()
    assert counting.sizes == [2] * 20


async def test_a_closed_journal_changes_nothing(tmp_path: Path) -> None:
    journal: Any
    async with open_journal(str(tmp_path / "j.db")) as journal:
        pass
    with pytest.raises(JournalError, match="closed"):
        await journal.change_values(add("n"))
