"""The command on a journal in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, command
from tests.postgres import PostgresServer
from upshot.journal.postgres.tables import STEPS

__all__ = ["command"]

AGENT = """
from upshot import Agent, ScriptedModel, ToolCall, tool

@tool(effect="write", approval=True)
def send() -> str:
    return "sent"

agent = Agent("clerk", model=ScriptedModel([ToolCall("c", "send"), "Done."]), tools=[send])
"""


@pytest.fixture
def url(postgres: PostgresServer, empty_database: str) -> str:
    return postgres.url(empty_database)


def with_password(url: str) -> str:
    return url.replace("upshot@", "upshot:geheim@", 1)


def test_a_run_is_kept_answered_and_shown(command: Command, url: str) -> None:
    Path("desk.py").write_text(AGENT)
    where = with_password(url)
    assert command("journal", "init", where) == (0, f"{url} is a journal\n", "")
    code, out, err = command("run", "desk.py:agent", "Go.", "--journal", where)
    assert code == 3
    assert f"--journal {url}" in err
    assert command("approve", "last", "--approve", "1", "--journal", where)[0] == 0
    shown = command("show", "last", "--journal", where)
    listed = command("runs", "--journal", where)
    assert "completed" in shown[1] and "clerk" in listed[1]
    assert command("prune", "last", "--journal", where)[:2] == (
        0,
        "removed 1 run and 0 stored outputs (0 bytes)\n",
    )
    empty = command("runs", "--journal", where)
    assert f"{url} has no runs" in empty[2]
    told = "".join([out, err, *(text for _, *texts in (shown, listed, empty) for text in texts)])
    assert "geheim" not in told


def test_a_database_without_a_journal_is_misuse(command: Command, url: str) -> None:
    code, out, err = command("runs", "--journal", with_password(url))
    assert (code, out) == (2, "")
    assert f"upshot journal init {url}" in err and "geheim" not in err


def test_a_file_is_not_made_by_init(command: Command) -> None:
    code, _, err = command("journal", "init", "runs.db")
    assert code == 2 and "is not a URL of a PostgreSQL database" in err


def test_a_database_is_not_salvaged(command: Command) -> None:
    code, _, err = command("salvage", "postgresql://u:geheim@h/db", "new.db")
    assert code == 2 and "salvage reads files" in err and "geheim" not in err


def test_the_health_of_a_journal_is_told(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("journal", "init", url)[0] == 0
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = command("health", "--journal", with_password(url))
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "writing   works",
        "standby   none that commits wait for: a failover may lose what was written",
        f"tables    version {len(STEPS)}",
        "clock     as here",
        "at work   0 processes with 0 runs",
        "due       0 runs",
    ]
    code, out, err = command("health", "--journal", with_password(url), "--json")
    assert (code, err) == (0, "") and '"is_writable":true' in out and "geheim" not in out


def test_the_health_of_a_journal_that_cannot_be_reached_is_misuse(command: Command) -> None:
    code, out, err = command("health", "--journal", "postgresql://u:geheim@127.0.0.1:1/db")
    assert (code, out) == (2, "")
    assert "Connection refused" in err and "geheim" not in err
