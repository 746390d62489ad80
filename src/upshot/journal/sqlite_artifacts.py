"""SqliteArtifactStore: large outputs in the journal's file."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from ..contract import File, JsonObject
from ..errors import JournalError
from .artifacts import read_artifact, refuse_id, store
from .transfer import insert_artifact

__all__ = ["SqliteArtifactStore"]

T = TypeVar("T")
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

    Args:
        database: The journal.
    """

    def __init__(self, database: _Database) -> None:
        self._database = database

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        """Store *data*.

        Returns:
            The reference to it: id, media_type, size_bytes, sha256, lines, summary.

        Raises:
            OSError: It is too large, or the journal cannot be written.
        """
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
        """Read a page, or the lines that match *pattern*; see ``read_page``.

        Returns:
            ``{"text": ..., "next_offset": int | None}``; offsets in characters.

        Raises:
            KeyError: This run has no such artifact.
            ValueError: *pattern* is not valid, or *offset* or *limit* is impossible.
            JournalError: It is damaged, or the journal is closed.
        """

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
