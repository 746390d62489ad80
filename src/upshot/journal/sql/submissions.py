"""Rows of submitted runs: by a caller, or by a run that hands its request over."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from upshot.contract.base.json_values import clean_text
from upshot.contract.codec import decode, encode
from upshot.contract.model_calls import Request
from upshot.journal.event_codec import to_micros
from upshot.journal.shared import KEY_LIFE, QUEUED, Submission, handed_over, redacted_submission
from upshot.journal.sql.connection import NOW_US, Connection, WriteConnection, among
from upshot.journal.watching import DUE, of_run
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.summary import listed_request, owner_of

_KEY_LIFE_US = int(KEY_LIFE.total_seconds() * 1_000_000)
_KEEP = "INSERT INTO submissions (run_id, key, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_OF_RUN = "SELECT CAST(body AS TEXT) FROM submissions WHERE run_id = ? AND until IS NULL"
_QUEUE = f"""INSERT INTO runs (run_id, agent_id, status, request, context_id, owner, tenant,
    started_at, priority, due_at, due_reason) VALUES (?, ?, '{QUEUED}', ?, ?, ?, ?, {NOW_US}, ?,
    coalesce(?, {NOW_US}), 'submitted') ON CONFLICT DO NOTHING"""
_STRIP = f"UPDATE submissions SET body = ?, until = {NOW_US} + {_KEY_LIFE_US} WHERE run_id = ?"
_REDACT = "UPDATE submissions SET body = ? WHERE run_id = ?"
_KEYED = """SELECT CAST(body AS TEXT) FROM submissions
    WHERE key IS NOT NULL AND until IS NULL AND"""
_DROP = "DELETE FROM submissions WHERE key IS NULL AND"
_DROP_PAST = f"DELETE FROM submissions WHERE until < {NOW_US}"
_HANDING = """SELECT CAST(agent_id AS TEXT), CAST(parent_run_id AS TEXT), CAST(request AS TEXT),
    CAST(context_id AS TEXT) FROM runs WHERE run_no = ? AND is_chained"""
# Held by the same process until it starts the run; the turn stays claimed with it.
_HAND_ON = f"""INSERT INTO runs (run_id, agent_id, status, request, parent_run_id, context_id,
    owner, tenant, started_at, priority, turn, is_chained, holder)
    SELECT ?, agent_id, '{QUEUED}', request, ?, context_id, owner, tenant, {NOW_US}, priority, turn,
    is_chained, ? FROM runs WHERE run_no = ? ON CONFLICT DO NOTHING"""
_WITHDRAW = f"DELETE FROM runs WHERE run_id = ? AND status = '{QUEUED}' AND last_seq = 0"
_UNKEEP = """DELETE FROM submissions WHERE run_id = ?
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run_id = submissions.run_id)"""


def keep_submission(connection: WriteConnection, new: Submission) -> None:
    """Store a submission, unless its key or its run is known."""
    connection.execute(_KEEP, (new.run_id, new.key or None, encode(new).decode()))


def read_submission(connection: Connection, run_id: str) -> Submission | None:
    """Return how a run was submitted; None if it was not."""
    row = connection.execute(_OF_RUN, (run_id,)).fetchone()
    return None if row is None else decode(row[0], Submission)


def queue_run(connection: WriteConnection, new: Submission) -> None:
    """Add a submitted run without a log to the list of runs."""
    request = new.request
    row = (
        new.run_id,
        clean_text(new.agent_id),
        listed_request(request, new.marks),
        clean_text(request.context_id),
        *owner_of(new.options.get("attributes")),
        new.priority,
        to_micros(new.at),
    )
    connection.execute(_QUEUE, row)
    connection.topics.add(DUE)


def hand_over(connection: WriteConnection, run_no: int, run_id: str, holder: str) -> None:
    """Submit the next run in a chain of handoffs; does nothing for a run in no chain."""
    row = connection.execute(_HANDING, (run_no,)).fetchone()
    if row is None:
        return
    agent_id, parent, request, context_id = row
    asked = Request(request, context_id=context_id)
    following = handed_over(run_id, agent_id, asked, read_submission(connection, run_id))
    # A run around the whole chain is the parent of each of its runs.
    is_inside = parent and run_id != child_id(CHAIN_OPTION, parent)
    outer = parent if is_inside else run_id
    keep_submission(connection, following)
    connection.execute(_HAND_ON, (following.run_id, outer, holder, run_no))


def withdraw_run(connection: WriteConnection, run_id: str) -> None:
    """Remove a run that has not started; see ``SharedJournal.withdraw``."""
    connection.lock_run(run_id)
    connection.execute(_WITHDRAW, (run_id,))
    connection.execute(_UNKEEP, (run_id,))
    connection.topics.add(of_run(run_id))


def redact_submission(connection: WriteConnection, run_id: str) -> None:
    """Remove the content from the submission of a run; its key stays known."""
    found = read_submission(connection, run_id)
    if found is not None:
        connection.execute(_REDACT, (encode(redacted_submission(found)).decode(), run_id))


def forget_submissions(connection: WriteConnection, run_ids: Sequence[str]) -> None:
    """Remove the submissions of removed runs, at most a page; keys stay known for a while."""
    chosen = among("run_id", run_ids)
    for (body,) in connection.execute(f"{_KEYED} {chosen}", run_ids).fetchall():
        found = decode(body, Submission)
        bare = replace(found, request=Request(""), options={}, marks={})
        connection.execute(_STRIP, (encode(bare).decode(), found.run_id))
    connection.execute(f"{_DROP} {chosen}", run_ids)
    connection.execute(_DROP_PAST)
