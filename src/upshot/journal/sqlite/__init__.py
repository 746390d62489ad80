"""The journal in an SQLite file: its tables, its commits, and what can be saved of a damaged one.

The rest is in ``upshot.journal.sql``. A commit waits for the disk (WAL mode, synchronous FULL).

Several processes:
    Any number may have the file open. Before a commit a process takes a ``FileLock`` beside the
    file, in the order of arrival; it is for fairness only, SQLite's own lock keeps the file whole.
    A killed process is known to be gone at once, so there is no lease to wait for.

Traps:
    - The system drops all of SQLite's locks on a file when anything in the process closes a
      descriptor of it. Nothing here opens a database file by hand while it is open as one.
    - A forked process must not use the connections of its parent; it is refused.
    - SQLite goes on writing into a file that was deleted. After each commit it is checked that the
      file is still in its place.
"""
