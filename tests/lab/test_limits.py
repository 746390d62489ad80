"""No write is hidden, and none is blamed on an unchanged agent: limits, approvals, simulators."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    Budget,
    Decider,
    EditArguments,
    FinalizeDecision,
    Misuse,
    Policy,
    Rate,
    Refuse,
    Request,
    ScriptedModel,
    ToolCall,
    lab,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.lab import Dataset

MADE: list[int] = []


@tool(effect="write")
def pay(order: int) -> str:
    """Pay."""
    MADE.append(order)
    return "paid"


@tool(effect="read")
def look(order: int) -> str:
    """Look."""
    return "here"


asked = pay.but(name="asked_pay", approval=True)
once = pay.but(name="once_pay", once="order")
slow = pay.but(name="slow_pay", rate=Rate(2))


def desk(*made: tuple[str, int], **more: Any) -> Agent[Any]:
    """Make one call in each reply."""

    def reply(messages: Any) -> Any:
        done = sum(one.role == "assistant" for one in messages)
        if done == len(made):
            return "Done."
        name, order = made[done]
        return ToolCall(f"c{done}", name, {"order": order})

    tools = [pay, look, asked, once, slow]
    return Agent("desk", model=ScriptedModel(reply), tools=tools, **more)


async def recorded(agent: Agent[Any], **options: Any) -> Dataset:
    journal = MemoryJournal()
    await run(agent, Request("Go.", run_id="r"), journal=journal, **options)
    return await Dataset.from_journal(journal)


async def tried(dataset: Dataset, agent: Agent[Any], **options: Any) -> lab.Row:
    before = list(MADE)
    options = {"journal": "memory:", "scorers": [lab.same_effects()], **options}
    report = await lab.run(dataset, agent, **options)
    assert before == MADE
    return report.of("today")[0]


def orders(calls: Any) -> list[int]:
    return [one.arguments["order"] for one in calls]


async def outside(agent: Agent[Any]) -> list[int]:
    MADE.clear()
    await run(agent, "Go.", approve=lambda asked: True)
    return list(MADE)


@pytest.mark.parametrize(
    "agent",
    [
        desk(*[("pay", order) for order in range(6)], budget=Budget(max_denials=1)),
        desk(("look", 1), *[("pay", order) for order in range(3)], budget=Budget(max_denials=1)),
        desk(*[("pay", order) for order in range(4)], budget=Budget(max_tool_calls=2)),
        desk(*[("asked_pay", order) for order in range(4)], budget=Budget(max_denials=1)),
        desk(*[("slow_pay", order) for order in range(4)]),
        desk(("once_pay", 3), ("once_pay", 3), ("once_pay", 4)),
        desk(*[("pay", 100)] * 7),
    ],
    ids=["denials", "denied reads", "calls", "approvals", "rate", "once", "no progress"],
)
async def test_new_writes_are_those_that_a_real_run_makes(agent: Agent[Any]) -> None:
    real = await outside(agent)
    row = await tried(await recorded(desk(("look", 7))), agent)
    assert orders(row.new_effects) == real


@pytest.mark.parametrize(
    "agent",
    [
        desk(*[("slow_pay", order) for order in range(4)]),
        desk(*[("pay", order) for order in range(4)], budget=Budget(max_tool_calls=2)),
        desk(*[("pay", 100)] * 6),
    ],
    ids=["rate", "calls", "no progress"],
)
async def test_limits_of_an_unchanged_agent_hold_as_they_did(agent: Agent[Any]) -> None:
    row = await tried(await recorded(agent), agent)
    assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)


async def test_an_effect_that_an_earlier_run_made_is_no_new_one() -> None:
    journal = MemoryJournal()
    for number in range(2):
        request = Request("Go.", run_id=f"r{number}")
        await run(desk(("once_pay", 1)), request, journal=journal)
    cases = {one.id: one for one in await Dataset.from_journal(journal)}
    again = Dataset("again", (cases["r1"],))
    for times in (1, 2):
        row = await tried(again, desk(*[("once_pay", 1)] * times))
        assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)
    row = await tried(again, desk(("once_pay", 2)))
    assert orders(row.new_effects) == [2]


async def test_only_true_approves() -> None:
    dataset = await recorded(desk(("look", 1)))
    for answer in (None, False, True):

        def approves(asked: Any, answer: Any = answer) -> Any:
            return answer

        row = await tried(dataset, desk(("asked_pay", 5)), approvals=approves)
        assert (row.status, orders(row.new_effects)) == ("completed", [5])


@pytest.mark.parametrize("answer", [1, "no", ValueError("gone")])
async def test_a_function_that_does_not_approve_or_deny_is_named(answer: Any) -> None:
    def approves(asked: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    dataset = await recorded(desk(("look", 1)))
    with pytest.raises(Misuse, match=r"approvals= (raised ValueError: gone|returned)"):
        await tried(dataset, desk(("asked_pay", 5)), approvals=approves)


@pytest.mark.parametrize("secrets", ["abc", 5, [5], ["lab"], ["write"], ["a"]])
async def test_secrets_that_would_hide_writes_are_refused(secrets: Any) -> None:
    with pytest.raises(Misuse, match="secrets"):
        await tried(await recorded(desk(("look", 1))), desk(("pay", 5)), secrets=secrets)


@pytest.mark.parametrize("name", ["gpt-5", "nobody:gpt-5"])
async def test_a_simulator_that_is_no_model_is_refused_at_once(name: str) -> None:
    dataset = await recorded(desk(("look", 1)))
    with pytest.raises(Misuse, match="provider"):
        await tried(dataset, desk(("look", 1)), unseen="simulated", simulator=name)


async def test_a_write_that_the_simulator_could_not_answer_is_new() -> None:
    dataset = await recorded(desk(("look", 1)))

    def answer(call: Any) -> Any:
        return object()

    simulators: list[Any] = [Agent("simulator"), Agent("simulator", model="gpt-5"), answer]
    for simulator in simulators:
        options: Any = {"unseen": "simulated", "simulator": simulator}
        row = await tried(dataset, desk(("pay", 5)), **options)
        assert orders(row.new_effects) == [5]


async def test_a_recorded_policy_denial_still_counts() -> None:
    agent = desk(("pay", 1), ("look", 1), ("look", 2), budget=Budget(max_denials=1))
    dataset = await recorded(agent, policy=Policy(deny=("pay",)))
    row = await tried(dataset, agent)
    assert (row.new_effects, row.off_record) == ((), ())


async def test_an_edit_of_a_person_is_made_again() -> None:
    agent, journal = desk(("asked_pay", 1)), MemoryJournal()
    result = await run(agent, Request("Go.", run_id="r"), journal=journal)
    pending: Any = result.pending[0]
    edit = pending.edit({"order": 2}, by="ann")
    MADE.clear()
    await resume("r", agent, journal=journal, answers=[edit])
    assert MADE == [2]
    dataset = await Dataset.from_journal(journal)
    row = await tried(dataset, agent)
    assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)
    row = await tried(dataset, desk(("asked_pay", 3)))
    assert orders(row.new_effects) == [3]


async def test_options_of_the_recorded_run_hold() -> None:
    agent = desk(("pay", 1), ("pay", 2))
    dataset = await recorded(agent, budget=Budget(max_tool_calls=1))
    row = await tried(dataset, agent)
    assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)


class Twice(Decider):
    """Asks for a second answer."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        return FinalizeDecision.revise("Again.", "once more") if info.attempt == 1 else None


