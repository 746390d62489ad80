"""Reads, exports and imports stored runs, their notes, and shared values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from upshot.contract.base.enums import EFFECTS, Status
from upshot.contract.codec import encode
from upshot.contract.protocols import DayCost, Note, RunCounts, RunSummary
from upshot.contract.usage import NO_USAGE, Cost, Usage, to_money
from upshot.errors import JournalError
from upshot.journal.artifact_store import StoredArtifact
from upshot.journal.event_codec import Damage, Entry, checksum, damage_error, from_micros, to_micros
from upshot.journal.export_file import ExportedRun, read_lines, write_lines
from upshot.journal.lease_holder import NOBODY, read_holder
from upshot.journal.run_counts import to_model_part
from upshot.journal.run_list import (
    LEAST_TOOK_S,
    RunQuery,
    already_there,
    earlier_turn,
    no_such_run,
    searched,
    searched_id,
    to_lines,
)
from upshot.journal.shared import QUEUED
from upshot.journal.sql.connection import (
    COMPOSED,
    HOLDER,
    IN_ANY_LANGUAGE,
    NEVER,
    NOW_US,
    SEQ_BITS,
    SEQ_MASK,
    Connection,
    WriteConnection,
    keys_of,
    owned_by,
    place_in_list,
    sort_columns,
)
from upshot.journal.sql.effect_rows import note_effects
from upshot.journal.sql.inbox import keep_asks, move_child_items
from upshot.journal.sql.sql_artifacts import insert_artifact, read_artifacts
from upshot.journal.sql.writer import Worker, note_entries
from upshot.state.summary import NO_ASKS, RUNNING, asks_after

T = TypeVar("T")
_spent = msgspec.json.Decoder(tuple[Usage, Cost | None])


FREE = f"(holder IS NULL OR holder = '{NOBODY}')"
"""Whether no process has claimed a run, or it was released since."""
_PHASES = {
    "queued": f"status = '{QUEUED}' AND {FREE}",
    "due": f"due_at <= now_us() AND status <> '{QUEUED}' AND {FREE}",
    "parked": f"""(status = '{Status.INPUT_REQUIRED}' AND holder IS NULL AND due_at IS NULL
        OR due_at > now_us() AND status <> '{QUEUED}' AND {FREE})""",
    "ended": f"status NOT IN ('{QUEUED}', '{RUNNING}', '{Status.INPUT_REQUIRED}')",
}
# For a run that was never claimed, it is unknown which process works on it.
_UNHELD = f"(status = '{RUNNING}' AND holder IS NULL)"
_HELD_RUNS = f"SELECT CAST(run_id AS TEXT), {HOLDER}, due_at FROM runs WHERE holder IS NOT NULL"


class Source(Protocol):
    """Reads one database; it belongs to the reader's thread."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """Call *work* in a transaction that sees what was committed when it started."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


class Reader:
    """Reads a journal's database, one read at a time."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._worker = Worker("upshot-journal-reader")
        self._used = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Call *work* in the thread; it sees what was committed when it started."""
        self._used = True
        return await self._worker.call(lambda: self._source.read(work))

    async def aclose(self) -> None:
        """Close the database after the current read."""
        if self._used:
            await self._worker.call(self._source.close)
        self._worker.stop()


# Damage may have changed a value's type; then the checksum is wrong too.
_ROWS = f"""SELECT CAST(id AS BIGINT) & {SEQ_MASK}, CAST(epoch AS BIGINT), CAST(kind AS BLOB),
    CAST(time AS BIGINT), coalesce(CAST(body AS BLOB), x''),
    CAST(crc AS BIGINT) FROM events WHERE id > ? AND id <= ? ORDER BY id"""
_WITH_TEXT = f"""(instr(lower({COMPOSED}(request || '\n' || answer) {IN_ANY_LANGUAGE}), ?) > 0
    OR instr(lower(run_id), ?) = 1)"""
