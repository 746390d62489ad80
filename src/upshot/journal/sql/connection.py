"""What the journals need from any database to read and write.

The statements of this package are in the SQL that SQLite and PostgreSQL share, with ``?`` for
parameters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Protocol, TypeVar

from upshot.journal.event_codec import Entry
from upshot.journal.run_counts import Tallies
from upshot.journal.run_list import no_such_page
from upshot.journal.shared import NEW

T = TypeVar("T")
# An event's key has the number of its run above this many bits of seq.
SEQ_BITS = 32
SEQ_MASK: int = (1 << SEQ_BITS) - 1
HOLDER = "holder_of(holder, (SELECT until FROM leases WHERE leases.holder = runs.holder))"
"""The holder of a run in the form of ``read_holder``, with what is left of the lease."""
IS_NEW = f"(due_reason IN {NEW})"
"""``DueRun.is_new``, in SQL and in an index."""
NOW_US = "now_us()"
"""The database's clock."""
SKIP_LOCKED = "/* not those that others write to */"
"""Ends a statement that locks its rows. Empty for a file, where the whole file is locked."""
WATCHED = "1 /* whether any process watches it */"
"""Whether another process needs to be notified of a written row. In a file, all see it."""
NEXT_EFFECT = "(SELECT max(effect_no) + 1 FROM effects)"
"""A number for a row of the ledger that is newer than all others."""
IN_ANY_LANGUAGE = "/* in any language */"
"""Follows a text that is converted to lower case: a server needs the collation."""
COMPOSED = "/* composed */"
"""Precedes a text in brackets to compose letters with their accents: a server needs a function;
in a file ``lower`` does it.
"""
HAS_INDEX = "SELECT count(*) FROM sqlite_master WHERE name = 'run_texts'"
"""Counts 1 if there is a search index."""
CANDIDATES = "SELECT rowid FROM run_grams WHERE run_grams MATCH grams_of(?)"
"""The numbers of the runs in the search index whose texts have all trigrams of a text."""
REMAINS = 0
"""The number of the pending row that says that a file's index has remains of removed texts."""
NEVER: int = -(1 << 62)
"""The start of a run that has none, so that the index contains every run."""
_AT_ONCE = 100


def in_pages(values: Iterable[T]) -> Iterator[list[T]]:
    """Return values in lists that are short enough for the parameters of one statement."""
    left = iter(values)
    while page := [*islice(left, _AT_ONCE)]:
        yield page


def among(column: str, values: Sized) -> str:
    """Return the condition that a column has one of some values, at least one."""
    return f"{column} IN ({', '.join('?' * len(values))})"


def keys_of(run_no: int) -> tuple[int, int]:
    """Return the range of keys of a run's events; no event has the first one."""
    return run_no << SEQ_BITS, (run_no << SEQ_BITS) | SEQ_MASK


class Rows(Protocol):
    """The result of a statement."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Reads within a transaction: sees one point in time, and its own writes."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Rows: ...


class WriteConnection(Connection, Protocol):
    """Reads and writes within a transaction.

    Attributes:
        topics: Topics whose watchers are woken once this is committed.
        counts: How the counts of runs change; ``write_counts`` writes that at the end.
    """

    topics: set[str]
    counts: Tallies

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> object: ...

    def lock_run(self, run_id: str) -> None:
        """Lock the run for the rest of the transaction. The run need not exist."""
        ...

    def lock_turns(self, conversation: str) -> None:
        """Keep others from claiming a turn of the conversation for the rest of the transaction."""
        ...

    def lock_runs(self) -> None:
        """Lock all runs for the rest of the transaction."""
        ...

    def keep_lease(self, holder: str) -> int:
        """Record that *holder* has all runs it claims or has claimed, for the time of a lease.

        Returns:
            The version of the tables; 0 if it cannot change while they are open.
        """
        ...

    def add_counts(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows to the counts of runs, in the slot that no other transaction writes to.

        Args:
            rows: The columns of each, in order, with any slot.
        """
        ...

    def insert_events(self, run_no: int, entries: Sequence[Entry]) -> bool:
        """Write events of one run and epoch; returns whether the run has that epoch."""
        ...


def owned_by(
    owner: str, tenant: str, of: str = "", *, few: bool = False
) -> Iterator[tuple[str, *tuple[str, ...]]]:
    """Return the condition for the runs of a user or of a tenant.

    Args:
        owner: The user, who belongs to *tenant* or, if that is "", to none; "" for all.
        tenant: The tenant.
        of: A prefix for the columns, such as "root.".
        few: Whether the other conditions leave few runs, so that the index of a tenant, which may
            have nearly all of them, must not be used.
    """
    if owner:
        yield f"{of}owner <> '' AND {of}owner = ? AND {of}tenant = ?", owner, tenant
    elif tenant and few:
        yield f"{of}tenant || '' = ?", tenant
    elif tenant:
        yield f"{of}tenant <> '' AND {of}tenant = ?", tenant


def sort_columns(sort: str) -> tuple[str, ...]:
    """Return the columns to sort a list by; amounts of one currency are grouped."""
    return ("currency", sort) if sort == "cost" else (sort,) if sort else ()


def place_in_list(connection: Connection, run_id: str, sort: str = "") -> tuple[float | str, ...]:
    """Return the sort position of a run in the list of runs, to continue a page from.

    Args:
        connection: To the database.
        run_id: The run.
        sort: The sort order of the list, "" for the start alone.
    """
    names = "".join(f"{name}, " for name in sort_columns(sort))
    row = connection.execute(
        f"SELECT {names}started_at, run_no FROM runs WHERE run_id = ?", (run_id,)
    ).fetchone()
    if row is None:
        raise no_such_page(run_id)
    return row


_forks = 0


def forks() -> int:
    """Return how many forks lie between this process and its first ancestor."""
    return _forks


def _after_fork() -> None:
    global _forks  # noqa: PLW0603  # of the process, which is another one now
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
