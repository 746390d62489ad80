"""How many runs ended how, by the hour and the day (UTC) in which they started.

Each run that has ended, or waits, is counted once, under what its row in the list of runs says. A
run that resumes is no longer counted until its session has ended, a removed run never again. So the
counts always equal a sum over the list of runs: ``add_run`` says what one row adds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from upshot.contract.base.enums import EFFECTS, Effect, Status
from upshot.contract.base.structs import Value
from upshot.contract.call_counts import BUCKETS, CallCount, bucket_of
from upshot.contract.protocols import RunSummary
from upshot.errors import Misuse
from upshot.journal.event_codec import to_micros
from upshot.journal.run_list import money_of

HOUR = timedelta(hours=1)
SPANS: tuple[int, ...] = (1, 24)
"""The lengths in hours of the spans of time whose runs are counted together."""
_HOUR_US = 3_600_000_000
_ENDINGS = frozenset(one.value for one in Status)
_APPLIED, _UNKNOWN = EFFECTS.index(Effect.APPLIED), EFFECTS.index(Effect.UNKNOWN)
_encoder = msgspec.json.Encoder()


class _StoredCalls(msgspec.Struct, gc=False):
    """A ``CallCount`` in a row, read in large numbers."""

    type: str
    name: str
    calls: int = 0
    failed: int = 0
    took: list[int] = []


_calls = msgspec.json.Decoder(list[_StoredCalls])


class CountedRun(NamedTuple):
    """The columns of a run that its counts depend on.

    Attributes:
        started_at: In microseconds since 1970.
        agent_id: The agent.
        tenant: The tenant it belongs to, "" for none.
        status: The status.
        error_code: Why it failed, "" if it did not.
        currency: The currency of its cost, "" without one.
        cost: What it cost, 0 if that is unknown.
        effect: The index of its worst effect in ``EFFECTS``.
        took: How many seconds its sessions took.
        is_inside: Whether its parent's cost includes its own.
        calls: The calls of its models and tools, as JSON; "" for none.
    """

    started_at: int
    agent_id: str
    tenant: str
    status: str
    error_code: str = ""
    currency: str = ""
    cost: float = 0.0
    effect: int = 0
    took: float = 0.0
    is_inside: bool = False
    calls: str = ""

    @property
    def is_counted(self) -> bool:
        """Whether its last session has ended, and it has a start."""
        return self.status in _ENDINGS and self.started_at >= 0


class CountKey(NamedTuple):
    """What is counted together.

    Attributes:
        span: The length of the span of time in which the runs started, in hours.
        tenant: Whose runs; "" for all.
        start: The start of the span, in hours since 1970.
        kind: "run", or "model" or "tool" for calls.
        agent_id: The agent of the runs, "" for calls.
        name: The status of the runs, or the model or tool.
        mark: Why runs failed: their error code, "" if they did not.
        currency: The currency of their cost, "" without one.
    """

    span: int
    tenant: str
    start: int
    kind: str
    agent_id: str
    name: str
    mark: str = ""
    currency: str = ""


class Tally:
    """A number of runs or calls, and what is known of them.

    Attributes:
        count: How many.
        failed: How many of them failed, for calls.
        applied: How many runs have the worst effect "applied".
        unknown: How many have "unknown".
        amount: What they cost together.
        took: How many of them are in each bucket of ``TOOK_BOUNDS_S``.
    """

    __slots__ = ("amount", "applied", "count", "failed", "took", "unknown")

    def __init__(self) -> None:
        self.count: int = 0
        self.failed: int = 0
        self.applied: int = 0
        self.unknown: int = 0
        self.amount: float = 0.0
        self.took: list[int] = [0] * BUCKETS

    def __bool__(self) -> bool:
        return any(self.columns)

    @property
    def columns(self) -> tuple[float, ...]:
        """All numbers, as a row has them."""
        heads = (self.count, self.failed, self.applied, self.unknown, self.amount)
        return (*heads, *self.took)

    def add(self, other: Tally) -> None:
        """Add the numbers of *other*."""
        self.count += other.count
        self.failed += other.failed
        self.applied += other.applied
        self.unknown += other.unknown
        self.amount += other.amount
        self.add_took(other.took)

    def add_took(self, took: Sequence[int], sign: int = 1) -> None:
        """Add numbers of durations by bucket; those of unknown buckets are left out."""
        own = self.took
        for bucket, number in enumerate(took[:BUCKETS]):
            if number:
                own[bucket] += sign * number


class Tallies(defaultdict[CountKey, Tally]):
    """Tallies by key, starting at 0."""

    def __init__(self) -> None:
        super().__init__(Tally)

    def add_all(self, other: Tallies) -> None:
        """Add all tallies of *other*."""
        for key, tally in other.items():
            self[key].add(tally)


def add_run(
    tallies: Tallies, run: CountedRun, sign: int = 1, place: tuple[int, str, int] | None = None
) -> None:
    """Count a run, or with the sign -1 take it out again.

    A run whose session is at work counts for nothing.

    Args:
        tallies: What to add it to.
        run: The run.
        sign: 1 or -1.
        place: Its span, tenant and start in the keys; by default the hour of its start.
    """
    if not run.is_counted:
        return
    place = place or (1, run.tenant, run.started_at // _HOUR_US)
    amount = 0.0 if run.is_inside else run.cost
    currency = run.currency if amount else ""
    tally = tallies[CountKey(*place, "run", run.agent_id, run.status, run.error_code, currency)]
    tally.count += sign
    tally.amount += sign * amount
    tally.applied += sign * (run.effect == _APPLIED)
    tally.unknown += sign * (run.effect == _UNKNOWN)
    tally.took[bucket_of(run.took)] += sign
    for call in _decode_calls(run.calls):
        tally = tallies[CountKey(*place, call.type, "", call.name)]
        tally.add_took(call.took, sign)
        tally.count += sign * call.calls
        tally.failed += sign * call.failed


def in_all_spans(tallies: Tallies) -> Tallies:
    """Return the tallies of runs in all spans that they are in, for their tenant and for all."""
    found = Tallies()
    for key, tally in tallies.items():
        for span in SPANS if tally else ():
            start = key.start - key.start % span
            for tenant in {"", key.tenant}:
                found[key._replace(span=span, tenant=tenant, start=start)].add(tally)
    return found


def counted_run(run: RunSummary, calls: Sequence[CallCount], *, is_inside: bool) -> CountedRun:
    """Return the columns of a listed run that its counts depend on."""
    return CountedRun(
        started_at=to_micros(run.started_at) or 0,
        agent_id=run.agent_id,
        tenant=run.tenant,
        status=run.status,
        error_code=run.error_code,
        currency=run.cost.currency if run.cost and run.cost.total is not None else "",
        cost=money_of(run.cost),
        effect=EFFECTS.index(run.effect),
        took=run.took_s,
        is_inside=is_inside,
        calls=encode_calls(calls),
    )


def encode_calls(calls: Sequence[CallCount]) -> str:
    """Encode the calls of a run as its row stores them."""
    return _encoder.encode(calls).decode() if calls else ""


def _decode_calls(text: str) -> list[_StoredCalls]:
    """Decode the calls of a run; nothing if they cannot be read."""
    try:
        return _calls.decode(text) if text else []
    except msgspec.MsgspecError:
        return []


class RunFigure(Value, frozen=True, kw_only=True):
    """A number of runs or calls in a period, or in one part of it.

    Attributes:
        part: The part of the period, from 0; in a figure of a whole period, 0 for the period and -1
            for the one before.
        kind: "run", or "model" or "tool" for calls.
        agent_id: The agent of runs; "" in a figure of all agents, and for calls.
        name: The status of the runs, or the model or tool.
        mark: Why runs failed: their error code; "" if they did not, and in a part.
        currency: The currency of the cost of runs, "" without one.
        count: How many runs or calls.
        failed: How many of the calls failed.
        applied: How many runs have the worst effect "applied".
        unknown: How many have "unknown".
        amount: What the runs cost; the cost of child runs is included in their parent's.
        took: How many are in each bucket of ``TOOK_BOUNDS_S``; empty in a part.
    """

    part: int
    kind: str
    agent_id: str = ""
    name: str
    mark: str = ""
    currency: str = ""
    count: int = 0
    failed: int = 0
    applied: int = 0
    unknown: int = 0
    amount: float = 0.0
    took: tuple[int, ...] = ()


class RunFigures(Value, frozen=True, kw_only=True):
    """How the runs ended that started in a period, and in the one before of the same length.

    Attributes:
        parts: The runs of each part of the period, of all agents and whatever their errors.
        totals: The runs by agent and error, and all calls, for the period and the one before.
    """

    parts: tuple[RunFigure, ...] = ()
    totals: tuple[RunFigure, ...] = ()


AGES: tuple[timedelta, ...] = (
    timedelta(0),
    timedelta(minutes=5),
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(days=7),
)
"""The least ages by which items of the inbox are counted."""


class OpenWork(Value, frozen=True, kw_only=True):
    """What has not ended yet.

    Attributes:
        queued: How many runs were submitted and have not started.
        running: How many runs have started, and have neither ended nor parked.
        waiting: How many items of the inbox are at least as old as each of ``AGES``, so the first
            number counts all.
        begun: How many effects are under way.
        unknown: How many effects may have happened.
    """

    queued: int = 0
    running: int = 0
    waiting: tuple[int, ...] = (0,) * len(AGES)
    begun: int = 0
    unknown: int = 0


def count_ages(ages: Sequence[timedelta]) -> tuple[int, ...]:
    """Return how many of *ages* are at least as old as each of ``AGES``."""
    return tuple(sum(age >= least for age in ages) for least in AGES)


class FigureQuery(NamedTuple):
    """Which figures are wanted.

    Attributes:
        since: The start of the period, timezone-aware.
        step: The length of each part.
        parts: How many parts it has.
        owner: Only runs of this user (of *tenant*, or of none); "" for all.
        tenant: Only runs of this tenant; "" for all.
    """

    since: datetime
    step: timedelta
    parts: int
    owner: str = ""
    tenant: str = ""

    @property
    def span(self) -> int:
        """The spans of time whose counts have the figures; 0 if they are summed from the runs."""
        since = self.since - datetime.fromtimestamp(0, self.since.tzinfo)
        for span in reversed(SPANS):
            if not (self.owner or since % (span * HOUR) or self.step % (span * HOUR)):
                return span
        return 0

    @property
    def until(self) -> datetime:
        """The end of the period."""
        return self.since + self.step * self.parts

    @property
    def before(self) -> datetime:
        """The start of the period before."""
        return self.since - self.step * self.parts

    def check(self) -> None:
        """Raise Misuse for a moment without a time zone, or an empty period."""
        if self.since.utcoffset() is None:
            raise Misuse("since has no time zone: give an aware moment, such as datetime.now(UTC)")
        if self.step < timedelta(minutes=1) or not 1 <= self.parts <= 1000:
            raise Misuse("a period has 1 to 1000 parts, each of a minute or more")


def figures_of(runs: Iterable[CountedRun], wanted: FigureQuery) -> RunFigures:
    """Sum the figures of *runs*, which started in the period or in the one before."""
    since_s, step_s = wanted.since.timestamp(), wanted.step.total_seconds()
    by_part: defaultdict[int, Tallies] = defaultdict(Tallies)
    for run in runs:
        part = int((run.started_at / 1e6 - since_s) // step_s)
        # Of all tenants and at one time, so that they are added up.
        add_run(by_part[max(part, -1)], run, place=(1, "", 0))
    parts, totals = Tallies(), Tallies()
    for part, tallies in by_part.items():
        for key, tally in tallies.items():
            if part >= 0 and key.kind == "run":
                parts[key._replace(start=part, agent_id="", mark="")].add(tally)
            totals[key._replace(start=min(part, 0))].add(tally)
    return RunFigures(
        parts=tuple(figure((*key[2:], *tally.columns[:5])) for key, tally in _sorted(parts)),
        totals=tuple(figure((*key[2:], *tally.columns)) for key, tally in _sorted(totals)),
    )


def _sorted(tallies: Tallies) -> list[tuple[CountKey, Tally]]:
    return sorted(tallies.items(), key=itemgetter(0))


def figure(row: Sequence[Any]) -> RunFigure:
    """Make a figure from a row: part, kind, agent, name, mark, currency, and the numbers."""
    part, kind, agent_id, name, mark, currency, count, failed, *rest = row
    applied, unknown, amount, *took = rest
    return RunFigure(
        part=int(part),
        kind=kind,
        agent_id=agent_id,
        name=name,
        mark=mark,
        currency=currency,
        count=int(count),
        failed=int(failed),
        applied=int(applied),
        unknown=int(unknown),
        amount=float(amount),
        took=tuple(map(int, took)) if any(took) else (),
    )