_NUMBER = "SELECT run_no FROM runs INDEXED BY sqlite_autoindex_runs_1 WHERE run_id = ?"
_ANY_NUMBER = "SELECT 1 FROM runs INDEXED BY runs_by_id WHERE run_id = ?"
_END = "SELECT CAST(last_seq AS BIGINT) FROM runs WHERE run_no = ?"
_LAST_KEY = f"SELECT coalesce(max(id) & {SEQ_MASK}, 0) FROM events WHERE id BETWEEN ? AND ?"
_EPOCH = "SELECT CAST(epoch AS BIGINT) FROM events WHERE id = ?"
_RANGE = f"BETWEEN run_no << {SEQ_BITS} AND (run_no << {SEQ_BITS}) | {SEQ_MASK}"
_IS_LISTED = f"(last_seq > 0 OR status = '{QUEUED}')"
_DAY_US, _DAY_0 = 86_400_000_000, date(1970, 1, 1).toordinal()
_SUMMARIES = f"""SELECT CAST(run_id AS TEXT), CAST(agent_id AS TEXT), CAST(status AS TEXT),
    CAST(started_at AS BIGINT), (SELECT CAST(time AS BIGINT) FROM events
        WHERE id {_RANGE} AND time IS NOT NULL ORDER BY id DESC LIMIT 1),
    coalesce((SELECT max(id) & {SEQ_MASK} FROM events WHERE id {_RANGE}), 0),
    CAST(request AS TEXT), CAST(parent_run_id AS TEXT), CAST(context_id AS TEXT),
    CAST(turn AS TEXT), is_chained, CAST(revision AS INTEGER), CAST(spent AS TEXT),
    effect, CAST(error_code AS TEXT), CAST(owner AS TEXT), CAST(tenant AS TEXT),
    CAST(answer AS TEXT), took, CAST(tools AS TEXT)
    FROM runs WHERE {_IS_LISTED}"""


class EventPage(NamedTuple):
    """Consecutive events of a run."""

    entries: list[Entry]
    last: int
    more: bool
    fault: str


class Scan(NamedTuple):
    """The state of a run's whole log."""

    last_seq: int
    epoch: int
    damage: Damage | None


_Row: TypeAlias = tuple[int, int, bytes, int | None, bytes, int]


def _entry_of(run_id: str, row: _Row) -> Entry:
    """Return the event of a row, which may contain anything if it is damaged."""
    seq, epoch, kind, time, body, _crc = row
    return Entry(
        run_id,
        seq,
        epoch,
        (kind or b"").decode(errors="surrogateescape"),
        time,
        body,
    )


def _find_fault(row: _Row, entry: Entry, expected: int) -> str:
    """Return what is wrong with a row, "" if nothing."""
    if entry.seq != expected:
        return f"event {expected} is missing"
    if row[-1] != checksum(entry):
        return f"the checksum of event {expected} is wrong"
    return ""


def number_of(connection: Connection, run_id: str) -> int | None:
    """Return the run's number in this database, None if it does not exist."""
    row = connection.execute(_NUMBER, (run_id,)).fetchone()
    if row is not None:
        return int(row[0])
    # A run missing from a damaged index would look new and be started again.
    if connection.execute(_ANY_NUMBER, (run_id,)).fetchone() is not None:
        raise JournalError(
            f"the index of runs is damaged: run {run_id} exists, but the index lacks it",
            run_id=run_id,
        )
    return None


def read_page(connection: Connection, run_id: str, after: int, limit: int) -> EventPage:
    """Read at most *limit* events with a seq above *after*, up to the first damaged one.

    Call it within a transaction, so that the rows and the list of runs are consistent.
    """
    run_no = number_of(connection, run_id)
    if run_no is None:
        return EventPage([], after, False, "")
    entries: list[Entry] = []
    last = after
    start, end = keys_of(run_no)
    query = (start | min(after, SEQ_MASK), end, limit)
    rows: list[_Row] = connection.execute(f"{_ROWS} LIMIT ?", query).fetchall()
    for row in rows:
        entry = _entry_of(run_id, row)
        if fault := _find_fault(row, entry, last + 1):
            return EventPage(entries, last, False, fault)
        entries.append(entry)
        last += 1
    # Only at the end of the log is it known whether its tail is missing.
    if len(rows) == limit:
        return EventPage(entries, last, True, "")
    fault = f"event {last + 1} is missing" if _noted_end(connection, run_no) > last else ""
    return EventPage(entries, last, False, fault)


def read_entries(connection: Connection, run_id: str) -> Iterator[Entry]:
    """Return all events of a run in order; it must not be damaged."""
    run_no = number_of(connection, run_id)
    if run_no is not None:
        for row in connection.execute(_ROWS, keys_of(run_no)):
            yield _entry_of(run_id, row)


