"""Tools that a simulator stands in for, and the lab's own agents, whose replies are kept."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lab import test_engines as engines
from tests.runs.kit import Ordered
from upshot import (
    Agent,
    ModelResponse,
    Request,
    ScriptedModel,
    ToolCall,
    ToolError,
    Usage,
    lab,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.lab import Dataset, SimulatedCall

MADE: list[str] = []
ASKED: deque[str] = deque()
"""No list, which would be data that the agents refer to."""


@tool(effect="read")
def find(id: int) -> str:
    """Find an order."""
    MADE.append(f"find {id}")
    return f"order {id}"


@tool(effect="write")
def refund(id: int) -> str:
    """Refund an order."""
    MADE.append(f"refund {id}")
    return "refunded"


def clerk(first: int = 1, second: int = 1) -> Agent[Any]:
    calls = [ToolCall("f", "find", {"id": first}), ToolCall("r", "refund", {"id": second})]

    def reply(messages: Any) -> Any:
        done = [one for one in messages if one.tool_call_id]
        return done[-1].text if len(done) == len(calls) else calls[len(done)]

    return Agent("clerk", model=ScriptedModel(reply), tools=[find, refund])


def paid(reply: Any, tokens: int = 1_000) -> ScriptedModel:
    def made(messages: Any) -> Any:
        ASKED.append(messages[-1].text)
        usage = Usage(input_tokens=tokens, output_tokens=tokens)
        return ModelResponse(content=reply(messages), usage=usage)

    return ScriptedModel(made, name="openai:gpt-5")


def simulator() -> Agent[Any]:
    def answer(messages: Any) -> str:
        call = json.loads(messages[-1].text.rpartition("call: ")[2])
        return f"```json\n{json.dumps({'simulated': call['arguments']['id']})}\n```"

    return Agent("simulator", model=paid(answer))


async def recorded(agent: Agent[Any]) -> Dataset:
    journal = MemoryJournal()
    await run(agent, Request("Refund.", run_id="r"), journal=journal)
    return await Dataset.from_journal(journal)


async def tried(dataset: Dataset, agent: Agent[Any], **options: Any) -> lab.Row:
    before = [*MADE, *engines.MADE]
    report = await lab.run(dataset, agent, **{"journal": "memory:", **options})
    assert [*MADE, *engines.MADE] == before
    (row,) = report.of("today")
    return row


def args(calls: Any) -> list[Any]:
    return [(one.tool, one.arguments) for one in calls]


async def test_a_simulator_answers_what_the_record_does_not_have() -> None:
    asked: list[SimulatedCall] = []

    def answer(call: SimulatedCall) -> Any:
        asked.append(call)
        return "done" if call.tool == "refund" else {"order": 2}

    options: Any = {"unseen": "simulated", "simulator": answer, "scorers": [lab.same_effects()]}
    row = await tried(await recorded(clerk()), clerk(first=2), **options)
    assert args(row.simulated) == [("find", {"id": 2})]
    assert (row.off_record, row.new_effects) == ((), ())
    assert row.scores["same_effects"].value == 1
    (call,) = asked
    assert (call.description, call.parameters["required"]) == ("Find an order.", ["id"])
    assert args(call.case.calls) == [("find", {"id": 1}), ("refund", {"id": 1})]


async def test_a_simulated_write_is_a_new_effect_with_its_arguments() -> None:
    options: Any = {"unseen": "simulated", "simulator": lambda call: {"refund": "R-1"}}
    scorers = [lab.same_effects(), lab.trajectory()]
    row = await tried(await recorded(clerk()), clerk(second=5), scorers=scorers, **options)
    assert args(row.new_effects) == args(row.simulated) == [("refund", {"id": 5})]
    assert "R-1" in str(row.answer)
    assert row.scores["same_effects"].reason == ('missing: refund {"id": 1}; new: refund {"id": 5}')
    assert row.scores["trajectory"].value == 1


async def test_simulated_tools_answer_recorded_calls_too_and_see_what_was_answered() -> None:
    def answer(call: SimulatedCall) -> Any:
        return len(call.earlier)

    row = await tried(
        await recorded(clerk()),
        clerk(),
        tools="simulated",
        simulator=answer,
        scorers=[lab.same_effects()],
    )
    assert (row.answer, row.new_effects, len(row.simulated)) == ('{"result":1}', (), 2)
    assert row.scores["same_effects"].value == 1


async def test_a_simulator_can_make_a_call_fail() -> None:
    def answer(call: SimulatedCall) -> Any:
        raise ToolError("the bank is closed", effect="none")

    row = await tried(
        await recorded(clerk()), clerk(second=2), unseen="simulated", simulator=answer
    )
    assert "the bank is closed" in str(row.answer)


async def test_a_simulator_that_raises_answers_nothing_and_is_named() -> None:
    def answer(call: SimulatedCall) -> Any:
        raise KeyError("no such order")

    dataset = await recorded(clerk())
    row = await tried(dataset, clerk(first=2), unseen="simulated", simulator=answer)
    assert (args(row.off_record), row.simulated) == ([("find", {"id": 2})], ())
    row = await tried(dataset, clerk(second=2), unseen="simulated", simulator=answer)
    assert args(row.new_effects) == [("refund", {"id": 2})]
    assert "the simulator raised KeyError: 'no such order'" in str(row.answer)


async def test_the_report_names_a_simulator_that_does_not_answer() -> None:
    def answer(call: SimulatedCall) -> Any:
        raise KeyError("no such order")

    async def said(dataset: Dataset, simulator: Any) -> str:
        options: Any = {"unseen": "simulated", "simulator": simulator, "journal": "memory:"}
        report = await lab.run(dataset, clerk(first=2, second=2), **options)
        return "\n".join(report.sentences())

    dataset = await recorded(clerk())
    assert "the simulator raised KeyError: 'no such order' (2 times for today)" in (
        await said(dataset, answer)
    )
    failing = Agent("simulator", model=ScriptedModel([]))
    assert "the simulator did not complete: " in await said(dataset, failing)
    assert "the simulator did not complete: auth_error (1 time for today)" in (
        await said(dataset, "openai:gpt-5")
    )


async def test_an_agent_simulates_and_its_cost_is_counted_apart() -> None:
    agent = clerk(first=7).but(budget=None)
    options: Any = {"unseen": "simulated", "simulator": simulator(), "journal": MemoryJournal()}
    dataset = await recorded(clerk())
    ASKED.clear()
    row = await tried(dataset, agent, **options)
    assert (len(ASKED), args(row.simulated)) == (1, [("find", {"id": 7})])
    assert '"recorded"' not in ASKED[0] and "recorded: " in ASKED[0]
    assert row.simulation_cost == pytest.approx(0.01125)
    assert (row.cost, row.judging_cost) == (None, 0)
    again = await tried(dataset, agent, **options)
    assert (len(ASKED), again) == (1, row)


async def test_a_simulator_that_fails_for_now_is_asked_again_by_the_next_experiment() -> None:
    answers = iter([None, "found"])

    class Flaky:
        name = "home:flaky"

        async def call(self, request: Any) -> Any:
            if answer := next(answers):
                return ModelResponse(content=answer)
            raise ConnectionError("the model is away")

    dataset, journal = await recorded(clerk()), MemoryJournal()
    simulates = Agent("simulator", model=Flaky(), retry=None)
    options: Any = {"unseen": "simulated", "simulator": simulates, "journal": journal}
    row = await tried(dataset, clerk(first=7), **options)
    assert row.status == "interrupted"
    row = await tried(dataset, clerk(first=7), **options)
    assert (row.status, args(row.simulated)) == ("completed", [("find", {"id": 7})])


@pytest.mark.slow
async def test_any_cut_of_a_simulated_experiment_makes_the_same_report() -> None:
    dataset, whole = await recorded(clerk()), Ordered()
    judge = Agent("kind", model=paid(lambda messages: "1"))

    async def once(journal: Ordered) -> lab.Row:
        options: Any = {"unseen": "simulated", "simulator": simulator(), "scorers": [judge]}
        row = await tried(dataset, clerk(first=7, second=8), journal=journal, **options)
        assert (len(row.simulated), len(row.new_effects)) == (2, 1)
        return replace(row, took_s=0, run_id="", tokens=0)

    expected = await once(whole)
    assert expected.simulation_cost == pytest.approx(2 * 0.01125)
    for length in range(1, len(whole.order) + 1):
        found = await once(whole.cut(length))
        # A model call that was cut off is made again, and costs again.
        same = {"simulation_cost": 0, "judging_cost": 0}
        assert replace(found, **same) == replace(expected, **same), length
    ASKED.clear()
    assert await once(whole) == expected
    assert not ASKED


@pytest.mark.slow("by_tool*", "by_graph*", "by_machine*")
@pytest.mark.parametrize("tools", ["simulated", pytest.param("recorded", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [engines.by_loop, engines.by_tool, engines.by_graph, engines.by_script, engines.by_machine],
    ids=lambda one: one.__name__,
)
async def test_no_body_runs_in_any_engine(make: Any, tools: Any) -> None:
    dataset = await recorded(make())
    lost = Dataset("lost", tuple(replace(case, calls=()) for case in dataset))

    def answer(call: SimulatedCall) -> Any:
        return "ok"

    options: Any = {"tools": tools, "unseen": "simulated", "simulator": answer}
    row = await tried(lost, make(), **options)
    assert (row.status, row.off_record) == ("completed", ())
    assert {one.tool for one in row.new_effects} >= {"refund", "mail"}


async def test_a_judge_is_asked_once_and_its_cost_is_counted_apart() -> None:
    judge = Agent("kind", model=paid(lambda messages: "0.5"))
    dataset, journal = await recorded(clerk()), MemoryJournal()
    ASKED.clear()
    first = await tried(dataset, clerk(), scorers=[judge], journal=journal)
    assert (len(ASKED), first.scores["kind"].value) == (1, 0.5)
    assert first.judging_cost == pytest.approx(0.01125)
    assert await tried(dataset, clerk(), scorers=[judge], journal=journal) == first
    assert len(ASKED) == 1
    stricter = judge.but(instructions="Be strict.")
    await tried(dataset, clerk(), scorers=[stricter], journal=journal)
    assert len(ASKED) == 2


async def test_a_judge_that_stops_at_the_budget_is_named_and_asked_again() -> None:
    judge = Agent("kind", model=paid(lambda messages: "0.5"))
    dataset, journal = await recorded(clerk()), MemoryJournal()
    options: Any = {"scorers": [judge], "journal": journal, "name": "x"}
    report = await lab.run(dataset, clerk(), budget_usd=0.000001, **options)
    assert "the scorer kind did not complete: budget_exceeded (1 time for today)" in (
        report.sentences()
    )
    row = await tried(dataset, clerk(), budget_usd=5, **options)
    assert row.scores["kind"].value == 0.5


async def test_the_report_says_what_was_simulated_and_what_that_cost() -> None:
    options: Any = {"unseen": "simulated", "simulator": simulator(), "journal": "memory:"}
    report = await lab.run(await recorded(clerk()), clerk(first=7), **options)
    said = report.sentences()
    assert "a simulator answered 1 call of today: find 1" in said
    assert "simulating tools cost $0.011 beside the variants" in said


@pytest.mark.parametrize("helper", ["judge", "simulator", "judge by hand"])
async def test_the_own_agents_of_the_lab_read_and_change_nothing(helper: str) -> None:
    @tool
    def undeclared() -> str:
        """Do something."""
        MADE.append("undeclared")
        return ""

    inner = Agent(
        "inner",
        model=ScriptedModel(
            lambda messages: (
                "Done."
                if any(one.tool_call_id for one in messages)
                else [ToolCall("r", "refund", {"id": 3}), ToolCall("f", "find", {"id": 3})]
            )
        ),
        tools=[find, refund],
    )
    made = [
        ToolCall("f", "find", {"id": 2}),
        ToolCall("r", "refund", {"id": 2}),
        ToolCall("u", "undeclared"),
        ToolCall("i", "inner", {"request": "x"}),
    ]
    agent = Agent(
        "own",
        model=ScriptedModel(
            lambda messages: "1" if any(one.tool_call_id for one in messages) else made
        ),
        tools=[find, refund, undeclared, inner],
    )
    dataset, options = await recorded(clerk()), dict[str, Any](journal="memory:")
    MADE.clear()
    if helper == "judge":
        await lab.run(dataset, clerk(), scorers=[agent], **options)
    elif helper == "simulator":
        await lab.run(dataset, clerk(second=9), unseen="simulated", simulator=agent, **options)
    else:
        result = await run(Agent("a", model=ScriptedModel(["hi"])), "q")
        await lab.judge(agent).scores(dataset.cases[0], lab.Trial(result))
    assert sorted(MADE) == ["find 2", "find 3"]
