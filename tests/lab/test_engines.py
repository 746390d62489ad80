"""No body of a tool runs in the lab, whichever engine calls it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentTask,
    Graph,
    GraphEngine,
    Handoff,
    MachineEngine,
    Node,
    Parallel,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolTask,
    lab,
    load_machine,
    run,
    run_with_handoffs,
    tool,
)
from upshot.journal import MemoryJournal

MADE: list[str] = []


@tool(effect="write", once="order")
def refund(order: int) -> str:
    """Refund an order."""
    MADE.append("refund")
    return "refunded"


@tool(effect="read", isolation="process")
def look(order: int) -> str:
    """Look at an order."""
    return "paid"


@tool(effect="write", retries=2)
async def mail(text: str) -> str:
    """Mail."""
    MADE.append("mail")
    raise TimeoutError("the mail server is away")


def replies(messages: Any) -> Any:
    done = sum(bool(one.tool_call_id) for one in messages)
    calls: list[tuple[str, Any]] = [
        ("look", {"order": 7}),
        ("refund", {"order": 7}),
        ("mail", {"text": "Done"}),
    ]
    return "Done." if done >= len(calls) else ToolCall(f"c{done}", calls[done][0], calls[done][1])


def clerk() -> Agent[Any]:
    return Agent("clerk", model=ScriptedModel(replies), tools=[look, refund, mail])


def by_loop() -> Agent[Any]:
    return clerk()


def by_tool() -> Agent[Any]:
    def ask(messages: Any) -> Any:
        done = any(one.tool_call_id for one in messages)
        return "Done." if done else ToolCall("b", "clerk", {"request": "Refund order 7."})

    return Agent("boss", model=ScriptedModel(ask), tools=[clerk()])


def by_graph() -> Agent[Any]:
    both = Parallel({"agent": AgentTask(clerk()), "tool": ToolTask("refund", {"order": 8})})
    graph = Graph({"both": Node(both)}, edges=[], start="both")
    return Agent("graph", engine=GraphEngine(graph), tools=[refund])


def by_script() -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        outcomes = await run.tools.dispatch([ToolCall("s", "refund", {"order": 9})])
        result = await run.child(clerk(), "Refund order 7.", key="clerk")
        return [len(outcomes), result.content]

    return Agent("script", engine=ScriptEngine(work), tools=[refund])


def by_machine() -> Agent[Any]:
    states = {
        "work": {"type": "initial", "agent": "clerk", "transitions": [{"to": "done"}]},
        "done": {"type": "final"},
    }
    machine = load_machine({"states": states})
    return Agent("machine", engine=MachineEngine(machine, agents={"clerk": clerk()}))


def by_handoff() -> Agent[Any]:
    model = ScriptedModel(lambda messages: ToolCall("h", "transfer_to_clerk", {}))
    return Agent("front", model=model, handoffs=[Handoff("clerk"), clerk()][1:])


@pytest.mark.slow("by_loop", "by_tool", "by_script")
@pytest.mark.parametrize(
    "make", [by_loop, by_tool, by_graph, by_script, by_machine], ids=lambda one: one.__name__
)
async def test_the_calls_of_every_engine_get_the_recorded_outcomes(make: Any) -> None:
    journal = MemoryJournal()
    await run(make(), Request("Refund order 7.", run_id="r"), journal=journal)
    assert "refund" in MADE
    dataset, before = await lab.Dataset.from_journal(journal), list(MADE)
    variants = {"today": make(), "again": make()}
    report = await lab.run(
        dataset, variants, scorers=[lab.same_effects()], repeat=2, journal="memory:"
    )
    assert before == MADE
    rows = [row for row in report.rows if row.variant != "record"]
    assert len(rows) == 4
    for row in rows:
        assert (row.new_effects, row.off_record) == ((), ())
        assert row.scores["same_effects"].value == 1, row.scores
    assert len({row.status for row in report.rows}) == 1


async def test_agents_after_a_handoff_get_recorded_tools(tmp_path: Path) -> None:
    journal = MemoryJournal()
    first = await run_with_handoffs(by_handoff(), Request("Refund.", run_id="r"), journal=journal)
    assert first.state["path"] == ["front", "clerk"]
    dataset, before = await lab.Dataset.from_journal(journal), list(MADE)
    report = await lab.run(dataset, by_handoff(), journal=tmp_path / "lab.db")
    assert before == MADE
    rows = report.of("today")
    assert rows[0].answer == "Done."