def scan_run(connection: Connection, run_id: str) -> Scan:
    """Check every event of a run."""
    run_no = number_of(connection, run_id)
    if run_no is None:
        return Scan(0, 0, None)
    last = epoch = lost = 0
    fault = ""
    tail = True
    for row in connection.execute(_ROWS, keys_of(run_no)):
        entry = _entry_of(run_id, row)
        if not fault:
            fault = _find_fault(row, entry, last + 1)
            if not fault:
                last, epoch = last + 1, max(epoch, entry.epoch)
                continue
        lost += 1
        # Checked against its own seq: a row may be sound although earlier ones are missing.
        tail = tail and bool(_find_fault(row, entry, entry.seq))
    missing = _noted_end(connection, run_no) - last
    if not fault and missing > 0:
        fault, lost = f"event {last + 1} is missing", missing
    if not fault:
        return Scan(last, epoch, None)
    lost = max(lost, missing)
    return Scan(
        last, epoch, Damage(run_id=run_id, sound_to=last, lost=lost, reason=fault, tail=tail)
    )


def _noted_end(connection: Connection, run_no: int) -> int:
    """Return the seq in the list of runs, where the last session started or ended."""
    row = connection.execute(_END, (run_no,)).fetchone()
    return row[0] or 0 if row else 0


def last_seq(connection: Connection, run_id: str) -> int:
    """Return the seq of the run's last event, 0 if it has none."""
    run_no = number_of(connection, run_id)
    if run_no is None:
        return 0
    (last,) = connection.execute(_LAST_KEY, keys_of(run_no)).fetchone()
    return last or 0


def epoch_of(connection: Connection, run_id: str, seq: int) -> int:
    """Return the epoch with which an event was appended; 0 if it does not exist."""
    run_no = number_of(connection, run_id)
    if run_no is None:
        return 0
    row = connection.execute(_EPOCH, ((run_no << SEQ_BITS) | seq,)).fetchone()
    return row[0] or 0 if row else 0


def read_summaries(
    connection: Connection, wanted: RunQuery, *more: tuple[Any, ...]
) -> list[RunSummary]:
    """Return the runs that match *wanted* and have events or were submitted, newest first.

    Args:
        connection: To the database.
        wanted: Which runs.
        more: More conditions, each with its values.
    """
    conditions: list[str] = [_SUMMARIES]
    values: list[object] = []
    for condition, *given in (*_conditions(connection, wanted), *more):
        conditions.append(condition)
        values += given
    # Few runs are in these phases: use their own index, since SQLite would scan all by start.
    start = "+started_at" if wanted.phase in ("due", "died") else "started_at"
    order = "".join(f"{name} DESC, " for name in sort_columns(wanted.sort))
    query = " AND ".join(conditions) + f" ORDER BY {order}{start} DESC, run_no DESC"
    if wanted.limit is not None:
        query += " LIMIT ?"
        values.append(wanted.limit)
    return [_summary(row) for row in connection.execute(query, values).fetchall()]


def read_counts(connection: Connection, wanted: RunQuery) -> RunCounts:
    """Count the runs that match *wanted*; see ``SharedJournal.counts``."""
    found = [*_conditions(connection, wanted)]
    where = " AND ".join([f"FROM runs WHERE {_IS_LISTED}", *(one for one, *_ in found)])
    values = [value for _, *given in found for value in given]

    def grouped(columns: str, more: str) -> list[Any]:
        query = f"SELECT {columns} {where} {more}"
        return connection.execute(query, values).fetchall()

    statuses = grouped("CAST(status AS TEXT), count(*)", "GROUP BY status")
    errors = grouped(
        "CAST(error_code AS TEXT), count(*)", "AND error_code <> '' GROUP BY error_code"
    )
    days = grouped(
        f"started_at / {_DAY_US} AS day, currency, sum(cost), count(*)",
        f"AND NOT is_inside AND started_at > {NEVER} GROUP BY day, currency ORDER BY day DESC, "
        "currency",
    )
    return RunCounts(
        statuses=dict(map(tuple, statuses)),
        errors=dict(map(tuple, errors)),
        cost_by_day=tuple(_day_cost(day, [*some]) for day, some in groupby(days, itemgetter(0))),
    )


def _day_cost(day: int, sums: list[tuple[int, str, float, int]]) -> DayCost:
    """Return the cost of a day from the sum and number of its runs by currency."""
    return DayCost(
        day=str(date.fromordinal(_DAY_0 + day)),
        costs={currency: to_money(float(cost)) for _, currency, cost, _ in sums if currency},
        runs=sum(count for *_, count in sums),
    )


