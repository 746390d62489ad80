"""Graph: nodes and the edges between them, checked when it is made."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

from ..contract import Agent
from ..contract.keyword import ArgumentsMeta
from ..contract.number import check_whole
from ..errors import Misuse
from .fitting import check_fit
from .graph_branch import MERGES, Merge
from .graph_chart import draw
from .graph_data import read_graph
from .graph_node import AgentTask, BoardFunction, Node, as_node, members_of

__all__ = ["Edge", "Graph"]

GivenEdge: TypeAlias = "tuple[str, str] | tuple[str, str, BoardFunction]"


class Edge(NamedTuple):
    """A way from one node to another.

    Attributes:
        source: From here.
        target: To there.
        condition: A function of the board, sync or async; None is always.
    """

    source: str
    target: str
    condition: BoardFunction | None = None


class Graph(metaclass=ArgumentsMeta):
    """Nodes that work on a board, and the edges that say which comes next.

    All edges of a node whose conditions hold are followed: several are a fork. A node is begun
    when no other that is under way can still reach it without going round a cycle: that is a
    join. Each branch works on its own copy of the board until then, and their changes are merged.

    Args:
        nodes: What each node does: a function of the board, an Agent, a Graph, or one of the
            values beside this class; ``Node(...)`` round any of them adds retries.
        edges: ``(source, target)`` or ``(source, target, condition)``. A node without any is
            an end.
        start: The first node.
        ends: Nodes at which the graph may also end, when no condition of their edges holds.
        merges: How a variable is merged that several branches set, by name: "add", "update",
            "first", "last", or a function of the list of values, in the order of the nodes.
        max_steps: How many nodes may be run, one that is run again counted again. None is the
            run's ``max_turns``, and never less than there are nodes.

    Raises:
        Misuse: An edge leads from or to no node, there is no such start, a merge is unknown.
    """

    def __init__(
        self,
        nodes: Mapping[str, object],
        edges: Iterable[Sequence[Any]] = (),
        start: str = "",
        *,
        ends: Iterable[str] = (),
        merges: Mapping[str, Merge] | None = None,
        max_steps: int | None = None,
    ) -> None:
        self.nodes: Mapping[str, Node] = {n: as_node(n, work) for n, work in nodes.items()}
        self.edges: tuple[Edge, ...] = tuple(_read_edge(edge) for edge in edges)
        self.start: str = start or next(iter(self.nodes), "")
        self.ends: frozenset[str] = frozenset(ends)
        self.merges: Mapping[str, Merge] = dict(merges or {})
        self.max_steps = max_steps
        self._check()
        self._edges_of: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        for edge in self.edges:
            self._edges_of[edge.source].append(edge)

    @classmethod
    def from_data(
        cls,
        data: Mapping[str, Any],
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        agents: Mapping[str, Agent[Any]] | None = None,
    ) -> Self:
        """Make a graph of plain data that names its functions and agents.

        Args:
            data: ``{"start", "nodes", "edges", "ends", "merges", "max_steps"}``; a node is the
                name of a function, or a mapping with one of function, agent, tool, ask, graph,
                parallel, foreach, and what ``Node`` takes.
            functions: Nodes' functions and edges' conditions, by name.
            agents: By name.

        Raises:
            Misuse: It is no such data, or a name is nowhere; the message says where.
        """
        return cls(**read_graph(data, functions or {}, agents or {}, make=cls))

    def __repr__(self) -> str:
        return f"Graph({list(self.nodes)}, start={self.start!r})"

    def edges_of(self, name: str) -> Sequence[Edge]:
        """The edges that begin at a node."""
        return self._edges_of[name]

    def to_mermaid(self) -> str:
        """The graph as Mermaid text."""
        return draw(self.nodes, self.edges, start=self.start, ends=self.ends)

    def agents(self) -> Iterator[Agent[Any]]:
        """The agents of its nodes, those inside of others too."""
        return _agents_in(self.nodes.values())

    @cached_property
    def digest(self) -> str:
        """What tells it from a graph with other nodes, edges or conditions."""
        return hashlib.sha256(self.to_mermaid().encode()).hexdigest()

    @cached_property
    def ahead(self) -> Mapping[str, frozenset[str]]:
        """The nodes that can be reached from each, without going back in a cycle."""
        return _reachable([*self.nodes], self._edges_of, self.start)

    def _check(self) -> None:
        if self.start not in self.nodes:
            raise Misuse(f"the graph has no node {self.start!r} to start at: {_names(self.nodes)}")
        for name in (*self.ends, *(end for edge in self.edges for end in edge[:2])):
            if name not in self.nodes:
                raise Misuse(f"the graph has no node {name!r}: {_names(self.nodes)}")
        check_whole("max_steps", self.max_steps, least=1, none="the run's max_turns")
        for name, merge in self.merges.items():
            if merge not in MERGES if isinstance(merge, str) else not callable(merge):
                known = ", ".join(map(repr, MERGES))
                raise Misuse(f"the merge of {name!r} is {merge!r}: give {known} or a function")
            if not isinstance(merge, str) and inspect.iscoroutinefunction(merge):
                raise Misuse(f"the merge of {name!r} is async: give a plain function")
        for agent in self.agents():
            named = [tool for tool in agent.tools or () if isinstance(tool, str)]
            if named:
                # Nobody looks names up in a graph.
                raise Misuse(
                    f"the agent {agent.id!r} of the graph names the tool {named[0]!r}: give it the "
                    "tool itself, Agent(tools=[...])"
                )


def _agents_in(nodes: Iterable[Node]) -> Iterator[Agent[Any]]:
    for node in nodes:
        if isinstance(node.work, AgentTask):
            yield node.work.agent
        yield from _agents_in(inner for _, inner in members_of(node.work))


def _names(nodes: Iterable[str]) -> str:
    return f"there are {', '.join(map(repr, nodes)) or 'none'}"


def _read_edge(edge: Sequence[Any]) -> Edge:
    if isinstance(edge, str) or not 2 <= len(edge) <= 3:
        raise Misuse(f"{edge!r} is no edge: give (source, target) or (source, target, condition)")
    read = Edge(*edge)
    if read.condition is not None and not callable(read.condition):
        raise Misuse(
            f"the condition from {read.source!r} to {read.target!r} is a "
            f"{type(read.condition).__name__}: give a function of the board"
        )
    if read.condition is not None:
        check_fit(read.condition, f"the condition from {read.source!r} to {read.target!r}", "board")
    return read


def _reachable(
    names: list[str], edges_of: Mapping[str, Sequence[Edge]], start: str
) -> dict[str, frozenset[str]]:
    """What lies ahead of each node when edges that close a cycle are left out.

    The walk is depth first, from the start and in the order of the edges; an edge back to a
    node that is still being walked closes a cycle.
    """
    ahead: dict[str, frozenset[str]] = {}
    for root in (start, *names):
        path: dict[str, set[str]] = {} if root in ahead else {root: set()}
        left = [(root, iter(edges_of[root]))] if path else []
        while left:
            name, edges = left[-1]
            edge = next(edges, None)
            if edge is None:
                left.pop()
                ahead[name] = frozenset(path.pop(name))
                if left:
                    path[left[-1][0]] |= {name, *ahead[name]}
            elif edge.target in ahead:
                path[name] |= {edge.target, *ahead[edge.target]}
            elif edge.target not in path:
                path[edge.target] = set()
                left.append((edge.target, iter(edges_of[edge.target])))
    return ahead
