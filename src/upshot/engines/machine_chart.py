"""A machine as Mermaid text, which many tools show as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ..contract import Agent
from .graph_chart import draw
from .graph_node import AgentTask, ForEach, Node, Parallel, Question

__all__ = ["Drawable", "draw_machine"]

_MAX_LABEL = 60


class Drawable(Protocol):
    """A machine, which draws itself with this and so cannot be imported here."""

    @property
    def states(self) -> Mapping[str, Any]:
        """Its states by name."""
        ...

    @property
    def initial(self) -> str:
        """The name of the first."""
        ...


def draw_machine(machine: Drawable) -> str:
    """Write a flow chart: states as nodes, transitions as edges with their conditions.

    Where hooks lead is not known, so it is not shown.
    """
    drawing = _Drawing(machine)
    return draw(drawing.nodes, drawing.edges, start=drawing.start, ends=drawing.ends)


class _Drawing:
    """A machine in the shape of a graph."""

    def __init__(self, machine: Drawable) -> None:
        self.nodes: Mapping[str, Node] = {n: _node(s) for n, s in machine.states.items()}
        self.edges = [edge for state in machine.states.values() for edge in _edges(state)]
        self.start = machine.initial
        self.ends = frozenset(name for name, state in machine.states.items() if state.is_final)


class _Label:
    """What is written on an edge."""

    def __init__(self, text: str) -> None:
        self.__name__ = text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 3]}..."


def _edges(state: Any) -> Iterator[tuple[str, str, Any]]:
    for transition in state.transitions:
        when = transition.when
        yield state.name, transition.to, None if when is None else _Label(when.source.strip())
    for code, to in state.on_error.items():
        yield state.name, to, _Label(f"on error: {code}" if code else "on error")


def _node(state: Any) -> Node:
    if state.wait:
        return Node(Question(state.wait))
    if state.members:
        return Node(Parallel({name: _task(task) for name, task in state.members.items()}))
    if state.task is None:
        return Node(_nothing)
    if state.each is not None:
        return Node(ForEach(state.each.items.source, _task(state.task), state.each.name))
    return _task(state.task)


def _task(task: Any) -> Node:
    if task.machine is not None:
        return Node(_Drawing(task.machine))
    return Node(AgentTask(Agent(task.name)) if task.kind == "agent" else _nothing)


def _nothing(_: object) -> None:
    """Stands for a function, which is not looked at."""