def _conditions(connection: Connection, wanted: RunQuery) -> Iterator[tuple[Any, ...]]:
    """Return the conditions for the wanted runs, each with its values."""
    if wanted.status is not None:
        yield _in_status(connection, wanted)
    for condition, *values in (
        ("run_id = ?", wanted.run_id),
        ("agent_id = ?", wanted.agent_id),
        ("error_code <> '' AND error_code = ?", wanted.error_code),
        ("instr(tools, ?) > 0", wanted.tool and to_lines([wanted.tool])),
        ("instr(calls, ?) > 0", wanted.model and to_model_part(wanted.model)),
        (_WITH_TEXT, searched(wanted.text), searched_id(wanted.text)),
        ("cost > 0 AND currency = ?", wanted.currency),
        ("context_id <> '' AND context_id = ?", wanted.context_id),
        ("parent_run_id <> '' AND parent_run_id = ?", wanted.parent_run_id),
    ):
        if values[0]:
            yield condition, *values
    yield from owned_by(wanted.owner, wanted.tenant)
    if wanted.prefix:
        # As a range of texts, which lets the index be used.
        yield "run_id >= ? AND run_id < ?", wanted.prefix, f"{wanted.prefix}\U0010ffff"
    if wanted.parent_run_id == "":
        # Keeps the index from being used, since nearly all runs match.
        yield ("parent_run_id || '' = ''",)
    if wanted.effect:
        # The number is part of the text, so that the index can be used.
        rank = [one.value for one in EFFECTS].index(wanted.effect)
        yield (f"effect = {rank}{' AND effect > 0' if rank else ''}",)
    if wanted.sort:
        least = f">= {LEAST_TOOK_S}" if wanted.sort == "took" else "> 0"
        yield (f"{wanted.sort} {least}",)
    if wanted.since is not None or wanted.until is not None:
        yield "started_at >= ? AND started_at < ?", *_times_of(wanted)
    if wanted.before:
        place = place_in_list(connection, wanted.before, wanted.sort)
        names = "".join(f"{name}, " for name in sort_columns(wanted.sort))
        yield f"({names}started_at, run_no) < ({', '.join('?' * len(place))})", *place


def _times_of(wanted: RunQuery) -> tuple[int | None, int | None]:
    """Return the range of wanted starts; a run without a start is in no range."""
    since, until = wanted.since, wanted.until
    least = NEVER + 1 if since is None else to_micros(since.astimezone(UTC))
    return least, -NEVER if until is None else to_micros(until.astimezone(UTC))


def _in_status(connection: Connection, wanted: RunQuery) -> tuple[str, *tuple[str, ...]]:
    """Return the condition for the runs of a status or in a phase, with its values."""
    phase = wanted.phase
    if not phase:
        return "status = ?", str(wanted.status)
    if phase in _PHASES:
        return (_PHASES[phase],)
    alive, dead = _held_runs(connection)
    run_ids, other = (dead, "false") if phase == "died" else (alive, _UNHELD)
    # SQL does not allow an empty list.
    return f"({other} OR run_id IN ({', '.join(('NULL', *'?' * len(run_ids)))}))", *run_ids


def _held_runs(connection: Connection) -> tuple[list[str], list[str]]:
    """Return the claimed runs that have not settled since: those alive, and those that died."""
    alive: list[str] = []
    dead: list[str] = []
    for run_id, text, due_at in connection.execute(_HELD_RUNS):
        holder = read_holder(text)
        if holder is not None and holder.may_work:
            alive.append(run_id)
        elif due_at is None:
            dead.append(run_id)
    return alive, dead


def read_latest(
    connection: Connection, wanted: RunQuery, *, newest_first: bool
) -> list[RunSummary]:
    """Return the runs of conversations, ordered by their last run's start; newest run first.

    Only limit, owner and tenant of *wanted* matter.
    """
    # From the index alone, however many runs there are. A conversation whose only run was claimed
    # but has not started has no run yet.
    theirs, values = "", list[object]()
    for condition, *given in owned_by(wanted.owner, wanted.tenant):
        theirs += f" AND {condition}"
        values += given
    page = f"""SELECT context_id FROM runs WHERE context_id <> ''{theirs} GROUP BY context_id
        HAVING max(started_at) > {NEVER}
        ORDER BY max(started_at) {"DESC" if newest_first else "ASC"}"""
    if wanted.limit is not None:
        page += " LIMIT ?"
        values.append(wanted.limit)
    query = f"""{_SUMMARIES} AND context_id <> '' AND context_id IN ({page})
        ORDER BY started_at DESC, run_no DESC"""
    return [_summary(row) for row in connection.execute(query, values).fetchall()]


