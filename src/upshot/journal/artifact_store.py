"""Stores of large outputs and how long they are kept."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeVar

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import check_amount
from upshot.contract.base.json_values import without_nul
from upshot.contract.base.paging import read_page
from upshot.contract.base.structs import JsonObject, Tagged, Value
from upshot.contract.message import File
from upshot.errors import Misuse

T = TypeVar("T")
MAX_BYTES = 500_000_000
# The maximum a store in memory keeps; a file has no such limit.
MAX_BYTES_IN_MEMORY = 500_000_000
_SUMMARY_CHARS = 200
# Hashing more than this would block the loop for more than a millisecond.
_HASH_HERE_BYTES = 500_000


class Kept(NamedTuple):
    """What retention needs to know about a stored output."""

    id: str
    size_bytes: int
    stored_at: float


class Pruned(Value, frozen=True, kw_only=True):
    """The outputs that were deleted.

    Attributes:
        count: How many outputs.
        size_bytes: Their total size.
    """

    count: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, gone: Sequence[Kept]) -> Pruned:
        """Sum up the deleted outputs."""
        return cls(count=len(gone), size_bytes=sum(one.size_bytes for one in gone))


def check_limits(max_age_s: float | None, max_bytes: float | None) -> None:
    """Raise Misuse for limits that are missing or invalid."""
    if max_age_s is None and max_bytes is None:
        raise Misuse("prune needs a limit: give max_age_s, max_bytes, or both")
    check_amount("max_age_s", max_age_s, none="any age")
    check_amount("max_bytes", max_bytes, unit="bytes", none="no limit")


def choose_old(
    kept: Iterable[Kept], *, max_age_s: float | None, max_bytes: float | None, now: float
) -> list[Kept]:
    """Return the outputs to delete, oldest first."""
    by_age = sorted(kept, key=lambda one: one.stored_at)
    left = sum(one.size_bytes for one in by_age)
    gone: list[Kept] = []
    for one in by_age:
        is_old = max_age_s is not None and one.stored_at < now - max_age_s
        if not is_old and (max_bytes is None or left <= max_bytes):
            break
        gone.append(one)
        left -= one.size_bytes
    return gone


class StoredArtifact(Tagged, frozen=True, kw_only=True):
    """A large output and its metadata.

    Attributes:
        id: Its id, hard to guess.
        run_id: The run that may read it.
        call_id: The call that it came from.
        media_type: Such as "application/json".
        sha256: Hex digest of the data.
        lines: How many lines its text has, None if it is not text.
        summary: At most 200 characters that describe the content.
        data: The bytes (base64 in JSON).
        stored_at: When it was stored, unix seconds.
    """

    id: str
    run_id: str
    call_id: str
    media_type: str
    sha256: str
    lines: int | None = None
    summary: str = ""
    data: bytes
    stored_at: float

    @property
    def file(self) -> File:
        """A reference to it."""
        return File(
            id=self.id,
            media_type=self.media_type,
            size_bytes=len(self.data),
            sha256=self.sha256,
            lines=self.lines,
            summary=self.summary,
        )


async def store(run_id: str, call_id: str, data: bytes, media_type: str) -> StoredArtifact:
    """Make an artifact of *data*, with a new id."""
    if len(data) > MAX_BYTES:
        raise OSError(f"an artifact of {len(data)} bytes is too large: the limit is {MAX_BYTES}")
    if len(data) > _HASH_HERE_BYTES:
        return await asyncio.to_thread(_describe, run_id, call_id, data, media_type)
    return _describe(run_id, call_id, data, media_type)


class ArtifactKeeper(ABC):
    """What the stores of all journals share; each implements ArtifactStore."""

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        """Store *data*.

        Returns:
            A reference to it: id, media_type, size_bytes, sha256, lines, summary.

        Raises:
            OSError: It is too large, or the store refuses it.
        """
        artifact = await store(run_id, call_id, data, media_type)
        self._store(artifact)
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
        """Read a page, or the lines that contain *pattern*; see ``read_page``.

        Bytes that are not UTF-8 become U+FFFD.

        Returns:
            ``{"text": ..., "next_offset": int | None}``; offsets in characters.

        Raises:
            KeyError: This run has no such artifact, although another run may.
            ValueError: *pattern* is too long, or *offset* or *limit* is out of range.
        """

        def read(data: bytes) -> JsonObject:
            text = data.decode(errors="replace")
            return read_page(text, offset=offset, limit=limit, pattern=pattern)

        page = await self._read(id, run_id, read)
        if page is None:
            raise KeyError(f"this run has no artifact {id!r}")
        return page

    async def load(self, id: str, *, run_id: str) -> bytes:
        """Return the whole artifact, byte for byte.

        Raises:
            KeyError: This run has no such artifact, although another run may.
        """
        data = await self._read(id, run_id, bytes)
        if data is None:
            raise KeyError(f"this run has no artifact {id!r}")
        return data

    async def prune(
        self,
        *,
        max_age_s: float | None = None,
        max_bytes: float | None = None,
        run_id: str = "",
        left_behind: bool = False,
        now: datetime | None = None,
    ) -> Pruned:
        """Delete old artifacts. Reading one then fails as if it had never existed.

        A journal in a file keeps the artifacts of runs that have not ended. The file does not
        shrink: new events reuse the space, and SQLite's ``VACUUM`` makes it smaller.

        Args:
            max_age_s: Delete artifacts older than this, in seconds; None deletes none for its
                age.
            max_bytes: Then delete the oldest until the rest has at most this total size; None is
                no limit.
            run_id: Only artifacts of this run; "" means all.
            left_behind: Whether to include runs that wait for an answer although a parent run has
                ended. A store in memory does not know about runs and may delete any artifact.
            now: The time from which ages are computed, timezone-aware; None is the present.

        Raises:
            Misuse: No limit is given, or one is below 0.
        """
        check_limits(max_age_s, max_bytes)
        at = (now or SYSTEM_CLOCK.now()).timestamp()
        choose = partial(choose_old, max_age_s=max_age_s, max_bytes=max_bytes, now=at)
        return Pruned.of(await self._prune(choose, run_id, left_behind=left_behind))

    @abstractmethod
    def _store(self, artifact: StoredArtifact) -> None:
        """Store a new artifact."""

    @abstractmethod
    async def _read(self, id: str, run_id: str, read: Callable[[bytes], T]) -> T | None:
        """Return *read* of an artifact's data; None if the run has no artifact with that id."""

    @abstractmethod
    async def _prune(
        self, choose: Callable[[Iterable[Kept]], list[Kept]], run_id: str, *, left_behind: bool
    ) -> list[Kept]:
        """Delete the artifacts that *choose* returns."""


