"""Hand-offs by agents inside of graphs and machines: shown, followed, or told of; never lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines import graph_kit
from upshot import (
    Agent,
    AgentResult,
    Graph,
    GraphEngine,
    ScriptedModel,
    ToolCall,
    run_with_handoffs,
)
from upshot.engines import ForEach, Parallel

NOTHING = graph_kit.nothing


def hands_over(to: str = "b", *, id: str = "front") -> Agent[Any]:
    """An agent that hands over, each time that it is asked."""
    call = ToolCall("c1", f"transfer_to_{to}", {"reason": "not mine"})
    return Agent(id, model=ScriptedModel([call] * 3), handoffs=[to])


def answers(text: str = "hi") -> Agent[Any]:
    return Agent("back", model=ScriptedModel([text] * 3))


def codes(result: AgentResult[Any]) -> list[str]:
    return [warning.code for warning in result.warnings]


def is_to(name: str) -> Any:
    return lambda board: (board.get("handoff") or {}).get("to_agent_id") == name


LAST = {
    "alone": lambda: Graph({"a": hands_over()}),
    "after another": lambda: Graph({"a": answers(), "z": hands_over()}, [("a", "z")]),
    "parallel": lambda: Graph({"a": Parallel({"x": answers(), "y": hands_over()})}),
    "subgraph": lambda: Graph({"a": Graph({"x": hands_over()})}),
    "branch": lambda: Graph(
        {"a": NOTHING, "x": hands_over(), "y": answers()}, [("a", "x"), ("a", "y")]
    ),
    "two of them": lambda: Graph({"a": Parallel({"x": hands_over(), "y": hands_over("c")})}),
    "foreach": lambda: Graph(
        {"a": lambda board: {"items": [1, 2]}, "x": ForEach("items", hands_over())}, [("a", "x")]
    ),
}


@pytest.mark.parametrize("place", LAST)
async def test_the_last_agent_of_a_graph_hands_the_whole_run_over(place: str) -> None:
    result = await graph_kit.walk(LAST[place]())
    assert result.success, result.error
    assert result.handoff is not None
    assert (result.handoff.to_agent_id, result.handoff.reason) == ("b", "not mine")
    assert result.handoff.run_id == "run-1"
    assert result.state["handoff"]["to_agent_id"] == "b"  # type: ignore[index]
    assert codes(result) == []


async def test_conditions_of_a_graph_see_a_hand_off() -> None:
    nodes = {"a": hands_over("b"), "b": answers("from b"), "c": answers("from c")}
    graph = Graph(nodes, [("a", "b", is_to("b")), ("a", "c", is_to("c"))])
    result = await graph_kit.walk(graph)
    assert graph_kit.spoken(result) == ["from b"]
    assert (result.handoff, codes(result)) == (None, [])


async def test_a_hand_off_that_no_condition_looks_at_is_told() -> None:
    graph = Graph({"a": hands_over(), "z": NOTHING}, [("a", "z")])
    result = await graph_kit.walk(graph)
    assert (result.handoff, codes(result)) == (None, ["handoff_not_followed"])
    assert "node 'a' handed over to 'b'" in result.warnings[0].message


async def test_a_hand_off_is_over_when_the_agent_makes_none_the_next_time() -> None:
    call = ToolCall("c1", "transfer_to_b", {})
    agent = Agent("front", model=ScriptedModel([call, "mine"]), handoffs=["b"])
    edges = [("a", "a", is_to("b")), ("a", "z", lambda board: board.get("handoff") is None)]
    graph = Graph({"a": agent, "z": NOTHING}, edges)
    result = await graph_kit.walk(graph)
    assert graph_kit.spoken(result) == ["mine"]
    assert result.handoff is None


async def test_a_hand_off_out_of_a_graph_is_followed() -> None:
    front = Agent("outer", engine=GraphEngine(Graph({"a": hands_over()})))
    back = Agent("b", model=ScriptedModel(["I have it."]))
    result = await run_with_handoffs([front, back], "Go.")
    assert (result.content, result.state["path"]) == ("I have it.", ["outer", "b"])


async def test_a_graph_that_was_cut_off_hands_over_all_the_same() -> None:
    _, log = await graph_kit.logged(Graph({"a": hands_over()}))
    begun = [event.kind for event in log].index("attempt_started")
    for count in range(begun, len(log)):
        again, _ = await graph_kit.cut_and_resumed(Graph({"a": hands_over()}), log[:count])
        assert again.handoff is not None, count
        assert again.handoff.to_agent_id == "b"
