"""What the journals in SQL databases share: tables, the writer's thread, queries and leases.

``upshot.journal.sqlite`` and ``upshot.journal.postgres`` connect to a database and commit to it.
Everything else about a journal in tables is here, in statements that both understand: claims,
reading, listing, export and import, removal, stored outputs.

Tables:
    ``runs`` has one row for each run, with an index for each way to list runs. ``events`` is one
    tree keyed by a single integer, made of the run's number and the event's seq, so an append
    changes only the page at the end of its run and no index. The row of a run is written when a
    session starts or ends, not for each event: the end of a log is its last key. ``forks`` says
    which runs read the child runs of another one, ``artifacts`` holds large outputs.

The life of a commit:
    ``SqlJournal.append`` encodes an event and queues it. The thread of ``Writer`` passes everything
    in the queue to its ``Committer``, which writes it as one ``Batch`` in one transaction, so the
    barriers of many runs share a commit. A batch appends run by run. The statement that inserts
    the rows also compares the epoch, so only a run that another holder has claimed fails.
    Work that is more than an append (a claim, an import, a removal) is a job in the same queue.
    Reads run in a separate thread and see what is committed.

Several processes:
    Any number may have the database open. ``leases`` records which process claimed a run, and the
    epoch decides which one may write.

Traps:
    - SQLite reuses the number of a removed run, so a statement that writes by number also
      compares the run's id or epoch.
    - SQLite has one writer at a time, PostgreSQL has many: code that writes depending on what it
      has read must first call ``lock_run`` or ``lock_runs``.
"""
