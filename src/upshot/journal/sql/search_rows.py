"""The search index of a journal: for each run whose log rests, the texts of that log.

A journal has no index until one is made, and no step pays for it then: triggers note which logs the
index lacks, and workers add these later. So a change reaches the index in its own transaction,
whichever process or version makes it:

- An event that is appended puts its run among the pending ones.
- An event that is rewritten or removed also removes the texts of its run.
- A run that is removed leaves nothing.

In a file, a removed text is found no more, but its trigrams stay in the index, with marks beside
them, until both are merged. So a removal also leaves a pending row, which is no run's, and whoever
sees that merges the whole index, in short transactions.

The index finds candidates: runs whose texts have all trigrams of what is wanted, and the pending
ones. Only their logs decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, TypeVar, Unpack

import upshot.journal.sql.queries as stored
from upshot.contract.events import Event
from upshot.contract.protocols import RunFilters, RunSummary
from upshot.errors import JournalError
from upshot.journal.log_text import normal, texts_of
from upshot.journal.run_list import RunQuery
from upshot.journal.shared import QUEUED
from upshot.journal.sql.connection import (
    CANDIDATES,
    HAS_INDEX,
    REMAINS,
    SEQ_MASK,
    SKIP_LOCKED,
    Connection,
    WriteConnection,
    keys_of,
)
from upshot.state.summary import RUNNING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T = TypeVar("T")

LEAST_CHARS = 3
"""The shortest text that the index finds; for a shorter one, all runs are candidates."""
MOST_CHARS = 1 << 20
"""Runs with more text than this are not indexed, but always candidates."""
_FEW = 1_000
# How many runs are indexed in one transaction, and with how much text.
_AT_ONCE = 20
_CHARS_AT_ONCE = 100_000
# The stamp of a pending run that stays so; any other changes with the log.
_STAYS = 0
_PENDING = f"""SELECT p.run_no, p.stamp, CAST(runs.run_id AS TEXT) FROM run_pending AS p
    JOIN runs ON runs.run_no = p.run_no
    WHERE p.stamp <> {_STAYS} AND runs.status NOT IN ('{QUEUED}', '{RUNNING}')
    ORDER BY p.run_no LIMIT ?"""
_COUNTS = f"""SELECT (SELECT count(*) FROM run_texts), (SELECT count(*) FROM run_pending AS p
    JOIN runs ON runs.run_no = p.run_no
    WHERE p.stamp <> {_STAYS} AND runs.status NOT IN ('{QUEUED}', '{RUNNING}'))"""
# Locked, so that no event is appended between this look and the commit.
_SAME = f"""SELECT runs.run_no FROM runs JOIN run_pending AS p ON p.run_no = runs.run_no
    WHERE runs.run_no = ? AND p.stamp = ? {SKIP_LOCKED}"""
_LAST = f"SELECT coalesce(max(id) & {SEQ_MASK}, 0) FROM events WHERE id BETWEEN ? AND ?"
_STAY = f"UPDATE run_pending SET stamp = {_STAYS} WHERE run_no = ?"
_DONE = "DELETE FROM run_pending WHERE run_no = ?"
_OLD = "DELETE FROM run_texts WHERE run_no = ?"
_NEW = "INSERT INTO run_texts (run_no, body) VALUES (?, ?)"
_REMAINS = f"SELECT stamp FROM run_pending WHERE run_no = {REMAINS}"
_ERASED = f"DELETE FROM run_pending WHERE run_no = {REMAINS} AND stamp = ?"
# Of a file; a server removes dead entries of an index when it vacuums the table.
_MERGE = "INSERT INTO run_grams (run_grams, rank) VALUES ('merge', ?)"
_CHANGES = "SELECT total_changes()"
# About 20 ms of CPU.
_PAGES = 100
_IN = f"run_no IN ({CANDIDATES} UNION ALL SELECT run_no FROM run_pending)"
_SOME = f"SELECT count(*) FROM ({CANDIDATES} LIMIT {_FEW + 1}) AS few"


class SearchIndex(NamedTuple):
    """The state of a journal's search index.

    Attributes:
        runs: How many runs it has.
        left: How many more it will have, once the workers have added them.
    """

    runs: int
    left: int


class _Text(NamedTuple):
    """What to index of a run: its text, None if its log is left to be read."""

    run_no: int
    stamp: int
    last_seq: int
    body: str | None


# The number, the stamp and the id of a run.
_Pending: TypeAlias = tuple[int, int, str]


class SqlSearch:
    """The search index of a journal in an SQL database."""

    # The statements that make the index and drop it.
    _make_index: ClassVar[tuple[str, ...]]
    _drop_index: ClassVar[tuple[str, ...]]

    if TYPE_CHECKING:

        def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]: ...
        async def flush(self) -> None: ...
        async def read(self, work: Callable[[Connection], T]) -> T: ...
        async def write(self, work: Callable[[WriteConnection], T]) -> T: ...

    async def candidates(
        self, find: str, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """See ``SharedJournal.candidates``."""
        wanted = RunQuery(status, **filters)
        wanted.check()
        await self.flush()
        return await self.read(
            lambda connection: stored.read_summaries(
                connection, wanted, *_may_contain(connection, find)
            )
        )

    async def search_index(self) -> SearchIndex | None:
        """Return the state of the search index, None if there is none."""
        return await self.read(
            lambda connection: (
                SearchIndex(*connection.execute(_COUNTS).fetchone())
                if has_index(connection)
                else None
            )
        )

    async def make_search_index(self) -> bool:
        """Make a search index, in which all runs are pending; returns whether there was none.

        Raises:
            Misuse: The database cannot have one.
            JournalError: The journal cannot be written.
        """

        def make(connection: WriteConnection) -> bool:
            connection.lock_runs()
            if has_index(connection):
                return False
            for statement in self._make_index:
                connection.execute(statement)
            return True

        return await self.write(make)

    async def drop_search_index(self) -> bool:
        """Drop the search index; returns whether there was one.

        Raises:
            JournalError: The journal cannot be written.
        """

        def drop(connection: WriteConnection) -> bool:
            connection.lock_runs()
            if not has_index(connection):
                return False
            for statement in self._drop_index:
                connection.execute(statement)
            return True

        return await self.write(drop)

    async def erase_removed(self) -> None:
        """Erase what the search index of a file still has of removed texts.

        Several processes may do so at the same time, while others write.

        Raises:
            JournalError: The journal cannot be read or written.
        """
        found = await self.read(
            lambda connection: (
                connection.execute(_REMAINS).fetchone() if has_index(connection) else None
            )
        )
        if found is not None:
            # A negative number starts a merge of the whole index; the others continue it.
            pages = -_PAGES
            while await self.write(partial(_merge, pages=pages, stamp=found[0])):
                pages = _PAGES

    async def index_runs(self) -> int:
        """Add some pending runs to the search index; returns how many, 0 if none is left.

        First it erases what a removal that was killed has left.

        Several processes may do so at the same time. A run that changes meanwhile stays pending.

        Raises:
            JournalError: The journal cannot be read or written.
        """
        await self.erase_removed()
        before, pending = None, await self.read(_pending)
        while pending and pending != before:
            texts = await self._read_texts(pending)
            if count := await self.write(partial(_store, texts=texts)):
                return count
            # Another process may have added these.
            before, pending = pending, await self.read(_pending)
        return 0

    async def _read_texts(self, pending: Iterable[_Pending]) -> list[_Text]:
        """Read the texts of some runs, until they are enough for one transaction."""
        texts, chars = list[_Text](), 0
        for run_no, stamp, run_id in pending:
            # Read after the stamp: a log that changes in between has another one.
            texts.append(await self._read_text(run_no, stamp, run_id))
            chars += len(texts[-1].body or "")
            if chars > _CHARS_AT_ONCE:
                break
        return texts

    async def _read_text(self, run_no: int, stamp: int, run_id: str) -> _Text:
        texts: dict[str, None] = {}
        chars = last_seq = 0
        try:
            async for event in self.events(run_id):
                last_seq += 1
                for text in texts_of(event):
                    if text not in texts:
                        texts[text] = None
                        chars += len(text) + 1
                if chars > MOST_CHARS:
                    return _Text(run_no, stamp, 0, None)
        except JournalError:
            # A damaged log: a search that reads it gets the error.
            return _Text(run_no, stamp, 0, None)
        return _Text(run_no, stamp, last_seq, storable("\n".join(texts)))


def has_index(connection: Connection) -> bool:
    """Whether the journal has a search index."""
    return bool(connection.execute(HAS_INDEX).fetchone()[0])


def _pending(connection: Connection) -> list[_Pending]:
    """Return some runs to add to the index, if there is one."""
    if not has_index(connection):
        return []
    return connection.execute(_PENDING, (_AT_ONCE,)).fetchall()


def storable(text: str) -> str:
    """Return *text* as the index has it: without NUL, which ends a text in some databases."""
    return text.replace("\0", "\ufffd")


def _may_contain(connection: Connection, text: str) -> Iterator[tuple[str, str]]:
    """Yield the condition for the runs whose log may contain *text*, if not all may."""
    wanted = storable(normal(text))
    if len(wanted) < LEAST_CHARS or not has_index(connection):
        return
    (some,) = connection.execute(_SOME, (wanted,)).fetchone()
    # Many are compared with the runs in the order of the list, until a page is full.
    yield f"{'+' if some > _FEW else ''}{_IN}", wanted


def _merge(connection: WriteConnection, *, pages: int, stamp: int) -> bool:
    """Merge some pages, or remove the pending row if none are left; return whether any were."""
    if not has_index(connection):
        return False
    (before,) = connection.execute(_CHANGES).fetchone()
    connection.execute(_MERGE, (pages,))
    # The statement itself counts for one.
    if connection.execute(_CHANGES).fetchone()[0] > before + 1:
        return True
    connection.execute(_ERASED, (stamp,))
    return False


def _store(connection: WriteConnection, texts: Sequence[_Text]) -> int:
    """Store the texts of runs whose logs have not changed since they were read; return how many."""
    count = 0
    for run_no, stamp, last_seq, body in texts:
        if connection.execute(_SAME, (run_no, stamp)).fetchone() is None:
            continue
        (stored_seq,) = connection.execute(_LAST, keys_of(run_no)).fetchone()
        # Fewer were read than are stored: the end of the log is damaged.
        if body is None or last_seq < stored_seq:
            connection.execute(_OLD, (run_no,))
            connection.execute(_STAY, (run_no,))
        elif last_seq == stored_seq:
            connection.execute(_OLD, (run_no,))
            connection.execute(_NEW, (run_no, body))
            connection.execute(_DONE, (run_no,))
        else:
            continue
        count += 1
    return count
