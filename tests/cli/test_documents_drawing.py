"""``upshot graph``: machines and graphs as Mermaid text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from upshot import load_machine

MACHINE = """\
spec: upshot.machine/1
states:
  draft:
    type: initial
    agent: w
    on_error: failed
    transitions: [{when: context.n > 3, to: ask}, {to: each}]
  ask: {wait: approval, transitions: [{to: inner}]}
  each: {foreach: '[1]', function: f, transitions: [{to: both}]}
  both: {parallel: {x: {agent: w}, y: {function: f}}, transitions: [{to: inner}]}
  inner:
    machine: {states: {p: {type: initial, transitions: [{to: q}]}, q: {type: final}}}
    on_error: {rate_limit: failed}
    transitions: [{to: end}]
  end: {type: final}
  failed: {type: final}
"""
DRAWN = """\
flowchart TD
    n_start((start)) --> n1
    n1(["draft"])
    n2{{"ask"}}
    subgraph n3["each (for each)"]
        n3_1["work"]
    end
    subgraph n4["both (parallel)"]
        n4_1(["x"])
        n4_2["y"]
    end
    subgraph n5["inner"]
        n5__start((start)) --> n5_1
        n5_1["p"]
        n5_2["q"]
        n5_1 --> n5_2
        n5_2 --> n5_2_end((end))
    end
    n6["end"]
    n7["failed"]
    n1 -->|"context.n #gt; 3"| n2
    n1 --> n3
    n1 -->|"on error"| n7
    n2 --> n5
    n3 --> n4
    n4 --> n5
    n5 --> n6
    n5 -->|"on error: rate_limit"| n7
    n6 --> n6_end((end))
    n7 --> n7_end((end))
"""
GRAPH = {"start": "a", "nodes": {"a": "f", "b": {"agent": "w"}}, "edges": [["a", "b", "is_long"]]}
PROGRAM = """\
import upshot
print("a file talks")
graph = upshot.Graph({"a": lambda board: None})
other = upshot.GraphEngine(upshot.Graph({"b": lambda board: None}))
agent = upshot.Agent("m", engine=upshot.MachineEngine(upshot.load_machine("machine.yml"),
    agents={"w": upshot.Agent("w")}, functions={"f": print}))
number = 5
"""


@pytest.fixture(autouse=True)
def files(command: Command) -> None:
    """What the commands are about, in the folder that `command` works in."""
    Path("machine.yml").write_text(MACHINE, "utf-8")
    Path("graph.json").write_text(json.dumps(GRAPH), "utf-8")
    Path("program.py").write_text(PROGRAM, "utf-8")


def test_a_machine_is_drawn_with_its_conditions(command: Command) -> None:
    assert command("graph", "machine.yml") == (0, DRAWN, "")
    assert load_machine("machine.yml").to_mermaid() == DRAWN


def test_the_data_of_a_graph_is_drawn_without_its_functions(command: Command) -> None:
    code, out, _ = command("graph", "graph.json")
    assert code == 0
    assert 'n1 -->|"is_long"| n2' in out


@pytest.mark.parametrize(("name", "node"), [("graph", "a"), ("other", "b"), ("agent", "draft")])
def test_what_a_python_file_has_is_drawn(command: Command, name: str, node: str) -> None:
    code, out, err = command("graph", f"program.py:{name}")
    assert (code, err) == (0, "a file talks\n")
    assert f'"{node}"' in out


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("program.py", "more than one graph or machine, agent, graph, other: say which"),
        ("program.py:number", "'number' in program.py is not a graph or machine, but int"),
        ("program.py:zz", "has no graph or machine 'zz'"),
        ("nowhere.yml", "there is no file nowhere.yml"),
        ("notes.txt", "ends in .py"),
        ("bot.yml", "neither a machine"),
        ("bad.yml", "bad.yml:1:9: "),
    ],
)
def test_what_cannot_be_drawn_is_misuse(command: Command, target: str, said: str) -> None:
    Path("notes.txt").write_text("")
    Path("bot.yml").write_text("id: bot\n")
    Path("bad.yml").write_text("states: 5\n")
    code, out, err = command("graph", target)
    assert (code, out) == (2, "")
    assert said in err
