"""SqlArtifactStore: large outputs in the journal's database."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec

from upshot.errors import JournalError, Misuse
from upshot.journal.artifact_store import ArtifactKeeper, Kept, StoredArtifact
from upshot.journal.sql.connection import Connection, WriteConnection

T = TypeVar("T")
# Runs that wait for an answer although a parent run has ended: walks up from each by parent ids.
_LEFT_BEHIND = """WITH RECURSIVE way(run_id, above) AS (
        SELECT run_id, parent_run_id FROM runs WHERE status = 'input_required'
        UNION
        SELECT way.run_id, r.parent_run_id FROM way JOIN runs AS r ON r.run_id = way.above
    )
    SELECT way.run_id FROM way JOIN runs AS r ON r.run_id = way.above
    WHERE r.status NOT IN ('running', 'input_required')"""
# A run that waits for an answer may still read its artifacts.
_ENDED = f"""SELECT a.id, a.size_bytes, a.stored_at
    FROM artifacts AS a LEFT JOIN runs AS r ON r.run_id = a.run_id
    WHERE (coalesce(r.status, '') NOT IN ('running', 'input_required')
        OR (? AND a.run_id IN ({_LEFT_BEHIND})))
    AND (? = '' OR a.run_id = ?)"""
# Its columns have the names of the fields.
_COLUMNS = StoredArtifact.__struct_fields__
_OF_RUN = f"SELECT {', '.join(_COLUMNS)} FROM artifacts WHERE run_id = ? ORDER BY rowid"
_INSERT = f"""INSERT INTO artifacts ({", ".join(_COLUMNS)}, size_bytes)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DELETE = "DELETE FROM artifacts WHERE id = ?"
_SELECT = "SELECT data, sha256 FROM artifacts WHERE id = ? AND run_id = ?"


class _Database(Protocol):
    """What the store needs of a journal."""

    def check_text(self, *texts: str) -> None: ...
    def post(self, work: Callable[[WriteConnection], None], size_bytes: int) -> None: ...
    def flush(self) -> Awaitable[None]: ...
    def read(self, work: Callable[[Connection], T]) -> Awaitable[T]: ...


class SqlArtifactStore(ArtifactKeeper):
    """Keeps artifacts in a journal's database.

    Artifacts are queued with the journal's events, so one is safe before any event that is appended
    after it.
    """

    def __init__(self, database: _Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"SqlArtifactStore({self._database!r})"

    def _store(self, artifact: StoredArtifact) -> None:
        try:
            self._database.check_text(artifact.run_id, artifact.call_id, artifact.media_type)
            self._database.post(
                lambda connection: insert_artifact(connection, artifact), len(artifact.data)
            )
        except (JournalError, Misuse) as error:
            raise OSError(str(error)) from error

    async def _read(self, id: str, run_id: str, read: Callable[[bytes], T]) -> T | None:
        def find(connection: Connection) -> T | None:
            row = connection.execute(_SELECT, (id, run_id)).fetchone()
            if row is None:
                return None
            data, sha256 = row
            if hashlib.sha256(data).hexdigest() != sha256:
                raise JournalError(f"the artifact {id} is damaged", run_id=run_id)
            return read(data)

        await self._database.flush()
        return await self._database.read(find)

    async def _prune(
        self, choose: Callable[[Iterable[Kept]], list[Kept]], run_id: str, *, left_behind: bool
    ) -> list[Kept]:
        gone: list[Kept] = []

        def prune(connection: WriteConnection) -> None:
            rows = map(Kept._make, connection.execute(_ENDED, (left_behind, run_id, run_id)))
            gone[:] = choose(rows)
            connection.executemany(_DELETE, [(one.id,) for one in gone])

        self._database.post(prune, 0)
        await self._database.flush()
        return gone


def insert_artifact(connection: WriteConnection, artifact: StoredArtifact) -> None:
    """Store *artifact*, whose id must be new."""
    values = [getattr(artifact, name) for name in _COLUMNS]
    connection.execute(_INSERT, (*values, len(artifact.data)))


def read_artifacts(connection: Connection, run_id: str) -> Iterator[StoredArtifact]:
    """Return the artifacts of a run, in the order they were stored."""
    for row in connection.execute(_OF_RUN, (run_id,)):
        yield msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), StoredArtifact)
