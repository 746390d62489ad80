"""The audit on the command line, and the acts of the command line in it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tests.cli.conftest import Command, command
from upshot import Agent, PendingApproval, ScriptedModel, ToolCall, answer, run_sync, tool
from upshot.contract.result import AgentResult

__all__ = ["command"]


@tool(effect="write", approval=True)
def refund(order: int, amount: int) -> str:
    """Pay money back."""
    return "paid"


def waiting(*amounts: int) -> AgentResult:
    calls = [ToolCall(f"r{amount}", "refund", {"order": 7, "amount": amount}) for amount in amounts]
    agent = Agent("desk", model=ScriptedModel([calls]), tools=[refund])
    return run_sync(agent, "Refund it.", journal="j.db", conversation="c-1")


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LOGNAME", "dora")
    return "dora"


def test_who_approved_refunds_over_100(command: Command) -> None:
    result = waiting(80, 120)
    for pending in result.pending:
        assert isinstance(pending, PendingApproval)
        asyncio.run(answer(result.run_id, [pending.approve(by="sue")], journal="j.db"))
    code, out, err = command(
        "audit", "--tool", "refund", "--argument", "amount>100", "--journal", "j.db"
    )
    assert code == 0, err
    heading, line, below = out.splitlines()
    assert heading.split()[:3] == ["when", "(UTC)", "who"]
    assert "sue approve refund r120" in line and '"amount":120' in below


def test_lines_are_all_rows_as_json(command: Command, user: str) -> None:
    result = waiting(80)
    for _ in range(3):
        assert command("show", result.run_id, "--journal", "j.db")[0] == 0
    assert command("stop", result.run_id, "--now", "--journal", "j.db")[0] == 0
    code, out, _ = command("audit", "--lines", "--journal", "j.db")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    acts = [(row["user"], row["action"], row["run_id"], row["door"]) for row in rows]
    # Looking again within the hour is not another row; the hour may end in between.
    assert acts[0] == (user, "cancel", result.run_id, "cli")
    assert set(acts[1:]) == {(user, "see", result.run_id, "cli")} and len(acts) <= 3


def test_erasing_names_the_user_of_the_command(command: Command, user: str) -> None:
    result = waiting(80)
    command("stop", result.run_id, "--now", "--journal", "j.db")
    assert command("redact", "c-1", "--journal", "j.db")[0] == 0
    assert command("redact", "c-1", "--by", "dpo", "--journal", "j.db")[0] == 0
    assert command("prune", "--conversation", "c-1", "--journal", "j.db")[0] == 0
    rows = json.loads(command("audit", "--kind", "operated", "--json", "--journal", "j.db")[1])
    acts = [(row["user"], row["action"], row.get("subject")) for row in rows]
    assert acts[:3] == [(user, "prune", "c-1"), ("dpo", "redact", "c-1"), (user, "redact", "c-1")]


def test_old_rows_are_removed(command: Command, user: str) -> None:
    result = waiting(80)
    command("show", result.run_id, "--journal", "j.db")
    later = f"{datetime.now(UTC).year + 1}-01-01"
    code, out, _ = command("audit", "--remove-before", later, "--journal", "j.db")
    assert (code, out) == (0, "removed 1 row\n")
    rows = json.loads(command("audit", "--json", "--journal", "j.db")[1])
    assert [(row["user"], row["action"]) for row in rows] == [(user, "remove_audit")]


def test_a_wrong_condition_is_one_sentence(command: Command) -> None:
    waiting(80)
    code, _, err = command("audit", "--argument", "amount", "--journal", "j.db")
    assert code == 2 and "give a condition, such as amount>100" in err.replace("\n", " ")


def test_there_may_be_none_and_there_may_be_more(command: Command) -> None:
    result = waiting(80)
    assert "no such rows" in command("audit", "--journal", "j.db")[2]
    command("stop", result.run_id, "--now", "--journal", "j.db")
    command("show", result.run_id, "--journal", "j.db")
    assert "there are more" in command("audit", "--limit", "1", "--journal", "j.db")[2]
