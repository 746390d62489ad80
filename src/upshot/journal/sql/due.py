"""Due runs and control requests: submissions, runs whose row makes them due, answers, stops.

A control request is a row beside the log: the first answer for each question of a run, or a
request to stop the run.

Times are in microseconds since 1970, by the database's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from upshot.contract.base.enums import Status
from upshot.contract.codec import decode, encode
from upshot.contract.pending import PendingApproval
from upshot.journal.audit import AuditRow
from upshot.journal.event_codec import from_micros
from upshot.journal.lease_holder import NOBODY, read_holder
from upshot.journal.run_list import RunQuery
from upshot.journal.shared import (
    QUEUED,
    DueRun,
    OtherUser,
    PlacedAnswer,
    Stop,
    Submission,
    duplicate_id_error,
    is_past_key,
    place_beside,
)
from upshot.journal.sql.audit_rows import add_answer
from upshot.journal.sql.connection import (
    HOLDER,
    IS_NEW,
    NOW_US,
    SKIP_LOCKED,
    Connection,
    WriteConnection,
)
from upshot.journal.sql.inbox import drop_item, keep_item
from upshot.journal.sql.queries import FREE, last_seq, number_of, read_summaries
from upshot.journal.sql.submissions import keep_submission, queue_run
from upshot.journal.watching import DUE, placed_answers_topic
from upshot.state.summary import RUNNING, owner_of

# A run that was claimed but has neither a log nor a submission has not started. A run that has
# ended is never due, and a child run belongs to its parent until the parent ends.
_UNENDED = f"status IN ('{QUEUED}', '{RUNNING}', '{Status.INPUT_REQUIRED}')"
IS_OPEN = f"""({_UNENDED} AND (last_seq > 0 OR status = '{QUEUED}') AND NOT EXISTS (
    SELECT 1 FROM runs AS parent WHERE parent.run_id = runs.parent_run_id AND parent.{_UNENDED}))"""

_FIRST_OWNER = """SELECT CAST(owner AS TEXT), CAST(tenant AS TEXT) FROM runs
    WHERE context_id <> '' AND context_id = ? ORDER BY run_no LIMIT 1"""
_OF_KEY = "SELECT CAST(body AS TEXT), until FROM submissions WHERE key = ?"
_FORGET = "DELETE FROM submissions WHERE key = ?"
_COLUMNS = f"""SELECT CAST(run_id AS TEXT), CAST(agent_id AS TEXT), CAST(context_id AS TEXT),
    CAST(due_reason AS TEXT), priority, due_at, last_seq, CAST(epoch AS BIGINT),
    {HOLDER} FROM runs"""
_DUE = f"{_COLUMNS} WHERE due_at IS NOT NULL AND due_at <= {NOW_US} AND {FREE}"
_ORDER = f" ORDER BY priority DESC, {IS_NEW}, due_at, run_no"
_HELD = f"""{_COLUMNS} WHERE holder <> '{NOBODY}'
    AND (due_at <= {NOW_US} OR due_at IS NULL AND {IS_OPEN})"""
_RESERVABLE = f"SELECT CAST(run_id AS TEXT) FROM runs WHERE due_at <= {NOW_US}"
_PUT_OFF = f"UPDATE runs SET due_at = {NOW_US} + ? WHERE run_id = ?"
_MAKE_DUE = f"""UPDATE runs SET due_at = {NOW_US} + ?, due_reason = ? WHERE run_id = ?
    AND {IS_OPEN}"""
_SOON = f"{_MAKE_DUE} AND (due_at IS NULL OR due_at > {NOW_US})"
_PARENT = f"""SELECT CAST(run_id AS TEXT) FROM runs WHERE {_UNENDED} AND run_id =
    (SELECT parent_run_id FROM runs WHERE run_id = ?)"""


def submit_run(connection: WriteConnection, new: Submission) -> Submission:
    """Store a run to start, within a transaction; see ``SharedJournal.submit``."""
    keep_submission(connection, new)
    if new.key:
        standing = _find_by_key(connection, new.key)
        if standing is None:
            connection.execute(_FORGET, (new.key,))
            keep_submission(connection, new)
            standing = _find_by_key(connection, new.key)
        if standing is not None and standing.run_id != new.run_id:
            return standing
    if number_of(connection, new.run_id) is not None:
        raise duplicate_id_error(new.run_id)
    _check_owner(connection, new)
    queue_run(connection, new)
    return new


def _check_owner(connection: WriteConnection, new: Submission) -> None:
    """Raise OtherUser if the conversation belongs to another user."""
    conversation, owner = new.request.context_id, owner_of(new.options.get("attributes"))
    if not conversation or not any(owner):
        return
    connection.lock_turns(conversation)
    first = connection.execute(_FIRST_OWNER, (conversation,)).fetchone()
    if first is not None and (first[0], first[1]) != owner:
        raise OtherUser(conversation)


def _find_by_key(connection: Connection, key: str) -> Submission | None:
    """Return the submission with a key; None if the key is unknown or expired."""
    row = connection.execute(_OF_KEY, (key,)).fetchone()
    if row is None:
        return None
    found = decode(row[0], Submission)
    (now,) = connection.execute(f"SELECT {NOW_US}").fetchone()
    if row[1] is not None:
        return found if row[1] > now else None
    runs = read_summaries(connection, RunQuery(run_id=found.run_id))
    ended_at = runs[0].updated_at if runs and runs[0].ended else None
    moment = from_micros(now)
    assert moment is not None
    return None if is_past_key(ended_at, moment) else found


def read_due(
    connection: Connection,
    agent_ids: Collection[str] | None,
    run_id: str | None,
    limit: int | None,
) -> list[DueRun]:
    """Return the runs that are due now; see ``SharedJournal.due_runs``."""
    names = [] if agent_ids is None else [*agent_ids]
    only = "" if agent_ids is None else f" AND agent_id IN ({', '.join('?' * len(names))})"
    if run_id is not None:
        names, only = [*names, run_id], f"{only} AND run_id = ?"
    most = "" if limit is None else f" LIMIT {limit:d}"
    free = connection.execute(_DUE + only + _ORDER + most, names).fetchall()
    left = [
        row
        for row in connection.execute(_HELD + only, names)
        if (holder := read_holder(row[-1])) is None or not holder.may_work
    ]
    return [_due_run(row) for row in (free + left)]


def _due_run(row: tuple[str, str, str, str, int, int | None, int, int, str]) -> DueRun:
    run_id, agent_id, conversation, reason, priority, due_at, last_seq, epoch, _ = row
    return DueRun(
        run_id=run_id,
        agent_id=agent_id,
        conversation=conversation,
        reason="died" if due_at is None else reason,
        priority=priority,
        at=from_micros(due_at),
        has_begun=last_seq > 0,
        epoch=epoch,
    )


def reserve_due(connection: WriteConnection, run_ids: Sequence[str], for_s: float) -> list[str]:
    """Postpone due runs; see ``SharedJournal.reserve_due``."""
    names = ", ".join("?" * len(run_ids))
    rows = connection.execute(f"{_RESERVABLE} AND run_id IN ({names}) {SKIP_LOCKED}", run_ids)
    found = [run_id for (run_id,) in rows.fetchall()]
    delay_us = round(for_s * 1_000_000)
    connection.executemany(_PUT_OFF, [(delay_us, run_id) for run_id in found])
    return found


def make_due(connection: WriteConnection, run_id: str, reason: str, delay_s: float) -> None:
    """Make a run due; see ``SharedJournal.make_due``."""
    connection.execute(_MAKE_DUE, (round(delay_s * 1_000_000), reason, run_id))
    connection.topics.add(DUE)


def make_due_soon(connection: WriteConnection, run_id: str, reason: str) -> None:
    """Make the root run of *run_id* due, unless it is due already."""
    while (parent := connection.execute(_PARENT, (run_id,)).fetchone()) is not None:
        (run_id,) = parent
    connection.execute(_SOON, (0, reason, run_id))
    connection.topics.add(DUE)


# These cannot be mistaken for questions: no question is named by a single word.
_STOPS = "item IN ('cancel', 'interrupt')"
_READ_WISHES = f"SELECT CAST(body AS TEXT) FROM wishes WHERE run_id = ? AND NOT {_STOPS}"
_READ_STOPS = f"SELECT CAST(body AS TEXT) FROM wishes WHERE {_STOPS} AND run_id IN "
_STOP = "INSERT INTO wishes (run_id, item, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_DROP_STOPS = f"DELETE FROM wishes WHERE run_id = ? AND {_STOPS}"
# The maximum number of parameters of a statement.
_CHUNK = 500
_ADD_WISH = "INSERT INTO wishes (run_id, item, body) VALUES (?, ?, ?)"
_HOLDER_OF = f"SELECT {HOLDER} FROM runs WHERE run_id = ?"


def place_answer(
    connection: WriteConnection,
    answer: PlacedAnswer,
    seq: int,
    asked: PendingApproval | None,
    row: AuditRow | None,
) -> PlacedAnswer | None:
    """Store a request within a transaction, with its row of the audit.

    See ``SharedJournal.place_answer``.
    """
    connection.lock_run(answer.run_id)
    kept = read_placed_answers(connection, answer.run_id)
    standing, is_new, still_asked = place_beside(answer, kept, asked)
    if not is_new:
        return standing
    if seq and (_is_held(connection, answer.run_id) or last_seq(connection, answer.run_id) != seq):
        return None
    connection.execute(_ADD_WISH, (answer.run_id, standing.row, encode(standing).decode()))
    if row is not None:
        add_answer(connection, answer, row)
    connection.topics.add(placed_answers_topic(answer.run_id))
    if still_asked is not None:
        keep_item(connection, answer.run_id, answer.item, still_asked)
        return standing
    drop_item(connection, answer.run_id, answer.item)
    if seq:
        make_due_soon(connection, answer.run_id, "answered")
    return standing


def read_placed_answers(connection: Connection, run_id: str) -> list[PlacedAnswer]:
    """Return all requests stored for a run, oldest first."""
    rows = connection.execute(_READ_WISHES, (run_id,))
    return sorted((decode(body, PlacedAnswer) for (body,) in rows), key=lambda one: one.at)


def place_stop(connection: WriteConnection, stop: Stop) -> None:
    """Store a stop request within a transaction; see ``SharedJournal.place_stop``."""
    connection.lock_run(stop.run_id)
    connection.execute(_STOP, (stop.run_id, stop.kind, encode(stop).decode()))
    connection.topics.add(placed_answers_topic(stop.run_id))
    # Even for a run that is worked on: if it parks before it sees the request, it is claimed again.
    make_due_soon(connection, stop.run_id, stop.kind)


def read_stops(connection: Connection, run_ids: Sequence[str]) -> list[Stop]:
    """Return the stop requests of some runs."""
    found: list[Stop] = []
    for start in range(0, len(run_ids), _CHUNK):
        some = run_ids[start : start + _CHUNK]
        rows = connection.execute(f"{_READ_STOPS} ({', '.join('?' * len(some))})", some)
        found += [decode(body, Stop) for (body,) in rows]
    return found


def drop_stops(connection: WriteConnection, run_id: str) -> None:
    """Remove the stop requests of a run."""
    connection.execute(_DROP_STOPS, (run_id,))


def _is_held(connection: Connection, run_id: str) -> bool:
    row = connection.execute(_HOLDER_OF, (run_id,)).fetchone()
    holder = read_holder(row[0]) if row else None
    return holder is not None and holder.may_work
