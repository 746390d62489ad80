"""The tables of a journal in PostgreSQL: created, checked, and upgraded to this version."""

from __future__ import annotations

from typing import Any

from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction

from upshot.errors import JournalError, Misuse
from upshot.journal.effects import BEGUN, UNKNOWN
from upshot.journal.event_codec import FORMAT
from upshot.journal.postgres.server import ServerConnection, reason_of
from upshot.journal.run_list import LEAST_TOOK_S
from upshot.journal.sql.connection import IS_NEW, NEVER, SEQ_BITS
from upshot.journal.sql.count_rows import TABLE, count_again
from upshot.journal.sql.health import too_new

# Any number that no other program is likely to lock.
_LOCK = 0x7570_7368_6F74
_FOUND = "SELECT count(*) FROM pg_tables WHERE schemaname = 'upshot' AND tablename = 'journal'"
_MOST_RUNS = (1 << (63 - SEQ_BITS)) - 1
# The statements that upgrade to each version; those of released versions never change.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE upshot.journal (version bigint NOT NULL, format bigint NOT NULL)",
        f"INSERT INTO upshot.journal VALUES (0, {FORMAT})",
        f"""CREATE TABLE upshot.runs (
            run_no bigint GENERATED ALWAYS AS IDENTITY (MAXVALUE {_MOST_RUNS}) PRIMARY KEY,
            run_id text COLLATE "C" NOT NULL UNIQUE,
            agent_id text NOT NULL DEFAULT '',
            status text NOT NULL DEFAULT 'running',
            epoch bigint NOT NULL DEFAULT 0,
            last_seq bigint NOT NULL DEFAULT 0,
            started_at bigint NOT NULL DEFAULT {NEVER},
            request text NOT NULL DEFAULT '',
            parent_run_id text COLLATE "C" NOT NULL DEFAULT '',
            context_id text COLLATE "C" NOT NULL DEFAULT '',
            turn text COLLATE "C" NOT NULL DEFAULT '',
            is_chained boolean NOT NULL DEFAULT false,
            is_inside boolean NOT NULL DEFAULT false,
            revision bigint NOT NULL DEFAULT 0,
            spent text,
            tokens bigint NOT NULL DEFAULT 0,
            cost double precision NOT NULL DEFAULT 0,
            currency text COLLATE "C" NOT NULL DEFAULT '',
            effect bigint NOT NULL DEFAULT 0,
            error_code text COLLATE "C" NOT NULL DEFAULT '',
            holder text COLLATE "C",
            priority bigint NOT NULL DEFAULT 0,
            due_at bigint,
            due_reason text NOT NULL DEFAULT '',
            owner text COLLATE "C" NOT NULL DEFAULT '',
            tenant text COLLATE "C" NOT NULL DEFAULT '',
            answer text NOT NULL DEFAULT '',
            took double precision NOT NULL DEFAULT 0,
            tools text NOT NULL DEFAULT '',
            watched_until timestamptz,
            shown_until timestamptz
        )""",
        # The pieces of replies under way; lost in a crash, and never needed.
        """CREATE UNLOGGED TABLE upshot.pieces (
            run_id text COLLATE "C" NOT NULL,
            seq bigint NOT NULL,
            part bigint NOT NULL,
            body bytea NOT NULL,
            at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (run_id, seq, part)
        )""",
        "CREATE INDEX runs_by_start ON upshot.runs (started_at, run_no)",
        "CREATE INDEX runs_by_status ON upshot.runs (status, started_at, run_no)",
        "CREATE INDEX runs_of_context ON upshot.runs (context_id, started_at) "
        "WHERE context_id <> ''",
        "CREATE INDEX runs_of_parent ON upshot.runs (parent_run_id, started_at) "
        "WHERE parent_run_id <> ''",
        "CREATE INDEX runs_held ON upshot.runs (holder) WHERE holder IS NOT NULL",
        f"CREATE INDEX runs_due ON upshot.runs (priority DESC, {IS_NEW}, due_at, run_no) "
        "WHERE due_at IS NOT NULL",
        "CREATE INDEX runs_by_effect ON upshot.runs (effect, started_at, run_no) WHERE effect > 0",
        "CREATE INDEX runs_by_cost ON upshot.runs (currency, cost, started_at, run_no) "
        "WHERE cost > 0",
        "CREATE INDEX runs_by_tokens ON upshot.runs (tokens, started_at, run_no) WHERE tokens > 0",
        "CREATE INDEX runs_by_error ON upshot.runs (error_code, started_at, run_no) "
        "WHERE error_code <> ''",
        f"CREATE INDEX runs_by_took ON upshot.runs (took, started_at, run_no) "
        f"WHERE took >= {LEAST_TOOK_S}",
        "CREATE INDEX runs_of_owner ON upshot.runs (owner, started_at, run_no) WHERE owner <> ''",
        "CREATE INDEX runs_of_tenant ON upshot.runs (tenant, started_at, run_no) "
        "WHERE tenant <> ''",
        """CREATE TABLE upshot.forks (
            origin_run_id text COLLATE "C" NOT NULL,
            run_id text COLLATE "C" NOT NULL,
            PRIMARY KEY (origin_run_id, run_id)
        )""",
        """CREATE TABLE upshot.events (
            id bigint PRIMARY KEY,
            epoch bigint NOT NULL,
            kind text NOT NULL,
            time bigint,
            body bytea NOT NULL,
            crc bigint NOT NULL
        )""",
        # The effects of calls, one row for each identity.
        """CREATE TABLE upshot.effects (
            effect_no bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
            id bytea NOT NULL UNIQUE,
            started_at bigint NOT NULL,
            ended_at bigint,
            run_no bigint,
            call integer NOT NULL,
            started_seq bigint NOT NULL DEFAULT 0,
            settled_seq bigint NOT NULL DEFAULT 0,
            state smallint NOT NULL,
            attempts integer NOT NULL DEFAULT 1,
            checks integer NOT NULL DEFAULT 0,
            check_at bigint,
            keep_us bigint,
            watched_until timestamptz,
            name text COLLATE "C" NOT NULL,
            key text COLLATE "C" NOT NULL DEFAULT '',
            tool text COLLATE "C",
            settled text,
            run_id text COLLATE "C",
            agent_id text,
            owner text COLLATE "C",
            tenant text COLLATE "C",
            kept text
        )""",
        "CREATE INDEX effects_of_run ON upshot.effects (run_no)",
        f"CREATE INDEX effects_open ON upshot.effects (state) WHERE state IN ({BEGUN}, {UNKNOWN})",
        """CREATE TABLE upshot.artifacts (
            rowid bigint GENERATED ALWAYS AS IDENTITY,
            id text COLLATE "C" PRIMARY KEY,
            run_id text COLLATE "C" NOT NULL,
            call_id text NOT NULL,
            media_type text NOT NULL,
            size_bytes integer NOT NULL,
            sha256 text NOT NULL,
            lines bigint,
            data bytea NOT NULL,
            summary text NOT NULL,
            stored_at double precision NOT NULL
        )""",
        "CREATE INDEX artifacts_of_run ON upshot.artifacts (run_id)",
        # Blocks of conversations; a cache, which may be dropped.
        """CREATE TABLE upshot.turn_blocks (
            context_id text COLLATE "C" NOT NULL,
            number bigint NOT NULL,
            body bytea NOT NULL,
            crc bigint NOT NULL,
            PRIMARY KEY (context_id, number)
        )""",
        # Control requests for runs; the holder copies answers into the log.
        """CREATE TABLE upshot.wishes (
            run_id text COLLATE "C" NOT NULL,
            item text COLLATE "C" NOT NULL,
            body text NOT NULL,
            PRIMARY KEY (run_id, item)
        )""",
        # The open questions of parked runs, by the outermost run that waits.
        """CREATE TABLE upshot.inbox (
            root_no bigint NOT NULL,
            run_no bigint NOT NULL,
            place bigint NOT NULL,
            item text COLLATE "C" NOT NULL,
            tool text COLLATE "C" NOT NULL,
            body text NOT NULL,
            asked_at bigint NOT NULL,
            tell_at bigint DEFAULT 0,
            tries bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (run_no, place)
        )""",
        "CREATE INDEX inbox_to_tell ON upshot.inbox (tell_at) WHERE tell_at IS NOT NULL",
        "CREATE INDEX inbox_of_root ON upshot.inbox (root_no, asked_at)",
        "CREATE INDEX inbox_by_wait ON upshot.inbox (asked_at, root_no, run_no, place)",
        """CREATE TABLE upshot.submissions (
            run_id text COLLATE "C" PRIMARY KEY,
            key text COLLATE "C" UNIQUE,
            until bigint,
            body text NOT NULL
        )""",
        # Notes that people attached to runs.
        """CREATE TABLE upshot.notes (
            run_id text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            author text COLLATE "C" NOT NULL,
            at bigint NOT NULL,
            body text NOT NULL,
            PRIMARY KEY (run_id, name, author)
        )""",
        # Values that several processes change, such as the used part of a quota. Rows change often,
        # so their pages have space for new versions.
        """CREATE TABLE upshot.shared_values (
            name text COLLATE "C" PRIMARY KEY,
            body text NOT NULL
        ) WITH (fillfactor = 50)""",
        # Which processes are alive, as they say themselves: they renew it while they hold a run.
        """CREATE TABLE upshot.leases (
            holder text COLLATE "C" PRIMARY KEY,
            until timestamptz NOT NULL
        )""",
        # Each writer's last transaction, which shows whether a lost connection committed it.
        """CREATE TABLE upshot.commits (
            writer text COLLATE "C" PRIMARY KEY,
            number bigint NOT NULL,
            at timestamptz NOT NULL DEFAULT now()
        )""",
    ),
    (
        "ALTER TABLE upshot.runs ADD COLUMN calls text NOT NULL DEFAULT ''",
        "CREATE TABLE upshot.run_counts (span bigint)",
    ),
    (
        # No run may end between the count of all runs and the commit.
        "LOCK TABLE upshot.runs IN SHARE ROW EXCLUSIVE MODE",
        "DROP TABLE upshot.run_counts",
        "CREATE TABLE upshot." + TABLE.format(text='text COLLATE "C"'),
    ),
    (
        # Who did what; rows are only added, and without content once their run is redacted.
        """CREATE TABLE upshot.audit (
            audit_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            at bigint NOT NULL,
            person text COLLATE "C" NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            kind text COLLATE "C" NOT NULL,
            action text COLLATE "C" NOT NULL,
            run_id text COLLATE "C" NOT NULL,
            run_tenant text COLLATE "C" NOT NULL,
            subject text COLLATE "C" NOT NULL,
            tool text COLLATE "C" NOT NULL,
            digest text COLLATE "C" NOT NULL,
            detail text NOT NULL,
            door text COLLATE "C" NOT NULL,
            session text COLLATE "C" NOT NULL,
            address text COLLATE "C" NOT NULL,
            arguments text,
            once text COLLATE "C" UNIQUE
        )""",
        "CREATE INDEX audit_by_time ON upshot.audit (at, audit_no)",
        """CREATE INDEX audit_of_run ON upshot.audit (run_id, at, audit_no)
            WHERE run_id <> ''""",
        "CREATE INDEX audit_of_tool ON upshot.audit (tool, at, audit_no) WHERE tool <> ''",
        # Users who are signed in with a browser, by a digest of what the browser has.
        """CREATE TABLE upshot.web_sessions (
            key text COLLATE "C" PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            person text COLLATE "C" NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            subject text COLLATE "C" NOT NULL,
            provider_session text COLLATE "C" NOT NULL,
            seen_at bigint NOT NULL,
            until bigint NOT NULL,
            body text NOT NULL
        )""",
    ),
)
_FUNCTION = "SECURITY DEFINER SET search_path = upshot, pg_temp"
_STAMP = "(1 + random() * 1e15)::bigint"
_RUN_NO = f"id >> {SEQ_BITS}"
# These run as the user who made the index, so that every user who may append keeps it right.
MAKE_INDEX: tuple[str, ...] = (
    # The texts of logs, and the runs whose logs must be read instead.
    'CREATE TABLE upshot.run_texts (run_no bigint PRIMARY KEY, body text COLLATE "C" NOT NULL)',
    "CREATE TABLE upshot.run_pending (run_no bigint PRIMARY KEY, stamp bigint NOT NULL)",
    # Trigrams of bytes, hashed; no extension is needed.
    """CREATE FUNCTION upshot.grams_of(body text) RETURNS smallint[]
        LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        WITH one AS MATERIALIZED (SELECT convert_to(body, 'UTF8') AS b)
        SELECT coalesce(array_agg(DISTINCT mod(get_byte(b, at) * 65536 + get_byte(b, at + 1) * 256
            + get_byte(b, at + 2), 32749)::smallint), '{}')
        FROM one, generate_series(0, length(b) - 3) AS at $$""",
    "CREATE INDEX run_grams ON upshot.run_texts USING gin (upshot.grams_of(body))",
    f"""CREATE FUNCTION upshot.event_added() RETURNS trigger LANGUAGE plpgsql {_FUNCTION} AS $$
        BEGIN
            INSERT INTO run_pending SELECT run_no, {_STAMP}
                FROM (SELECT DISTINCT {_RUN_NO} AS run_no FROM added) AS runs
                ON CONFLICT DO NOTHING;
            RETURN NULL;
        END $$""",
    f"""CREATE FUNCTION upshot.event_changed() RETURNS trigger LANGUAGE plpgsql {_FUNCTION} AS $$
        BEGIN
            DELETE FROM run_texts WHERE run_no IN (SELECT {_RUN_NO} FROM changed);
            INSERT INTO run_pending SELECT run_no, {_STAMP}
                FROM (SELECT DISTINCT {_RUN_NO} AS run_no FROM changed) AS runs
                ON CONFLICT (run_no) DO UPDATE SET stamp = excluded.stamp;
            RETURN NULL;
        END $$""",
    f"""CREATE FUNCTION upshot.run_removed() RETURNS trigger LANGUAGE plpgsql {_FUNCTION} AS $$
        BEGIN
            DELETE FROM run_texts WHERE run_no IN (SELECT run_no FROM removed);
            DELETE FROM run_pending WHERE run_no IN (SELECT run_no FROM removed);
            RETURN NULL;
        END $$""",
    *(
        f"CREATE TRIGGER {name} AFTER {what} REFERENCING {rows} FOR EACH STATEMENT "
        f"EXECUTE FUNCTION upshot.{function}()"
        for name, what, rows, function in (
            ("event_added", "INSERT ON upshot.events", "NEW TABLE AS added", "event_added"),
            ("event_rewritten", "UPDATE ON upshot.events", "OLD TABLE AS changed", "event_changed"),
            ("event_removed", "DELETE ON upshot.events", "OLD TABLE AS changed", "event_changed"),
            ("run_removed", "DELETE ON upshot.runs", "OLD TABLE AS removed", "run_removed"),
        )
    ),
    f"INSERT INTO upshot.run_pending SELECT run_no, {_STAMP} FROM upshot.runs",
)
"""The statements that make the search index of ``sql.search_rows``."""
DROP_INDEX: tuple[str, ...] = (
    *(
        f"DROP FUNCTION upshot.{name}() CASCADE"
        for name in ("event_added", "event_changed", "run_removed")
    ),
    "DROP TABLE upshot.run_texts, upshot.run_pending",
    "DROP FUNCTION upshot.grams_of(text)",
)
# The oldest tables that this version can use: code that writes no audit must not take an answer.
_OLDEST = 4
# The first tables that count runs as this code does.
_COUNTED = 3


