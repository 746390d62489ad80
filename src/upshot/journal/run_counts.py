"""How many runs ended how, by the five minutes, hour and day (UTC) in which they started.

Each run that has ended, or waits, is counted once, under what its row in the list of runs says. A
run that resumes is no longer counted until its session has ended, a removed run never again. So the
counts always equal a sum over the list of runs: ``add_run`` says what one row adds. The counts of
five minutes are removed after two days.

Beside the counts there is one example of each: the slowest call of a tool, the last run that a
model's rate limit refused, the windows of that limit. If the run of an example was removed, there
is none, although another run may have had the next slowest call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import EFFECTS, Effect, Status
from upshot.contract.base.structs import Moment, Value
from upshot.contract.call_counts import BUCKETS, CallCount, bucket_of
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import RateLimitWindow
from upshot.errors import Misuse
from upshot.journal.event_codec import from_micros, to_micros
from upshot.journal.run_list import money_of

HOUR = timedelta(hours=1)
FINEST: timedelta = timedelta(minutes=5)
"""The shortest span of time whose runs are counted together."""
SPANS: tuple[int, ...] = (1, 12, 288)
"""The lengths of all such spans, in units of ``FINEST``."""
KEPT: timedelta = timedelta(days=2)
"""For how long after its start the counts of the shortest span are kept."""
_UNIT_US = FINEST // timedelta(microseconds=1)
_ENDINGS = frozenset(one.value for one in Status)
_APPLIED, _UNKNOWN = EFFECTS.index(Effect.APPLIED), EFFECTS.index(Effect.UNKNOWN)
_encoder = msgspec.json.Encoder()


class _StoredCalls(msgspec.Struct, gc=False):
    """A ``CallCount`` in a row, read in large numbers."""

    type: str
    name: str
    calls: int = 0
    failed: int = 0
    timed_out: int = 0
    unknown: int = 0
    denied: int = 0
    repeated: int = 0
    limited: int = 0
    took: list[int] = []
    slowest_ms: int = 0
    slowest: str = ""
    waits: list[int] = []
    windows: list[RateLimitWindow] = []
    at: Moment | None = None


_calls = msgspec.json.Decoder(list[_StoredCalls])


class CountedRun(NamedTuple):
    """The columns of a run that its counts depend on.

    Attributes:
        run_id: The run.
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

    run_id: str
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
        span: The length of the span of time in which the runs started, in units of ``FINEST``.
        tenant: Whose runs; "" for all.
        kind: "run"; "model" or "tool" for calls; "approval" for approvals of a tool's calls;
            "limit" for calls that a model's rate limit refused.
        start: The start of the span, in units of ``FINEST`` since 1970.
        agent_id: The agent of the runs, "" for calls.
        name: The status of the runs, or the model or tool.
        mark: Why runs failed: their error code, "" if they did not.
        currency: The currency of their cost, "" without one.
    """

    span: int
    tenant: str
    kind: str
    start: int
    agent_id: str
    name: str
    mark: str = ""
    currency: str = ""


NUMBERS: tuple[str, ...] = (
    *("count", "failed", "timed_out", "denied", "repeated", "applied", "unknown"),
    "amount",
)
"""The attributes of a ``Tally`` that are added up, apart from its durations."""


class Tally:
    """A number of runs or calls, and what is known of them.

    Attributes:
        count: How many.
        failed: How many of them failed, for calls.
        timed_out: How many of them timed out, for calls.
        denied: How many more were denied, for calls of a tool.
        repeated: How many more were answered from an earlier call.
        applied: How many runs have the worst effect "applied".
        unknown: How many runs or calls have "unknown".
        amount: What they cost together.
        took: How many of them are in each bucket of ``TOOK_BOUNDS_S``.
        top: The rank of the example; 0 if there is none.
        example: What has that rank, as JSON.
    """

    __slots__ = (*NUMBERS, "example", "took", "top")

    def __init__(self) -> None:
        self.count: int = 0
        self.failed: int = 0
        self.timed_out: int = 0
        self.denied: int = 0
        self.repeated: int = 0
        self.applied: int = 0
        self.unknown: int = 0
        self.amount: float = 0.0
        self.took: list[int] = [0] * BUCKETS
        self.top: int = 0
        self.example: str = ""

    def __bool__(self) -> bool:
        return any(self.columns)

    @property
    def columns(self) -> tuple[Any, ...]:
        """All values, as a row has them."""
        return (*self.numbers, *self.took, self.top, self.example)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values of ``NUMBERS``."""
        heads = (self.count, self.failed, self.timed_out, self.denied, self.repeated)
        return (*heads, self.applied, self.unknown, self.amount)

    def add(self, other: Tally) -> None:
        """Add the numbers of *other*."""
        self.count += other.count
        self.failed += other.failed
        self.timed_out += other.timed_out
        self.denied += other.denied
        self.repeated += other.repeated
        self.applied += other.applied
        self.unknown += other.unknown
        self.amount += other.amount
        self.add_took(other.took)
        if other.top:
            self.show(other.top, other.example)

    def add_took(self, took: Sequence[int], sign: int = 1) -> None:
        """Add numbers of durations by bucket; those of unknown buckets are left out."""
        own = self.took
        for bucket, number in enumerate(took[:BUCKETS]):
            if number:
                own[bucket] += sign * number

    def show(self, top: int, example: str) -> None:
        """Use *example* if its rank is the highest; of equals, the one that sorts last."""
        self.top, self.example = max((self.top, self.example), (top, example))


