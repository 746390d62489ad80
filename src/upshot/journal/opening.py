"""open_journal: opens the journal at a place; all callers in one loop share it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from upshot.async_context import Block
from upshot.contract.base.checks import kind_of
from upshot.contract.protocols import Journal
from upshot.errors import Misuse, need_of_extra
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.postgres.urls import is_url
from upshot.journal.shared import JournalAway

if TYPE_CHECKING:
    from upshot.journal.postgres.postgres_journal import PostgresJournal
    from upshot.journal.sqlite.sqlite_journal import SqliteJournal


MEMORY = "memory:"
ARCHIVE = "archive:"
"""What the place of an archive starts with."""
SQLITE_MEMORY = ":memory:"
J = TypeVar("J", bound=Journal)
_Opened: TypeAlias = "MemoryJournal | SqliteJournal | PostgresJournal"


@dataclass(slots=True, eq=False)
class _Place:
    """A place in use."""

    users: int = 0
    journal: _Opened | None = None
    # Acquired while the journal is opened or closed, so that no caller gets it half open.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_places: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Place]] = WeakKeyDictionary()


@overload
def open_journal(
    where: str | os.PathLike[str], *, create: bool = True
) -> AbstractAsyncContextManager[MemoryJournal | SqliteJournal | PostgresJournal]: ...
@overload
def open_journal(where: J, *, create: bool = True) -> AbstractAsyncContextManager[J]: ...
@overload
def open_journal(
    where: str | os.PathLike[str] | Journal, *, create: bool = True
) -> AbstractAsyncContextManager[Journal]: ...
def open_journal(
    where: str | os.PathLike[str] | Journal, *, create: bool = True
) -> AbstractAsyncContextManager[Journal]:
    """Open the journal at a place.

    A place is opened once in an event loop and shared by all its users there. It is closed when
    the last of them leaves, so a journal in memory is empty after that.

    Args:
        where: A file's path, "memory:", the URL of a PostgreSQL database
            (``postgresql://user:password@host:port/database``), "archive:" with the place of an
            archive to read, or an open journal, which is returned as it is and not closed.
        create: If true, create a missing file, and the tables in a database without a journal;
            if false, that is Misuse.

    Returns:
        An async context manager of the journal.

    Raises:
        Misuse: *where* cannot hold a journal, or holds something else.
        JournalError: The file is damaged, the server cannot be reached, or the journal was
            written by another version.
    """
    if isinstance(where, str | os.PathLike):
        return _block(_share(_name_of(where), create=create))
    if isinstance(where, Block):
        where.refuse()
    if isinstance(where, type):
        raise Misuse(f"journal is the class {where.__name__}: give a path or an open journal")
    if not hasattr(where, "append") or not hasattr(where, "durable"):
        kind = kind_of(cast("object", where))
        raise Misuse(f'a journal is a path, "memory:" or an open journal, not {kind}')
    return _block(_lend(where))


def ends_with_user(where: object) -> bool:
    """Whether *where* is the open journal in memory, and its only user is about to leave it."""
    if not isinstance(where, str) or where != MEMORY:
        return False
    place = _places.get(asyncio.get_running_loop(), {}).get(MEMORY)
    return place is not None and place.users == 1


def _block(manager: AbstractAsyncContextManager[J]) -> AbstractAsyncContextManager[J]:
    return Block(manager, call="upshot.open_journal(...)", name="journal")


def needs_renewal(journal: Journal, place: object) -> bool:
    """Whether its server was away for so long that it never writes again, but a new one would.

    Args:
        journal: An open journal.
        place: What it was opened with; a journal that was given open is never renewed.
    """
    return isinstance(place, str) and isinstance(getattr(journal, "trouble", None), JournalAway)


@asynccontextmanager
async def _lend(journal: J) -> AsyncGenerator[J]:
    yield journal


@asynccontextmanager
async def _share(name: str, *, create: bool) -> AsyncGenerator[_Opened]:
    places = _places.setdefault(asyncio.get_running_loop(), {})
    place = places.setdefault(name, _Place())
    place.users += 1
    try:
        async with place.lock:
            journal = place.journal = await _renew(place.journal, name, create=create)
        yield journal
    finally:
        place.users -= 1
        if not place.users:
            await _close(place)
        # Another caller may have opened it while it was being closed.
        if not place.users and places.get(name) is place:
            del places[name]


async def _renew(journal: _Opened | None, name: str, *, create: bool) -> _Opened:
    """Return *journal* if it is usable, else a new one."""
    if journal is not None and journal.usable:
        return journal
    if journal is not None:
        await journal.aclose()
    if name == MEMORY:
        return MemoryJournal()
    if is_url(name):
        return await _postgres().open(name, create=create)
    if name.startswith(ARCHIVE):
        from upshot.journal.archive import ArchiveJournal

        return ArchiveJournal(name.removeprefix(ARCHIVE))
    from upshot.journal.sqlite.sqlite_journal import SqliteJournal

    return await SqliteJournal.open(name, create=create)


def _postgres() -> type[PostgresJournal]:
    try:
        from upshot.journal.postgres.postgres_journal import PostgresJournal
    except ImportError as error:
        raise Misuse(need_of_extra("a journal in PostgreSQL", "postgres")) from error
    return PostgresJournal


async def init_journal(url: str) -> None:
    """Create the tables of a journal in PostgreSQL, or upgrade them to this version.

    Raises:
        Misuse: *url* is not the URL of a database.
        JournalError: The server cannot be reached, or the user may not create tables.
    """
    if not is_url(url):
        raise Misuse(
            f"{url!r:.80} is not a URL of a PostgreSQL database: give "
            "postgresql://user:password@host:port/database; a file is created at its first use"
        )
    journal = await _postgres().open(url, upgrade=True)
    await journal.aclose()


async def _close(place: _Place) -> None:
    async with place.lock:
        journal, place.journal = place.journal, None
        if journal is not None:
            await journal.aclose()


def _name_of(where: str | os.PathLike[str]) -> str:
    name = os.fspath(cast("os.PathLike[str]", where))
    if not isinstance(cast("object", name), str) or not name:
        raise Misuse(f'a journal is a path, "memory:" or an open journal, and not {name!r}')
    if name == MEMORY:
        return MEMORY
    if name == SQLITE_MEMORY:
        raise Misuse(f'a journal in memory is "{MEMORY}", and not {SQLITE_MEMORY!r}')
    if is_url(name) or name.startswith(ARCHIVE):
        return name
    scheme, mark, _ = name.partition("://")
    if mark:
        raise Misuse(
            f"there are no journals at {scheme}: a journal is a path, {MEMORY!r} or "
            "postgresql://user:password@host:port/database"
        )
    # One file under two names is one journal.
    try:
        return os.path.realpath(name)
    except (ValueError, OSError) as error:
        raise Misuse(f"{name!r} cannot be a journal: {error}") from error
