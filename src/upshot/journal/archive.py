"""Archives of ended runs: a file for each run, in a folder or an object store.

A file is what ``journal.export`` writes, so it holds all that the journal has of the run: events,
stored outputs, notes. The place is any that fsspec knows: a folder, ``s3://bucket/desk``,
``gs://bucket/desk``, ``az://container/desk``. The life of an archived run:

1. It is exported and stored. A store shows a file only when it is complete.
2. The file is read back, and compared with what was exported. A file of another run with the same
   id is never replaced: then the run stays in the journal.
3. It is removed from the journal, all runs in one transaction. A run that has changed since it was
   exported, such as by a note, stays.

A process that is killed anywhere loses nothing: the run is in the journal until the transaction is
committed, and in the archive from before that. The next try stores no file again that is the same.

``open_journal("archive:PLACE")`` reads an archive: a journal in memory, which loads a run's file
when that run is read, and all files when runs are listed or a conversation is read. It refuses
every write of a run, its notes, its effects and its conversation.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Unpack
from urllib.parse import quote

from upshot.contract.base.structs import Value
from upshot.contract.base.words import count
from upshot.contract.conversation import ConversationSummary
from upshot.contract.effects import EffectEntry, EffectFilters
from upshot.contract.events import Event, RunStarted, SeedReference
from upshot.contract.message import Message
from upshot.contract.protocols import Note, RunFilters, RunSummary
from upshot.errors import JournalError, Misuse, need_of_extra
from upshot.journal.export_file import ExportedEvent, read_header, read_lines
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.memory_lists import started_at_s
from upshot.journal.memory_log import MemoryLog
from upshot.journal.retention import unknown_effects
from upshot.journal.run_counts import FigureQuery, OpenWork, RunFigures
from upshot.journal.shared import InboxFilters, InboxItem
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.state.turns import ConversationState, Lift, turn_of

_FOLDER = "runs"
_SUFFIX = ".jsonl"


class ArchivedRuns(Value, frozen=True, kw_only=True):
    """What was archived of a journal.

    Attributes:
        run_ids: The runs that are in the archive now, and no longer in the journal, including child
            runs; in a dry run those that would be.
        size_bytes: The size of their files.
        kept: Runs that stay in the journal: the reason by run id.
        conflicts: Those of them, and of their child runs, whose id another run of the archive has.
    """

    run_ids: tuple[str, ...] = ()
    size_bytes: int = 0
    kept: dict[str, str] = {}
    conflicts: tuple[str, ...] = ()


class _Stored(NamedTuple):
    digest: str
    size_bytes: int


class ArchiveFiles:
    """The files of an archive.

    Args:
        place: A folder, or a URL that fsspec knows.

    Raises:
        Misuse: There is no such kind of place, or its package is not installed.
    """

    def __init__(self, place: str) -> None:
        try:
            core: Any = import_module("fsspec.core")
        except ImportError as error:
            raise Misuse(need_of_extra("an archive", "archive")) from error
        if not place:
            raise Misuse(
                "the archive has no place: give a folder, or a URL such as s3://bucket/desk"
            )
        try:
            files, root = core.url_to_fs(place)
        except (ValueError, ImportError) as error:
            raise Misuse(f"{place} cannot be an archive: {error}") from error
        self._files: Any = files
        self._folder = f"{root.rstrip('/')}/{_FOLDER}"

    def names(self, prefix: str = "") -> list[str]:
        """Return the paths of the files of runs whose id starts with *prefix*, in order."""
        start = f"{self._folder}/{_escaped(prefix)}"
        if not self._files.exists(self._folder):
            return []
        found: list[str] = self._files.ls(self._folder, detail=False, refresh=True)
        return sorted(one for one in found if one.startswith(start) and one.endswith(_SUFFIX))

    def path_of(self, run_id: str) -> str:
        """Return the path of a run's file."""
        return f"{self._folder}/{_escaped(run_id)}{_SUFFIX}"

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        return bool(self._files.exists(path))

    def digest_of(self, path: str) -> str:
        """Return the SHA-256 of a file as the store has it, "" if there is none."""
        try:
            with self._files.open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return ""

    def store(self, source: str, path: str) -> None:
        """Store a local file; readers never see an incomplete one."""
        self._files.makedirs(self._folder, exist_ok=True)
        with (
            self._files.transaction,
            self._files.open(path, "wb") as file,
            open(source, "rb") as own,
        ):
            while piece := own.read(1 << 20):
                file.write(piece)

    def fetch(self, path: str, target: str) -> None:
        """Copy a file to a local path."""
        with self._files.open(path, "rb") as file, open(target, "wb") as own:
            while piece := file.read(1 << 20):
                own.write(piece)


