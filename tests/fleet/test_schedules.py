"""Runs by the clock: each moment gets one run, or is told as missed."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fleet.scheduling import make
from tests.fleet.test_worker import at_work
from tests.places import Place
from tests.processes import start_python
from upshot import Agent, App, Message, Request, Role, ScriptedModel
from upshot.contract.codec import encode
from upshot.errors import Misuse
from upshot.fleet import Scheduled, ScheduleState
from upshot.fleet.schedules import (
    ALL_AT_MOST,
    MISSED_AT_MOST,
    Missed,
    Schedule,
    Scheduler,
    _follow,  # pyright: ignore[reportPrivateUsage]
    _Followed,  # pyright: ignore[reportPrivateUsage]
    _read,  # pyright: ignore[reportPrivateUsage]
    _submitted,  # pyright: ignore[reportPrivateUsage]
    make_rule,
)
from upshot.journal.shared import SharedValues
from upshot.journal.watching import DUE

T0 = datetime(2026, 11, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def make_app(journal: Any, *, said: str = "Done.") -> App:
    return App([Agent[Any]("clerk", model=ScriptedModel([said] * 50))], journal=journal)


async def set_back(journal: Any, name: str, by: timedelta) -> None:
    """Make it look as if no worker had been there for as long as *by*."""

    def change(values: SharedValues) -> None:
        known = _read(values.read("schedules"))
        known[name] = replace(known[name], until=known[name].until - by)
        values.write("schedules", encode(known).decode())

    await journal.change_values(change)


async def submitted(app: App) -> dict[str, Scheduled]:
    """The submitted runs of schedules, by id, with what their attributes say."""
    journal: Any = await app.open()
    found = dict[str, Scheduled]()
    for run in await app.runs(limit=None):
        new = await journal.submission(run.run_id)
        about = new.options["attributes"]["schedule"]
        found[run.run_id] = Scheduled(
            name=about["name"],
            at=datetime.fromisoformat(about["at"]),
            missed=about.get("missed", 0),
        )
    return found


# -- whole


async def test_workers_submit_each_moment_once_and_run_it(journal: Any) -> None:
    async with make_app(journal) as app, asyncio.timeout(60):
        app.schedule("tick", "clerk", "Tick.", every=timedelta(seconds=1))
        async with at_work(app), at_work(app):
            with journal.watch(DUE) as watch:
                while len(await app.runs("completed")) < 2:
                    await watch.changed(1)
        first, second, *_ = sorted(await submitted(app))
        assert first.startswith("tick-2") and first < second
        (state,) = await app.schedule_states()
        assert (state.name, state.rule) == ("tick", "every 0:00:01")
        assert state.next is not None and state.last is not None


@pytest.mark.slow
async def test_workers_that_are_killed_leave_no_moment_out_and_make_none_twice(
    place: Place,
) -> None:
    workers = [start_python("-m", "tests.fleet.scheduling", place.where) for _ in range(3)]
    rng, killed = random.Random(7), 0
    async with make(place.where) as app, asyncio.timeout(120):
        journal: Any = await app.open()
        with journal.watch(DUE) as watch:
            while (count := len(await app.runs())) < 8:
                await watch.changed(1)
                if count > killed:
                    victim = workers.pop(rng.randrange(len(workers)))
                    victim.kill()
                    victim.wait()
                    workers.append(start_python("-m", "tests.fleet.scheduling", place.where))
                    killed += 1
        for one in workers:
            one.kill()
            one.wait()
        await Scheduler(app).look()
        moments = sorted(one.at for one in (await submitted(app)).values())
        assert killed >= 7
        gaps = {after - before for before, after in itertools.pairwise(moments)}
        assert gaps == {timedelta(seconds=1)}


async def test_the_first_look_submits_nothing(journal: Any) -> None:
    async with make_app(journal) as app:
        app.schedule("tick", "clerk", "Tick.", every=HOUR)
        assert await app.schedule_states() == (
            ScheduleState(name="tick", agent_id="clerk", rule="every 1:00:00"),
        )
        assert 0 < await Scheduler(app).look() <= 60
        assert await submitted(app) == {}
        (state,) = await app.schedule_states()
        assert state.next is not None


@pytest.mark.parametrize(
    ("missed", "runs", "told"), [("latest", 1, [2]), ("all", 3, [0, 0, 0]), ("skip", 0, [])]
)
async def test_what_was_missed_is_made_up_for_as_wished(
    journal: Any, missed: Missed, runs: int, told: list[int]
) -> None:
    async with make_app(journal) as app:
        now = datetime.now(UTC)
        moments = [now - hours * HOUR for hours in (1, 2, 3)]
        app.schedule("tick", "clerk", lambda one: f"For {one.at:%H}.", at=moments, missed=missed)
        planner = Scheduler(app)
        await planner.look()
        await set_back(journal, "tick", 4 * HOUR)
        await asyncio.gather(planner.look(), Scheduler(app).look())
        found = await submitted(app)
        assert len(found) == runs
        assert [one.missed for _, one in sorted(found.items())] == told
        (state,) = await app.schedule_states()
        assert state.missed == (3 if missed == "skip" else 0)


async def test_another_worker_finishes_what_a_dead_one_was_submitting(journal: Any) -> None:
    async with make_app(journal) as app:
        app.schedule("tick", "clerk", "Tick.", every=HOUR, missed="all")
        await Scheduler(app).look()
        moments = tuple(Scheduled(name="tick", at=T0 + n * HOUR) for n in range(3))

        def left_behind(values: SharedValues) -> None:
            known = _read(values.read("schedules"))
            known["tick"] = replace(known["tick"], submitting=moments)
            values.write("schedules", encode(known).decode())

        # It had submitted one of them.
        await app.submit("clerk", Request(Message(Role.USER, "Tick."), run_id=moments[0].run_id))
        await journal.change_values(left_behind)
        await asyncio.gather(*(Scheduler(app).look() for _ in range(3)))
        ids = {run.run_id for run in await app.runs() if run.run_id.startswith("tick-")}
        assert ids == {one.run_id for one in moments}
        (state,) = await app.schedule_states()
        assert (state.last, state.missed) == (moments[-1], 0)


async def test_a_run_that_has_not_ended_is_not_overlapped(journal: Any) -> None:
    async with make_app(journal) as app:
        app.schedule("tick", "clerk", "Tick.", every=HOUR)
        app.schedule("both", "clerk", "Tick.", every=HOUR, overlap=True)
        planner = Scheduler(app)
        for _ in range(2):
            await planner.look()
            for name in ("tick", "both"):
                await set_back(journal, name, HOUR)
        await planner.look()
        found = await submitted(app)
        assert len([one for one in found if one.startswith("tick")]) == 1
        tick, _ = await app.schedule_states()
        assert tick.missed == 1 and tick.last is not None
        # It is told to the next one.
        await app.activate(tick.last.run_id)
        await set_back(journal, "tick", HOUR)
        await planner.look()


async def test_a_request_that_cannot_be_made_is_told_as_missed(
    journal: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(one: Scheduled) -> str:
        raise ValueError("no weather today")

    async with make_app(journal) as app:
        app.schedule("tick", "clerk", ask, every=HOUR)
        await Scheduler(app).look()
        await set_back(journal, "tick", HOUR)
        await Scheduler(app).look()
        assert await submitted(app) == {}
        (state,) = await app.schedule_states()
        assert (state.missed, state.last) == (1, None)
        assert "no weather today" in caplog.text


async def test_a_list_that_another_worker_has_begun_since_stays(journal: Any) -> None:
    old, new = (Scheduled(name="tick", at=T0 + n * HOUR) for n in range(2))
    async with make_app(journal) as app:
        app.schedule("tick", "clerk", "Tick.", every=HOUR)
        planner = Scheduler(app)
        await planner.look()

        def begun(values: SharedValues) -> None:
            known = _read(values.read("schedules"))
            known["tick"] = replace(known["tick"], submitting=(new,))
            values.write("schedules", encode(known).decode())

        await journal.change_values(begun)
        await planner.submit_all(app.schedules["tick"], (old,), journal)
        assert _read(await journal.value("schedules"))["tick"].submitting == (new,)


async def test_a_fault_is_logged_and_does_not_end_the_schedules(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with make_app("memory:") as app, asyncio.timeout(60):
        journal: Any = await app.open()
        await journal.change_values(lambda values: values.write("schedules", "{"))
        app.schedule("tick", "clerk", "Tick.", every=HOUR)
        working = asyncio.create_task(Scheduler(app).work())
        while "could not be followed" not in caplog.text:
            await asyncio.sleep(0)
        assert not working.done()
        working.cancel()


# -- rules


def between(after: datetime, until: datetime, **rule: Any) -> list[datetime]:
    """The moments after *after* up to *until*, by walking forward."""
    made = make_rule("x", **{"cron": None, "every": None, "at": None, "tz": "UTC", **rule})
    found = list[datetime]()
    at: datetime | None = after
    while (at := made.after(at)) is not None and at <= until:
        found.append(at)
    return found


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC), 23),
        ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=UTC), 25),
        ("Asia/Tokyo", datetime(2026, 10, 25, tzinfo=UTC), 24),
    ],
)
def test_cron_follows_the_clocks_of_its_zone(zone: str, day: datetime, hours: int) -> None:
    start = day.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    end = (day + timedelta(days=1)).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    assert len(between(start, end, cron="0 * * * *", tz=zone)) == hours
    # What falls into the hour that is left out or repeated happens once.
    assert len(between(start, end, cron="30 2 * * *", tz=zone)) == 1


@given(
    rule=st.sampled_from(
        [
            {"every": timedelta(seconds=1)},
            {"every": timedelta(minutes=7)},
            {"cron": "*/5 * * * *"},
            {"cron": "0 9 * * MON-FRI", "tz": "Europe/Berlin"},
            {"at": [T0 + timedelta(minutes=n * n) for n in range(30)]},
        ]
    ),
    start=st.integers(-200_000, 200_000),
    span=st.integers(0, 900),
)
def test_a_rule_walks_the_same_way_forward_and_back(
    rule: Mapping[str, Any], start: int, span: int
) -> None:
    after = T0 + timedelta(seconds=start, microseconds=start % 7)
    until = after + timedelta(seconds=span)
    made = make_rule("x", **{"cron": None, "every": None, "at": None, "tz": "UTC", **rule})
    schedule = Schedule("x", "clerk", "Go.", made, "latest", overlap=False)
    assert schedule.moments(after, until) == between(after, until, **rule)[::-1]


@pytest.mark.parametrize("rule", [{"cron": "0 * * * *"}, {"every": HOUR}, {"at": T0}])
def test_a_moment_is_due_when_it_is_reached(rule: Any) -> None:
    made = make_rule("x", **{"cron": None, "every": None, "at": None, "tz": "UTC", **rule})
    assert next(made.back_from(T0)) == T0
    assert next(made.back_from(T0 - timedelta(microseconds=1)), None) != T0
    assert made.after(T0) != T0
    for missed in ("latest", "all", "skip"):
        schedule = Schedule("x", "clerk", "Go.", made, missed, overlap=True)
        state = _follow(schedule, _Followed(until=T0 - timedelta(seconds=1)), T0, {})
        assert [one.at for one in state.submitting] == [T0]


def test_a_new_rule_holds_from_now_on() -> None:
    daily, hourly = (
        Schedule("x", "clerk", "Go.", make_rule("x", cron, None, None, "UTC"), "all", overlap=True)
        for cron in ("0 0 * * *", "*/10 * * * *")
    )
    state, now = _Followed(until=T0), T0
    for _ in range(60):
        now += timedelta(seconds=61)
        state = _follow(daily, state, now, {})
    later = now + timedelta(minutes=10)
    assert len(_follow(hourly, state, later, {}).submitting) == 1


# -- any order of looks, deaths and pauses


@settings(max_examples=100)
@given(
    missed=st.sampled_from(["latest", "all", "skip"]),
    steps=st.lists(
        st.tuples(st.integers(1, 4_000), st.sampled_from(["whole", "dies", "fails"])), max_size=30
    ),
)
def test_each_moment_gets_a_run_or_is_told_as_missed(
    missed: Missed, steps: list[tuple[int, str]]
) -> None:
    rule = make_rule("x", None, timedelta(minutes=5), None, "UTC")
    schedule = Schedule("x", "clerk", "Go.", rule, missed, overlap=True)
    state: _Followed | None = None
    now, made = T0, list[Scheduled]()
    for seconds, how in [(1, "whole"), *steps, (1, "whole"), (1, "whole")]:
        now += timedelta(seconds=seconds)
        state = _follow(schedule, state, now, {})
        if state.submitting and how != "dies":
            failed = state.submitting if how == "fails" else ()
            made += [one for one in state.submitting if one not in failed]
            state = _submitted(state, failed)
    assert state is not None
    if state.submitting:
        made += state.submitting
        state = _submitted(state, ())
    moments = [one.at for one in made]
    assert moments == sorted(set(moments))
    expected = between(T0 + timedelta(seconds=1), state.until, every=timedelta(minutes=5))
    told = sum(one.missed for one in made) + state.missed
    assert len(made) + told == len(expected)
    assert set(moments) <= set(expected)


def test_counts_are_limited() -> None:
    rule = make_rule("x", None, timedelta(seconds=1), None, "UTC")
    for missed, runs in (("latest", 1), ("all", ALL_AT_MOST)):
        schedule = Schedule("x", "clerk", "Go.", rule, missed, overlap=True)  # type: ignore[arg-type]
        state = _follow(schedule, _Followed(until=T0), T0 + timedelta(days=365), {})
        assert len(state.submitting) == runs
        assert state.missed == MISSED_AT_MOST - runs


# -- arguments


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "has none of them: give exactly one of cron=, every= and at="),
        ({"cron": "* * * * *", "every": HOUR}, "has cron= and every="),
        ({"cron": "0 25 * * *"}, "no cron expression (Bad hour)"),
        ({"cron": "* * * * *", "tz": "Mars/Base"}, "tz='Mars/Base' is no time zone"),
        ({"every": timedelta(0)}, "is too short: give a second or more"),
        ({"every": 5}, "every must be a timedelta"),
        ({"at": datetime(2026, 1, 1)}, "at has no time zone"),  # noqa: DTZ001
        ({"at": "noon"}, "at must be a moment"),
        ({"every": HOUR, "missed": "none"}, "missed must be 'latest', 'all' or 'skip'"),
        ({"every": HOUR, "clock": 1}, "clock cannot be submitted"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options: Any, words: str) -> None:
    app = make_app("memory:")
    with pytest.raises(Misuse) as caught:
        app.schedule("tick", "clerk", "Tick.", **options)
    assert words in str(caught.value)
    assert app.schedules == {}


def test_names_are_checked() -> None:
    app = make_app("memory:")
    with pytest.raises(Misuse, match="cannot name a schedule"):
        app.schedule("a b", "clerk", "Tick.", every=HOUR)
    with pytest.raises(Misuse, match="no such agent 'clark'"):
        app.schedule("tick", "clark", "Tick.", every=HOUR)
    app.schedule("tick", "clerk", "Tick.", every=HOUR)
    with pytest.raises(Misuse, match="has a schedule 'tick' already"):
        app.schedule("tick", "clerk", "Tock.", every=HOUR)
