"""The log: durable facts of runs, in a file or in memory.

A run is an append-only log of events. All that is known of it later - its result, what is pending,
what a resume has to do - is folded from them, so a journal stores events, gives them back in order,
and knows nothing else of a run. What it needs for its list of runs it asks of
``upshot.state.summary``.

Parts:
    ``event_codec`` says how one event is stored: a row with a checksum, whose body repeats no
    column, and refuses events that could not be read back. ``export_file`` reads and
    writes runs as JSON lines. ``run_list`` has what is common to all lists of runs, and which runs
    may be removed. ``watching`` wakes who waits for a change; ``pieces``
    are for who watches replies.
    ``artifact_store`` keeps large outputs. ``lease_holder`` says whether the
    process that took a run still lives. ``memory_journal`` and ``sqlite`` are the two journals;
    ``open_journal`` gives one for a place, shared by all in an event loop that have it open.

The life of an event:
    ``append`` checks that it is the next of its run and that the caller still holds the run
    (the epoch), and returns at once. ``durable`` is the barrier: it returns when everything up to a
    seq is on disk, and raises if it never will be. What no caller waits for is written a moment
    later.

Invariants:
    - ``events`` gives back exactly what was appended. Nothing is resolved or folded here.
    - A run's seqs are dense from 1, so that a gap is damage and never a mystery.
    - Written is readable: an event with a wrongly typed field is refused where it is appended, and
      nothing of it is stored.
    - Every claim raises the epoch. A holder that lost a run cannot append any more, and another
      holder's event is never taken for its own.
    - A damaged log gives the events before the damage, and says so: ``JournalError``, not Misuse.

Traps:
    A journal in memory keeps the events themselves, so a caller that changes a dict in an event
    after it was appended changes the log. A subclass of it with its own ``durable`` or ``claim`` is
    asked; otherwise no caller waits for what is safe at append.
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
