"""Checkpoints that the engines make for a host that keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import kinds, log_of
from upshot import (
    Agent,
    Board,
    Checkpoint,
    Graph,
    GraphEngine,
    LoopEngine,
    Machine,
    MachineEngine,
    Message,
    Misuse,
    ScriptedModel,
    ToolCall,
    load_machine,
    resume,
    run,
    tool,
)
from upshot.engines.loop import keeps_points
from upshot.journal import MemoryJournal
from upshot.testing import FakeClock

MACHINE = """
spec: upshot.machine/1
name: two
context: {x: 0}
states:
  one: {type: initial, function: add, output_to_context: {x: output.x}, transitions: [{to: two}]}
  two: {function: add, output_to_context: {x: output.x}, transitions: [{to: end}]}
  end: {type: final, output: {x: context.x}}
"""


class Keeper:
    def __init__(self) -> None:
        self.points: list[Checkpoint] = []

    def checkpoint(self, point: Checkpoint) -> None:
        self.points.append(point)


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


LOOKER: Agent[str] = Agent("a", tools=[look], engine=LoopEngine())


def adds(board: Board) -> None:
    board.set("output", (board.get("output") or 0) + 1)  # pyright: ignore


def graph() -> GraphEngine:
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")]
    nodes: dict[str, object] = dict.fromkeys("abcde", lambda board: None)  # pyright: ignore
    return GraphEngine(Graph(nodes | {"a": adds, "d": adds, "e": adds}, edges))


async def test_a_loop_makes_a_checkpoint_between_its_turns() -> None:
    keeper = Keeper()
    model = ScriptedModel([ToolCall("1", "look"), ToolCall("2", "look"), "Done."])
    clock = FakeClock()
    first = await run(LOOKER, "Go.", model=model, host=keeper, attributes={"x": 1}, clock=clock)
    assert {one.timestamp for one in keeper.points} == {clock.now()}
    assert [(one.step, one.iteration) for one in keeper.points] == [("turn", 1), ("turn", 2)]
    point = keeper.points[1]
    assert (point.exec_id, point.attributes) == (first.run_id, {"x": 1})
    assert point.original_started_at == first.started_at
    again = await run(LOOKER, "Go.", model=ScriptedModel(["Done."]), resume_from=point)
    assert [one.text for one in again.messages] == [one.text for one in first.messages]
    assert again.run_id == first.run_id


async def test_a_loop_goes_on_from_no_other_step() -> None:
    board = Board()
    board.append(Message("user", "Go."))
    point = Checkpoint("run-1", "nowhere", board.snapshot())
    with pytest.raises(Misuse, match="cannot resume from the checkpoint at step 'nowhere'"):
        await run(LOOKER, "Go.", model=ScriptedModel(["Done."]), resume_from=point)


async def test_a_graph_makes_a_checkpoint_wherever_one_node_alone_comes_next() -> None:
    keeper = Keeper()
    first = await run(Agent("g", engine=graph()), "Go.", host=keeper)
    assert [(one.step, one.iteration) for one in keeper.points] == [("a", 0), ("d", 3), ("e", 4)]
    for point in keeper.points:
        again = await run(Agent("g", engine=graph()), "Go.", resume_from=point)
        assert again.output == first.output == 3


async def test_a_machine_makes_a_checkpoint_before_each_state() -> None:
    def machine() -> MachineEngine:
        made: Machine = load_machine(MACHINE)
        return MachineEngine(made, functions={"add": lambda **_: {"x": 1}})

    keeper = Keeper()
    first = await run(Agent("m", engine=machine()), "Go.", host=keeper)
    assert first.success, first.error
    assert [one.step for one in keeper.points] == ["one", "two", "end"]
    for point in keeper.points:
        again = await run(Agent("m", engine=machine()), "Go.", resume_from=point)
        assert again.output == first.output


async def test_what_is_done_already_makes_no_checkpoint_again() -> None:
    journal, keeper = MemoryJournal(), Keeper()
    agent: Agent[Any] = Agent("g", engine=graph())
    done = await run(agent, "Go.", host=keeper, journal=journal)
    log = await log_of(journal, done.run_id)
    cut = MemoryJournal()
    for event in log[: kinds(log).index("checkpoint_saved") + 8]:
        cut.append(event)
    keeper.points.clear()
    again = await resume(done.run_id, agent, host=keeper, journal=cut)
    assert again.output == done.output
    assert [one.step for one in keeper.points] == ["d", "e"]


def test_a_host_that_says_nothing_of_checkpoints_keeps_none() -> None:
    assert not keeps_points(object())  # type: ignore[arg-type]


async def test_no_checkpoint_is_made_for_a_host_that_keeps_none() -> None:
    journal = MemoryJournal()
    done = await run(Agent("g", engine=graph()), "Go.", journal=journal, host=object())
    assert "checkpoint_saved" not in kinds(await log_of(journal, done.run_id))


async def test_a_checkpoint_of_another_agent_is_misuse() -> None:
    keeper = Keeper()
    model = ScriptedModel([ToolCall("1", "look"), "Done."])
    await run(LOOKER, "Go.", model=model, host=keeper)
    assert keeper.points[0].agent_id == LOOKER.id
    other = Agent("other", model=ScriptedModel(["Done."]))
    with pytest.raises(Misuse, match="the checkpoint is of agent 'a', and the run is for 'other'"):
        await run(other, "Go.", resume_from=keeper.points[0])