def _escaped(run_id: str) -> str:
    return quote(run_id, safe="")


async def archive_runs(
    journal: SqlJournal | MemoryJournal,
    place: str,
    *,
    ended_before: datetime,
    keep: Mapping[str, str],
    dry_run: bool = False,
) -> ArchivedRuns:
    """Move runs into an archive, with all that they started.

    Args:
        journal: The journal.
        place: The archive.
        ended_before: As for ``remove_runs``.
        keep: As there; runs with an unknown effect stay too.
        dry_run: Only report what would be moved.

    Raises:
        Misuse: *place* cannot be an archive.
        JournalError: The journal or the archive cannot be read or written.
    """
    files = ArchiveFiles(place)
    stays = {**await unknown_effects(journal), **keep}
    planned = await journal.remove_runs(ended_before=ended_before, keep=stays, dry_run=True)
    if dry_run:
        return ArchivedRuns(run_ids=planned.run_ids, kept=planned.kept)
    stored: dict[str, _Stored] = {}
    fingerprints: dict[str, object] = {}
    conflicts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="upshot-archive-") as folder:
        own = os.path.join(folder, "run")
        for run_id in planned.run_ids:
            fingerprint = await journal.fingerprint(run_id)
            found = await _store(journal, run_id, files, own)
            if found is None:
                conflicts.append(run_id)
                stays[run_id] = _conflict(run_id, place)
            else:
                stored[run_id], fingerprints[run_id] = found, fingerprint
    for run_id, found in stored.items():
        await _check_stored(files, run_id, found)
    removed = await journal.remove_runs(
        ended_before=ended_before, keep=stays, archived=fingerprints
    )
    sizes = sum(stored[run_id].size_bytes for run_id in removed.run_ids)
    kept = {run_id: planned.kept.get(run_id, why) for run_id, why in removed.kept.items()}
    return ArchivedRuns(
        run_ids=removed.run_ids, size_bytes=sizes, kept=kept, conflicts=tuple(conflicts)
    )


def _conflict(run_id: str, place: str) -> str:
    return (
        f"the archive {place} has another run {run_id}, or another log of it: "
        "archive this one in another place"
    )


