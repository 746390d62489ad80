"""A fork that asks anew: what the other run has done is not done again unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentResult,
    Misuse,
    ModelReplied,
    PendingApproval,
    Policy,
    ScriptedModel,
    ToolCall,
    ToolSettled,
    ToolStarted,
    fork,
    open_journal,
    resume,
    run,
    tool,
)

done: list[str] = []


@tool(effect="write")
def ship(order: int) -> str:
    """Ship an order."""
    done.append(f"ship {order}")
    return "shipped"


@tool(effect="write", approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    done.append(f"refund {order}")
    return "refunded"


@tool(effect="write", approval=True, once="order")
def pay(order: int) -> str:
    """Pay an order."""
    done.append(f"pay {order}")
    return "paid"


@tool(effect="read")
def look(order: int) -> str:
    """Look at an order."""
    done.append(f"look {order}")
    return "here"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


def agent(*steps: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel(steps), tools=[ship, refund, pay, look])


def call(name: str, id: str) -> ToolCall:
    return ToolCall(id, name, {"order": 7})


async def seqs(journal: Path, run_id: str, kind: type) -> list[int]:
    async with open_journal(journal) as opened:
        return [e.seq async for e in opened.events(run_id) if isinstance(e, kind)]


def asked(result: AgentResult[Any]) -> list[str]:
    return [one.tool_name for one in result.pending if isinstance(one, PendingApproval)]


@pytest.mark.parametrize("policy", [None, Policy(taint="off", ask=("look",))])
async def test_what_writes_is_asked_about_whatever_it_declares(
    tmp_path: Path, policy: Policy | None
) -> None:
    journal = tmp_path / "runs.db"
    steps = [call("ship", "s"), call("look", "l"), "Done."]
    first = await run(agent(*steps), "Ship it.", journal=journal)
    assert done == ["ship 7", "look 7"]
    started, _ = await seqs(journal, first.run_id, ToolStarted)
    new = await fork(first.run_id, at=started - 1, journal=journal, ask_writes=True)
    options: Any = {"journal": journal, "policy": policy}
    waits = await resume(new, agent(*steps), **options)
    assert asked(waits) == ["ship"] and done == ["ship 7", "look 7"]
    answers = [waits.pending[0].approve()]  # type: ignore[union-attr]
    then = await resume(new, agent(*steps), answers=answers, **options)
    assert done == ["ship 7", "look 7", "ship 7", *(["look 7"] if policy is None else [])]
    assert asked(then) == ([] if policy is None else ["look"])
    # Without it a fork asks about what declares it.
    again = await fork(first.run_id, at=started - 1, journal=journal)
    assert (await resume(again, agent(*steps), journal=journal)).success


@pytest.mark.parametrize("ask_writes", [False, True])
async def test_what_was_let_run_always_is_asked_about_again(
    tmp_path: Path, ask_writes: bool
) -> None:
    journal = tmp_path / "runs.db"
    calls = [call("refund", "a"), call("look", "b"), call("refund", "c"), "Done."]
    waits = await run(agent(*calls), "Refund it.", journal=journal)
    (question,) = waits.pending
    assert isinstance(question, PendingApproval)
    yes = question.approve(always="tool")
    first = await resume(waits.run_id, agent(*calls), answers=[yes], journal=journal)
    assert first.success and done == ["refund 7", "look 7", "refund 7"]
    settled = await seqs(journal, first.run_id, ToolSettled)
    new = await fork(first.run_id, at=settled[1], journal=journal, ask_writes=ask_writes)
    assert asked(await resume(new, agent(*calls), journal=journal)) == ["refund"]
    assert done == ["refund 7", "look 7", "refund 7"]


async def test_a_fork_pays_once_what_is_made_once_and_asks_about_any_other_write(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "runs.db"
    calls = [call("pay", "a"), call("refund", "b"), "Done."]
    waits = await run(agent(*calls), "Pay it.", journal=journal)
    for _ in ("pay", "refund"):
        yes = [waits.pending[0].approve(always="tool")]  # type: ignore[union-attr]
        waits = await resume(waits.run_id, agent(*calls), answers=yes, journal=journal)
    assert waits.success and done == ["pay 7", "refund 7"]
    started, _ = await seqs(journal, waits.run_id, ToolStarted)
    reply = min(await seqs(journal, waits.run_id, ModelReplied))
    assert reply < started
    # Before both calls: the ledger knows that the first was made.
    new = await fork(waits.run_id, at=reply, journal=journal)
    then = await resume(new, agent(*calls), journal=journal)
    assert asked(then) == ["refund"] and done == ["pay 7", "refund 7"]
    assert then.tool_outcomes[0].repeats is not None


@pytest.mark.parametrize("ask_writes", [False, True])
async def test_between_an_approval_and_its_call_there_is_no_such_fork(
    tmp_path: Path, ask_writes: bool
) -> None:
    journal = tmp_path / "runs.db"
    steps = [call("refund", "a"), "Done."]
    waits = await run(agent(*steps), "Refund it.", journal=journal)
    answers = [waits.pending[0].approve()]  # type: ignore[union-attr]
    await resume(waits.run_id, agent(*steps), answers=answers, journal=journal)
    (started,) = await seqs(journal, waits.run_id, ToolStarted)
    with pytest.raises(Misuse, match=r"fork the run at event \d+ or earlier") as error:
        await fork(waits.run_id, at=started - 1, journal=journal, ask_writes=ask_writes)
    at = int(str(error.value).split("at event ")[-1].split()[0])
    new = await fork(waits.run_id, at=at, journal=journal, ask_writes=ask_writes)
    assert asked(await resume(new, agent(*steps), journal=journal)) == ["refund"]
    async with open_journal(journal) as opened:
        assert len(await opened.runs()) == 2
