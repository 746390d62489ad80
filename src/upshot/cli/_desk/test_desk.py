"""Tests of the desk: scripted models, real tools and a real journal."""

from pathlib import Path

import desk
import pytest

from upshot import (
    Agent,
    AnyResult,
    ScriptedModel,
    ToolCall,
    open_journal,
    resume,
    run,
    run_sync,
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a journal and a file of payments of its own."""
    monkeypatch.chdir(tmp_path)


def clerk(*replies: object) -> Agent:
    """Return the desk's agent with a model that gives these replies."""
    return desk.support.but(model=ScriptedModel([*replies]))


def ask_refund(order_id: str) -> AnyResult:
    """Run a request to refund an order."""
    call = ToolCall("c", "refund", {"order_id": order_id})
    return run_sync(clerk(call, "Done."), f"Refund order {order_id}.", journal="desk.db")


def payments() -> list[str]:
    """Return the orders that were paid back."""
    return desk.PAYMENTS.read_text().split() if desk.PAYMENTS.exists() else []


def test_a_refund_is_paid() -> None:
    assert ask_refund("7").content == "Done."
    assert payments() == ["7"]


def test_a_refund_that_is_asked_for_twice_is_paid_once() -> None:
    ask_refund("7")
    second = ask_refund("7")
    assert second.success
    assert payments() == ["7"]


def test_an_expensive_refund_waits_for_a_person() -> None:
    result = ask_refund("8")
    assert result.status == "input_required"
    assert payments() == []
    (question,) = result.pending
    assert question.kind == "pending_approval"


async def test_an_approved_refund_is_paid() -> None:
    call = ToolCall("c", "refund", {"order_id": "8"})
    agent = clerk(call, "Done.")
    async with open_journal("desk.db") as journal:
        result = await run(agent, "Refund order 8.", journal=journal)
        (item,) = await journal.inbox(run_id=result.run_id)
        result = await resume(
            result.run_id, agent, answers=[item.pending.approve()], journal=journal
        )
    assert result.content == "Done."
    assert payments() == ["8"]


def test_the_desk_answers_without_a_key() -> None:
    assert run_sync(desk.support, "Where is order 7?").content == "Order 7 has been shipped."
