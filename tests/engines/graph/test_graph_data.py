"""The plain data form of a graph, and its picture."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.graph_kit import nothing, spoken, variables_of, walk
from upshot import Agent, Board, Graph, Misuse, ScriptedModel, tool
from upshot.engines import AgentTask, ForEach, Parallel, Question, ToolTask

DATA: dict[str, Any] = {
    "start": "plan",
    "nodes": {
        "plan": {"function": "plan", "attempts": 2, "backoff_s": 0.1},
        "each": {"foreach": "parts", "as": "part", "do": {"function": "size"}, "at_once": 2},
        "both": {"parallel": {"left": "mark", "right": {"tool": "look", "arguments": {"n": 2}}}},
        "inner": {"graph": {"nodes": {"x": {"agent": "writer", "request": "Write."}}}},
        "spare": "mark",
    },
    "edges": [
        ["plan", "each"],
        ["each", "both", "is_full"],
        ["each", "spare", "is_empty"],
        ["both", "inner"],
    ],
    "merges": {"x": "add"},
    "max_steps": 20,
}


def plan(board: Board) -> dict[str, Any]:
    return {"parts": ["a", "bb"]}


def size(board: Board) -> int:
    return len(str(board.get("part")))


def mark(board: Board) -> dict[str, Any]:
    return {"marked": True}


def is_full(board: Board) -> bool:
    return board.get("each") == [1, 2]


def is_empty(board: Board) -> bool:
    return not is_full(board)


@tool(effect="read")
async def look(n: int) -> int:
    return n


NAMES: dict[str, Any] = {
    "functions": {f.__name__: f for f in (plan, size, mark, is_full, is_empty)},
    "agents": {"writer": Agent("writer", model=ScriptedModel(["A text.", "A text."]))},
}


async def test_a_graph_of_plain_data_runs() -> None:
    graph = Graph.from_data(DATA, **NAMES)
    agent: Agent[Any] = Agent("a", tools=[look])
    assert spoken(await walk(graph, agent=agent)) == ["A text."]
    found = await variables_of(graph, agent=agent)
    assert found == {"parts": ["a", "bb"], "each": [1, 2], "marked": True, "right": 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": {"a": "nobody"}}, "/nodes/a: there is no function 'nobody'"),
        ({"nodes": {"a": {"agent": "nobody"}}}, "/nodes/a: there is no agent 'nobody'"),
        ({"nodes": {"a": {"function": "plan", "tool": "x"}}}, "/nodes/a: give one of"),
        ({"nodes": {"a": {"function": "plan", "tries": 2}}}, "/nodes/a: unknown field 'tries'"),
        ({"nodes": {"a": 3}}, "/nodes/a: give a mapping, not int"),
        ({"nodes": {"a": {"parallel": {"b": "no"}}}}, "/nodes/a/parallel/b: there is no"),
        ({"nodes": {"a": {"graph": {"nodez": {}}}}}, "/nodes/a/graph: unknown field 'nodez'"),
        ({"nodes": {"a": "plan"}, "edges": [["a"]]}, "/edges/0: give"),
        ({"nodes": {"a": "plan"}, "edges": [["a", "a", "no"]]}, "/edges/0: there is no function"),
        ({"nodes": {"a": "plan"}, "merges": {"x": "no"}}, "'no'"),
    ],
)
def test_a_fault_in_the_data_is_named_with_its_place(change: dict[str, Any], words: str) -> None:
    with pytest.raises(Misuse) as raised:
        Graph.from_data(change, **NAMES)
    assert words in str(raised.value)


async def test_a_question_of_plain_data_is_asked_with_its_choices() -> None:
    graph = Graph.from_data({"nodes": {"a": {"ask": "Well?", "choices": ["yes", "no"]}}})
    (pending,) = (await walk(graph)).pending
    assert (pending.question, pending.choices) == ("Well?", ("yes", "no"))  # type: ignore[union-attr]


def test_a_graph_can_be_drawn() -> None:
    inner = Graph({"x": nothing, "y": nothing}, [("x", "y")])
    nodes = {
        'say "hi"': AgentTask(Agent("a")),
        "look": ToolTask("look"),
        "ask": Question("?"),
        "both": Parallel({"l": nothing, "r": nothing}),
        "each": ForEach("items", nothing),
        "end": inner,
    }
    names = [*nodes]
    edges = [(names[0], "look", is_full), ("look", "ask"), ("ask", "both"), ("both", "each")]
    graph = Graph(nodes, [*edges, ("each", "end")], ends=["look"])
    assert (
        graph.to_mermaid()
        == """\
flowchart TD
    n_start((start)) --> n1
    n1(["say #quot;hi#quot;"])
    n2[["look"]]
    n3{{"ask"}}
    subgraph n4["both (parallel)"]
        n4_1["l"]
        n4_2["r"]
    end
    subgraph n5["each (for each)"]
        n5_1["work"]
    end
    subgraph n6["end"]
        n6__start((start)) --> n6_1
        n6_1["x"]
        n6_2["y"]
        n6_1 --> n6_2
        n6_2 --> n6_2_end((end))
    end
    n1 -->|"is_full"| n2
    n2 --> n3
    n3 --> n4
    n4 --> n5
    n5 --> n6
    n2 --> n2_end((end))
    n6 --> n6_end((end))
"""
    )
