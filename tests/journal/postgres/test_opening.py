"""What is wrong with a place or its server is said in one sentence, without the password."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.postgres import PostgresServer
from upshot import JournalError, Misuse, open_journal
from upshot.contract import RunStarted, StepStarted
from upshot.journal import PostgresJournal
from upshot.journal.opening import init_journal
from upshot.journal.postgres.server import Server
from upshot.journal.postgres.tables import STEPS, prepare
from upshot.journal.postgres.urls import safe_place


@pytest.fixture
def database(empty_database: str) -> str:
    """A database without tables."""
    return empty_database


async def said(kind: type[Exception], url: str, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        async with open_journal(url, **options):
            pass
    assert "\n" not in str(caught.value) and "geheim" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("postgresql://u:geheim@h/db?listen=postgresql%3A%2F%2Fu%3Ageheim%40h%3Fa%3Db", '"a"'),
        ("postgresql://u:geheim@h/db?sslmod=x", 'query parameter: "sslmod"'),
        ("postgresql://u:geheim%zz@h/db", 'token: "***"'),
        ("postgresql://h/db?password=geheim%zz", 'token: "***"'),
    ],
)
async def test_a_url_with_a_typo_is_misuse(postgres: PostgresServer, url: str, part: str) -> None:
    message = await said(Misuse, url)
    assert part in message and "postgresql://user:password@host:port/database" in message


async def test_another_scheme_is_misuse() -> None:
    assert "no journals at mysql" in await said(Misuse, "mysql://h/db")


async def test_a_server_that_is_not_there_is_told(postgres: PostgresServer) -> None:
    message = await said(JournalError, "postgresql://u:geheim@127.0.0.1:1/db")
    assert message == (
        "the journal postgresql://u@127.0.0.1:1/db cannot be opened: Connection refused; check "
        "host and port in the URL, and that the server runs"
    )


@pytest.mark.parametrize(
    ("user", "database", "part"),
    [
        ("upshot", "nowhere", 'database "nowhere" does not exist; correct the name'),
        ("nobody_known", "postgres", 'role "nobody_known" does not exist; correct the user'),
    ],
)
async def test_a_name_that_the_server_does_not_know_is_told(
    postgres: PostgresServer, user: str, database: str, part: str
) -> None:
    if not postgres.is_ours:
        pytest.skip("it may ask for a password first")
    assert part in await said(JournalError, postgres.url(database, user=user))


async def test_a_wrong_password_is_told_and_not_shown(
    postgres: PostgresServer, database: str
) -> None:
    if not postgres.is_ours:
        pytest.skip("the rules of that server are not ours to change")
    postgres.do(f"CREATE ROLE guarded_{database} LOGIN PASSWORD 'right'")
    with postgres.rule(f"host {database} guarded_{database} 127.0.0.1/32 scram-sha-256"):
        url = postgres.url(database, user=f"guarded_{database}:geheim")
        message = await said(JournalError, url)
    assert "password authentication failed" in message and "PGPASSWORD" in message


async def test_a_database_without_a_journal_is_misuse_where_none_may_be_made(url: str) -> None:
    message = await said(Misuse, url, create=False)
    assert message == (f"there is no journal at {url}: make one with `upshot journal init {url}`")


async def test_a_journal_that_was_made_is_opened(url: str) -> None:
    await init_journal(url)
    async with open_journal(url, create=False) as journal:
        assert await journal.runs() == []


async def test_a_user_who_may_make_no_tables_is_told(
    postgres: PostgresServer, database: str
) -> None:
    if not postgres.is_ours:
        pytest.skip("it may ask for a password first")
    postgres.do(f"CREATE ROLE reader_{database} LOGIN")
    message = await said(JournalError, postgres.url(database, user=f"reader_{database}"))
    assert "permission denied" in message and "upshot journal init" in message
    await init_journal(postgres.url(database))
    message = await said(JournalError, postgres.url(database, user=f"reader_{database}"))
    assert "permission denied" in message and "grant" in message


async def test_a_database_that_takes_nothing_is_opened_for_reading(
    postgres: PostgresServer, database: str
) -> None:
    async with open_journal(postgres.url(database)) as journal:
        journal.append(RunStarted(run_id="r", seq=1))
    postgres.do(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    async with open_journal(postgres.url(database)) as journal:
        assert [run.run_id for run in await journal.runs()] == ["r"]
        with pytest.raises(JournalError, match="cannot be written: it is read-only"):
            journal.append(StepStarted(run_id="r", seq=2, key="k"))
        with pytest.raises(JournalError, match="read-only"):
            await journal.claim("r")


@pytest.mark.parametrize(
    ("version", "part"),
    [(0, "run `upshot journal init URL` once"), (len(STEPS) + 1, "use a newer upshot")],
)
async def test_tables_of_another_version_are_told(
    postgres: PostgresServer, database: str, version: int, part: str
) -> None:
    await init_journal(postgres.url(database))
    postgres.do(f"UPDATE journal SET version = {version}", database)
    assert part in await said(JournalError, postgres.url(database))
    postgres.do("UPDATE journal SET format = 1", database)
    assert "of format 1" in await said(JournalError, postgres.url(database))


async def test_older_tables_are_brought_to_the_new_version(
    postgres: PostgresServer, database: str
) -> None:
    url = postgres.url(database)
    async with open_journal(url) as journal:
        journal.append(RunStarted(run_id="r", seq=1))
    added = (*STEPS, ("ALTER TABLE runs ADD COLUMN more text",))
    steps = (*added, ("ALTER TABLE runs ADD COLUMN other text",))
    server = Server(url)
    connection = server.connect()
    # New code serves the tables of the version before, and none that are older.
    prepare(connection, url, create=True, steps=added)
    with pytest.raises(JournalError, match=f"are of version {len(STEPS)}.* {len(added)} or newer"):
        prepare(connection, url, create=True, steps=steps)
    for _ in range(2):
        prepare(connection, url, create=True, upgrade=True, steps=steps)
    connection.close()
    assert postgres.do("SELECT run_id, more FROM runs", database) == [("r", None)]
    assert postgres.do("SELECT version FROM journal", database) == [(len(steps),)]


async def test_a_database_of_another_encoding_is_misuse(postgres: PostgresServer) -> None:
    name = postgres.new_database("LATIN1")
    assert "LATIN1" in await said(Misuse, postgres.url(name))
    postgres.drop(name)


async def test_a_missing_driver_is_told() -> None:
    program = """
