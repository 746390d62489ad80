"""Removes runs with everything the journal has about them, or only their content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby

import upshot.journal.sql.queries as stored
from upshot.contract.codec import encode
from upshot.contract.events import REDACTED, BoardChanged, Event
from upshot.journal.audit import AuditRow, with_count
from upshot.journal.event_codec import checksum, damage_error, read_event, to_entry
from upshot.journal.facts import facts_of_run, forget_facts
from upshot.journal.run_list import (
    RemovedRuns,
    RunFamily,
    RunQuery,
    TurnClaim,
    choose_redaction,
    choose_removal,
    open_error,
    unarchived,
)
from upshot.journal.shared import used_links_of, withdrawals_of
from upshot.journal.sql.audit_rows import add_row, blank_rows
from upshot.journal.sql.connection import (
    SEQ_BITS,
    Connection,
    WriteConnection,
    among,
    in_pages,
    keys_of,
)
from upshot.journal.sql.conversations import committed_of
from upshot.journal.sql.count_rows import note_removed
from upshot.journal.sql.effects import drop_effects, keep_effects, redact_effects
from upshot.journal.sql.inbox import keep_asks
from upshot.journal.sql.leases import read_holders, turn_in_the_way
from upshot.journal.sql.queries import StoredValues
from upshot.journal.sql.submissions import forget_submissions, redact_submission
from upshot.journal.watching import of_run
from upshot.state.redacted_events import redacted, with_digest
from upshot.state.summary import NO_ASKS
from upshot.state.turns import KeptTurns

_FORGET = """DELETE FROM turn_blocks
    WHERE context_id = (SELECT context_id FROM runs WHERE run_id = ?)"""
_REWRITE = "UPDATE events SET time = ?, body = ?, crc = ? WHERE id = ?"
_RELIST = """UPDATE runs SET request = ?, answer = CASE answer WHEN '' THEN '' ELSE ? END
    WHERE run_id = ?"""
_WIPE = (
    "DELETE FROM artifacts WHERE run_id = ?",
    "DELETE FROM wishes WHERE run_id = ?",
    f"UPDATE notes SET body = '{encode(REDACTED).decode()}' WHERE run_id = ?",
    _FORGET,
)
_ARTIFACTS = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM artifacts WHERE"
_FORGET_OF = "DELETE FROM turn_blocks WHERE context_id IN (SELECT context_id FROM runs WHERE"


def remove_runs(
    connection: WriteConnection,
    run_ids: Sequence[str],
    ended_before: datetime | None,
    conversation: str,
    *,
    keep: Mapping[str, str],
    effects: bool = False,
    archived: Mapping[str, object] | None = None,
    row: AuditRow | None,
) -> RemovedRuns:
    """Remove runs within a transaction.

    Args:
        connection: To the database.
        run_ids: As for ``SqlJournal.remove_runs``, like *ended_before* and *conversation*.
        ended_before: As there.
        conversation: As there.
        keep: As there.
        effects: As there.
        archived: As there.
        row: The row of the audit; None only reports what would be removed.
    """
    connection.lock_runs()
    family = _family(connection)
    if archived is not None:
        stays = unarchived(family.known, archived, partial(stored.fingerprint, connection))
        keep = {**stays, **keep}
    gone, kept = choose_removal(run_ids, ended_before, conversation, family, keep)
    artifacts = size_bytes = 0
    for some in in_pages(gone):
        statement = f"{_ARTIFACTS} {among('run_id', some)}"
        count, size = connection.execute(statement, some).fetchone()
        artifacts += count
        size_bytes += size
        if row is not None:
            _remove(connection, some, effects=effects)
            if archived is None:
                blank_rows(connection, some)
    if row is not None:
        drop_effects(connection, ended_before, effects=effects)
        if gone or effects:
            add_row(connection, with_count(row, len(gone)))
    return RemovedRuns(run_ids=tuple(gone), artifacts=artifacts, size_bytes=size_bytes, kept=kept)


def redact_runs(connection: WriteConnection, conversation: str, row: AuditRow) -> tuple[str, ...]:
    """Remove the content of a conversation; see ``SharedJournal.redact``.

    Args:
        connection: To the database.
        conversation: The conversation.
        row: The row of the audit; its user is who asks for it.
    """
    by = row.user
    connection.lock_runs()
    connection.lock_turns(conversation)
    chosen = choose_redaction(conversation, _family(connection))
    if other := turn_in_the_way(connection, "", TurnClaim(conversation, "")):
        # It was claimed just now, and has no events yet.
        raise open_error(conversation, *other)
    at = datetime.now(UTC)
    for run in chosen:
        _rewrite(connection, run.run_id, lambda event: redacted(event, by, at))
        connection.execute(_RELIST, (REDACTED, REDACTED, run.run_id))
        for statement in _WIPE:
            connection.execute(statement, (run.run_id,))
        run_no = stored.number_of(connection, run.run_id) or 0
        keep_asks(connection, run_no, NO_ASKS)
        redact_effects(connection, run_no)
        redact_submission(connection, run.run_id)
        forget_facts(StoredValues(connection), run.run_id)
        blank_rows(connection, [run.run_id])
        connection.topics.add(of_run(run.run_id))
    add_row(connection, with_count(row, len(chosen)))
    kept = KeptTurns()
    for run in chosen:
        _rewrite(connection, run.run_id, lambda event: _with_seed_digest(connection, event, kept))
    return tuple(run.run_id for run in chosen)


def _rewrite(connection: WriteConnection, run_id: str, change: Callable[[Event], Event]) -> None:
    """Replace each event of a run by what *change* returns for it."""
    damage = stored.scan_run(connection, run_id).damage
    if damage is not None:
        # New checksums would make a damaged log look sound.
        raise damage_error(damage)
    rows: list[tuple[object, ...]] = []
    run_no = stored.number_of(connection, run_id) or 0
    for old in stored.read_entries(connection, run_id):
        event = change(read_event(old))
        new = to_entry(event, run_id, old.seq, old.epoch)
        rows.append((new.time, new.body, checksum(new), run_no << SEQ_BITS | old.seq))
    connection.executemany(_REWRITE, rows)


def _with_seed_digest(connection: Connection, event: Event, kept: KeptTurns) -> Event:
    if not isinstance(event, BoardChanged) or (seed := event.seed) is None:
        return event
    turns = committed_of(connection, seed.conversation, kept)
    return with_digest(event, seed, turns.at(seed.revision))


def _family(connection: Connection) -> RunFamily:
    """Return how the runs depend on each other."""
    forks: dict[str, list[str]] = {}
    for origin, run_id in connection.execute("SELECT origin_run_id, run_id FROM forks"):
        forks.setdefault(origin, []).append(run_id)
    holders = read_holders(connection).items()
    at_work = [run_id for run_id, holder in holders if holder.state in ("lives", "stopped")]
    return RunFamily(stored.read_summaries(connection, RunQuery()), forks=forks, at_work=at_work)


def _remove(connection: WriteConnection, run_ids: Sequence[str], *, effects: bool) -> None:
    """Remove a page of runs: a statement for each takes a server most of the time."""
    chosen = among("run_id", run_ids)
    found = connection.execute(f"SELECT run_no FROM runs WHERE {chosen}", run_ids)
    run_nos = [run_no for (run_no,) in found.fetchall()]
    if len(run_nos) < len(run_ids):
        # This raises the error for a damaged index.
        run_nos = [stored.number_of(connection, run_id) or 0 for run_id in run_ids]
    numbered = among("run_no", run_nos)
    note_removed(connection, run_nos)
    keep_effects(connection, run_nos, effects=effects)
    ranges = [key for first, last in _spans(run_nos) for key in _keys_between(first, last)]
    between = " OR ".join(["id BETWEEN ? AND ?"] * (len(ranges) // 2))
    connection.execute(f"DELETE FROM events WHERE {between}", ranges)
    connection.execute(f"DELETE FROM inbox WHERE {numbered}", run_nos)
    connection.execute(f"{_FORGET_OF} {numbered})", run_nos)
    for table in ("artifacts", "forks", "wishes", "notes"):
        connection.execute(f"DELETE FROM {table} WHERE {chosen}", run_ids)
    for named in (withdrawals_of, used_links_of, facts_of_run):
        names = [named(run_id)[0] for run_id in run_ids]
        connection.execute(f"DELETE FROM shared_values WHERE {among('name', names)}", names)
    forget_submissions(connection, run_ids)
    connection.execute(f"DELETE FROM runs WHERE {numbered}", run_nos)


def _spans(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return the first and the last of each series of consecutive numbers."""
    for _, series in groupby(enumerate(sorted(numbers)), lambda one: one[1] - one[0]):
        found = [number for _, number in series]
        yield found[0], found[-1]


def _keys_between(first: int, last: int) -> tuple[int, int]:
    """Return the range of keys of the events of consecutive runs."""
    return keys_of(first)[0], keys_of(last)[1]
