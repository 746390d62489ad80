"""The log: durable facts of runs, in a file or in memory.

A run is an append-only log of events. Everything known about it later (its result, what is
pending, what a resume has to do) is folded from them. A journal therefore stores events, returns
them in order, and knows nothing else about a run. ``upshot.state.summary`` derives what its list
of runs shows.

Parts:
    ``event_codec`` defines how one event is stored: a row with a checksum, whose body repeats no
    column. It refuses events that could not be read back. ``export_file`` reads and writes runs
    as JSON lines. ``run_list`` has what all lists of runs share, and decides which runs may be
    removed. ``watching`` wakes waiters when something changes; ``pieces`` passes on replies as
    they stream.
    ``artifact_store`` keeps large outputs. ``lease_holder`` tells whether the process that
    claimed a run is still alive. ``memory_journal``, ``sqlite`` and ``postgres`` are the three
    journals; ``open_journal`` opens the one for a place, and all its users in an event loop
    share it.

The life of an event:
    ``append`` checks that the event is the next of its run and that the caller still holds the
    run (the epoch), and returns at once. ``durable`` is the barrier: it returns when everything
    up to a seq is on disk, and raises if it never will be. Events without a waiting caller are
    written a moment later.

Invariants:
    - ``events`` returns exactly what was appended. Nothing is resolved or folded here.
    - The seqs of a run are dense from 1, so a gap always means damage.
    - Whatever was written can be read: an event with a wrongly typed field is refused by
      ``append``, and no part of it is stored.
    - Every claim raises the epoch. A holder that lost a run cannot append to it, and its events
      are never mistaken for those of the new holder.
    - A damaged log returns the events before the damage, then raises ``JournalError``, not Misuse.

Traps:
    A journal in memory keeps the event objects themselves, so a caller that changes a dict in an
    appended event changes the log. An event is safe there once appended, so sessions skip its
    ``durable`` and ``claim``, unless a subclass overrides them.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.journal.artifact_store import (
        MemoryArtifactStore as MemoryArtifactStore,
        Pruned as Pruned,
    )
    from upshot.journal.event_codec import Damage as Damage
    from upshot.journal.lease_holder import LeaseHolder as LeaseHolder
    from upshot.journal.memory_journal import MemoryJournal as MemoryJournal
    from upshot.journal.opening import open_journal as open_journal
    from upshot.journal.postgres.postgres_journal import PostgresJournal as PostgresJournal
    from upshot.journal.run_list import RemovedRuns as RemovedRuns
    from upshot.journal.sqlite.sqlite_journal import SqliteJournal as SqliteJournal
