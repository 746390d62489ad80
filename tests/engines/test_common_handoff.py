"""Hand-offs by agents inside of graphs and machines: shown, followed, or told of; never lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines import graph_kit, machine_kit
from upshot import (
    Agent,
    AgentResult,
    Graph,
    GraphEngine,
    MachineEngine,
    ScriptedModel,
    ToolCall,
    load_machine,
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
    assert result.success, result.error
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


# ---- machines


def machine(states: str, **more: Any) -> MachineEngine:
    agents = {"front": hands_over(), "back": answers()}
    return machine_kit.engine_of(states, agents=agents, **more)


LAST_STATES = {
    "alone": "a: {type: initial, agent: front, transitions: [{to: z}]}\nz: {type: final}",
    "in the final state": "a: {type: initial, transitions: [{to: z}]}\n"
    "z: {type: final, agent: front}",
    "foreach": "a: {type: initial, foreach: '[1, 2]', agent: front, transitions: [{to: z}]}\n"
    "z: {type: final}",
    "parallel": "a: {type: initial, parallel: {x: {agent: back}, y: {agent: front}}, "
    "transitions: [{to: z}]}\nz: {type: final}",
    "routed": "a: {type: initial, agent: front, transitions: "
    "[{when: result.handoff.to_agent_id == 'b', to: z}, {to: y}]}\n"
    "y: {type: final, agent: back}\nz: {type: final}",
    "in a sub-machine": "a: {type: initial, machine: {spec: upshot.machine/1, states: "
    "{i: {type: initial, agent: front, transitions: [{to: e}]}, e: {type: final}}}, "
    "transitions: [{to: z}]}\nz: {type: final}",
}


@pytest.mark.parametrize("place", LAST_STATES)
async def test_the_last_agent_of_a_machine_hands_the_whole_run_over(place: str) -> None:
    result = await machine_kit.go(machine(LAST_STATES[place]))
    assert result.success, result.error
    assert result.handoff is not None
    assert result.handoff.to_agent_id == "b"
    assert result.state["handoff"]["reason"] == "not mine"  # type: ignore[index]
    assert codes(result) == []


ROUTED = """
a:
  type: initial
  agent: front
  transitions: [{when: result.handoff.to_agent_id == "b", to: b}, {to: z}]
b: {agent: back, transitions: [{to: z}]}
z: {type: final}
"""


async def test_a_machine_that_hands_over_has_no_answer() -> None:
    result = await machine_kit.go(machine(LAST_STATES["alone"]))
    assert (result.output, result.content) == (None, None)


async def test_a_machine_follows_a_hand_off() -> None:
    result = await machine_kit.go(machine(ROUTED))
    assert (result.output, result.handoff, codes(result)) == ("hi", None, [])


BLIND = """
a: {type: initial, agent: front, transitions: [{to: m}]}
m: {transitions: [{to: b}]}
b: {agent: back, transitions: [{to: z}]}
z: {type: final}
"""


async def test_a_hand_off_that_no_state_looks_at_is_told() -> None:
    result = await machine_kit.go(machine(BLIND))
    assert (result.output, result.handoff) == ("hi", None)
    assert codes(result) == ["handoff_not_followed"]
    assert "the state 'a' handed over to 'b'" in result.warnings[0].message


@pytest.mark.parametrize(
    "given", ["handed: result.handoff.to_agent_id", "all: result"], ids=["field", "whole"]
)
async def test_a_state_that_looks_at_the_hand_off_of_the_one_before_follows_it(given: str) -> None:
    states = BLIND.replace("agent: back,", f"agent: back, input: {{{given}}},")
    assert codes(await machine_kit.go(machine(states))) == []


async def test_a_hook_that_looks_at_results_follows_a_hand_off() -> None:
    class Hooks:
        def on_state_exit(self, state_name: str, context: Any, output: Any) -> str | None:
            return "z" if output.handoff is not None else None

    result = await machine_kit.go(machine(BLIND, hooks=Hooks()))
    assert (codes(result), result.handoff is None) == ([], False)


async def test_a_machine_that_was_cut_off_hands_over_all_the_same() -> None:
    states = LAST_STATES["in a sub-machine"]
    _, log = await machine_kit.logged(machine(states))
    begun = [event.kind for event in log].index("attempt_started")
    for count in range(begun, len(log)):
        again, _ = await machine_kit.cut_and_resumed(machine(states), log[:count])
        assert again.handoff is not None, count
        assert again.handoff.to_agent_id == "b"


async def test_a_hand_off_is_told_once_however_often_the_run_goes_on() -> None:
    _, log = await machine_kit.logged(machine(BLIND))
    for count in range(len(log) - 4, len(log)):
        again, _ = await machine_kit.cut_and_resumed(machine(BLIND), log[:count])
        assert codes(again).count("handoff_not_followed") == 1, count


def test_expressions_may_read_a_hand_off() -> None:
    assert load_machine(machine_kit.whole(ROUTED)).states["a"].reads_handoff
    assert not load_machine(machine_kit.whole(BLIND)).states["a"].reads_handoff
