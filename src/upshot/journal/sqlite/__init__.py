"""The journal in an SQLite file: its tables, its commits, and salvaging a damaged one.

The rest is in ``upshot.journal.sql``. A commit waits for the disk (WAL mode, synchronous FULL).

Several processes:
    Any number may have the file open. Before a commit a process acquires a ``FileLock`` beside the
    file, in the order of arrival. That is for fairness only; SQLite's own lock protects the file.
    A killed process is known to be gone at once, so there is no lease to wait for.

Traps:
    - The system drops all of SQLite's locks on a file when any code in the process closes a
      descriptor of it. Nothing here opens a database file directly while it is open as a database.
    - A forked process must not use the connections of its parent; it is refused.
    - SQLite keeps writing into a file that was deleted. After each commit the journal checks that
      the file is still in its place.
"""
