"""Schedules: runs that the workers of an App submit by the clock.

The journal has one text with the state of all schedules: how far the clock was followed, and which
runs are being submitted. A worker first writes there what it is going to submit, then submits it
under ids made of the schedule's name and the moment, and then clears that list. If it dies, another
worker finishes the list, and no moment gets two runs.

The state does not name the rule. So after a change of the rule, the new one holds from the moment
up to which the clock was followed, even while workers with the old code are still running.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from upshot.contract.base.checks import Allowed, check_argument
from upshot.contract.base.structs import Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.errors import JournalError, Misuse, need_of_extra
from upshot.fleet.submission import SubmitOptions, check_at, check_data
from upshot.journal.shared import SharedJournal, SharedValues, needs_shared
from upshot.runs.callbacks import call, raised
from upshot.runs.plan import to_request

if TYPE_CHECKING:
    from upshot.contract.protocols import Journal
    from upshot.fleet.app import App

logger: logging.Logger = logging.getLogger("upshot.schedules")

MISSED_AT_MOST = 1_000
"""How many missed moments are counted; more are counted as this many."""

ALL_AT_MOST = 100
"""How many missed moments ``missed="all"`` makes runs for, the latest ones."""

_ROW = "schedules"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
# A moment is late after this time; missed="skip" makes no run for it.
_LATE_S = 60.0
# The state is written this often, so that a new rule is not applied to the time before it.
_FOLLOW_S = 60.0
_SHORTEST_WAIT_S = 0.05
_AGAIN_S = 1.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Scheduled(Value, frozen=True, kw_only=True):
    """A moment of a schedule for which a run is submitted.

    Attributes:
        name: The schedule.
        at: The moment, in UTC.
        missed: How many moments since the previous run got no run, at most 1,000.
        missed_since: The first of them.
    """

    name: str
    at: Moment
    missed: int = 0
    missed_since: Moment | None = None

    @property
    def run_id(self) -> str:
        """The id of its run."""
        return f"{self.name}-{self.at:%Y%m%dT%H%M%SZ}"


class ScheduleState(Value, frozen=True, kw_only=True):
    """What a journal knows of a schedule.

    Attributes:
        name: The schedule.
        agent_id: Its agent.
        rule: When it runs, in words, such as "cron 0 9 * * * in Europe/Berlin".
        next: The next moment; None if there is none, or no worker has started yet.
        last: The moment of its latest run, None if there was none.
        missed: How many moments got no run since then, at most 1,000.
        missed_since: The first of them.
    """

    name: str
    agent_id: str
    rule: str
    next: Moment | None = None
    last: Scheduled | None = None
    missed: int = 0
    missed_since: Moment | None = None


class _Followed(Value, frozen=True, kw_only=True):
    """The state of one schedule in the journal.

    Attributes:
        until: Every moment up to this one was handled.
        submitting: The moments for which runs are being submitted.
        last: The latest moment that got a run.
        missed, missed_since: The moments after that without a run.
    """

    until: Moment
    submitting: tuple[Scheduled, ...] = ()
    last: Scheduled | None = None
    missed: int = 0
    missed_since: Moment | None = None


Missed: TypeAlias = Literal["latest", "all", "skip"]
RequestSource: TypeAlias = (
    "Request | Message | str | Callable[[Scheduled], Request | Message | str]"
)


class Rule(Protocol):
    """The moments of a schedule."""

    def after(self, moment: datetime) -> datetime | None:
        """The first moment after *moment*, None if there is none."""
        ...

    def back_from(self, moment: datetime) -> Iterator[datetime]:
        """The moments up to and including *moment*, the latest first."""
        ...


@dataclass(frozen=True, slots=True)
class _Every:
    """Moments at equal distances, counted from 1970 on, so that all processes agree."""

    step: timedelta

    def __str__(self) -> str:
        return f"every {self.step}"

    def after(self, moment: datetime) -> datetime:
        return self._latest(moment) + self.step

    def back_from(self, moment: datetime) -> Iterator[datetime]:
        found = self._latest(moment)
        while True:
            yield found
            found -= self.step

    def _latest(self, moment: datetime) -> datetime:
        return _EPOCH + (moment - _EPOCH) // self.step * self.step


@dataclass(frozen=True, slots=True)
class _Cron:
    """Moments of a cron expression; a clock that is put forward or back is handled as cron does."""

    text: str
    zone: tzinfo

    def __str__(self) -> str:
        return f"cron {self.text} in {self.zone}"

    def after(self, moment: datetime) -> datetime | None:
        return next(self._walk(moment, back=False), None)

    def back_from(self, moment: datetime) -> Iterator[datetime]:
        # Excludes the moment itself, and ignores fractions of a second.
        return self._walk(moment.replace(microsecond=0) + timedelta(seconds=1), back=True)

    def _walk(self, start: datetime, *, back: bool) -> Iterator[datetime]:
        from cronsim import CronSim

        for found in CronSim(self.text, start.astimezone(self.zone), reverse=back):
            yield found.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class _At:
    """Given moments, in order."""

    moments: tuple[datetime, ...]

    def __str__(self) -> str:
        return "at " + ", ".join(f"{one:%Y-%m-%d %H:%M:%S}" for one in self.moments)

    def after(self, moment: datetime) -> datetime | None:
        return next((one for one in self.moments if one > moment), None)

    def back_from(self, moment: datetime) -> Iterator[datetime]:
        return (one for one in reversed(self.moments) if one <= moment)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of an App; see ``App.schedule``."""

    name: str
    agent_id: str
    request: RequestSource
    rule: Rule
    missed: Missed
    overlap: bool
    options: SubmitOptions = field(default_factory=SubmitOptions)

    def moments(self, after: datetime, until: datetime) -> list[datetime]:
        """Return the moments after *after* up to *until*, the latest first, at most 1,000."""
        found = list[datetime]()
        for one in islice(self.rule.back_from(until), MISSED_AT_MOST):
            if one <= after:
                break
            found.append(one)
        return found


