"""What the journals in SQL databases share: tables, the writer's thread, queries and leases.

``upshot.journal.sqlite`` and ``upshot.journal.postgres`` connect to a database and commit to it.
Everything else about a journal in tables is here, in statements that both understand: claims,
reading, listing, export and import, removal, stored outputs.

Tables:
    ``runs`` has a row a run, with indexes for each way in which runs are listed. ``events`` is one
    tree on one whole number, the run's number and the event's seq, so that an append changes the
    page at the end of its run and no index. The row of a run is written when a session begins or
    ends, not for each event: the last key of a log is its end. ``forks`` says which runs
    read the child runs of another one, ``artifacts`` holds large outputs.

The life of a commit:
    ``SqlJournal.append`` encodes an event and queues it. The thread of ``Writer`` gives all that is
    queued to its ``Committer``, which writes it as one ``Batch`` in one transaction. So barriers of
    many runs share a commit. A batch appends run by run; the statement that inserts
    the rows also compares the epoch, and a run that another holder took fails alone.
    Work that is more than an append (a claim, an import, a removal) is a job in the same queue.
    Reads run in a thread of their own on what is committed.

Several processes:
    Any number may have the database open. ``leases`` notes which process took a run, and its epoch
    decides who may write.

Traps:
    - SQLite gives the number of a removed run out again, so a statement that writes by number
      compares the run's id or epoch too.
    - SQLite has one writer at a time, PostgreSQL has many: who decides by what he reads takes
      ``lock_run`` or ``lock_runs`` first.
"""
