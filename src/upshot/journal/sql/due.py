"""Runs that somebody has to take up: submitted ones, and others whose row says that they are due.

Moments are in microseconds since 1970, by the database's clock.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from upshot.contract.base.enums import Status
from upshot.contract.base.json_values import clean_text, without_nul
from upshot.contract.codec import decode, encode
from upshot.contract.model_calls import Request
from upshot.journal.event_codec import from_micros, to_micros
from upshot.journal.lease_holder import read_holder
from upshot.journal.run_list import RunQuery
from upshot.journal.shared import KEY_LIFE, QUEUED, DueRun, Submission, is_past_key, taken_id
from upshot.journal.sql.connection import HOLDER, Connection, WriteConnection
from upshot.journal.sql.queries import number_of, read_summaries
from upshot.journal.watching import DUE
from upshot.state.summary import REQUEST_CHARS, RUNNING

NOW_US = "now_us()"
"""The database's clock, in the shared statements."""

# A run that was taken and has neither a log nor a submission had not begun; who has ended is never
# due, and a child run is its parent's while that has not ended.
_UNENDED = f"status IN ('{QUEUED}', '{RUNNING}', '{Status.INPUT_REQUIRED}')"
IS_OPEN = f"""({_UNENDED} AND (last_seq > 0 OR status = '{QUEUED}') AND NOT EXISTS (
    SELECT 1 FROM runs AS parent WHERE parent.run_id = runs.parent_run_id AND parent.{_UNENDED}))"""

_KEY_LIFE_US = int(KEY_LIFE.total_seconds() * 1_000_000)
_KEEP = "INSERT INTO submissions (run_id, key, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_OF_KEY = "SELECT CAST(body AS TEXT), until FROM submissions WHERE key = ?"
_OF_RUN = "SELECT CAST(body AS TEXT) FROM submissions WHERE run_id = ? AND until IS NULL"
_FORGET = "DELETE FROM submissions WHERE key = ?"
_QUEUE = f"""INSERT INTO runs (run_id, agent_id, status, request, context_id, started_at, priority,
    due_at, due_reason) VALUES (?, ?, '{QUEUED}', ?, ?, {NOW_US}, ?, coalesce(?, {NOW_US}),
    'submitted') ON CONFLICT DO NOTHING"""
_COLUMNS = f"""SELECT CAST(run_id AS TEXT), CAST(agent_id AS TEXT), CAST(context_id AS TEXT),
    CAST(due_reason AS TEXT), priority, due_at, last_seq, CAST(epoch AS BIGINT),
    {HOLDER} FROM runs"""
_DUE = f"{_COLUMNS} WHERE due_at IS NOT NULL AND due_at <= {NOW_US}"
_ORDER = " ORDER BY priority DESC, due_at, run_no"
_DIED = f"{_COLUMNS} WHERE holder IS NOT NULL AND due_at IS NULL AND {IS_OPEN}"
_MAKE_DUE = f"""UPDATE runs SET due_at = {NOW_US} + ?, due_reason = ? WHERE run_id = ?
    AND {IS_OPEN}"""
_SOON = f"{_MAKE_DUE} AND due_at IS NULL"
_PARENT = f"""SELECT CAST(run_id AS TEXT) FROM runs WHERE {_UNENDED} AND run_id =
    (SELECT parent_run_id FROM runs WHERE run_id = ?)"""
_STRIP = f"UPDATE submissions SET body = ?, until = {NOW_US} + {_KEY_LIFE_US} WHERE run_id = ?"
_DROP = f"DELETE FROM submissions WHERE (run_id = ? AND key IS NULL) OR until < {NOW_US}"


def submit_run(connection: WriteConnection, new: Submission) -> Submission:
    """Keep a run that is to be begun, within a transaction; see ``SharedJournal.submit``."""
    values = (new.run_id, new.key or None, encode(new).decode())
    connection.execute(_KEEP, values)
    if new.key:
        standing = _standing(connection, new.key)
        if standing is None:
            connection.execute(_FORGET, (new.key,))
            connection.execute(_KEEP, values)
            standing = _standing(connection, new.key)
        if standing is not None and standing.run_id != new.run_id:
            return standing
    if number_of(connection, new.run_id) is not None:
        raise taken_id(new.run_id)
    queue_run(connection, new)
    return new


def queue_run(connection: WriteConnection, new: Submission) -> None:
    """Put a run into the list that was submitted and has no log."""
    request = new.request
    row = (
        new.run_id,
        clean_text(new.agent_id),
        without_nul(clean_text(request.text[:REQUEST_CHARS])),
        clean_text(request.context_id),
        new.priority,
        to_micros(new.at),
    )
    connection.execute(_QUEUE, row)
    connection.told.add(DUE)


def _standing(connection: Connection, key: str) -> Submission | None:
    """The submission that has a key; None where it is no longer known."""
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


def read_submission(connection: Connection, run_id: str) -> Submission | None:
    """How a run was submitted; None for one that was not."""
    row = connection.execute(_OF_RUN, (run_id,)).fetchone()
    return None if row is None else decode(row[0], Submission)


def forget_submission(connection: WriteConnection, run_id: str) -> None:
    """Forget what was submitted of a run that is removed; its key is known for a while."""
    found = read_submission(connection, run_id)
    if found is not None and found.key:
        bare = replace(found, request=Request(""), options={}, marks={})
        connection.execute(_STRIP, (encode(bare).decode(), run_id))
    connection.execute(_DROP, (run_id,))


def read_due(
    connection: Connection,
    agent_ids: Collection[str] | None,
    run_id: str | None,
    limit: int | None,
) -> list[DueRun]:
    """The runs that somebody has to take up now; see ``SharedJournal.due_runs``."""
    names = [] if agent_ids is None else [*agent_ids]
    only = "" if agent_ids is None else f" AND agent_id IN ({', '.join('?' * len(names))})"
    if run_id is not None:
        names, only = [*names, run_id], f"{only} AND run_id = ?"
    found: list[DueRun] = []
    for row in connection.execute(_DUE + only + _ORDER, names):
        holder = read_holder(row[-1])
        if holder is None or not holder.may_work:
            found.append(_due_run(row))
            if len(found) == limit:
                break
    for row in connection.execute(_DIED + only, names):
        holder = read_holder(row[-1])
        if holder is not None and not holder.may_work:
            found.append(replace(_due_run(row), reason="died"))
    return found


def _due_run(row: tuple[str, str, str, str, int, int | None, int, int, str]) -> DueRun:
    run_id, agent_id, conversation, reason, priority, due_at, last_seq, epoch, _ = row
    return DueRun(
        run_id=run_id,
        agent_id=agent_id,
        conversation=conversation,
        reason=reason,
        priority=priority,
        at=from_micros(due_at),
        has_begun=last_seq > 0,
        epoch=epoch,
    )


def make_due(connection: WriteConnection, run_id: str, reason: str, delay_s: float) -> None:
    """Have a run taken up; see ``SharedJournal.make_due``."""
    connection.execute(_MAKE_DUE, (round(delay_s * 1_000_000), reason, run_id))
    connection.told.add(DUE)


def make_due_soon(connection: WriteConnection, run_id: str, reason: str) -> None:
    """Have the root run of *run_id* taken up, unless it is due already."""
    while (parent := connection.execute(_PARENT, (run_id,)).fetchone()) is not None:
        (run_id,) = parent
    connection.execute(_SOON, (0, reason, run_id))
    connection.told.add(DUE)
