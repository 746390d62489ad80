"""Who may take a run: leases by the database's clock, and processes that are seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.postgres import PostgresServer
from upshot.contract import RunStarted
from upshot.errors import JournalError, Misuse
from upshot.journal import PostgresJournal
from upshot.journal.lease_holder import LeaseHolder, this_process
from upshot.journal.postgres.postgres_journal import ServerCommitter
from upshot.journal.postgres.server import Line, Server
from upshot.journal.run_list import TurnClaim, TurnInTheWay
from upshot.journal.sql.connection import WriteConnection
from upshot.journal.sql.leases import claim_run, release_runs
from upshot.journal.sql.own_lease import OwnLease
from upshot.journal.sql.writer import Job

OTHER = LeaseHolder(pid=7, host="elsewhere", boot="another boot", space="pid:[1]", started=5)


async def held(postgres: PostgresServer, database: str, left: str) -> PostgresJournal:
    """A journal with a run that a process on another machine holds."""
    journal = await PostgresJournal.open(postgres.url(database))
    epoch = await journal.claim("r")
    journal.append(RunStarted(run_id="r", seq=1), epoch=epoch)
    await journal.durable("r", 1)
    text = msgspec.json.encode(OTHER).decode()
    postgres.do(f"UPDATE runs SET holder = '{text}'", database)
    postgres.do(f"INSERT INTO leases VALUES ('{text}', now() + interval '{left}')", database)
    return journal


async def test_a_run_whose_holder_keeps_its_lease_elsewhere_is_left_to_it(
    postgres: PostgresServer, database: str
) -> None:
    journal = await held(postgres, database, "1 hour")
    with pytest.raises(JournalError, match="process 7 on elsewhere, whose lease ends in 3600 s"):
        await journal.claim_free("r")
    assert (await journal.holders())["r"].state == "lives"
    with pytest.raises(Misuse, match="a process works on it"):
        await journal.remove_runs(["r"])
    assert await journal.claim("r") == 2
    await journal.aclose()


async def test_a_run_whose_lease_elsewhere_has_lapsed_is_free(
    postgres: PostgresServer, database: str
) -> None:
    journal = await held(postgres, database, "-1 ms")
    assert (await journal.holders())["r"].state == "unknown"
    assert await journal.claim_free("r") == 2
    holder = (await journal.holders())["r"]
    assert holder.is_this_process and holder.lease_s is not None and 0 < holder.lease_s <= 10
    await journal.aclose()


async def test_a_lease_is_renewed_while_a_run_is_held_and_no_longer(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    own, told = OwnLease(), list[frozenset[str]]()
    committer = ServerCommitter(Line(Server(postgres.url(database))), own, told.append)
    assert committer.rest_s is None

    def commit(work: Callable[[WriteConnection], Any]) -> Any:
        ((_, result, error),) = committer.commit([Job(work, lambda result, error: None)]).settled
        assert error is None
        return result

    lease = commit(lambda connection: claim_run(connection, "r", own, cut=False, take_over=False))
    assert committer.rest_s is not None and 2 < committer.rest_s <= 3
    postgres.do("UPDATE leases SET until = now()", database)
    committer.do_periodic_work()
    (holder,) = (await journal.holders()).values()
    assert holder.lease_s is not None and holder.lease_s > 5
    commit(lambda connection: release_runs(connection, [("r", lease.epoch)]))
    committer.do_periodic_work()
    assert committer.rest_s is None
    assert told == [{"r"}, frozenset()]
    committer.close()
    await journal.aclose()


async def test_the_process_of_a_lease_is_known_again(
    postgres: PostgresServer, database: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    await journal.claim("r")
    stored = postgres.do("SELECT holder FROM leases", database)
    assert stored == postgres.do("SELECT holder FROM runs", database)
    assert msgspec.json.decode(stored[0][0], type=LeaseHolder) == this_process()
    await journal.aclose()


@pytest.mark.parametrize("row", ["lapsed", "gone"])
async def test_a_turn_that_was_taken_elsewhere_and_never_begun_is_not_in_the_way_for_good(
    postgres: PostgresServer, database: str, row: str
) -> None:
    journal = await PostgresJournal.open(postgres.url(database))
    await journal.claim_turn("r", TurnClaim("talk", "r"))
    text = msgspec.json.encode(OTHER).decode()
    postgres.do(f"UPDATE runs SET holder = '{text}'", database)
    postgres.do(f"UPDATE leases SET holder = '{text}'", database)
    wanted = TurnClaim("talk", "s")
    assert await journal.claim_turn("s", wanted) == TurnInTheWay("r", "running")
    # The rows of processes that are long gone are removed.
    old = "UPDATE leases SET until = now()" if row == "lapsed" else "DELETE FROM leases"
    postgres.do(old, database)
    assert await journal.claim_turn("s", wanted) == 1
    await journal.aclose()
