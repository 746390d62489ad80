"""The columns of the table: for each a desk, and the protection of the function."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.effects.bank import Client

__all__ = ["COLUMNS", "Column"]

Refund = Callable[..., str]
# The lease of frameworks that have one: several times what a refund takes.
LEASE_S = 2.0


@dataclass(frozen=True)
class Column:
    """A way to keep refunds from being made twice.

    Attributes:
        title: The title in the table.
        desk: The module of ``bench.effects.desks``.
        protect: Wraps the function that the program calls.
        packages: Distributions in addition to those of the desk.
        imports: Modules that it loads only when it is called.
        needs: "crewai" for a separate environment, "postgres" for a server.
        forks: Whether its processes may be forked from one that has imported it.
    """

    title: str
    desk: str
    protect: Callable[[Refund, Client, Path], Refund]
    packages: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    needs: str = ""
    forks: bool = True

    def load(self) -> Any:
        """Import the desk."""
        module = importlib.import_module(f"bench.effects.desks.{self.desk}")
        return getattr(module, "DESK", module)


def bare(refund: Refund, client: Client, folder: Path) -> Refund:
    """No protection."""
    return refund


def with_key(refund: Refund, client: Client, folder: Path) -> Refund:
    """An idempotency key from the order, which the bank recognises."""
    pay = client.pay
    client.pay = lambda order_id, cents: pay(order_id, cents, f"refund-{order_id}")  # type: ignore[method-assign,misc]
    return refund


def with_ctrlrun(refund: Refund, client: Client, folder: Path) -> Refund:
    """ctrlrun's decorator, with its store in SQLite and its own classifier of connections."""
    import ctrlrun
    from ctrlrun import transport

    client.connection = transport.HTTPConnection
    policy = """
schema: ctrlrun.policy/v2
actions:
  bank.refund:
    effect: "refund:{order_id}"
    rules:
      - when: {cents_gte: 0, cents_lte: 50000}
        decision: allow
"""
    control = ctrlrun.Control(
        ctrlrun.Policy.from_yaml(policy),
        ctrlrun.SQLiteStateStore(folder / "ctrlrun.db"),
        lease=timedelta(seconds=LEASE_S),
    )
    protected = ctrlrun.protect("bank.refund", control=control)(refund)

    @functools.wraps(refund)
    def call(order_id: str, cents: int) -> str:
        with ctrlrun.context(agent="clerk"):
            return protected(order_id=order_id, cents=cents)

    return call


def with_idemkit(refund: Refund, client: Client, folder: Path) -> Refund:
    """idemkit's decorator, with its records in PostgreSQL.

    According to its documents, a function that raises is run again, and should return a result to
    avoid that: a refund that may have been made is such a result.
    """
    from idemkit import MethodConfig, PostgresBackend, idempotent_sync

    def told(*, order_id: str, cents: int) -> str:
        try:
            return refund(order_id, cents)
        except ConnectionRefusedError:
            raise
        except OSError as error:
            return f"it is not known whether order {order_id} was refunded: {error}"

    config = MethodConfig(key_fields=["order_id"], lease_ttl_seconds=LEASE_S)
    backend = PostgresBackend.from_url((folder / "postgres").read_text(), min_size=1, max_size=2)
    return functools.wraps(refund)(idempotent_sync(backend=backend, config=config)(told))


def with_dbos(refund: Refund, client: Client, folder: Path) -> Refund:
    """A workflow of DBOS with an ID made from the order, which is DBOS's idempotency key.

    Its step is retried if the bank was not reached.
    """
    from dbos import DBOS, SetWorkflowID

    DBOS(
        config={
            "name": "desk",
            "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
            "application_version": "1",
            "executor_id": client.session,
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )
    step = DBOS.step(
        name="pay",
        retries_allowed=True,
        interval_seconds=0.1,
        should_retry=lambda error: isinstance(error, ConnectionRefusedError),
    )(refund)

    @DBOS.workflow(name="refund")
    def work(order_id: str, cents: int) -> str:
        return step(order_id, cents)

    DBOS.launch()

    @functools.wraps(refund)
    def call(order_id: str, cents: int) -> str:
        with SetWorkflowID(f"refund-{order_id}"):
            return work(order_id, cents)

    return call


def with_once(refund: Refund, client: Client, folder: Path) -> Refund:
    """``Ledger.once``."""
    from upshot import Ledger

    return Ledger(folder / "effects.db").once("order_id")(refund)


COLUMNS = {
    "python": Column("plain Python", "plain", bare),
    "key": Column("plain Python, keys at the bank", "plain", with_key),
    "pydantic-ai": Column("pydantic-ai", "pydantic_ai", bare),
    "dbos": Column("pydantic-ai on DBOS", "pydantic_ai_dbos", bare),
    "langgraph": Column("LangGraph, SQLite", "langgraph", bare),
    "langgraph-postgres": Column(
        "LangGraph, PostgreSQL", "langgraph_postgres", bare, needs="postgres"
    ),
    "openai-agents": Column("OpenAI Agents SDK", "openai_agents", bare),
    "adk": Column("Google ADK", "adk", bare),
    "agno": Column("Agno", "agno", bare),
    "strands": Column("Strands", "strands", bare),
    "smolagents": Column("smolagents", "smolagents", bare),
    "crewai": Column("CrewAI", "crewai", bare, needs="crewai"),
    "dbos-id": Column("DBOS, workflow ID of the order", "plain", with_dbos, ("dbos",), ("dbos",)),
    "idemkit": Column(
        "idemkit", "plain", with_idemkit, ("idemkit",), ("idemkit", "asyncpg"), "postgres"
    ),
    "ctrlrun": Column("ctrlrun", "plain", with_ctrlrun, ("ctrlrun",), ("ctrlrun",)),
    "once": Column("Ledger.once", "plain", with_once, ("upshot-agents",), ("upshot",)),
    "guard": Column("upshot's guard (pydantic-ai)", "guard", bare, (), ("upshot",)),
    "upshot": Column("upshot", "upshot_agents", bare, (), ("upshot",)),
}