class Tallies(defaultdict[CountKey, Tally]):
    """Tallies by key, starting at 0.

    Attributes:
        prunes: Whether old counts of the shortest span are to be removed.
    """

    def __init__(self) -> None:
        super().__init__(Tally)
        self.prunes: bool = False

    def add_all(self, other: Tallies) -> None:
        """Add all tallies of *other*."""
        self.prunes |= other.prunes
        for key, tally in other.items():
            self[key].add(tally)


def add_run(
    tallies: Tallies, run: CountedRun, sign: int = 1, place: tuple[str, int] | None = None
) -> None:
    """Count a run, or with the sign -1 take it out again.

    A run whose session is at work counts for nothing.

    Args:
        tallies: What to add it to.
        run: The run.
        sign: 1 or -1.
        place: Its tenant and start in the keys; by default the shortest span of its start.
    """
    if not run.is_counted:
        return
    tenant, start = place or (run.tenant, run.started_at // _UNIT_US)
    amount = 0.0 if run.is_inside else run.cost
    currency = run.currency if amount else ""
    names = (run.agent_id, run.status, run.error_code, currency)
    tally = tallies[CountKey(1, tenant, "run", start, *names)]
    tally.count += sign
    tally.amount += sign * amount
    tally.applied += sign * (run.effect == _APPLIED)
    tally.unknown += sign * (run.effect == _UNKNOWN)
    tally.took[bucket_of(run.took)] += sign
    for call in _decode_calls(run.calls):
        key = CountKey(1, tenant, call.type, start, "", call.name)
        _add_calls(tallies[key], call, sign)
        if call.waits:
            waits = tallies[key._replace(kind="approval")]
            waits.count += sign * sum(call.waits)
            waits.add_took(call.waits, sign)
        if call.limited:
            tallies[key._replace(kind="limit")].count += sign * call.limited
        if sign > 0:
            _show_examples(tallies, key, call, run.run_id)


def _add_calls(tally: Tally, call: _StoredCalls, sign: int) -> None:
    tally.add_took(call.took, sign)
    tally.count += sign * call.calls
    tally.failed += sign * call.failed
    tally.timed_out += sign * call.timed_out
    tally.denied += sign * call.denied
    tally.repeated += sign * call.repeated
    tally.unknown += sign * call.unknown


def _show_examples(tallies: Tallies, key: CountKey, call: _StoredCalls, run_id: str) -> None:
    if call.slowest_ms:
        tallies[key].show(call.slowest_ms, _to_json([run_id, call.slowest]))
    elif call.windows:
        tallies[key].show(_rank_of(call), _to_json(call.windows))
    if call.limited:
        tallies[key._replace(kind="limit")].show(_rank_of(call), _to_json([run_id]))


def _rank_of(call: _StoredCalls) -> int:
    """Return when something was known, in microseconds since 1970."""
    return to_micros(call.at) or 1


def _to_json(value: object) -> str:
    return _encoder.encode(value).decode()


def in_all_spans(tallies: Tallies) -> Tallies:
    """Return the tallies of runs in all spans that they are in, for their tenant and for all."""
    found, oldest = Tallies(), oldest_start()
    for key, tally in tallies.items():
        for span in SPANS if tally else ():
            if span == 1 and key.start < oldest:
                continue
            start = key.start - key.start % span
            for tenant in {"", key.tenant}:
                found[key._replace(span=span, tenant=tenant, start=start)].add(tally)
    return found


def oldest_start() -> int:
    """Return the start of the oldest of the shortest spans that is kept, as in a key."""
    return units_to(datetime.now(UTC) - KEPT)


def units_to(moment: datetime) -> int:
    """Return the units of ``FINEST`` from 1970 to *moment*."""
    return int(moment.timestamp()) // int(FINEST.total_seconds())


def counted_run(run: RunSummary, calls: Sequence[CallCount], *, is_inside: bool) -> CountedRun:
    """Return the columns of a listed run that its counts depend on."""
    return CountedRun(
        run_id=run.run_id,
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


def to_model_part(model: str) -> str:
    """Return the part of the encoded calls of a run that says that it called a model."""
    return f'"type":"model","name":{_to_json(model)}'


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
        kind: "run"; "model" or "tool" for calls; "approval" for answered approvals of a tool's
            calls; "limit" for calls that a model's rate limit refused.
        agent_id: The agent of runs; "" in a figure of all agents, and for calls.
        name: The status of the runs, or the model or tool.
        mark: Why runs failed: their error code; "" if they did not, and in a part.
        currency: The currency of the cost of runs, "" without one.
        count: How many runs, calls or approvals.
        failed: How many of the calls failed.
        timed_out: How many of the calls timed out.
        denied: How many more calls of the tool were denied; cancelled ones are not counted.
        repeated: How many more asked for what an earlier call had done, and got its outcome.
        applied: How many runs have the worst effect "applied".
        unknown: How many runs or calls have "unknown".
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
    timed_out: int = 0
    denied: int = 0
    repeated: int = 0
    applied: int = 0
    unknown: int = 0
    amount: float = 0.0
    took: tuple[int, ...] = ()


class SlowCall(Value, frozen=True, kw_only=True):
    """The slowest call of a tool in a span of time.

    Attributes:
        tool: The tool.
        took_ms: How long it took.
        run_id: Its run.
        call_id: The call.
    """

    tool: str
    took_ms: int
    run_id: str
    call_id: str


class LimitedRun(Value, frozen=True, kw_only=True):
    """The last run in a span of time that a model's rate limit refused.

    Attributes:
        model: The model.
        at: When its session ended.
        run_id: The run.
    """

    model: str
    at: Moment
    run_id: str


class ModelLimits(Value, frozen=True, kw_only=True):
    """The rate-limit windows that a model reported last.

    Attributes:
        model: The model.
        at: When the session ended whose replies had them.
        windows: The windows.
    """

    model: str
    at: Moment
    windows: tuple[RateLimitWindow, ...]


class RunFigures(Value, frozen=True, kw_only=True):
    """Counts of the runs that started in a period, and in the same length of time before it.

    Attributes:
        parts: The runs of each part of the period, of all agents and whatever their errors.
        totals: The runs by agent and error, and all calls, for the period and the one before.
        slowest: The slowest call of each tool in each part of the period, the slowest first; where
            its run was removed, a part may lack one.
        limited: The last run that each model's rate limit refused in each part, the latest first.
        limits: The last windows of each model, by name.
    """

    parts: tuple[RunFigure, ...] = ()
    totals: tuple[RunFigure, ...] = ()
    slowest: tuple[SlowCall, ...] = ()
    limited: tuple[LimitedRun, ...] = ()
    limits: tuple[ModelLimits, ...] = ()


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
        unknown_ages: How many of those began at least as long ago as each of ``AGES``.
    """

    queued: int = 0
    running: int = 0
    waiting: tuple[int, ...] = (0,) * len(AGES)
    begun: int = 0
    unknown: int = 0
    unknown_ages: tuple[int, ...] = (0,) * len(AGES)


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
            if not (self.owner or since % (span * FINEST) or self.step % (span * FINEST)):
                # A day's reserve, because the database's clock may differ from this one.
                is_kept = span > 1 or self.before > datetime.now(UTC) - KEPT / 2
                return span if is_kept else 0
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
        add_run(by_part[max(part, -1)], run, place=("", 0))
    parts, totals, tops = Tallies(), Tallies(), list[tuple[str, str, int, str]]()
    for part, tallies in by_part.items():
        for key, tally in tallies.items():
            if part >= 0 and key.kind == "run":
                parts[key._replace(start=part, agent_id="", mark="")].add(tally)
            totals[key._replace(start=min(part, 0))].add(tally)
            if part >= 0 and tally.top:
                tops.append((key.kind, key.name, tally.top, tally.example))
    made = RunFigures(
        parts=tuple(figure((*_place(key), *tally.numbers)) for key, tally in _sorted(parts)),
        totals=tuple(
            figure((*_place(key), *tally.numbers, *tally.took)) for key, tally in _sorted(totals)
        ),
    )
    return with_examples(made, tops)


def _place(key: CountKey) -> tuple[int | str, ...]:
    """Return what precedes the numbers of a figure."""
    return (key.start, key.kind, *key[4:])


def _sorted(tallies: Tallies) -> list[tuple[CountKey, Tally]]:
    return sorted(tallies.items(), key=lambda one: _place(one[0]))


def with_examples(figures: RunFigures, tops: Iterable[tuple[str, str, int, str]]) -> RunFigures:
    """Add the examples of a period.

    Args:
        figures: The numbers.
        tops: The kind, name, rank and example of each tally that has one.
    """
    slowest, limited, limits = list[SlowCall](), list[LimitedRun](), dict[str, ModelLimits]()
    for kind, name, top, example in sorted(tops, key=itemgetter(2, 3), reverse=True):
        if kind == "tool":
            run_id, call_id = _pair.decode(example)
            slowest.append(SlowCall(tool=name, took_ms=top, run_id=run_id, call_id=call_id))
        elif (at := from_micros(top)) is None:
            continue
        elif kind == "limit":
            (run_id,) = _single.decode(example)
            limited.append(LimitedRun(model=name, at=at, run_id=run_id))
        else:
            known = ModelLimits(model=name, at=at, windows=_windows.decode(example))
            limits.setdefault(name, known)
    return replace(
        figures,
        slowest=tuple(slowest),
        limited=tuple(limited),
        limits=tuple(limits[name] for name in sorted(limits)),
    )


def run_of_example(kind: str, example: str) -> str:
    """Return the run that an example names, "" if it names none."""
    if kind == "tool":
        return _pair.decode(example)[0]
    return _single.decode(example)[0] if kind == "limit" else ""


_pair = msgspec.json.Decoder(tuple[str, str])
_single = msgspec.json.Decoder(tuple[str])
_windows = msgspec.json.Decoder(tuple[RateLimitWindow, ...])


def figure(row: Sequence[Any]) -> RunFigure:
    """Make a figure from a row: part, kind, agent, name, mark, currency, and the numbers."""
    part, kind, agent_id, name, mark, currency, *numbers = row
    *counts, amount = numbers[: len(NUMBERS)]
    return RunFigure(
        part=int(part),
        kind=kind,
        agent_id=agent_id,
        name=name,
        mark=mark,
        currency=currency,
        **dict(zip(NUMBERS, map(int, counts), strict=False)),
        amount=float(amount),
        took=tuple(map(int, took)) if any(took := numbers[len(NUMBERS) :]) else (),
    )