def prepare(
    connection: ServerConnection,
    name: str,
    *,
    create: bool,
    upgrade: bool = False,
    steps: tuple[tuple[str, ...], ...] = STEPS,
) -> None:
    """Check the tables, and create them if they are missing.

    Args:
        connection: Not within a transaction.
        name: The journal, for messages.
        create: Whether to create tables in a database without any; if not, that is Misuse.
        upgrade: Whether to upgrade the tables of an older version to this one.
        steps: The statements for each version.

    Raises:
        Misuse: There is no journal in the database.
        JournalError: The tables have another version, or may not be created.
    """
    version = _version(connection, name)
    if version is None and not create:
        raise Misuse(f"there is no journal at {name}: make one with `upshot journal init {name}`")
    if version is None or (upgrade and version < len(steps)):
        try:
            version = _make(connection, name, steps)
        except (InsufficientPrivilege, ReadOnlySqlTransaction) as error:
            raise JournalError(
                f"the tables of the journal {name} cannot be made: {reason_of(error)}; run "
                "`upshot journal init URL` as a user who may create a schema"
            ) from error
    # Tables one version older are accepted too, so that new code can be deployed before new tables.
    oldest = max(_OLDEST, len(steps) - 1)
    if version < oldest:
        raise JournalError(
            f"the tables of the journal {name} are of version {version}, and this upshot needs "
            f"version {oldest} or newer: run `upshot journal init URL` once"
        )
    if newer := too_new(name, version, len(steps)):
        raise JournalError(newer)


