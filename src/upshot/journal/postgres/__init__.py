"""The journal in a PostgreSQL database: connections, commits and tables.

The rest is in ``upshot.journal.sql``, whose statements ``server`` puts into PostgreSQL's words. The
driver is psycopg 3, in its blocking form: the writer and the reader have threads of their own, as
for a file, and so both journals run the same code.

The life of a commit:
    ``ServerCommitter`` gets what has gathered. Plain events of any number of runs are one statement
    and one round trip (``server`` packs them into arrays): it locks the rows of the runs in order
    of their numbers, compares epochs, checks that each log ends with the event that this
    writer knows, by its checksum, and writes to the runs that pass. Whatever else there is makes
    it a transaction, whose number is kept in ``commits``.

A lost connection:
    ``Line`` makes it again for a minute and tries anew. Events that an earlier try may have
    committed are looked up first, by run, epoch, seq and checksum, after a lock that waits for
    that try; a transaction with other work by its number. A try that comes late finds its place
    taken and writes nothing.

Leases:
    ``leases`` has a row a process: whom a run's row names as its holder. It is renewed for as long
    as any run names it.

Traps:
    - A pooler may give each transaction another session. All is set by ``SET LOCAL``, nothing
      is prepared, and no lock outlives its transaction.
    - A process that is suspended in a transaction would keep its locks. The server ends such a
      transaction after the time of a lease.
    - Two connections may see different moments. Who decides by what he reads locks first.
"""
