"""The counts of runs as rows, written in the transaction that ends a run.

A count may have a few rows, its slots. Each transaction writes to a slot that no other one writes
to, so that writers on a server do not wait for each other. It writes them last and in order, so
that two writers cannot deadlock where there are more of them than slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from upshot.contract.base.enums import EFFECTS
from upshot.contract.call_counts import BUCKETS
from upshot.journal.effects import BEGUN
from upshot.journal.event_codec import Entry, to_micros
from upshot.journal.lease_holder import read_holder
from upshot.journal.run_counts import (
    AGES,
    FINEST,
    NUMBERS,
    CountedRun,
    FigureQuery,
    OpenWork,
    RunFigure,
    RunFigures,
    Tallies,
    add_run,
    encode_calls,
    figure,
    figures_of,
    in_all_spans,
    oldest_start,
    run_of_example,
    units_to,
    with_examples,
)
from upshot.journal.run_list import money_of
from upshot.journal.shared import QUEUED, InboxQuery
from upshot.journal.sql.connection import (
    HOLDER,
    NEVER,
    Connection,
    WriteConnection,
    among,
    in_pages,
    owned_by,
)
from upshot.journal.sql.effect_rows import IS_OPEN
from upshot.journal.sql.inbox import before_ages, count_waits
from upshot.state.summary import RUNNING, SummaryChange

_TOOK = tuple(f"took_{bucket}" for bucket in range(BUCKETS))
_KEY = "span, tenant, kind, start, agent_id, name, mark, currency, slot"
_SUMMED = (*NUMBERS, *_TOOK)
TABLE: str = f"""run_counts (
    span BIGINT NOT NULL,
    tenant {{text}} NOT NULL,
    kind {{text}} NOT NULL,
    start BIGINT NOT NULL,
    agent_id {{text}} NOT NULL,
    name {{text}} NOT NULL,
    mark {{text}} NOT NULL,
    currency {{text}} NOT NULL,
    slot BIGINT NOT NULL,
    {", ".join(f"{name} INTEGER NOT NULL" for name in NUMBERS if name != "amount")},
    amount DOUBLE PRECISION NOT NULL,
    {", ".join(f"{name} INTEGER NOT NULL" for name in _TOOK)},
    top BIGINT NOT NULL,
    example {{text}} NOT NULL,
    PRIMARY KEY ({_KEY})
)"""
"""The table, after CREATE TABLE, with a place for the type of texts."""
TEXTS = ("tenant", "kind", "agent_id", "name", "mark", "currency", "example")
"""The columns with texts."""
COLUMNS: tuple[str, ...] = (*_KEY.split(", "), *_SUMMED, "top", "example")
"""The columns of the table, in their order."""
_ADDED = ", ".join(f"{name} = run_counts.{name} + excluded.{name}" for name in _SUMMED)
_SHOWN = ", ".join(
    f"{name} = CASE WHEN excluded.top > run_counts.top THEN excluded.{name} "
    f"ELSE run_counts.{name} END"
    for name in ("top", "example")
)
ADDED: str = f"ON CONFLICT ({_KEY}) DO UPDATE SET {_ADDED}, {_SHOWN}"
"""What an insert does with a count that has a row."""
_COLUMNS = """CAST(run_id AS TEXT), CAST(started_at AS BIGINT), CAST(agent_id AS TEXT),
    CAST(tenant AS TEXT), CAST(status AS TEXT), CAST(error_code AS TEXT), CAST(currency AS TEXT),
    cost, effect, took, is_inside, CAST(calls AS TEXT)"""
_SOME = f"SELECT {_COLUMNS} FROM runs WHERE"
_ONE = f"{_SOME} run_no = ?"
_ALL = f"SELECT run_no, {_COLUMNS} FROM runs WHERE run_no > ? ORDER BY run_no LIMIT ?"
# Where the numbers of a figure end in a row: part, kind, agent, name, mark, currency, numbers.
_NUMBERS_END = 6 + len(NUMBERS)
_PAGE = 10_000
# Each run whose number is divisible by this removes old counts when it ends.
_PRUNES = 500
_PRUNE = "DELETE FROM run_counts WHERE span = 1 AND start < ?"
_STARTED = f"SELECT {_COLUMNS} FROM runs WHERE started_at >= ? AND started_at < ?"
_SUMS = ", ".join(f"sum({name})" for name in NUMBERS)
# As one text: a driver takes its time for each value.
_ALL_TOOK = " || ',' || ".join(f"CAST(sum({name}) AS TEXT)" for name in _TOOK)
_WITHIN = "span = ? AND tenant = ? AND kind IN ({kinds}) AND start >= ? AND start < ?"
_PARTS = f"""SELECT (start - ?) / ? AS part, 'run', '', CAST(name AS TEXT), '',
    CAST(currency AS TEXT), {_SUMS} FROM run_counts WHERE {_WITHIN.format(kinds="'run'")}
    GROUP BY part, name, currency HAVING sum(count) <> 0"""
_KINDS = "'approval', 'limit', 'model', 'run', 'tool'"
_COUNTED = "count", "denied", "repeated"
_TOTALS = f"""SELECT CASE WHEN start < ? THEN -1 ELSE 0 END AS part, CAST(kind AS TEXT),
    CAST(agent_id AS TEXT), CAST(name AS TEXT), CAST(mark AS TEXT), CAST(currency AS TEXT), {_SUMS},
    {_ALL_TOOK} FROM run_counts WHERE {_WITHIN.format(kinds=_KINDS)}
    GROUP BY part, kind, agent_id, name, mark, currency
    HAVING {" OR ".join(f"sum({name}) <> 0" for name in _COUNTED)}"""
_TOPS = f"""SELECT CAST(kind AS TEXT), CAST(name AS TEXT), start, top, CAST(example AS TEXT)
    FROM run_counts WHERE {_WITHIN.format(kinds="'limit', 'model', 'tool'")} AND top > 0"""
_THERE = "SELECT CAST(run_id AS TEXT) FROM runs WHERE"
_UNENDED = f"""SELECT CAST(status AS TEXT), count(*) FROM runs
    WHERE status IN ('{QUEUED}', '{RUNNING}') AND (last_seq > 0 OR status = '{QUEUED}'){{theirs}}
    GROUP BY status"""
_OLDER = ", ".join(["sum(CASE WHEN e.started_at <= ? THEN 1 ELSE 0 END)"] * len(AGES))
_EFFECTS = f"""SELECT e.state, {HOLDER}, count(*), {_OLDER} FROM effects AS e
    LEFT JOIN runs ON runs.run_no = e.run_no WHERE {IS_OPEN}{{theirs}}
    GROUP BY e.state, runs.holder"""


def note_changed_counts(connection: WriteConnection, run_no: int, changed: Sequence[Entry]) -> None:
    """Note how the counts change with new events of a run, before its row is updated."""
    changes = [entry.change for entry in changed if entry.change is not None]
    first = changes[0]
    # A run that has only started is not counted.
    if all(one.agent_id is not None for one in changes):
        return
    before = None
    if first.agent_id is None or first.started_at is None:
        before = _read_run(connection, run_no)
    after = before or CountedRun(changed[0].run_id, NEVER, "", "", RUNNING)
    for change in changes:
        after = _changed(after, change)
    note_counts(connection, before, after)
    connection.counts.prunes |= run_no % _PRUNES == 0


def _changed(run: CountedRun, change: SummaryChange) -> CountedRun:
    """Return the row of a run after an event, as the statements of the list of runs change it."""
    if change.agent_id is not None:
        started_at = to_micros(change.started_at)
        return run._replace(
            started_at=run.started_at if started_at is None else started_at,
            agent_id=change.agent_id,
            tenant=change.tenant or "",
            status=change.status,
            is_inside=run.is_inside or change.is_inside,
        )
    if change.usage is None or change.effect is None:
        code = run.error_code if change.error_code is None else change.error_code
        return run._replace(status=change.status, error_code=code)
    run = run._replace(
        status=change.status, took=change.took_s or 0.0, calls=encode_calls(change.calls or ())
    )
    cost, currency, code = money_of(change.cost), "", change.error_code or ""
    if change.cost is not None and change.cost.total is not None:
        currency = change.cost.currency
    effect = EFFECTS.index(change.effect)
    # A session that cost and did nothing leaves these columns as they are.
    if not (change.usage.total_tokens or cost or currency or effect or code):
        return run
    return run._replace(cost=cost, currency=currency, effect=effect, error_code=code)


def note_counts(
    connection: WriteConnection, before: CountedRun | None, after: CountedRun | None
) -> None:
    """Note that the row of a run changes; ``write_counts`` writes it."""
    if before is not None:
        add_run(connection.counts, before, -1)
    if after is not None:
        add_run(connection.counts, after)


def note_removed(connection: WriteConnection, run_nos: Sequence[int]) -> None:
    """Note that runs, at most a page of them, are about to be removed."""
    rows = connection.execute(f"{_SOME} {among('run_no', run_nos)}", run_nos)
    for row in rows.fetchall():
        note_counts(connection, _run_of(row), None)


def note_status(connection: WriteConnection, run_no: int, status: str) -> None:
    """Note that a run is about to get another status."""
    if (before := _read_run(connection, run_no)) is not None:
        note_counts(connection, before, before._replace(status=status))


def _read_run(connection: Connection, run_no: int) -> CountedRun | None:
    row = connection.execute(_ONE, (run_no,)).fetchone()
    return None if row is None else _run_of(row)


def _run_of(row: Sequence[Any]) -> CountedRun:
    run_id, started_at, *names, cost, effect, took, is_inside, calls = row
    agent_id, tenant, status, code, currency = names
    return CountedRun(
        run_id,
        started_at,
        agent_id,
        tenant,
        status,
        code,
        currency,
        float(cost),
        int(effect),
        float(took),
        bool(is_inside),
        calls or "",
    )


def write_counts(connection: WriteConnection) -> None:
    """Write what was noted; the last statements of a transaction."""
    counts, connection.counts = connection.counts, Tallies()
    if not counts:
        return
    if counts.prunes:
        connection.execute(_PRUNE, (oldest_start(),))
    noted = sorted(in_all_spans(counts).items(), key=itemgetter(0))
    if noted:
        connection.add_counts([(*key, 0, *tally.columns) for key, tally in noted])


def count_again(connection: WriteConnection) -> None:
    """Count all runs from the list of runs, within a transaction that no other one interrupts."""
    connection.execute("DELETE FROM run_counts")
    last = 0
    while rows := connection.execute(_ALL, (last, _PAGE)).fetchall():
        for run_no, *row in rows:
            last = run_no
            add_run(connection.counts, _run_of(row))
        # Now and then, because a server ends a transaction that is idle for long.
        write_counts(connection)


def read_figures(connection: Connection, wanted: FigureQuery) -> RunFigures:
    """Return how the runs of a period ended; see ``SharedJournal.figures``."""
    span = wanted.span
    if not span:
        return figures_of(_read_started(connection, wanted), wanted)
    since, until, before = map(units_to, (wanted.since, wanted.until, wanted.before))
    place = (span, wanted.tenant)
    parts = connection.execute(_PARTS, (since, wanted.step // FINEST, *place, since, until))
    found = RunFigures(
        parts=_to_figures(parts.fetchall()),
        totals=_to_figures(connection.execute(_TOTALS, (since, *place, before, until)).fetchall()),
    )
    return with_examples(found, _read_tops(connection, wanted))


def _read_tops(connection: Connection, wanted: FigureQuery) -> Iterator[tuple[str, str, int, str]]:
    """Yield the example of each model, tool and limit in each part of a period."""
    since, step = units_to(wanted.since), wanted.step // FINEST
    tops: dict[tuple[str, str, int], tuple[int, str]] = {}
    values = (wanted.span, wanted.tenant, since, units_to(wanted.until))
    rows = connection.execute(_TOPS, values).fetchall()
    removed = _removed_of(connection, {run_of_example(row[0], row[4]) for row in rows})
    for kind, name, start, top, example in rows:
        if run_of_example(kind, example) in removed:
            continue
        place = (kind, name, (start - since) // step)
        tops[place] = max(tops.get(place, (0, "")), (top, example))
    for (kind, name, _), (top, example) in tops.items():
        yield kind, name, top, example


def _removed_of(connection: Connection, run_ids: set[str]) -> set[str]:
    """Return which of *run_ids*, "" apart, are of runs that were removed."""
    wanted, there = sorted(run_ids - {""}), {""}
    for some in in_pages(wanted):
        rows = connection.execute(f"{_THERE} {among('run_id', some)}", some)
        there.update(run_id for (run_id,) in rows.fetchall())
    return run_ids - there


def _to_figures(rows: Iterable[Sequence[Any]]) -> tuple[RunFigure, ...]:
    found: list[RunFigure] = []
    for row in sorted(rows, key=lambda row: tuple(row[:6])):
        took = row[_NUMBERS_END].split(",") if len(row) > _NUMBERS_END else ()
        found.append(figure((*row[:_NUMBERS_END], *map(int, took))))
    return tuple(found)


def _read_started(connection: Connection, wanted: FigureQuery) -> Iterator[CountedRun]:
    query, values = _STARTED, [to_micros(wanted.before), to_micros(wanted.until)]
    for condition, *given in owned_by(wanted.owner, wanted.tenant):
        query, values = f"{query} AND {condition}", [*values, *given]
    return map(_run_of, connection.execute(query, values).fetchall())


def read_open_work(connection: Connection, owner: str, tenant: str) -> OpenWork:
    """Return what has not ended; see ``SharedJournal.open_work``."""
    theirs, values = "", list[object]()
    for condition, *given in owned_by(owner, tenant, few=True):
        theirs, values = f"{theirs} AND {condition}", [*values, *given]
    statuses = dict(connection.execute(_UNENDED.format(theirs=theirs), values).fetchall())
    # The row of an effect names the owner once its run is removed.
    theirs, values = "", list[object]()
    for name, value in (("tenant", tenant), ("owner", owner)):
        if value or owner:
            theirs += f" AND coalesce(e.{name}, runs.{name}) = ?"
            values.append(value)
    begun, unknown, ages = 0, 0, [0] * len(AGES)
    since = before_ages(connection)
    counted = connection.execute(_EFFECTS.format(theirs=theirs), [*since, *values])
    for state, text, count, *older in counted:
        holder = read_holder(text)
        if state == BEGUN and holder is not None and holder.may_work:
            begun += count
        else:
            unknown += count
            ages = [one + int(more) for one, more in zip(ages, older, strict=True)]
    return OpenWork(
        queued=statuses.get(QUEUED, 0),
        running=statuses.get(RUNNING, 0),
        waiting=count_waits(connection, InboxQuery(owner=owner, tenant=tenant)),
        begun=begun,
        unknown=unknown,
        unknown_ages=tuple(ages),
    )
