"""Who waits for a change in a journal is woken by every one, in whatever process it is made."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests.places import Place
from tests.postgres import PostgresServer
from upshot.contract import Answer, Request, RunStarted, StepStarted
from upshot.journal import MemoryJournal, PostgresJournal
from upshot.journal.postgres.postgres_journal import ServerListener, payload_of
from upshot.journal.postgres.server import Server
from upshot.journal.postgres.urls import is_url, safe_place, split_url
from upshot.journal.shared import PlacedAnswer, Submission
from upshot.journal.sqlite.sqlite_journal import FileListener
from upshot.journal.watching import DUE, Changes, Listener, of_run, placed_answers_topic, watch

NOW = datetime(2026, 11, 23, tzinfo=UTC)


async def begin(journal: Any, run_id: str = "r") -> int:
    """Take a run and write its first event."""
    epoch = await journal.claim(run_id)
    journal.append(RunStarted(run_id=run_id, seq=1), epoch=epoch)
    await journal.durable(run_id, 1)
    return epoch


async def step(journal: Any, epoch: int, seq: int, run_id: str = "r") -> None:
    journal.append(StepStarted(run_id=run_id, seq=seq, key=f"k{seq}"), epoch=epoch)
    await journal.durable(run_id, seq)


@asynccontextmanager
async def opened(*places: Place) -> AsyncGenerator[list[Any]]:
    journals = [await place.open() for place in places]
    try:
        yield journals
    finally:
        for journal in journals:
            await journal.aclose()


@asynccontextmanager
async def listening(place: Place) -> AsyncGenerator[Changes]:
    """Another process that hears of commits, and never looks for itself."""

    def listen() -> Listener:
        if is_url(place.where):
            return ServerListener(Server(place.where), lambda rows: None, net_s=1e6)
        return FileListener(place.where, sqlite3.connect, lambda rows: None)

    changes = Changes(listen)
    yield changes
    await changes.aclose()


async def see_every_change(own: Any, other: Any, last: int = 30) -> None:
    """Who subscribes, looks and waits sees each event, whoever wrote it and whenever."""
    epoch, looks = await begin(own), asyncio.Event()

    async def write() -> None:
        for seq in range(2, last + 1):
            await looks.wait()
            looks.clear()
            await step(own, epoch, seq)

    writing = asyncio.ensure_future(write())
    with watch(other, of_run("r")) as changes:
        seen = 0
        while seen < last:
            now = await other.last_seq("r")
            if now > seen:
                seen = now
                looks.set()
            else:
                assert await changes.changed(30)
    await writing


async def test_every_change_is_seen_in_memory() -> None:
    journal = MemoryJournal()
    await see_every_change(journal, journal)


async def test_every_change_is_seen_in_the_same_journal(place: Place) -> None:
    async with opened(place) as (journal,):
        await see_every_change(journal, journal)


async def test_every_change_is_seen_by_another_process(place: Place) -> None:
    async with opened(place, place) as (own, other):
        await see_every_change(own, other)


@pytest.mark.parametrize("change", ["wish", "submit", "make_due", "release"])
async def test_wishes_and_due_runs_wake_another_process(place: Place, change: str) -> None:
    async with opened(place) as (own,), listening(place) as other:
        epoch = await begin(own)
        topic = placed_answers_topic("r") if change == "wish" else DUE
        with other.watch(topic) as changes:
            # It listens by now, and nothing else has changed.
            while await changes.changed(0.05):
                pass
            match change:
                case "wish":
                    wish = PlacedAnswer(run_id="r", item="i", answer=Answer("q", "yes"), at=NOW)
                    await own.place_answer(wish)
                case "submit":
                    await own.submit(Submission(run_id="s", agent_id="a", request=Request("Go.")))
                case "make_due":
                    await own.make_due("r", "wait")
                case _:
                    own.release("r", epoch)
            assert await changes.changed(30)


async def test_a_change_before_the_wait_is_not_missed() -> None:
    journal = MemoryJournal()
    epoch = await begin(journal)
    with journal.watch(of_run("r")) as changes:
        await step(journal, epoch, 2)
        assert await changes.changed()
        assert not await changes.changed(0)


async def test_other_runs_wake_nobody() -> None:
    journal = MemoryJournal()
    await begin(journal)
    with journal.watch(of_run("r")) as changes:
        await begin(journal, "other")
        await journal.submit(Submission(run_id="s", agent_id="a", request=Request("Go.")))
        assert not await changes.changed(0)


async def test_a_journal_that_cannot_tell_is_looked_into_often() -> None:
    class Bare:
        pass

    bare: Any = Bare()
    with watch(bare, of_run("r")) as changes:
        assert not await changes.changed(0)
        assert await changes.changed(10)


async def test_who_waits_learns_that_the_journal_is_closed() -> None:
    journal = MemoryJournal()
    with journal.watch(of_run("r")) as changes:
        waiting = asyncio.ensure_future(changes.changed())
        await asyncio.sleep(0)
        await journal.aclose()
        assert await waiting


async def test_only_commits_to_runs_that_are_watched_are_told(
    postgres: PostgresServer, database: str
) -> None:
    place = Place.database(postgres, database)
    with psycopg.connect(place.where, autocommit=True) as connection:
        connection.execute("LISTEN upshot")
        async with opened(place, place) as (own, other):
            epoch = await begin(own)
            for seq in range(2, 10):
                await step(own, epoch, seq)
            with watch(other, of_run("r")) as changes:
                # Its word stands in the run's row when it wakes for the first time.
                assert await changes.changed()
                while not _watched(place):
                    await changes.changed(1)
                for seq in range(10, 13):
                    await step(own, epoch, seq)
        told = [one.payload for one in connection.notifies(timeout=0.1)]
    assert len([one for one in told if '"run:r"' in one]) == 3


def _watched(place: Place) -> list[Any]:
    return place.do("SELECT 1 FROM runs WHERE watched_until > now()")


async def test_a_lost_connection_is_dialled_again(postgres: PostgresServer, database: str) -> None:
    place = Place.database(postgres, database)
    async with opened(place, place) as (own, other), listening(place) as changes_of:
        epoch = await begin(own)
        with changes_of.watch(of_run("r")) as changes:
            while not _watched(place):
                assert await changes.changed(30)
            place.do(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE "
                "'%watched_until%' AND pid <> pg_backend_pid()"
            )
            await step(own, epoch, 2)
            while await other.last_seq("r") < 2:
                assert await changes.changed(30)


@pytest.mark.parametrize("count", [1, 1_000])
def test_what_is_told_fits(count: int) -> None:
    topics = [of_run(f"run-{n}-ü") for n in range(count)]
    payload = payload_of("w", topics)
    assert len(payload.encode()) < 8_000
    assert (topics[0] in payload) == (count == 1)


def test_where_to_listen_stands_in_the_url() -> None:
    direct = "postgresql://u:secret@db:5432/desk?sslmode=require"
    url = (
        "postgresql://u:secret@pool:6432/desk?sslmode=disable"
        "&listen=postgresql%3A%2F%2Fu%3Asecret%40db%3A5432%2Fdesk%3Fsslmode%3Drequire"
    )
    bare = "postgresql://u:secret@pool:6432/desk?sslmode=disable"
    assert split_url(url) == (bare, direct, 60)
    assert split_url(bare) == (bare, bare, 60)
    assert safe_place(url) == "postgresql://u@pool:6432/desk?sslmode=disable"


async def test_a_server_that_passes_nothing_on_is_looked_into(
    postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    # A way to another database: what is told never comes there, as through a pooler.
    deaf = f"{postgres.url(database)}?listen={postgres.url('postgres')}"
    own = await PostgresJournal.open(postgres.url(database))
    other = await PostgresJournal.open(deaf)
    with caplog.at_level(logging.WARNING, logger="upshot.journal"):
        await see_every_change(own, other, last=4)
        with other.watch(DUE) as changes:
            # The first time it has been tried.
            assert await changes.changed(30)
    await own.aclose()
    await other.aclose()
    (record,) = caplog.records
    assert "?listen=URL of a direct connection" in record.message
