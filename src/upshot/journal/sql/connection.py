"""What the journals ask of a database: how it reads and writes, whichever it is.

The statements of this package are in the SQL that SQLite and PostgreSQL share, with ``?`` for
parameters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from upshot.journal.event_codec import Entry
from upshot.journal.run_list import no_such_page
from upshot.journal.shared import NEW

# Below it in the key of an event stands its seq, above it the number of its run.
SEQ_BITS = 32
SEQ_MASK: int = (1 << SEQ_BITS) - 1
HOLDER = "holder_of(holder, (SELECT until FROM leases WHERE leases.holder = runs.holder))"
"""Who holds a run, as ``read_holder`` reads it, with what is left of the lease."""
IS_NEW = f"(due_reason IN {NEW})"
"""``DueRun.is_new``, in SQL and in an index."""
NOW_US = "now_us()"
"""The database's clock."""
SKIP_LOCKED = "/* not those that others write to */"
"""At the end of a statement that locks its rows: in a file, the whole file is locked."""
WATCHED = "1 /* whether any process watches it */"
"""Whether a process has to be notified of a row that was written: in a file, all see it."""
NEXT_EFFECT = "(SELECT max(effect_no) + 1 FROM effects)"
"""The number of a row of the ledger that is newer than all others."""
IN_ANY_LANGUAGE = "/* in any language */"
"""After a text of which the small letters are wanted: a server has to be told."""
COMPOSED = "/* composed */"
"""Before a text in brackets whose accents are wanted as one character with their letter: a server
has to be told; in a file ``lower`` does it."""
NEVER: int = -(1 << 62)
"""Stands for the start of a run that has none, so that the index holds every run."""


def keys_of(run_no: int) -> tuple[int, int]:
    """Between which keys the events of a run stand; no event has the first one."""
    return run_no << SEQ_BITS, (run_no << SEQ_BITS) | SEQ_MASK


class Rows(Protocol):
    """What a statement gave."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Reads within a transaction: all that it reads is of one moment, or what was just written."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Rows: ...


class WriteConnection(Connection, Protocol):
    """Reads and writes within a transaction.

    Attributes:
        told: Topics whose watchers are woken once this is committed.
    """

    told: set[str]

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> object: ...

    def lock_run(self, run_id: str) -> None:
        """Keep others from writing to the run, which need not be there, until the end."""
        ...

    def lock_turns(self, conversation: str) -> None:
        """Keep others from taking a turn of the conversation until the end."""
        ...

    def lock_runs(self) -> None:
        """Keep others from writing to any run until the end."""
        ...

    def keep_lease(self, holder: str) -> int:
        """Note that *holder* has the runs that it takes or took, for the time of a lease.

        Returns:
            Of which version the tables are; 0 where that cannot change meanwhile.
        """
        ...

    def insert_events(self, run_no: int, entries: Sequence[Entry]) -> bool:
        """Write events of one run and epoch; returns whether the run has that epoch."""
        ...


def owned_by(owner: str, tenant: str, of: str = "") -> Iterator[tuple[str, *tuple[str, ...]]]:
    """The condition for the runs of a user, who is of that tenant or of none, or of a tenant.

    Args:
        owner: The user, "" for all.
        tenant: The tenant.
        of: What stands before the columns, such as "root.".
    """
    if owner:
        yield f"{of}owner <> '' AND {of}owner = ? AND {of}tenant = ?", owner, tenant
    elif tenant:
        yield f"{of}tenant <> '' AND {of}tenant = ?", tenant


def sort_columns(sort: str) -> tuple[str, ...]:
    """The columns by which a list is sorted: amounts of one currency stand together."""
    return ("currency", sort) if sort == "cost" else (sort,) if sort else ()


def place_in_list(connection: Connection, run_id: str, sort: str = "") -> tuple[float | str, ...]:
    """Where a run stands in the list of runs, from which a page goes on.

    Args:
        connection: To the database.
        run_id: The run.
        sort: By what the list is sorted, "" for the start alone.
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
    """How often this process was forked from another one, it and those before it."""
    return _forks


def _after_fork() -> None:
    global _forks  # noqa: PLW0603  # of the process, which is another one now
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
