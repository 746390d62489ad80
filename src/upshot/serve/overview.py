"""The overview, the tools of an hour, a day or a week, and the workers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar

from upshot.contract.base.enums import Status
from upshot.contract.call_counts import quantile_s
from upshot.contract.usage import to_money
from upshot.contract.user import User
from upshot.fleet.worker_list import WorkerState, drain_worker, read_workers
from upshot.journal.run_counts import AGES, FINEST, HOUR, FigureQuery, RunFigure, RunFigures
from upshot.journal.shared import needs_shared
from upshot.serve import replies
from upshot.serve.permissions import Refused, list_filters, may_drain, may_use_lab
from upshot.serve.site import Site

__all__ = ["Period", "drain", "list_workers", "read_overview", "read_tools"]

K = TypeVar("K")
Period: TypeAlias = Literal["hour", "day", "week"]
_DAY = timedelta(days=1)
_FAILURES = (Status.FAILED, Status.ABORTED)
_MOST = 12
_MOST_SLOW = 5


async def read_overview(site: Site, user: User, period: Period) -> replies.Overview:
    """Return the overview of the runs that a user may see."""
    journal = needs_shared(await site.app.open())
    now, whose = datetime.now(UTC), list_filters(user)
    wanted = _query_of(period, now)._replace(**whose)
    figures = await journal.figures(wanted)
    work = await journal.open_work(**whose)
    # Processes work on the runs of all users.
    workers = () if whose else await read_workers(await site.app.open())
    is_of = _by_period(figures)
    return replies.Overview(
        period=period,
        since=wanted.since,
        until=wanted.until,
        step_s=int(wanted.step.total_seconds()),
        now=_summary_of(is_of[False]),
        before=_summary_of(is_of[True]),
        parts=_parts_of(wanted, figures),
        agents=_agents_of(is_of[False], is_of[True]),
        errors=_errors_of(is_of[False], is_of[True]),
        models=_calls_of("model", is_of[False], is_of[True]),
        tools=_calls_of("tool", is_of[False], is_of[True]),
        work=work,
        ages_s=tuple(int(age.total_seconds()) for age in AGES),
        workers=tuple([one for one in workers if one.state != "gone"][:_MOST]),
        limits=() if whose else _limits_of(figures),
    )


async def read_tools(site: Site, user: User, period: Period) -> replies.ToolList:
    """Return what the tools did in the runs of a period that a user may see."""
    journal = needs_shared(await site.app.open())
    wanted = _query_of(period, datetime.now(UTC))._replace(**list_filters(user))
    figures = await journal.figures(wanted)
    is_of = _by_period(figures)
    before = {one.name: one for one in is_of[True] if one.kind == "tool"}
    approvals = {one.name: one for one in is_of[False] if one.kind == "approval"}
    nothing = RunFigure(part=0, kind="", name="")
    lines = [
        replies.ToolLine(
            name=one.name,
            calls=one.count,
            failed=one.failed,
            timed_out=one.timed_out,
            unknown=one.unknown,
            denied=one.denied,
            repeated=one.repeated,
            p50_s=quantile_s(one.took, 0.5),
            p95_s=quantile_s(one.took, 0.95),
            p95_before_s=quantile_s(before.get(one.name, nothing).took, 0.95),
            approvals=approvals.get(one.name, nothing).count,
            approval_p50_s=quantile_s(approvals.get(one.name, nothing).took, 0.5),
            approval_p95_s=quantile_s(approvals.get(one.name, nothing).took, 0.95),
            slowest=tuple(call for call in figures.slowest if call.tool == one.name)[:_MOST_SLOW],
        )
        for one in is_of[False]
        if one.kind == "tool"
    ]
    lines.sort(key=lambda line: (-(line.p95_s or 0), line.name))
    return replies.ToolList(
        period=period, since=wanted.since, until=wanted.until, tools=tuple(lines)
    )


async def list_workers(site: Site, user: User) -> replies.WorkerList:
    """Return the workers of the journal.

    Raises:
        Refused: The user may not see the runs of all owners.
    """
    if not may_use_lab(user):
        raise Refused("that takes the role 'view' for the runs of all tenants")
    workers = await read_workers(await site.app.open())
    return replies.WorkerList(workers=workers, drainable=may_drain(user))


async def drain(site: Site, user: User, id: str) -> WorkerState:
    """Ask a worker to take no more runs, as a user.

    Raises:
        Refused: The user may not do that.
        Misuse: There is no such worker.
    """
    if not may_drain(user):
        raise Refused("that takes the roles 'view' and 'operate' for the runs of all tenants")
    await site.note(user, "drain", subject=id)
    return await drain_worker(await site.app.open(), id, by=user.id)


def _by_period(figures: RunFigures) -> defaultdict[bool, list[RunFigure]]:
    """Return the totals of the period, and under True those of the period before."""
    return _grouped(figures.totals, lambda one: one.part < 0)


def _limits_of(figures: RunFigures) -> tuple[replies.ModelLimit, ...]:
    refused = {one.name: one.count for one in _by_period(figures)[False] if one.kind == "limit"}
    known = {one.model: one for one in figures.limits}
    lines = [
        replies.ModelLimit(
            model=model,
            at=known[model].at if model in known else None,
            windows=known[model].windows if model in known else (),
            refused=refused.get(model, 0),
            runs=tuple(one for one in figures.limited if one.model == model)[:_MOST_SLOW],
        )
        for model in known.keys() | refused.keys()
    ]
    return tuple(sorted(lines, key=lambda line: (-line.refused, line.model)))


def _query_of(period: Period, now: datetime) -> FigureQuery:
    """Return the parts of a period, of which the last one is not over yet."""
    if period == "hour":
        last = now.replace(minute=now.minute - now.minute % 5, second=0, microsecond=0)
        return FigureQuery(last - 11 * FINEST, FINEST, 12)
    hour = now.replace(minute=0, second=0, microsecond=0)
    if period == "day":
        return FigureQuery(hour - 23 * HOUR, HOUR, 24)
    return FigureQuery(hour.replace(hour=0) - 6 * _DAY, _DAY, 7)


def _runs(figures: Iterable[RunFigure]) -> list[RunFigure]:
    return [one for one in figures if one.kind == "run"]


def _summary_of(figures: Iterable[RunFigure]) -> replies.OverviewSums:
    runs = _runs(figures)
    took = _took_of(runs)
    return replies.OverviewSums(
        statuses=_statuses_of(runs),
        costs=_costs_of(runs),
        applied=sum(one.applied for one in runs),
        unknown=sum(one.unknown for one in runs),
        p50_s=quantile_s(took, 0.5),
        p95_s=quantile_s(took, 0.95),
    )


def _statuses_of(runs: Iterable[RunFigure]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in runs:
        found[one.name] += one.count
    return dict(found)


def _costs_of(runs: Iterable[RunFigure]) -> dict[str, Decimal]:
    sums: defaultdict[str, float] = defaultdict(float)
    for one in runs:
        if one.currency:
            sums[one.currency] += one.amount
    return {currency: to_money(sums[currency]) for currency in sorted(sums)}


def _took_of(figures: Iterable[RunFigure]) -> Sequence[int]:
    """Return how many of the counted durations are in each bucket."""
    return [
        sum(numbers) for numbers in zip(*(one.took for one in figures if one.took), strict=True)
    ]


def _parts_of(wanted: FigureQuery, figures: RunFigures) -> tuple[replies.OverviewPart, ...]:
    by_part = _grouped(figures.parts, lambda one: one.part)
    return tuple(
        replies.OverviewPart(
            since=wanted.since + part * wanted.step,
            statuses=_statuses_of(by_part[part]),
            costs=_costs_of(by_part[part]),
        )
        for part in range(wanted.parts)
    )


def _grouped(
    figures: Iterable[RunFigure], key: Callable[[RunFigure], K]
) -> defaultdict[K, list[RunFigure]]:
    found: defaultdict[K, list[RunFigure]] = defaultdict(list)
    for one in figures:
        found[key(one)].append(one)
    return found


def _agents_of(
    now: Iterable[RunFigure], before: Iterable[RunFigure]
) -> tuple[replies.OverviewAgent, ...]:
    earlier = _grouped(_runs(before), lambda one: one.agent_id)
    lines = [
        replies.OverviewAgent(
            agent_id=agent_id,
            runs=sum(one.count for one in runs),
            before=sum(one.count for one in earlier[agent_id]),
            failed=sum(one.count for one in runs if one.name in _FAILURES),
            costs=_costs_of(runs),
            p50_s=quantile_s(_took_of(runs), 0.5),
            p95_s=quantile_s(_took_of(runs), 0.95),
        )
        for agent_id, runs in _grouped(_runs(now), lambda one: one.agent_id).items()
    ]
    return tuple(sorted(lines, key=lambda line: (-line.runs, line.agent_id))[:_MOST])


def _errors_of(
    now: Iterable[RunFigure], before: Iterable[RunFigure]
) -> tuple[replies.OverviewError, ...]:
    counts = [Counter[str](), Counter[str]()]
    for count, figures in zip(counts, (now, before), strict=True):
        for one in _runs(figures):
            if one.mark and one.name != Status.INPUT_REQUIRED:
                count[one.mark] += one.count
    lines = [
        replies.OverviewError(code=code, runs=counts[0][code], before=counts[1][code])
        for code in counts[0].keys() | counts[1].keys()
    ]
    return tuple(sorted(lines, key=lambda line: (-line.runs, -line.before, line.code))[:_MOST])


def _calls_of(
    kind: str, now: Iterable[RunFigure], before: Iterable[RunFigure]
) -> tuple[replies.OverviewCalls, ...]:
    earlier = {one.name: one for one in before if one.kind == kind}
    lines = [
        replies.OverviewCalls(
            name=one.name,
            calls=one.count,
            failed=one.failed,
            p50_s=quantile_s(one.took, 0.5),
            p95_s=quantile_s(one.took, 0.95),
            p95_before_s=quantile_s(earlier[one.name].took, 0.95) if one.name in earlier else None,
        )
        for one in now
        if one.kind == kind
    ]
    return tuple(sorted(lines, key=lambda line: (-line.calls, line.name))[:_MOST])
