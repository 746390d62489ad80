"""Hints: whoever gives something in place of an engine is told which engine drives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from upshot import (
    Agent,
    Graph,
    GraphEngine,
    LoopEngine,
    MachineEngine,
    Misuse,
    ScriptedModel,
    ScriptEngine,
    load_machine,
    run_sync,
)

GRAPH = Graph(nodes={"a": lambda board: None}, edges=[], start="a")
STATES = {"a": {"type": "initial", "transitions": [{"to": "b"}]}, "b": {"type": "final"}}
MACHINE = load_machine({"spec": "upshot.machine/1", "states": STATES})


async def script(run: Any, host: Any, board: Any) -> None: ...


DOORS: list[Callable[[Any], object]] = [
    lambda engine: Agent("a", engine=engine),
    lambda engine: run_sync(Agent("a"), "Go.", engine=engine),
]


@pytest.mark.parametrize("door", DOORS, ids=["agent", "run"])
@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (GRAPH, "is a Graph: give GraphEngine(graph)"),
        (MACHINE, "is a Machine: give MachineEngine(machine, agents={...}, functions={...})"),
        ("loop", "is the text 'loop': give LoopEngine()"),
        ("LoopEngine", "is the text 'LoopEngine': give LoopEngine()"),
        ("graph", "give GraphEngine(Graph(nodes=..., edges=..., start=...))"),
        ("order.yml", "give MachineEngine(load_machine('order.yml'), agents={...}"),
        ("openai:gpt-5", "give an Engine, such as LoopEngine()"),
        (LoopEngine, "is the class LoopEngine: make one: LoopEngine()"),
        (GraphEngine, "is the class GraphEngine: make one: GraphEngine(graph)"),
        (MachineEngine, "is the class MachineEngine: make one: MachineEngine(machine, agents="),
        (ScriptEngine, "is the class ScriptEngine: make one: ScriptEngine(function)"),
        (Graph, "is the class Graph: make one: GraphEngine(graph)"),
        (script, "is a function: give ScriptEngine(function)"),
        ({"states": STATES}, "is a dict: give MachineEngine(load_machine(data), agents="),
        ({"nodes": {}}, "is a dict: give GraphEngine(Graph.from_data(data, functions="),
        (ScriptedModel([]), "is a ScriptedModel, which is a model: give it as model="),
        (5, "is an int: give an Engine, which has execute(run, host, board)"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_engine_is_told_with_the_engine_that_it_needs(
    door: Callable[[Any], object], engine: Any, said: str
) -> None:
    with pytest.raises(Misuse) as caught:
        door(engine)
    assert str(caught.value).startswith("engine ")
    assert said in str(caught.value)
