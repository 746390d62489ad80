"""A graph as Mermaid text, which many tools show as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .graph_node import AgentTask, ForEach, Node, Parallel, Question, ToolTask, members_of

__all__ = ["draw"]


def draw(
    nodes: Mapping[str, Node],
    edges: Sequence[tuple[str, str, Any]],
    *,
    start: str,
    ends: frozenset[str] = frozenset(),
) -> str:
    """Write a flow chart.

    Args:
        nodes: By name.
        edges: (source, target, condition); a condition's name is shown.
        start: The first node.
        ends: Nodes at which the graph may end though they have edges.

    Source:
        Mermaid, flow chart syntax, read 2025-11.
    """
    lines = ["flowchart TD", *_body(nodes, edges, start, ends, prefix="n", indent="    ")]
    return "\n".join(lines) + "\n"


def _body(
    nodes: Mapping[str, Node],
    edges: Sequence[tuple[str, str, Any]],
    start: str,
    ends: frozenset[str],
    *,
    prefix: str,
    indent: str,
) -> Iterator[str]:
    # Names may hold anything, and a word such as "end" breaks the syntax: ids are numbers.
    ids = {name: f"{prefix}{number}" for number, name in enumerate(nodes, start=1)}
    sources = {source for source, *_ in edges}
    yield f"{indent}{prefix}_start((start)) --> {ids[start]}"
    for name, node in nodes.items():
        yield from _node(ids[name], name, node, indent)
    for source, target, condition in edges:
        label = f"|{_text(_name_of(condition))}|" if condition is not None else ""
        yield f"{indent}{ids[source]} -->{label} {ids[target]}"
    for name in nodes:
        if name not in sources or name in ends:
            yield f"{indent}{ids[name]} --> {ids[name]}_end((end))"


def _node(id: str, name: str, node: Node, indent: str) -> Iterator[str]:
    work, inner = node.work, f"{indent}    "
    members = dict(members_of(work))
    if not members:
        left, right = _SHAPES.get(type(work), ("[", "]"))
        yield f"{indent}{id}{left}{_text(name)}{right}"
        return
    title = _TITLES.get(type(work), "")
    yield f"{indent}subgraph {id}[{_text(name + title)}]"
    if title:
        for number, (member, inside) in enumerate(members.items(), start=1):
            yield from _node(f"{id}_{number}", member, inside, inner)
    else:
        graph: Any = work
        yield from _body(
            members, graph.edges, graph.start, graph.ends, prefix=f"{id}_", indent=inner
        )
    yield f"{indent}end"


_SHAPES: dict[type[object], tuple[str, str]] = {
    AgentTask: ("([", "])"),
    ToolTask: ("[[", "]]"),
    Question: ("{{", "}}"),
}

_TITLES: dict[type[object], str] = {Parallel: " (parallel)", ForEach: " (for each)"}


def _name_of(condition: object) -> str:
    return str(getattr(condition, "__name__", type(condition).__name__)).replace("<lambda>", "if")


def _text(text: str) -> str:
    marks = text.replace("#", "#35;").replace('"', "#quot;")
    marks = marks.replace("<", "#lt;").replace(">", "#gt;")
    return f'"{" ".join(marks.split())}"'