def _summary(row: Any) -> RunSummary:
    run_id, agent_id, status, started_at, updated_at, events, request, *rest = row
    parent, context_id, turn, is_chained, revision, spent, effect, error_code, *rest = rest
    owner, tenant, answer, took, tools = rest
    usage, cost = read_usage(spent)
    return RunSummary(
        run_id=run_id,
        agent_id=agent_id,
        status=status,
        started_at=None if started_at == NEVER else from_micros(started_at),
        updated_at=from_micros(updated_at),
        events=events,
        request=request,
        parent_run_id=parent,
        context_id=context_id,
        turn=turn,
        is_chained=bool(is_chained),
        revision=revision,
        usage=usage,
        cost=cost,
        effect=EFFECTS[int(effect)],
        error_code=error_code,
        owner=owner,
        tenant=tenant,
        answer=answer,
        took_s=float(took),
        tools=tuple(filter(None, tools.split("\n"))),
    )


def read_usage(text: str | None) -> tuple[Usage, Cost | None]:
    """Decode what a run used from its row; nothing if that cannot be read."""
    try:
        return (NO_USAGE, None) if text is None else _spent.decode(text)
    except msgspec.MsgspecError:
        return NO_USAGE, None


_CHUNK = 200


def fingerprint(connection: Connection, run_id: str) -> object:
    """Return what ``remove_runs`` compares; see ``SqlLists.fingerprint``."""
    events = "SELECT count(*), CAST(coalesce(sum(crc), 0) AS BIGINT) FROM events"
    keys = keys_of(number_of(connection, run_id) or 0)
    log = connection.execute(f"{events} WHERE id BETWEEN ? AND ?", keys).fetchone()
    count = "SELECT count(*) FROM artifacts WHERE run_id = ?"
    outputs = connection.execute(count, (run_id,)).fetchone()
    return tuple(log), tuple(outputs), read_notes(connection, run_id)


def export_run(connection: Connection, run_id: str, path: str, lines: Iterable[bytes]) -> int:
    """Write a run, whose events are *lines*, as JSON lines; returns the number of events."""
    scan = scan_run(connection, run_id)
    if scan.damage is not None:
        raise damage_error(scan.damage)
    count = "SELECT count(*) FROM artifacts WHERE run_id = ?"
    (artifacts,) = connection.execute(count, (run_id,)).fetchone()
    stored, notes = read_artifacts(connection, run_id), read_notes(connection, run_id)
    return write_lines(path, ExportedRun(run_id, scan.last_seq, lines, artifacts, stored, notes))


def import_run(connection: WriteConnection, path: str) -> str:
    """Read a run from JSON lines within a transaction; returns its id."""
    run_id, run_no, epoch = "", 0, 0
    entries: list[Entry] = []
    asks = NO_ASKS
    for line in read_lines(path):
        if isinstance(line, StoredArtifact):
            insert_artifact(connection, line)
            continue
        if isinstance(line, Note):
            keep_note(connection, line)
            continue
        if not run_id:
            run_id = line.entry.run_id
            run_no, epoch = _make_room(connection, run_id)
        entries.append(line.entry._replace(epoch=epoch))
        asks = asks_after(asks, line.event)
        if len(entries) == _CHUNK:
            _add(connection, run_no, entries)
            entries = []
    if entries:
        _add(connection, run_no, entries)
    if (later := connection.execute(_LATER_TURN, (run_no,)).fetchone()) is not None:
        raise earlier_turn(run_id, *later)
    # This drops the questions that the log has an answer to; control requests are not in the file.
    keep_asks(connection, run_no, asks)
    move_child_items(connection, run_no)
    return run_id


_LATER_TURN = """SELECT CAST(later.context_id AS TEXT), CAST(later.run_id AS TEXT)
    FROM runs AS own JOIN runs AS later
    ON later.context_id = own.context_id AND later.started_at > own.started_at
    WHERE own.run_no = ? AND own.context_id <> '' AND own.revision > 0 AND later.revision > 0
    ORDER BY later.started_at LIMIT 1"""


