"""SqliteArtifactStore: large outputs in the journal's file."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol, TypeVar

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.structs import JsonObject
from upshot.contract.message import File
from upshot.errors import JournalError
from upshot.journal.artifact_store import (
    Kept,
    Pruned,
    check_limits,
    choose_old,
    read_artifact,
    refuse_id,
    store,
)
from upshot.journal.sqlite.queries import insert_artifact

T = TypeVar("T")
# Runs that wait for an answer although a parent run has ended: from each run up, by parent ids.
_LEFT_BEHIND = """WITH RECURSIVE way(run_id, outer) AS (
        SELECT run_id, parent_run_id FROM runs WHERE status = 'input_required'
        UNION
        SELECT way.run_id, r.parent_run_id FROM way JOIN runs AS r ON r.run_id = way.outer
    )
    SELECT way.run_id FROM way JOIN runs AS r ON r.run_id = way.outer
    WHERE r.status NOT IN ('running', 'input_required')"""
# A run that waits for an answer goes on reading its artifacts.
_ENDED = f"""SELECT a.id, a.size_bytes, a.stored_at
    FROM artifacts AS a LEFT JOIN runs AS r ON r.run_id = a.run_id
    WHERE (coalesce(r.status, '') NOT IN ('running', 'input_required')
        OR (?2 AND a.run_id IN ({_LEFT_BEHIND})))
    AND (?1 = '' OR a.run_id = ?1)"""
_DELETE = "DELETE FROM artifacts WHERE id = ?"
_SELECT = "SELECT data, sha256 FROM artifacts WHERE id = ? AND run_id = ?"


class _Database(Protocol):
    """What of a journal its store needs."""

    def post(self, work: Callable[[sqlite3.Connection], None], size_bytes: int) -> None: ...
    def flush(self) -> Awaitable[None]: ...
    def read(self, work: Callable[[sqlite3.Connection], T]) -> Awaitable[T]: ...


class SqliteArtifactStore:
    """Keeps artifacts in a journal's file; plays the role ArtifactStore.

    What is put is queued with the journal's events, so it is safe before any event that is
    appended after it.
    """

    def __init__(self, database: _Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"SqliteArtifactStore({self._database!r})"

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        """Store *data*."""
        artifact = await store(run_id, call_id, data, media_type)
        try:
            self._database.post(
                lambda connection: insert_artifact(connection, artifact), len(artifact.data)
            )
        except JournalError as error:
            raise OSError(str(error)) from error
        return artifact.file

    async def read(
        self,
        id: str,
        *,
        run_id: str,
        offset: int = 0,
        limit: int | None = None,
        pattern: str | None = None,
    ) -> JsonObject:
        """Read a page, or the lines that match *pattern*; see ``read_page``."""

        def find(connection: sqlite3.Connection) -> JsonObject:
            row = connection.execute(_SELECT, (id, run_id)).fetchone()
            if row is None:
                refuse_id(id)
            data, sha256 = row
            if hashlib.sha256(data).hexdigest() != sha256:
                raise JournalError(f"the artifact {id} is damaged", run_id=run_id)
            return read_artifact(data, offset=offset, limit=limit, pattern=pattern)

        await self._database.flush()
        return await self._database.read(find)

    async def prune(
        self,
        *,
        max_age_s: float | None = None,
        max_bytes: float | None = None,
        run_id: str = "",
        left_behind: bool = False,
        now: datetime | None = None,
    ) -> Pruned:
        """Let old artifacts of runs that have ended go.

        Reading one then is as if it had never been. The file keeps its size, and new events
        take the room; SQLite's ``VACUUM`` makes it smaller.
        """
        check_limits(max_age_s, max_bytes)
        at = (now or SYSTEM_CLOCK.now()).timestamp()
        gone: list[Kept] = []

        def prune(connection: sqlite3.Connection) -> None:
            rows = map(Kept._make, connection.execute(_ENDED, (run_id, left_behind)))
            gone.extend(choose_old(rows, max_age_s=max_age_s, max_bytes=max_bytes, now=at))
            connection.executemany(_DELETE, [(one.id,) for one in gone])

        self._database.post(prune, 0)
        await self._database.flush()
        return Pruned.of(gone)