async def _export(journal: SqlJournal | MemoryJournal, run_id: str, own: str) -> _Stored:
    await journal.export(run_id, own)
    with open(own, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return _Stored(digest, os.path.getsize(own))


async def _store(
    journal: SqlJournal | MemoryJournal, run_id: str, files: ArchiveFiles, own: str
) -> _Stored | None:
    """Store the export of a run, unless the archive has the same.

    Returns:
        What was exported; None if it has another run with that id, which stays.
    """
    exported, path = await _export(journal, run_id, own), files.path_of(run_id)
    try:
        digest = await asyncio.to_thread(files.digest_of, path)
        if digest == exported.digest:
            return exported
        if digest and not await asyncio.to_thread(_continues, files, path, own):
            return None
        await asyncio.to_thread(files.store, own, path)
    # What a store of objects raises depends on its package.
    except Exception as error:
        raise JournalError(f"{path} cannot be written: {error}", run_id=run_id) from error
    return exported


async def _check_stored(files: ArchiveFiles, run_id: str, exported: _Stored) -> None:
    """Read the file of a run back, just before the run is removed."""
    path = files.path_of(run_id)
    try:
        found = await asyncio.to_thread(files.digest_of, path)
    # As above.
    except Exception as error:
        raise JournalError(f"{path} cannot be read: {error}", run_id=run_id) from error
    if found != exported.digest:
        raise JournalError(f"{path} is not what was written: the archive is damaged", run_id=run_id)


def _continues(files: ArchiveFiles, path: str, own: str) -> bool:
    """Whether the export *own* begins with all events of an archived file."""
    old = f"{own}.archived"
    files.fetch(path, old)
    with open(old, "rb") as file, open(own, "rb") as new:
        count = read_header(next(file, b"")).events
        next(new)
        return all(next(file, b"") == next(new, None) for _ in range(count))


class ArchiveJournal(MemoryJournal):
    """An archive as a journal to read.

    Args:
        place: The archive.

    Raises:
        Misuse: *place* cannot be an archive, or there is none.
    """

    def __init__(self, place: str) -> None:
        super().__init__()
        self._files = ArchiveFiles(place)
        self._place = place
        self._known: set[str] = set()
        self._loading = asyncio.Lock()

    def __repr__(self) -> str:
        return f"ArchiveJournal({self._place!r})"

    async def runs(
        self, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """See ``Journal.runs``; loads the runs with that id or prefix, or else all."""
        await self._load(filters.get("run_id", ""), filters.get("prefix", ""))
        return await super().runs(status, **filters)

    async def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        """See ``Journal.events``."""
        await self._load(run_id)
        async for event in super().events(run_id, after):
            yield event

    async def last_seq(self, run_id: str) -> int:
        """See ``Journal.last_seq``."""
        await self._load(run_id)
        return await super().last_seq(run_id)

    async def notes(self, run_id: str) -> Sequence[Note]:
        """See ``SharedJournal.notes``."""
        await self._load(run_id)
        return await super().notes(run_id)

    async def export(self, run_id: str, path: str | os.PathLike[str]) -> int:
        """See ``SqlJournal.export``."""
        await self._load(run_id)
        return await super().export(run_id, path)

    async def figures(self, wanted: FigureQuery) -> RunFigures:
        """See ``SharedJournal.figures``."""
        await self._load()
        return await super().figures(wanted)

    async def open_work(self, *, owner: str = "", tenant: str = "") -> OpenWork:
        """See ``SharedJournal.open_work``."""
        await self._load()
        return await super().open_work(owner=owner, tenant=tenant)

    async def inbox(self, **filters: Unpack[InboxFilters]) -> tuple[InboxItem, ...]:
        """See ``SharedJournal.inbox``."""
        await self._load()
        return await super().inbox(**filters)

    async def conversations(self, **filters: Any) -> Sequence[ConversationSummary]:
        """See ``MemoryJournal.conversations``."""
        await self._load()
        return await super().conversations(**filters)

    async def effects(self, **filters: Unpack[EffectFilters]) -> Sequence[EffectEntry]:
        """See ``EffectLedger.effects``."""
        await self._load()
        return await super().effects(**filters)

    async def effect(self, id: str) -> EffectEntry | None:
        """See ``EffectLedger.effect``."""
        await self._load()
        return await super().effect(id)

    async def read_turns(
        self, id: str, *, read: Callable[[], Lift] | None = None, without: str = ""
    ) -> ConversationState:
        """See ``MemoryJournal.read_turns``."""
        await self._load()
        return await super().read_turns(id, read=read, without=without)

    async def seed_messages(self, seed: SeedReference) -> Sequence[Message]:
        """See ``MemoryJournal.seed_messages``."""
        await self._load()
        return await super().seed_messages(seed)

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Refuse: an archive is only read."""
        self.refuse_write()

    def begin(self, run_id: str) -> int:
        """Refuse: an archive is only read."""
        self.refuse_write()

    def refuse_write(self) -> NoReturn:
        """Raise Misuse: an archive is only read."""
        raise Misuse(
            f"archive:{self._place} is an archive, which is only read: bring a run back with "
            "upshot archive PLACE --restore RUN"
        )

    async def _load(self, run_id: str = "", prefix: str = "") -> None:
        """Load the files that are not loaded yet: of a run, of a prefix, or all."""
        async with self._loading:
            if run_id:
                paths = [path] if await self._has(path := self._files.path_of(run_id)) else []
            else:
                paths = await asyncio.to_thread(self._files.names, prefix)
            for path in paths:
                if path not in self._known:
                    await restore_file(self._files, path, super())
                    self._known.add(path)
            if paths:
                self._number_turns()

    def _number_turns(self) -> None:
        """Number the committed turns of each conversation by their start, not as they were read."""
        found: dict[str, list[tuple[float, MemoryLog]]] = {}
        for run_id, log in self._logs.items():
            if log.revision:
                started = started_at_s(log.summary(run_id))
                found.setdefault(log.turn.conversation, []).append((started, log))
        for turns in found.values():
            turns.sort(key=lambda one: one[0])
            for number, (_, log) in enumerate(turns, 1):
                log.revision = number

    def _check_turn(self, run_id: str, log: MemoryLog) -> None:
        """Accept turns in any order, since ``_number_turns`` sorts them."""

    async def _has(self, path: str) -> bool:
        return path in self._known or await asyncio.to_thread(self._files.has, path)


async def _refuse_change(journal: ArchiveJournal, *_: Any, **__: Any) -> NoReturn:
    """Refuse: an archive is only read."""
    journal.refuse_write()


for _name in (
    *("claim", "claim_turn", "submit", "withdraw", "make_due"),
    *("keep_note", "place_answer", "place_stop", "drop_stops"),
    *("claim_effect", "settle_effect", "claim_checks", "note_check"),
    *("remove_runs", "redact", "import_"),
):
    setattr(ArchiveJournal, _name, _refuse_change)


async def restore_file(
    files: ArchiveFiles, path: str, journal: Any, *, in_order: bool = False
) -> str:
    """Import a file of an archive into a journal; returns the run's id.

    Args:
        files: The archive.
        path: The file.
        journal: The journal.
        in_order: Whether a turn of a conversation is refused if the journal lacks an earlier one,
            which could not come back after it.

    Raises:
        JournalError: The file is damaged, the journal already has the run, or lacks an earlier
            turn.
    """
    with tempfile.TemporaryDirectory(prefix="upshot-archive-") as folder:
        own = os.path.join(folder, os.path.basename(path))
        try:
            await asyncio.to_thread(files.fetch, path, own)
        # What a store of objects raises depends on its package.
        except Exception as error:
            raise JournalError(f"{path} cannot be read: {error}") from error
        if in_order:
            await _check_earlier_turns(own, journal)
        return await journal.import_(own)


async def _check_earlier_turns(own: str, journal: Any) -> None:
    """Raise JournalError if an exported run is a turn after one that the journal lacks."""
    line = next(iter(read_lines(own)), None)
    started = line.event if isinstance(line, ExportedEvent) else None
    turn = turn_of(started.options) if isinstance(started, RunStarted) else None
    if turn is None or not isinstance(started, RunStarted) or not turn.revision:
        return
    conversation = started.request.context_id
    runs: Sequence[RunSummary] = await journal.runs(context_id=conversation, limit=None)
    known = max((run.revision for run in runs), default=0)
    if known < turn.revision:
        lacks = count(turn.revision - known, "earlier turn")
        raise JournalError(
            f"run {started.run_id} is turn {turn.revision + 1} of conversation {conversation!r}, "
            f"and the journal lacks {lacks} of it: bring the turns back oldest first, or read the "
            "run in the archive",
            run_id=started.run_id,
        )