def _add(connection: WriteConnection, run_no: int, entries: list[Entry]) -> None:
    connection.insert_events(run_no, entries)
    note_entries(connection, run_no, entries)
    # What the ledger already has stays.
    note_effects(connection, [(run_no, one) for one in entries if one.effect is not None])


def _make_room(connection: WriteConnection, run_id: str) -> tuple[int, int]:
    """Create the run's row in the list of runs; returns its number and the epoch of its events."""
    connection.lock_run(run_id)
    known = connection.execute("SELECT run_no, epoch FROM runs WHERE run_id = ?", (run_id,))
    row = known.fetchone()
    if row is None:
        connection.execute("INSERT INTO runs (run_id) VALUES (?)", (run_id,))
        return number_of(connection, run_id) or 0, 0
    if last_seq(connection, run_id):
        raise already_there(run_id)
    return row


_DROP_NOTE = "DELETE FROM notes WHERE run_id = ? AND name = ? AND author = ?"
_KEEP_NOTE = "INSERT INTO notes (run_id, name, author, at, body) VALUES (?, ?, ?, ?, ?)"
_READ_NOTES = """SELECT CAST(name AS TEXT), CAST(author AS TEXT), at, CAST(body AS TEXT) FROM notes
    WHERE run_id = ? ORDER BY at, name, author"""


def keep_note(connection: WriteConnection, note: Note) -> None:
    """Store a note, replacing the author's note with that name; see ``SharedJournal.keep_note``."""
    known = number_of(connection, note.run_id)
    connection.lock_run(note.run_id)
    # It may have been removed, and its row made again by the lock.
    if known is None or number_of(connection, note.run_id) != known:
        raise no_such_run(note.run_id)
    connection.execute(_DROP_NOTE, (note.run_id, note.name, note.by))
    if note.value is not None:
        body = encode(note.value).decode()
        connection.execute(_KEEP_NOTE, (note.run_id, note.name, note.by, to_micros(note.at), body))


def read_notes(connection: Connection, run_id: str) -> list[Note]:
    """Return the notes on a run, oldest first."""
    return [
        Note(run_id=run_id, name=name, by=by, at=from_micros(at), value=msgspec.json.decode(body))
        for name, by, at, body in connection.execute(_READ_NOTES, (run_id,)).fetchall()
    ]


# The row is locked until the end of the transaction, even if it did not exist before.
_READ_VALUE = """INSERT INTO shared_values (name, body) VALUES (?, '')
    ON CONFLICT (name) DO UPDATE SET body = shared_values.body RETURNING CAST(body AS TEXT)"""
_LOOK_AT_VALUE = "SELECT CAST(body AS TEXT) FROM shared_values WHERE name = ?"
_LOOK_AT_VALUES = """SELECT CAST(name AS TEXT), CAST(body AS TEXT) FROM shared_values
    WHERE name >= ? AND name < ? AND body <> ''"""
_WRITE_VALUE = "UPDATE shared_values SET body = ? WHERE name = ?"
_FORGET_VALUES = "DELETE FROM shared_values WHERE name >= ? AND name < ?"


def read_value(connection: Connection, name: str) -> str:
    """Return the value as last committed, "" if there is none."""
    row = connection.execute(_LOOK_AT_VALUE, (name,)).fetchone()
    return "" if row is None else row[0]


def read_values(connection: Connection, first: str, end: str) -> dict[str, str]:
    """Return the values with names from *first* to before *end*, as last committed."""
    return dict(connection.execute(_LOOK_AT_VALUES, (first, end)).fetchall())


class StoredValues:
    """The values within a transaction; implements SharedValues.

    Args:
        connection: The write connection of the transaction.
    """

    def __init__(self, connection: WriteConnection) -> None:
        self._connection = connection
        self.now_us: int = connection.execute(f"SELECT {NOW_US}").fetchone()[0]

    def read(self, name: str) -> str:
        """See ``SharedValues.read``."""
        (body,) = self._connection.execute(_READ_VALUE, (name,)).fetchall()[0]
        return body

    def write(self, name: str, body: str) -> None:
        """See ``SharedValues.write``."""
        self._connection.execute(_WRITE_VALUE, (body, name))

    def forget(self, first: str, end: str) -> None:
        """See ``SharedValues.forget``."""
        self._connection.execute(_FORGET_VALUES, (first, end))