_TEXT = Allowed("a string", (str,))
_SPAN = Allowed("a timedelta, such as timedelta(hours=1)", (timedelta,))
_MISSED = Allowed("'latest', 'all' or 'skip'", fits=("latest", "all", "skip").__contains__)
_MOMENTS = Allowed(
    "a moment, such as datetime.now(UTC), or a list of them", (datetime, list, tuple)
)


def make_schedule(
    name: str,
    agent_id: str,
    request: RequestSource,
    rule: Rule,
    missed: Missed,
    *,
    overlap: bool,
    options: SubmitOptions,
) -> Schedule:
    """Return a checked schedule; see ``App.schedule``."""
    check_argument("missed", missed, _MISSED)
    if not callable(request):
        to_request(request)
    check_data(options)
    return Schedule(name, agent_id, request, rule, missed, overlap, options)


def make_rule(
    name: str,
    cron: str | None,
    every: timedelta | None,
    at: datetime | Sequence[datetime] | None,
    tz: str,
) -> Rule:
    """Return the checked rule of a schedule; see ``App.schedule``."""
    check_argument("name of a schedule", name, _TEXT)
    if not _NAME.fullmatch(name):
        raise Misuse(
            f"{name!r:.80} cannot name a schedule: give up to 60 letters, digits, '.', '_' and "
            "'-' that start with a letter or a digit"
        )
    given = {"cron": cron, "every": every, "at": at}
    names = [f"{key}=" for key, value in given.items() if value is not None]
    if len(names) != 1:
        was = " and ".join(names) or "none of them"
        raise Misuse(f"schedule {name} has {was}: give exactly one of cron=, every= and at=")
    if cron is not None:
        return _cron(cron, tz)
    return _every(every) if every is not None else _at(at)


