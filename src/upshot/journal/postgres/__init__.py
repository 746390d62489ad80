"""The journal in a PostgreSQL database: connections, commits and tables.

The rest is in ``upshot.journal.sql``, whose statements ``server`` translates to PostgreSQL's
dialect. The driver is psycopg 3, in its blocking form: the writer and the reader have separate
threads, as for a file, so both journals run the same code.

The life of a commit:
    ``ServerCommitter`` gets what was queued. Plain events of any number of runs are one statement
    and one round trip (``server`` packs them into arrays). It locks the rows of the runs in the
    order of their numbers, compares epochs, checks by checksum that each log ends with the event
    that this writer knows, and writes the runs that pass. Anything else makes it a transaction,
    whose number is kept in ``commits``.

A lost connection:
    ``Line`` reconnects and retries for a minute. Events that an earlier attempt may have committed
    are first looked up by run, epoch, seq and checksum, after a lock that waits for that attempt;
    a transaction with other work is looked up by its number. An attempt that completes late finds
    its place taken and writes nothing.

Leases:
    ``leases`` has one row for each process that is named as the holder in a run's row. It is
    renewed for as long as any run names it.

Traps:
    - A pooler may give each transaction another session. All settings are ``SET LOCAL``, no
      statement is prepared, and no lock outlives its transaction.
    - A process that is suspended in a transaction would keep its locks. The server ends such a
      transaction after the time of a lease.
    - Two connections may see different states. Code that decides by what it reads locks first.
"""