class MemoryArtifactStore(ArtifactKeeper):
    """Keeps artifacts in memory.

    Args:
        max_bytes: How much it keeps in total. Then it deletes the oldest artifacts of other runs,
            and raises if there are none. 500 MB by default; infinity or None means no limit.
    """

    def __init__(self, *, max_bytes: float | None = MAX_BYTES_IN_MEMORY) -> None:
        check_amount("max_bytes", max_bytes, unit="bytes", none="no limit")
        self._max_bytes = math.inf if max_bytes is None else max_bytes
        self._size_bytes = 0
        self._kept: dict[str, StoredArtifact] = {}

    def __repr__(self) -> str:
        return f"MemoryArtifactStore({len(self._kept)} stored)"

    def _store(self, artifact: StoredArtifact) -> None:
        self._make_room(artifact.run_id, len(artifact.data))
        self.keep(artifact)

    async def _read(self, id: str, run_id: str, read: Callable[[bytes], T]) -> T | None:
        artifact = self._kept.get(id)
        return None if artifact is None or artifact.run_id != run_id else read(artifact.data)

    def keep(self, artifact: StoredArtifact) -> None:
        """Add an artifact that already has its id."""
        self._kept[artifact.id] = artifact
        self._size_bytes += len(artifact.data)

    async def _prune(
        self, choose: Callable[[Iterable[Kept]], list[Kept]], run_id: str, *, left_behind: bool
    ) -> list[Kept]:
        gone = choose(_row(one) for one in self._kept.values() if run_id in ("", one.run_id))
        self.drop(one.id for one in gone)
        return gone

    def of_run(self, run_id: str) -> list[StoredArtifact]:
        """Return all artifacts of a run, in the order they were stored."""
        return [artifact for artifact in self._kept.values() if artifact.run_id == run_id]

    def _make_room(self, run_id: str, size_bytes: int) -> None:
        over = self._size_bytes + size_bytes - self._max_bytes
        if over <= 0:
            return
        others = [_row(one) for one in self._kept.values() if one.run_id != run_id]
        rest = sum(one.size_bytes for one in others) - over
        if rest < 0:
            raise OSError(f"the store is full: it keeps {self._max_bytes} bytes in memory")
        self.drop(one.id for one in choose_old(others, max_age_s=None, max_bytes=rest, now=0.0))

    def drop(self, ids: Iterable[str]) -> None:
        """Delete these artifacts."""
        for id in ids:
            self._size_bytes -= len(self._kept.pop(id).data)


def _row(artifact: StoredArtifact) -> Kept:
    return Kept(artifact.id, len(artifact.data), artifact.stored_at)


def _describe(run_id: str, call_id: str, data: bytes, media_type: str) -> StoredArtifact:
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    lines = None if text is None else text.count("\n") + (not text.endswith("\n") and text != "")
    opening = "" if text is None else without_nul(" ".join(text[: 4 * _SUMMARY_CHARS].split()))
    return StoredArtifact(
        id=f"art-{secrets.token_hex(12)}",
        run_id=run_id,
        call_id=call_id,
        media_type=media_type,
        sha256=hashlib.sha256(data).hexdigest(),
        lines=lines,
        summary=opening[:_SUMMARY_CHARS] or f"{media_type}, {len(data)} bytes",
        data=data,
        stored_at=SYSTEM_CLOCK.now().timestamp(),
    )
