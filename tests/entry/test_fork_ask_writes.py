"""A fork that asks anew: what the other run has done is not done again unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from tests.runs.kit import Ordered
from upshot import (
    Agent,
    AgentResult,
    App,
    Effect,
    Misuse,
    ModelReplied,
    PendingApproval,
    Policy,
    Request,
    ScriptedModel,
    ToolCall,
    ToolContext,
    ToolSettled,
    ToolStarted,
    fork,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.entry.resume import read_past

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


@tool(effect="write", approval=True, idempotent=True)
def book(context: ToolContext, order: int) -> str:
    """Book an order."""
    done.append(f"book {order} {context.idempotency_key}")
    return "booked"


@tool(effect="read", approval=True)
def peek(order: int) -> str:
    """Look into an order."""
    done.append(f"peek {order}")
    return "seen"


@tool(effect="read")
def look(order: int) -> str:
    """Look at an order."""
    done.append(f"look {order}")
    return "here"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


def agent(*steps: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel(steps), tools=[ship, refund, pay, book, peek, look])


def call(name: str, id: str) -> ToolCall:
    return ToolCall(id, name, {"order": 7})


async def seqs(journal: Path, run_id: str, kind: type) -> list[int]:
    async with open_journal(journal) as opened:
        return [e.seq async for e in opened.events(run_id) if isinstance(e, kind)]


def asked(result: AgentResult[Any]) -> list[str]:
    return [one.tool_name for one in result.pending if isinstance(one, PendingApproval)]


def question(result: AgentResult[Any]) -> PendingApproval:
    (found,) = result.pending
    assert isinstance(found, PendingApproval)
    return found


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
    answers = [question(waits).approve()]
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
    yes = question(waits).approve(always="tool")
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
        yes = [question(waits).approve(always="tool")]
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
    answers = [question(waits).approve()]
    await resume(waits.run_id, agent(*steps), answers=answers, journal=journal)
    (started,) = await seqs(journal, waits.run_id, ToolStarted)
    with pytest.raises(Misuse, match=r"fork the run at event \d+ or earlier") as error:
        await fork(waits.run_id, at=started - 1, journal=journal, ask_writes=ask_writes)
    at = int(str(error.value).split("at event ")[-1].split()[0])
    new = await fork(waits.run_id, at=at, journal=journal, ask_writes=ask_writes)
    assert asked(await resume(new, agent(*steps), journal=journal)) == ["refund"]
    async with open_journal(journal) as opened:
        assert len(await opened.runs()) == 2


Always = Literal["", "tool"]


async def approved(journal: Path, name: str, always: Always) -> tuple[str, list[Any], int]:
    """Two calls of a tool, of which the first was approved so: the run, its steps, the start."""
    steps = [call(name, "a"), ToolCall("b", name, {"order": 8}), "Done."]
    waits = await run(agent(*steps), "Do it.", journal=journal)
    answers = [question(waits).approve(always=always)]
    await resume(waits.run_id, agent(*steps), answers=answers, journal=journal)
    return waits.run_id, steps, min(await seqs(journal, waits.run_id, ToolStarted))


@pytest.mark.parametrize("ask_writes", [False, True])
async def test_where_an_approved_payment_had_started_the_next_one_is_asked_about(
    tmp_path: Path, ask_writes: bool
) -> None:
    journal = tmp_path / "runs.db"
    run_id, steps, started = await approved(journal, "refund", "tool")
    done.clear()
    new = await fork(run_id, at=started, journal=journal, ask_writes=ask_writes)
    await resume(new, agent(*steps), journal=journal)
    waits = await resume(new, agent(*steps), journal=journal)
    assert question(waits).call_id == "b" and not done
    async with App([agent(*steps)], journal=journal) as app:
        assert await app.grants(withdrawn=True) == ()
    # Said again, it stands in the fork.
    answers = [question(waits).approve(always="tool")]
    assert (await resume(new, agent(*steps), answers=answers, journal=journal)).success
    assert done == ["refund 8"]


@pytest.mark.parametrize("name", ["book", "peek"])
@pytest.mark.parametrize("always", ["", "tool"])
async def test_a_call_that_is_made_again_is_asked_about_again(
    tmp_path: Path, name: str, always: Always
) -> None:
    journal = tmp_path / "runs.db"
    run_id, steps, started = await approved(journal, name, always)
    first = done[0]
    done.clear()
    new = await fork(run_id, at=started, journal=journal)
    await resume(new, agent(*steps), journal=journal)
    waits = await resume(new, agent(*steps), journal=journal)
    assert question(waits).call_id == "a" and not done
    # Approved there, it is made with the key of the other run, by which a service knows it.
    yes = [question(waits).approve()]
    then = await resume(new, agent(*steps), answers=yes, journal=journal)
    assert done == [first] and question(then).call_id == "b"
    async with open_journal(journal) as opened:
        assert not (await read_past(new, opened)).begun


async def test_a_call_that_is_denied_where_it_had_started_stays_unknown(tmp_path: Path) -> None:
    journal = tmp_path / "runs.db"
    run_id, steps, started = await approved(journal, "book", "")
    done.clear()
    new = await fork(run_id, at=started, journal=journal)
    waits = await resume(new, agent(*steps), journal=journal)
    no = [question(waits).deny("no")]
    then = await resume(new, agent(*steps), answers=no, journal=journal)
    assert not done and then.tool_records[0].effect is Effect.UNKNOWN


async def test_with_other_arguments_it_is_another_call(tmp_path: Path) -> None:
    journal = tmp_path / "runs.db"
    run_id, steps, started = await approved(journal, "book", "")
    (first,) = done
    done.clear()
    new = await fork(run_id, at=started, journal=journal)
    waits = await resume(new, agent(*steps), journal=journal)
    edit = [question(waits).edit({"order": 9})]
    await resume(new, agent(*steps), answers=edit, journal=journal)
    (made,) = done
    assert made.startswith("book 9 ") and made.split()[2] != first.split()[2]


@pytest.mark.parametrize("at", ["started", "settled"])
async def test_a_fork_asks_after_its_export_too(tmp_path: Path, at: str) -> None:
    journal, other, file = tmp_path / "runs.db", tmp_path / "other.db", tmp_path / "fork"
    run_id, steps, seq = await approved(journal, "refund", "tool")
    if at == "settled":
        seq = min(await seqs(journal, run_id, ToolSettled))
    done.clear()
    new = await fork(run_id, at=seq, journal=journal)
    async with open_journal(journal) as opened:
        await opened.export(new, file)
    async with open_journal(other) as opened:
        await opened.import_(file)
    waits = await resume(new, agent(*steps), journal=other)
    assert question(waits).call_id == "b" and not done


async def edited() -> tuple[Ordered, Agent[Any], int]:
    """A call that a user edited: its journal and agent, and how much is logged at its start."""
    journal, desk = Ordered(), agent(call("book", "a"), "Done.")
    waits = await run(desk, Request("Do it.", run_id="r"), journal=journal)
    answers = [question(waits).edit({"order": 9})]
    await resume("r", desk, answers=answers, journal=journal)
    assert [one.split()[1] for one in done] == ["9"]
    done.clear()
    at = next(n for n, one in enumerate(journal.order, 1) if isinstance(one, ToolStarted))
    return journal, agent(call("book", "a"), "Done."), at


async def test_a_call_that_a_user_edited_is_made_again_as_edited() -> None:
    journal, desk, at = await edited()
    assert (await resume("r", desk, journal=journal.cut(at))).success
    assert [one.split()[1] for one in done] == ["9"]


async def test_a_fork_asks_about_the_arguments_that_a_user_edited() -> None:
    journal, desk, at = await edited()
    new = await fork("r", at=at, journal=journal)
    waits = await resume(new, desk, journal=journal)
    assert question(waits).arguments == {"order": 9} and not done
    assert (await resume(new, desk, answers=[question(waits).approve()], journal=journal)).success
    assert [one.split()[1] for one in done] == ["9"]
