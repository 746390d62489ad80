"""Runs that somebody has to take up: submitted once a key, and due until they are taken."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.places import Place
from tests.searching import examples
from upshot.contract import (
    AgentError,
    AgentResult,
    Answer,
    ErrorCode,
    Request,
    RunSettled,
    RunStarted,
    Status,
)
from upshot.contract.agent_spec import AgentSpec
from upshot.errors import Misuse
from upshot.journal import MemoryJournal, SqliteJournal, open_journal
from upshot.journal.run_list import PHASES
from upshot.journal.shared import PlacedAnswer, Submission
from upshot.journal.sqlite.salvage import salvage_file

NOW = datetime(2026, 11, 22, tzinfo=UTC)


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


def submission(run_id: str = "r", **fields: Any) -> Submission:
    more: Any = {"agent_id": "a", "request": Request("Hi"), **fields}
    return Submission(run_id=run_id, **more)


def started(run_id: str = "r", **fields: Any) -> RunStarted:
    more: Any = {"agent": AgentSpec(id="a"), "request": Request("Hi"), "time": NOW, **fields}
    return RunStarted(run_id=run_id, seq=1, **more)


def settled(run_id: str, seq: int, status: Status, at: datetime = NOW) -> RunSettled:
    error = None if status == Status.COMPLETED else AgentError(ErrorCode.INPUT_REQUIRED, "?")
    result = AgentResult[Any](status=status, error=error)
    return RunSettled(run_id=run_id, seq=seq, time=at, result=result)


async def due(journal: Any, *agents: str) -> list[tuple[str, str]]:
    found = await journal.due_runs(agents or None)
    return [(one.run_id, one.reason) for one in found]


async def write(journal: Any, *events: Any) -> None:
    run_id = events[0].run_id
    epoch = await journal.claim(run_id)
    for event in events:
        journal.append(event, epoch=epoch)
    await journal.durable(run_id, events[-1].seq)
    journal.release(run_id, epoch)


async def test_a_submitted_run_is_due_until_it_is_taken(journal: Any) -> None:
    new = submission(request=Request("Hi", context_id="c"))
    assert await journal.submit(new) == new
    (found,) = await journal.due_runs()
    assert (found.run_id, found.agent_id, found.conversation) == ("r", "a", "c")
    assert (found.reason, found.has_begun) == ("submitted", False)
    assert await journal.submission("r") == new
    (listed,) = await journal.runs("queued")
    assert (listed.run_id, listed.request, listed.events) == ("r", "Hi", 0)
    assert not listed.ended
    epoch = await journal.claim("r")
    assert await due(journal) == []
    journal.append(started(), epoch=epoch)
    await journal.durable("r", 1)
    assert await journal.runs("queued") == []
    journal.append(settled("r", 2, Status.COMPLETED), epoch=epoch)
    await journal.durable("r", 2)
    journal.release("r", epoch)
    assert await due(journal) == []


async def test_a_run_that_is_let_go_before_its_end_is_due_again(journal: Any) -> None:
    await journal.submit(submission())
    journal.release("r", await journal.claim("r"))
    (found,) = await journal.due_runs()
    assert (found.reason, found.has_begun, found.epoch) == ("released", False, 1)
    await write(journal, started())
    (found,) = await journal.due_runs()
    assert (found.reason, found.has_begun, found.epoch) == ("released", True, 2)


async def test_what_is_due_comes_by_priority_then_by_time(journal: Any) -> None:
    late, soon = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) - timedelta(hours=1)
    for run_id, fields in {
        "first": {},
        "early": {"at": soon},
        "high": {"priority": 5},
        "later": {"at": late, "priority": 9},
        "other": {"agent_id": "b"},
    }.items():
        await journal.submit(submission(run_id, **fields))
    assert [run_id for run_id, _ in await due(journal, "a")] == ["high", "early", "first"]
    assert [run_id for run_id, _ in await due(journal, "b")] == ["other"]
    assert await due(journal, "nobody") == []
    assert [one.run_id for one in await journal.due_runs(limit=1)] == ["high"]
    assert [one.run_id for one in await journal.due_runs(run_id="early")] == ["early"]
    assert await journal.due_runs(run_id="later") == []
    assert await journal.due_runs(["b"], run_id="early") == []


async def test_what_was_worked_on_comes_before_what_is_new(journal: Any) -> None:
    for run_id in ("new", "blocked", "left", "parked"):
        await journal.submit(submission(run_id))
    await journal.make_due("blocked", "conversation")
    await write(journal, started("left"))
    await write(journal, started("parked"), settled("parked", 2, Status.INPUT_REQUIRED))
    await journal.make_due("parked", "answered")
    found = await journal.due_runs(limit=3)
    assert [one.run_id for one in found] == ["left", "parked", "new"]
    assert [one.is_new for one in found] == [False, False, True]


async def test_a_due_run_that_is_held_keeps_no_room_from_the_others(place: Place) -> None:
    journal = await place.open()
    for run_id in ("held", "free"):
        await journal.submit(submission(run_id))
    await write(journal, started("held"))
    epoch = await journal.claim("held")
    await journal.make_due("held", "answered")
    found = await journal.due_runs(limit=1)
    assert [one.run_id for one in found] == ["free"]
    journal.release("held", epoch)
    await journal.aclose()


async def test_a_key_gives_one_run_until_a_month_after_its_end(journal: Any) -> None:
    first = await journal.submit(submission("r1", key="k"))
    assert await journal.submit(submission("r2", key="k")) == first
    assert await journal.submission("r2") is None
    fresh = datetime.now(UTC)
    await write(journal, started("r1"), settled("r1", 2, Status.COMPLETED, fresh))
    assert (await journal.submit(submission("r2", key="k"))).run_id == "r1"
    await journal.remove_runs(["r1"])
    kept = await journal.submit(submission("r2", key="k", request=Request("Secret")))
    assert (kept.run_id, kept.request.text) == ("r1", "")
    # Of another run, which ended long ago.
    await journal.submit(submission("old", key="o"))
    month = fresh - timedelta(days=31)
    await write(journal, started("old", time=month), settled("old", 2, Status.COMPLETED, month))
    assert (await journal.submit(submission("new", key="o"))).run_id == "new"
    assert [run_id for run_id, _ in await due(journal)] == ["new"]


async def test_a_run_is_not_submitted_under_the_id_of_another_one(journal: Any) -> None:
    await write(journal, started("begun"), settled("begun", 2, Status.COMPLETED))
    await journal.submit(submission("queued"))
    for run_id in ("begun", "queued"):
        with pytest.raises(Misuse, match=r"has a run .* already"):
            await journal.submit(submission(run_id))
    assert await journal.submission("begun") is None


async def test_an_answer_to_a_parked_run_makes_it_due(journal: Any) -> None:
    await write(journal, started(), settled("r", 2, Status.INPUT_REQUIRED))
    assert await due(journal) == []
    wish = PlacedAnswer(run_id="r", item="a", answer=Answer("q", "yes"), at=NOW)
    await journal.place_answer(wish)
    assert await due(journal) == []
    await journal.place_answer(
        PlacedAnswer(run_id="r", item="b", answer=wish.answer, at=NOW), seq=2
    )
    assert await due(journal) == [("r", "answered")]


async def test_an_answer_to_a_child_run_makes_its_root_due(journal: Any) -> None:
    await write(journal, started("root"), settled("root", 2, Status.INPUT_REQUIRED))
    child = started("child", parent_run_id="root")
    await write(journal, child, settled("child", 2, Status.INPUT_REQUIRED))
    wish = PlacedAnswer(run_id="child", item="a", answer=Answer("q", "yes"), at=NOW)
    await journal.place_answer(wish, seq=2)
    assert await due(journal) == [("root", "answered")]


async def test_an_answer_makes_a_run_due_whose_parent_has_ended(journal: Any) -> None:
    await write(journal, started("first"), settled("first", 2, Status.COMPLETED))
    second = started("second", parent_run_id="first")
    await write(journal, second, settled("second", 2, Status.INPUT_REQUIRED))
    wish = PlacedAnswer(run_id="second", item="a", answer=Answer("q", "yes"), at=NOW)
    await journal.place_answer(wish, seq=2)
    assert await due(journal) == [("second", "answered")]


async def test_a_due_run_can_be_put_off(journal: Any) -> None:
    await journal.submit(submission())
    await journal.make_due("r", "conversation", delay_s=60)
    assert await due(journal) == []
    await journal.make_due("r", "conversation")
    assert await due(journal) == [("r", "conversation")]
    await write(journal, started(), settled("r", 2, Status.COMPLETED))
    await journal.make_due("r", "conversation")
    await journal.make_due("nobody", "conversation")
    assert await due(journal) == []


async def test_a_due_run_is_reserved_once_for_a_while(place: Place) -> None:
    one, other = await place.open(), await place.open()
    for name in ("r", "s", "t"):
        await one.submit(submission(name))
    both = one.reserve_due(["r", "s"], for_s=60), other.reserve_due(["t", "s"], for_s=60)
    mine, theirs = map(set, await asyncio.gather(*both))
    assert mine | theirs == {"r", "s", "t"} and not mine & theirs
    assert await due(one) == []
    assert await other.reserve_due(["r", "nobody"], for_s=60) == []
    assert await one.claim("r") == 1
    await one.make_due("s", "again")
    assert await due(other) == [("s", "again")]
    await one.aclose()
    await other.aclose()


async def test_of_many_that_submit_with_one_key_one_does(place: Place) -> None:
    journals = [await place.open() for _ in range(4)]
    for n in range(10):
        found = await asyncio.gather(
            *(one.submit(submission(f"{n}-{i}", key=str(n))) for i, one in enumerate(journals))
        )
        assert len({one.run_id for one in found}) == 1
    assert len(await journals[0].due_runs()) == 10
    for journal in journals:
        await journal.aclose()


async def test_salvage_saves_what_was_submitted_and_answered(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    journal = await SqliteJournal.open(path)
    await journal.submit(submission("queued", key="k"))
    await journal.submit(submission("broken"))
    await write(journal, started(), settled("r", 2, Status.INPUT_REQUIRED))
    wish = PlacedAnswer(run_id="r", item="a", answer=Answer("q", "yes"), at=NOW)
    await journal.place_answer(wish, seq=2)
    await journal.aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE submissions SET body = 'x' WHERE run_id = 'broken'")
    salvage_file(str(path), str(tmp_path / "new.db"))
    saved = await SqliteJournal.open(tmp_path / "new.db")
    assert sorted(await due(saved)) == [("queued", "submitted"), ("r", "answered")]
    assert (await saved.submit(submission("again", key="k"))).run_id == "queued"
    await saved.aclose()


async def test_each_run_is_in_one_phase(place: Place) -> None:
    journal, other = await place.open(), await place.open()
    late = datetime.now(UTC) + timedelta(hours=1)
    await journal.submit(submission("queued", at=late))
    await journal.submit(submission("taken"))
    await journal.claim("taken")
    for run_id, status in {
        "parked": Status.INPUT_REQUIRED,
        "answered": Status.INPUT_REQUIRED,
        "later": Status.INPUT_REQUIRED,
        "done": Status.COMPLETED,
    }.items():
        await write(journal, started(run_id), settled(run_id, 2, status))
    await journal.make_due("answered", "answered")
    await journal.make_due("later", "wait", delay_s=3600)
    await write(journal, started("left"))
    await write(journal, started("waits"))
    await journal.make_due("waits", "wait", delay_s=3600)
    epoch = await journal.claim("working")
    journal.append(started("working"), epoch=epoch)
    await write(journal, started("dead"))
    await journal.flush()
    gone = '{"pid":4194305,"host":"h","boot":"b"}'
    place.do(f"UPDATE runs SET holder = '{gone}', due_at = NULL WHERE run_id = 'dead'")
    # On another machine, whose lease has lapsed.
    lapsed = "INSERT INTO leases (holder, until) VALUES ('{}', {})"
    moment = "now() - interval '1 minute'" if "://" in place.where else "1"
    place.do(lapsed.format(gone, moment))
    found = {phase: sorted(one.run_id for one in await other.runs(phase)) for phase in PHASES}
    assert found == {
        "queued": ["queued"],
        "running": ["taken", "working"],
        "due": ["answered", "left"],
        "parked": ["later", "parked", "waits"],
        "died": ["dead"],
        "ended": ["done"],
    }
    assert [one.run_id for one in await other.runs("parked", limit=1)] != []
    assert await other.runs("ended", agent_id="b") == []
    assert len(await other.runs("ended", agent_id="a")) == 1
    await other.aclose()
    await journal.aclose()


STEPS = st.sampled_from(["submit", "claim", "begin", "park", "end", "release", "answer", "put off"])


class Model:
    """What becomes of one run, by the words of the contract."""

    def __init__(self) -> None:
        self.epoch = self.seq = self.asked = 0
        self.status, self.is_held, self.is_due = "", False, False

    def allows(self, step: str) -> bool:
        held, begun = self.is_held, self.seq > 0
        ended = self.status == "completed"
        return {
            "submit": not self.status and not held,
            "claim": not held and bool(self.status) and not ended,
            "begin": held and not begun,
            "park": held and begun,
            "end": held and begun,
            "release": held,
            "answer": not held and self.status == "input_required",
            "put off": not held,
        }[step]


async def play(journal: Any, steps: list[str]) -> None:
    model = Model()
    for step in filter(model.allows, steps):
        if step == "submit":
            await journal.submit(submission())
            model.status, model.is_due = "queued", True
        elif step == "claim":
            model.epoch, model.is_held, model.is_due = await journal.claim("r"), True, False
        elif step == "release":
            journal.release("r", model.epoch)
            model.is_held, model.is_due = False, True
        elif step == "answer":
            model.asked += 1
            wish = PlacedAnswer(
                run_id="r", item=str(model.asked), answer=Answer("q", "yes"), at=NOW
            )
            assert await journal.place_answer(wish, seq=model.seq) == wish
            model.is_due = True
        elif step == "put off":
            await journal.make_due("r", "later", delay_s=60)
            model.is_due = False
        else:
            model.seq += 1
            status = {"begin": "running", "park": "input_required", "end": "completed"}[step]
            event: Any = started()
            if step != "begin":
                event = settled("r", model.seq, Status(status))
                model.is_held = False
            model.status = status
            journal.append(event, epoch=model.epoch)
            await journal.durable("r", model.seq)
            if not model.is_held:
                journal.release("r", model.epoch)
        assert bool(await journal.due_runs()) is model.is_due, step
        assert [one.status for one in await journal.runs()] == [model.status or []][
            : bool(model.status)
        ]


@given(steps=st.lists(STEPS, max_size=14))
async def test_a_run_in_memory_is_due_just_when_nobody_has_it_and_something_is_to_be_done(
    steps: list[str],
) -> None:
    await play(MemoryJournal(), ["submit", *steps])


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=14))
async def test_a_run_is_due_just_when_nobody_has_it_and_something_is_to_be_done(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    journal = await SqliteJournal.open(tmp_path_factory.mktemp("due") / "j.db")
    await play(journal, ["submit", *steps])
    await journal.aclose()
