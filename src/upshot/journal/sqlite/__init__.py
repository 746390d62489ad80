"""The journal in an SQLite file: tables, the writer thread, queries and leases.

Tables:
    ``runs`` has a row a run, with indexes for each way in which runs are listed. ``events`` is one
    tree on one whole number, the run's number and the event's seq, so that an append changes the
    page at the end of its run and no index. The row of a run is written when a session begins or
    ends, not for each event: the last key of a log is its end. ``forks`` says which runs
    read the child runs of another one, ``artifacts`` holds large outputs.

The life of a commit:
    ``SqliteJournal.append`` encodes an event and queues it. The thread of ``Writer`` takes all that
    is queued into one ``Batch``: one transaction, which waits for the disk (WAL mode, synchronous
    FULL). So barriers of many runs share a commit. A batch appends run by run; the statement that
    inserts the rows also compares the epoch, and a run that another holder took fails alone.
    Reads run in a thread of their own on what is committed.

Several processes:
    Any number may have the file open. Before a commit a process takes a ``FileLock`` beside the
    file, in the order of arrival; it is for fairness only, SQLite's own lock keeps the file whole.
    ``leases`` notes which process took a run. A killed process is known to be gone at once,
    so there is no lease to wait for.

Traps:
    - The system drops all of SQLite's locks on a file when anything in the process closes a
      descriptor of it. Nothing here opens a database file by hand while it is open as one.
    - A forked process must not use the connections of its parent; it is refused.
    - SQLite goes on writing into a file that was deleted. After each commit it is checked that the
      file is still in its place.
    - The number of a removed run is given out again, so a statement that writes by number compares
      the run's id too.
"""