def _cron(text: str, tz: str) -> _Cron:
    check_argument("cron", text, _TEXT)
    check_argument("tz", tz, _TEXT)
    try:
        zone = ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Misuse(
            f"tz={tz!r:.60} is no time zone: give a name such as 'Europe/Berlin'"
        ) from None
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError as error:
        raise Misuse(need_of_extra("cron=", "cron")) from error
    try:
        CronSim(text, _EPOCH)
    except CronSimError as error:
        raise Misuse(
            f"cron={text!r:.80} is no cron expression ({error}): give five fields, such as "
            "'0 9 * * MON-FRI'"
        ) from None
    return _Cron(text, zone)


def _every(step: timedelta) -> _Every:
    check_argument("every", step, _SPAN)
    if step < timedelta(seconds=1):
        raise Misuse(f"every={step!r} is too short: give a second or more")
    return _Every(step)


def _at(at: object) -> _At:
    check_argument("at", at, _MOMENTS)
    moments = (at,) if isinstance(at, datetime) else tuple(cast("Sequence[datetime]", at))
    for one in moments:
        check_at(one)
    # Whole seconds, as in the ids of runs.
    return _At(tuple(sorted({one.astimezone(UTC).replace(microsecond=0) for one in moments})))


class Scheduler:
    """Submits the runs of an App's schedules.

    Args:
        app: The App.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def work(self) -> None:
        """Submit runs as they become due, until it is cancelled. Without schedules it ends."""
        while self._app.schedules:
            try:
                wait_s = await self.look()
            except JournalError as error:
                logger.warning("%s", error)
                wait_s = _AGAIN_S
            # Boundary: a fault in one look must not end all schedules without a word.
            except Exception:
                logger.exception("the schedules could not be followed; trying again")
                wait_s = _FOLLOW_S
            await asyncio.sleep(wait_s)

    async def look(self) -> float:
        """Submit what is due now; return how many seconds to wait until the next look."""
        journal = needs_shared(await self._app.open())
        is_open = await self._open_runs(journal)
        schedules = [*self._app.schedules.values()]

        def follow(values: SharedValues) -> tuple[dict[str, _Followed], datetime]:
            now = _EPOCH + timedelta(microseconds=values.now_us)
            before = _read(values.read(_ROW))
            after = {**before}
            for one in schedules:
                after[one.name] = _follow(one, before.get(one.name), now, is_open)
            if after != before:
                values.write(_ROW, encode(after).decode())
            return after, now

        states, now = await journal.change_values(follow)
        for one in schedules:
            if waiting := states[one.name].submitting:
                await self.submit_all(one, waiting, journal)
        nexts = [found for one in schedules if (found := one.rule.after(now)) is not None]
        wait_s = (min(nexts) - now).total_seconds() if nexts else _FOLLOW_S
        return min(max(wait_s, _SHORTEST_WAIT_S), _FOLLOW_S)

    async def states(self) -> tuple[ScheduleState, ...]:
        """Return the state of each schedule of the App."""
        known = _read(await needs_shared(await self._app.open()).value(_ROW))
        found = list[ScheduleState]()
        for one in self._app.schedules.values():
            state = known.get(one.name)
            about = ScheduleState(name=one.name, agent_id=one.agent_id, rule=str(one.rule))
            if state is not None:
                about = replace(
                    about,
                    next=one.rule.after(state.until),
                    last=state.last,
                    missed=state.missed,
                    missed_since=state.missed_since,
                )
            found.append(about)
        return tuple(found)

    async def _open_runs(self, journal: SharedJournal) -> dict[str, bool]:
        """Return for the latest run of each schedule without overlap whether it is open."""
        known = _read(await journal.value(_ROW))
        found = dict[str, bool]()
        for one in self._app.schedules.values():
            state = known.get(one.name)
            if not one.overlap and state is not None and state.last is not None:
                run_id = state.last.run_id
                summaries = await cast("Journal", journal).runs(run_id=run_id, limit=1)
                found[run_id] = any(not summary.ended for summary in summaries)
        return found

    async def submit_all(
        self, schedule: Schedule, waiting: tuple[Scheduled, ...], journal: SharedJournal
    ) -> None:
        """Submit the runs of *waiting*, and note in the journal that this is done."""
        failed = list[Scheduled]()
        for one in waiting:
            try:
                await self._submit(schedule, one, journal)
            except JournalError:
                raise
            # The request, or the function that makes it, is faulty: another try would fail too.
            except Exception as error:
                failed.append(one)
                why = raised("request", error)
                logger.exception("schedule %s: no run at %s: %s", one.name, one.at, why)

        def clear(values: SharedValues) -> None:
            states = _read(values.read(_ROW))
            # Another worker may have finished the list.
            if states[schedule.name].submitting == waiting:
                states[schedule.name] = _submitted(states[schedule.name], failed)
                values.write(_ROW, encode(states).decode())

        await journal.change_values(clear)

    async def _submit(self, schedule: Schedule, one: Scheduled, journal: SharedJournal) -> None:
        given = schedule.request
        asked = to_request(await call(given, one) if callable(given) else given)
        attributes = {**schedule.options.get("attributes", {}), "schedule": _about(one)}
        options = cast("SubmitOptions", {**schedule.options, "attributes": attributes})
        try:
            await self._app.submit(schedule.agent_id, replace(asked, run_id=one.run_id), **options)
        except Misuse:
            # Another worker has submitted it meanwhile.
            if await journal.submission(one.run_id) is None:
                raise


def _about(one: Scheduled) -> dict[str, Any]:
    return cast("dict[str, Any]", decode(encode(one), decoder_of(dict[str, Any])))


def _read(text: str) -> dict[str, _Followed]:
    return decode(text.encode(), decoder_of(dict[str, _Followed])) if text else {}


def _follow(
    schedule: Schedule, state: _Followed | None, now: datetime, is_open: Mapping[str, bool]
) -> _Followed:
    """Return the state after *now*, with the runs to submit; the same object if none is needed."""
    if state is None:
        return _Followed(until=now)
    if state.submitting or now <= state.until:
        return state
    due = schedule.moments(state.until, now)
    if not due:
        is_old = now - state.until >= timedelta(seconds=_FOLLOW_S)
        return replace(state, until=now) if is_old else state
    previous = "" if schedule.overlap or state.last is None else state.last.run_id
    if previous and previous not in is_open:
        # Another worker has just submitted it.
        return state
    is_in_the_way = bool(previous) and is_open[previous]
    chosen = [] if is_in_the_way else _choose(schedule.missed, due, now)
    left = sorted(set(due) - set(chosen))
    missed = min(state.missed + len(left), MISSED_AT_MOST)
    since = state.missed_since or (left[0] if left else None)
    if left:
        why = f"run {previous} has not ended" if is_in_the_way else "no worker was there in time"
        logger.warning("schedule %s: %d moments without a run: %s", schedule.name, len(left), why)
    if not chosen:
        return replace(state, until=now, missed=missed, missed_since=since)
    first, *others = sorted(chosen)
    waiting = (
        Scheduled(name=schedule.name, at=first, missed=missed, missed_since=since),
        *(Scheduled(name=schedule.name, at=one) for one in others),
    )
    return replace(state, until=now, submitting=waiting, missed=missed, missed_since=since)


def _submitted(state: _Followed, failed: Sequence[Scheduled]) -> _Followed:
    """Return the state once its runs were submitted, but for those that *failed*."""
    made = [one for one in state.submitting if one not in failed]
    if made:
        state = replace(state, last=made[-1], missed=0, missed_since=None)
    since = state.missed_since or (failed[0].at if failed else None)
    missed = min(state.missed + len(failed), MISSED_AT_MOST)
    return replace(state, submitting=(), missed=missed, missed_since=since)


def _choose(missed: Missed, due: list[datetime], now: datetime) -> list[datetime]:
    """Return the moments, of those that are due, that get a run."""
    if missed == "all":
        return due[:ALL_AT_MOST]
    is_late = (now - due[0]).total_seconds() > _LATE_S
    return [] if is_late and missed == "skip" else due[:1]
