"""Removes runs from the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from upshot.journal.run_list import RemovedRuns, RunQuery, choose_removal
from upshot.journal.sqlite.leases import read_holders
from upshot.journal.sqlite.queries import keys_of, number_of, read_summaries

_ARTIFACTS = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM artifacts WHERE run_id = ?"


def remove_runs(
    connection: sqlite3.Connection,
    run_ids: Sequence[str],
    ended_before: datetime | None,
    *,
    dry_run: bool,
) -> RemovedRuns:
    """Remove runs within a transaction."""
    forks: dict[str, list[str]] = {}
    for origin, run_id in connection.execute("SELECT origin_run_id, run_id FROM forks"):
        forks.setdefault(origin, []).append(run_id)
    holders = read_holders(connection).items()
    gone, kept = choose_removal(
        run_ids,
        ended_before,
        read_summaries(connection, RunQuery()),
        forks=forks,
        at_work=[run_id for run_id, holder in holders if holder.state in ("lives", "stopped")],
    )
    artifacts = size_bytes = 0
    for run_id in gone:
        count, size = connection.execute(_ARTIFACTS, (run_id,)).fetchone()
        artifacts += count
        size_bytes += size
        if not dry_run:
            _remove(connection, run_id)
    return RemovedRuns(run_ids=tuple(gone), artifacts=artifacts, size_bytes=size_bytes, kept=kept)


def _remove(connection: sqlite3.Connection, run_id: str) -> None:
    run_no = number_of(connection, run_id)
    if run_no is not None:
        keys = keys_of(run_no)
        connection.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", keys)
    connection.execute("DELETE FROM artifacts WHERE run_id = ?", (run_id,))
    connection.execute("DELETE FROM forks WHERE run_id = ?", (run_id,))
    connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