import asyncio, sys
sys.modules["psycopg"] = None
from upshot import Misuse, open_journal

async def main():
    try:
        async with open_journal("postgresql://u:geheim@h/db"):
            pass
    except Misuse as error:
        print(error)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "[postgres]'" in done.stdout and "geheim" not in done.stdout


def test_importing_upshot_loads_no_driver() -> None:
    program = "import sys, upshot.journal; upshot.open_journal; print('psycopg' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import upshot\n{program}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("runs.db", "runs.db"),
        ("postgresql://u:p@h:5/db?a=b", "postgresql://u@h:5/db?a=b"),
        ("postgres://u:p%40:@h,i/db", "postgres://u@h,i/db"),
        ("postgresql://h/db?password=p&a=b", "postgresql://h/db?a=b"),
        ("postgresql://h/db?a=b&password=p", "postgresql://h/db?a=b"),
        ("postgresql:///db?password=p", "postgresql:///db"),
        ("postgresql://h/db", "postgresql://h/db"),
    ],
)
def test_a_place_is_shown_without_its_password(where: str, shown: str) -> None:
    assert safe_place(where) == shown


async def test_a_nul_in_a_name_is_misuse_where_it_enters(journal: PostgresJournal) -> None:
    with pytest.raises(Misuse, match="NUL"):
        journal.append(RunStarted(run_id="r\0", seq=1))
    with pytest.raises(Misuse, match="NUL"):
        await journal.claim("r\0")
    with pytest.raises(Misuse, match="NUL"):
        journal.append(RunStarted(run_id="r", seq=1, parent_run_id="\0"))
    with pytest.raises(OSError, match="NUL"):
        await journal.artifacts.put("r", "call\0", b"data", "text/plain")
    journal.append(RunStarted(run_id="r", seq=1))
    await journal.durable("r", 1)
