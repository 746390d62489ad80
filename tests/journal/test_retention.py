"""Which runs rules keep, and which they let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from upshot import Agent, Effect, Misuse, ScriptedModel, ToolCall, note, resume, run, tool
from upshot.contract.events import RunStarted
from upshot.contract.tool_calls import Settlement
from upshot.journal import open_journal
from upshot.journal.archive import archive_runs
from upshot.journal.retention import Retention, plan_retention, read_retention

LATER = datetime.now(UTC) + timedelta(days=50)
RULES = """
[[keep]]
note = "dispute"
days = "forever"
[[keep]]
status = "failed"
days = 60
[[keep]]
agent = "desk*"
days = 40
"""


@pytest.fixture(params=["memory", "file", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    place = {"memory": "memory:", "file": str(tmp_path / "j.db")}.get(request.param)
    if place is None:
        server = request.getfixturevalue("postgres")
        place = server.url(request.getfixturevalue("database"))
    async with open_journal(place) as opened:
        yield opened


@pytest.fixture
def rules(tmp_path: Path) -> Retention:
    (tmp_path / "keep.toml").write_text(RULES, "utf-8")
    return read_retention(str(tmp_path / "keep.toml"))


@tool(effect="write", timeout_s=0.01)
async def pay() -> str:
    """Pay."""
    await asyncio.Event().wait()
    return "paid"


@tool(effect="write", approval=True)
def send() -> str:
    """Send."""
    return "sent"


def agent(id: str, *replies: Any) -> Agent[Any]:
    return Agent(id, model=ScriptedModel([*replies]), tools=[pay, send])


async def prune(journal: Any, rules: Retention, **options: Any) -> Any:
    plan = await plan_retention(journal, rules, LATER)
    return await journal.remove_runs(ended_before=plan.ended_before, keep=plan.keep, **options)


async def test_the_first_rule_that_fits_a_run_decides(journal: Any, rules: Retention) -> None:
    plain = await run(agent("desk-1", "Done."), "?", journal=journal)
    noted = await run(agent("desk-1", "Done."), "?", journal=journal)
    failed = await run(agent("desk-1"), "?", journal=journal)
    other = await run(agent("office", "Done."), "?", journal=journal)
    await note(noted.run_id, "dispute", True, by="ann", journal=journal)
    plan = await plan_retention(journal, rules, LATER)
    assert (plan.old, plan.young) == ((0, 0, 1), (1, 1, 0))
    removed = await prune(journal, rules)
    assert removed.run_ids == (plain.run_id,)
    assert removed.kept[noted.run_id] == "rule 1 keeps it (note dispute: forever)"
    assert removed.kept[failed.run_id].startswith("rule 2 keeps it")
    assert removed.kept[other.run_id] == "no rule is for it"


async def _parent_and_child(journal: Any) -> tuple[str, str]:
    """Run an agent that runs another; returns the ids of both runs."""
    model = ScriptedModel([ToolCall("c", "helper", {"request": "go"}), "Done."])
    parent = Agent("desk", model=model, tools=[agent("helper", "Inner.").as_tool()])
    run_id = (await run(parent, "?", journal=journal)).run_id
    (child,) = [one.run_id for one in await journal.runs() if one.agent_id == "helper"]
    return run_id, child


async def test_a_rule_that_keeps_a_child_run_keeps_its_tree(
    journal: Any, rules: Retention, tmp_path: Path
) -> None:
    parent, child = await _parent_and_child(journal)
    # A child run without a rule goes with its parent.
    assert set((await prune(journal, rules, dry_run=True)).run_ids) == {parent, child}
    await note(child, "dispute", "yes", by="ann", journal=journal)
    plan = await plan_retention(journal, rules, LATER)
    assert (plan.old, plan.young) == ((0, 0, 0), (1, 0, 0))
    removed = await prune(journal, rules)
    assert removed.run_ids == ()
    why = f"rule 1 keeps run {child}, which it started (note dispute: forever)"
    assert removed.kept == {parent: why}
    (tmp_path / "keep.toml").write_text(
        "[[keep]]\nagent = 'helper'\ndays = 60\n[[keep]]\ndays = 0\n", "utf-8"
    )
    assert (await prune(journal, read_retention(str(tmp_path / "keep.toml")))).run_ids == ()


async def test_a_dry_run_removes_nothing(journal: Any, rules: Retention) -> None:
    ended = await run(agent("desk", "Done."), "?", journal=journal)
    assert (await prune(journal, rules, dry_run=True)).run_ids == (ended.run_id,)
    assert len(await journal.runs()) == 1


async def test_a_run_that_waits_and_a_conversation_in_use_stay(
    journal: Any, rules: Retention
) -> None:
    waiting = await run(agent("desk", ToolCall("s", "send")), "?", journal=journal)
    first = await run(agent("desk", "Hi."), "?", journal=journal, conversation="c")
    second = await run(agent("desk", ToolCall("s", "send")), "?", journal=journal, conversation="c")
    removed = await prune(journal, rules)
    assert removed.run_ids == ()
    assert "started later" in removed.kept[first.run_id]
    assert {one.run_id for one in await journal.runs()} >= {waiting.run_id, second.run_id}


async def test_the_turns_after_one_that_stays_stay(
    journal: Any, rules: Retention, tmp_path: Path
) -> None:
    calls = (ToolCall("p", "pay"), "Paid?")
    first = await run(agent("desk", *calls), "one", journal=journal, conversation="c")
    second = await run(agent("desk", "Two."), "two", journal=journal, conversation="c")
    # It adds nothing to the conversation.
    failed = await run(agent("clerk"), "three", journal=journal, conversation="c")
    (tmp_path / "keep.toml").write_text("[[keep]]\ndays = 0\n", "utf-8")
    why = f"run {first.run_id}, an earlier turn of conversation 'c', stays"
    removed = await prune(journal, read_retention(str(tmp_path / "keep.toml")))
    assert removed.run_ids == (failed.run_id,)
    assert "is unknown: settle it first" in removed.kept[first.run_id]
    assert removed.kept[second.run_id] == why
    archived = await archive_runs(journal, str(tmp_path / "kept"), ended_before=LATER, keep={})
    assert (archived.run_ids, archived.kept[second.run_id]) == ((), why)
    assert (await journal.conversation("c")).revision == 2
    found = await journal.remove_runs(ended_before=LATER)
    assert set(found.run_ids) == {first.run_id, second.run_id}


async def test_a_run_with_an_unknown_effect_stays_until_it_is_settled(
    journal: Any, rules: Retention
) -> None:
    ended = await run(agent("desk", ToolCall("p", "pay"), "Done."), "?", journal=journal)
    (effect,) = await journal.effects(state="unknown")
    removed = await prune(journal, rules)
    assert removed.kept == {ended.run_id: f"effect {effect.id} of it is unknown: settle it first"}
    known = Settlement(effect=Effect.NONE, by="ann", at=datetime.now(UTC))
    await journal.settle_effect(effect.id, known)
    assert (await prune(journal, rules)).run_ids == (ended.run_id,)


async def test_what_once_guards_is_guarded_after_its_run_is_gone(
    journal: Any, rules: Retention
) -> None:
    paid: list[str] = []

    @tool(effect="write", once="order")
    def refund(order: str) -> str:
        """Refund."""
        paid.append(order)
        return "refunded"

    def refunding() -> Agent[Any]:
        model = ScriptedModel([ToolCall("r", "refund", {"order": "7"}), "Done."])
        return Agent("desk", model=model, tools=[refund])

    first = await run(refunding(), "?", journal=journal)
    assert (await prune(journal, rules)).run_ids == (first.run_id,)
    await run(refunding(), "?", journal=journal)
    assert paid == ["7"]


async def test_an_approved_run_goes_once_it_has_ended(journal: Any, rules: Retention) -> None:
    parked: Any = await run(agent("desk", ToolCall("s", "send"), "Done."), "?", journal=journal)
    assert (await prune(journal, rules)).run_ids == ()
    again = agent("desk", ToolCall("s", "send"), "Done.")
    answers = [one.approve() for one in parked.pending]
    await resume(parked.run_id, again, journal=journal, answers=answers)
    assert (await prune(journal, rules)).run_ids == (parked.run_id,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rules: give tables"),
        ("[[keep]]\n", "rule 1: Object missing required field `days`"),
        ("[[keep]]\ndays = -1", "rule 1: days is -1: give 0 to 36500"),
        ("[[keep]]\ndays = 'ever'", "rule 1: days is 'ever': give a number, or 'forever'"),
        ("[[keep]]\ndays = 1\nstatus = 'parked'", "rule 1: status is 'parked': give one of"),
        ("[[keep]]\ndays = 1\nagents = 'a'", "rule 1: Object contains unknown field `agents`"),
        ("keep = 3", "no rules: give tables"),
        ("[[keep]]\ndays = 0\ntenant = ''", "rule 1: tenant is '': give it a value, or leave it"),
        ("[[keep]]\ndays = 0\nagent = ' '", "rule 1: agent is ' ': give it a value"),
        ("[[keep]]\ndays = 0\nnote = ''", "rule 1: note is '': give it a value"),
        ("[[keep]]\ndays = 0\nstatus = ''", "rule 1: status is '': give it a value"),
        ("[[drop]]\ndays = 1", "has drop: give tables"),
        ("days =", "is not TOML"),
    ],
)
def test_a_rule_that_is_wrong_is_misuse(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keep.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(Misuse, match=said):
        read_retention(str(path))


def test_a_file_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="cannot be read: No such file"):
        read_retention(str(tmp_path / "keep.toml"))


@tool(effect="write", once="order")
def bill(order: int) -> str:
    """Bill an order."""
    return f"billed {order}"


@pytest.mark.slow
async def test_runs_of_many_statements_go_at_once_and_their_neighbours_stay(journal: Any) -> None:
    made: list[str] = []
    for at in range(250):
        if at % 60:
            made.append(f"plain-{at}")
            journal.append(RunStarted(run_id=made[-1], seq=1, time=LATER))
            continue
        model = ScriptedModel([ToolCall("c", "bill", {"order": at}), "Billed."])
        paid = Agent[Any]("desk", model=model, tools=[bill])
        made.append((await run(paid, "?", journal=journal)).run_id)
        await note(made[-1], "seen", at, by="ann", journal=journal)
    # Two in the middle stay, one of them with an effect, in a row of numbers that go.
    stay = [made[119], made[120]]
    logs = [[event async for event in journal.events(one)] for one in stay]
    gone = [one for one in made if one not in stay]
    removed = await journal.remove_runs(gone)
    assert set(removed.run_ids) == set(gone)
    assert {one.run_id for one in await journal.runs(limit=None)} == set(stay)
    assert [[event async for event in journal.events(one)] for one in stay] == logs
    assert [one.value for one in await journal.notes(made[120])] == [120]
    assert not await journal.notes(made[0]) and not await journal.last_seq(made[0])
    known = {one.run_id: one for one in await journal.effects(limit=None)}
    assert set(known) == {made[at] for at in range(0, 250, 60)}
    for at in range(0, 250, 60):
        outcome = await journal.effect_outcome(known[made[at]])
        assert outcome.output == {"result": f"billed {at}"}
        assert (outcome.call_id, known[made[at]].agent_id) == ("c", "desk")
    # Neither does the ledger forget a key, nor the number of a run get another log.
    again = ScriptedModel([ToolCall("c", "bill", {"order": 60}), "Billed."])
    result = await run(Agent[Any]("desk", model=again, tools=[bill]), "?", journal=journal)
    assert result.tool_outcomes[0].repeats is not None
    assert await journal.remove_runs([*stay, result.run_id])
    assert not await journal.runs(limit=None)