def is_read_only(connection: ServerConnection) -> bool:
    """Whether the server is read-only, such as a standby."""
    return _one(connection, "SHOW transaction_read_only") == "on"


def _version(connection: ServerConnection, name: str) -> int | None:
    """Return the version of the tables, None if there are none."""
    try:
        # Not to_regclass, which may miss what another session has just created.
        if not _one(connection, _FOUND):
            return None
        row = connection.do("SELECT version, format FROM upshot.journal").fetchone()
    except InsufficientPrivilege as error:
        raise JournalError(
            f"the journal {name} cannot be used: {reason_of(error)}; grant the user the schema "
            "upshot and the tables in it"
        ) from error
    version, format = row or (0, FORMAT)
    if format != FORMAT:
        raise JournalError(
            f"the journal {name} is of format {format}, and this version of upshot reads format "
            f"{FORMAT}: use the version that wrote it, or another database"
        )
    return version


def _make(connection: ServerConnection, name: str, steps: tuple[tuple[str, ...], ...]) -> int:
    connection.begin()
    try:
        # Another process may be doing the same.
        connection.do(b"SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = _version(connection, name)
        if version is None:
            connection.do(b"CREATE SCHEMA IF NOT EXISTS upshot")
        for step in steps[version or 0 :]:
            for statement in step:
                connection.do(statement)
        if (version or 0) < _COUNTED:
            count_again(connection)
        version = max(version or 0, len(steps))
        connection.do(b"UPDATE upshot.journal SET version = %s", [version])
        connection.do(b"COMMIT")
    except BaseException:
        connection.do(b"ROLLBACK")
        raise
    return version


def _one(connection: ServerConnection, statement: str) -> Any:
    row = connection.do(statement).fetchone()
    return None if row is None else row[0]