def add_one(asked: Any) -> Any:
    return EditArguments({"order": asked.arguments["order"] + 1})


def refuse(asked: Any) -> Any:
    return Refuse("no")


@pytest.mark.parametrize(
    "options",
    [
        {"on_pre_tool_use": add_one},
        {"on_pre_tool_use": refuse},
        {"deciders": [Twice()]},
        {"tools": [pay.but(name="other_pay")]},
    ],
    ids=["edit", "refuse", "deciders", "tools"],
)
async def test_code_of_the_recorded_run_can_be_given(options: Any) -> None:
    agent = desk(("other_pay" if "tools" in options else "pay", 1))
    more = {"max_attempts": 2} if "deciders" in options else {}
    dataset = await recorded(agent, **options, **more)
    row = await tried(dataset, agent, run_options=options)
    assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)
    assert row.status == dataset.cases[0].status
    with pytest.raises(Misuse, match="it takes gates"):
        await tried(dataset, agent, run_options={"approve": True})


async def test_an_agent_as_a_tool_makes_the_effects_of_its_calls_and_none_itself() -> None:
    @tool(effect="write")
    def pay(order: int) -> str:
        """Pay."""
        return "paid"

    def clerk(question: str, order: int) -> Agent[Any]:
        inner: Agent[Any] = Agent(
            "till", model=ScriptedModel([ToolCall("p", "pay", {"order": order}), "ok"]), tools=[pay]
        )
        asks = ToolCall("a", "till", {"request": question})
        return Agent("clerk", model=ScriptedModel([asks, "Paid."]), tools=[inner])

    journal = MemoryJournal()
    await run(clerk("Pay it.", 1), "go", journal=journal)
    dataset = await Dataset.from_journal(journal)
    assert [one.tool for one in dataset.cases[0].writes] == ["pay"]
    variants = {"today": clerk("Pay.", 1), "other": clerk("Pay it.", 2)}
    report = await lab.run(dataset, variants, scorers=[lab.same_effects()], journal="memory:")
    assert [row.scores["same_effects"].value for row in report.of("today")] == [1]
    assert "other did not make 1 write that the record has, in 1 case: pay 1" in report.sentences()
