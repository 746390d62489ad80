"""Whether a journal can be used now, and whether due runs are being worked on."""

from __future__ import annotations

import time
from typing import NamedTuple

from upshot.contract.base.structs import Value
from upshot.journal.sql.connection import NOW_US, Connection
from upshot.journal.sql.due import IS_OPEN
from upshot.journal.sql.leases import read_holders

_DUE = f"""SELECT count(*), coalesce({NOW_US} - min(due_at), 0) FROM runs
    WHERE due_at IS NOT NULL AND due_at <= {NOW_US}"""
_OPEN = f"SELECT CAST(run_id AS TEXT) FROM runs WHERE holder IS NOT NULL AND {IS_OPEN}"


class JournalHealth(Value, frozen=True, kw_only=True):
    """The present health of a journal.

    Attributes:
        place: Its file or its URL, without the password.
        is_writable: Whether a transaction was just committed, and others can be.
        why_not: Why not.
        standby: For a server: "synchronous" if a commit waits for a standby, "away" if it waits and
            that is not connected or still catches up, "none" if it does not wait; "" for a file.
        disk_free_bytes: Free space where the file is; None for a server.
        schema: The version of the tables.
        clock_ahead_s: Seconds by which the database's clock is ahead of this machine's.
        processes: How many living processes hold runs.
        held: How many runs they hold.
        died: How many runs have not ended although their holder is gone.
        due: How many runs are due now, without those that died.
        oldest_due_s: For how many seconds the oldest of them has been due, 0 for none.
    """

    place: str
    is_writable: bool
    why_not: str = ""
    standby: str = ""
    disk_free_bytes: int | None = None
    schema: int = 0
    clock_ahead_s: float = 0.0
    processes: int = 0
    held: int = 0
    died: int = 0
    due: int = 0
    oldest_due_s: float = 0.0


class Facts(NamedTuple):
    """The fields of ``JournalHealth`` that are read in one transaction."""

    standby: str
    schema: int
    clock_ahead_s: float
    processes: int
    held: int
    died: int
    due: int
    oldest_due_s: float


def read_facts(connection: Connection, statement: str) -> Facts:
    """Read the health of a journal.

    Args:
        connection: Within a transaction.
        statement: Returns the version of the tables and the ``standby``.
    """
    schema, standby = connection.execute(statement).fetchone()
    before = time.time()
    (now,) = connection.execute(f"SELECT {NOW_US}").fetchone()
    ahead_s = now / 1e6 - (before + time.time()) / 2
    due, oldest = connection.execute(_DUE).fetchone()
    holders = read_holders(connection)
    living = {run_id: holder for run_id, holder in holders.items() if holder.may_work}
    unended = {run_id for (run_id,) in connection.execute(_OPEN)}
    names = {(one.host, one.boot, one.space, one.pid, one.started) for one in living.values()}
    died = {one for one, holder in holders.items() if holder.pid and one not in living}
    return Facts(
        standby=standby,
        schema=schema,
        clock_ahead_s=round(ahead_s, 3),
        processes=len(names),
        held=len(living),
        died=len(died & unended),
        due=due,
        oldest_due_s=round(oldest / 1e6, 3),
    )


def too_new(name: str, version: int, known: int) -> str:
    """Return why code cannot use the tables of a journal, "" if it can.

    Args:
        name: The journal.
        version: The version of its tables.
        known: The newest version that the code knows.
    """
    if version <= known:
        return ""
    return (
        f"the tables of the journal {name} are of version {version}, and this upshot knows "
        f"version {known}: use a newer upshot"
    )
