"""Graph: nodes, edges, its plain data form, and its chart."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

from upshot.contract.agent import Agent
from upshot.contract.base.checks import check_whole, kind_of
from upshot.contract.base.structs import ArgumentsMeta
from upshot.engines.common import check_fit
from upshot.engines.graph.branches import MERGES, Merge
from upshot.engines.graph.nodes import (
    AgentTask,
    BoardFunction,
    ForEach,
    Node,
    Parallel,
    Question,
    ToolTask,
    WaitSignal,
    as_node,
    facts_of,
    members_of,
)
from upshot.engines.mermaid import AGENT, FOR_EACH, PARALLEL, QUESTION, Box, Chart, Shape
from upshot.errors import Misuse


def _chart(graph: Graph) -> Chart:
    arrows = [
        (source, target, "" if condition is None else _label(condition))
        for source, target, condition in graph.edges
    ]
    boxes = {name: _box(name, node.work) for name, node in graph.nodes.items()}
    return Chart(boxes, arrows, graph.start, graph.ends)


def _box(name: str, work: object) -> Box:
    if isinstance(work, Graph):
        return Box(name, inside=_chart(work))
    inside = [_box(member, node.work) for member, node in members_of(work)]
    title = _TITLES.get(type(work), "")
    return Box(name + title, _SHAPES.get(type(work), Shape()), inside)


_SHAPES: dict[type[object], Shape] = {
    AgentTask: AGENT,
    ToolTask: Shape("[[", "]]"),
    Question: QUESTION,
    WaitSignal: QUESTION,
}
_TITLES: dict[type[object], str] = {Parallel: PARALLEL, ForEach: FOR_EACH}


def _label(condition: object) -> str:
    return str(getattr(condition, "__name__", type(condition).__name__)).replace("<lambda>", "if")


_GRAPH_FIELDS = {"nodes", "edges", "start", "ends", "merges", "max_steps"}
_NODE_FIELDS = {"attempts", "backoff_s", "effect", "idempotent", "output"}
# The further fields of each kind of node.
_KINDS = {
    "function": set[str](),
    "agent": {"request", "request_from"},
    "tool": {"arguments", "arguments_from"},
    "ask": {"choices"},
    "signal": set[str](),
    "graph": set[str](),
    "parallel": set[str](),
    "foreach": {"do", "as", "at_once"},
}


class _Reader:
    """Reads the data of ``Graph.from_data`` as arguments of a graph; *make* makes a subgraph."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        agents: Mapping[str, Agent[Any]],
        *,
        make: Callable[..., object],
    ) -> None:
        self._functions = functions
        self._agents = agents
        self._make = make

    def graph(self, data: object, place: str) -> dict[str, Any]:
        fields = _mapping(data, place)
        _refuse_unknown(fields, _GRAPH_FIELDS, place)
        given = dict(fields)
        given["nodes"] = self._nodes(given.get("nodes", {}), f"{place}/nodes")
        given["edges"] = [
            self._edge(edge, f"{place}/edges/{number}")
            for number, edge in enumerate(given.get("edges", ()))
        ]
        merges = _mapping(given.get("merges", {}), f"{place}/merges")
        given["merges"] = {
            name: self._functions.get(str(word), word) for name, word in merges.items()
        }
        return given

    def _nodes(self, data: object, place: str) -> dict[str, object]:
        return {
            name: self._node(node, f"{place}/{name}")
            for name, node in _mapping(data, place).items()
        }

    def _edge(self, edge: Any, place: str) -> Any:
        if not isinstance(edge, list | tuple) or not 2 <= len(cast("list[Any]", edge)) <= 3:
            raise Misuse(f"{place}: give [source, target] or [source, target, condition]")
        source, target, *condition = cast("list[Any]", edge)
        return (source, target, *(self._function(name, place) for name in condition))

    def _node(self, data: object, place: str) -> Node:
        if isinstance(data, str):
            return Node(self._function(data, place))
        fields = _mapping(data, place)
        kinds = [kind for kind in _KINDS if kind in fields]
        if len(kinds) != 1:
            raise Misuse(f"{place}: give one of {', '.join(_KINDS)}, not {len(kinds)} of them")
        kind = kinds[0]
        _refuse_unknown(fields, {kind} | _KINDS[kind] | _NODE_FIELDS, place)
        work = self._work(kind, fields, place)
        return Node(work, **{name: fields[name] for name in _NODE_FIELDS if name in fields})

    def _work(self, kind: str, fields: Mapping[str, Any], place: str) -> object:
        named = fields[kind]
        match kind:
            case "function":
                return self._function(named, place)
            case "agent":
                return AgentTask(self._agent(named, place), self._either(fields, "request", place))
            case "tool":
                return ToolTask(named, self._either(fields, "arguments", place) or {})
            case "ask":
                return Question(named, tuple(fields.get("choices", ())))
            case "signal":
                return WaitSignal(named)
            case "graph":
                return self._make(**self.graph(named, f"{place}/graph"))
            case "parallel":
                return Parallel(self._nodes(named, f"{place}/parallel"))
            case _:
                do = self._node(fields.get("do"), f"{place}/do")
                return ForEach(named, do, fields.get("as", "item"), fields.get("at_once"))

    def _either(self, fields: Mapping[str, Any], name: str, place: str) -> Any:
        """Return a value, or the function that returns it."""
        source = fields.get(f"{name}_from")
        return fields.get(name) if source is None else self._function(source, place)

    def _function(self, name: Any, place: str) -> Callable[..., Any]:
        return _look_up(name, self._functions, "function", place)

    def _agent(self, name: Any, place: str) -> Agent[Any]:
        return _look_up(name, self._agents, "agent", place)


def _look_up(name: Any, known: Mapping[str, Any], what: str, place: str) -> Any:
    if name not in known:
        names = ", ".join(map(repr, known)) or "none"
        raise Misuse(f"{place}: there is no {what} {name!r}; given are {names}")
    return known[name]


def _mapping(data: object, place: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise Misuse(f"{place or '/'}: give a mapping, not {kind_of(data)}")
    return cast("Mapping[str, Any]", data)


def _refuse_unknown(fields: Mapping[str, Any], known: set[str], place: str) -> None:
    unknown = sorted(set(fields) - known)
    if unknown:
        allowed = ", ".join(sorted(known))
        raise Misuse(f"{place or '/'}: unknown field {unknown[0]!r}; there are {allowed}")


class Edge(NamedTuple):
    """A connection from one node to another.

    Attributes:
        source: Where it starts.
        target: Where it leads.
        condition: A function of the board, sync or async; None is always.
    """

    source: str
    target: str
    condition: BoardFunction | None = None


class Graph(metaclass=ArgumentsMeta):
    """Nodes that work on a board, and the edges that say which comes next.

    All edges of a node whose conditions hold are followed; several of them are a fork. A node
    starts when no other node under way can still reach it without closing a cycle; that is a join.
    Until then each branch works on its own copy of the board. At the join their changes are merged.

    Args:
        nodes: What each node does: a function of the board, an Agent, a Graph, or one of the
            values beside this class. ``Node(...)`` around any of them adds retries.
        edges: ``(source, target)`` or ``(source, target, condition)``. A node without edges is
            an end.
        start: The first node.
        ends: Nodes where the graph may also end, if no condition of their edges holds.
        merges: How to merge a variable that several branches set, by name: "add", "update",
            "first", "last", or a function of the list of values, in the order of the nodes.
        max_steps: The maximum number of nodes to run, counting repeated ones again. None is the
            run's ``max_turns``, and at least the number of nodes.

    Raises:
        Misuse: An edge names a missing node, the start is missing, or a merge is unknown.
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
        self.places: Mapping[str, int] = {name: n for n, name in enumerate(self.nodes)}
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
        """Make a graph from plain data that names its functions and agents.

        Args:
            data: ``{"start", "nodes", "edges", "ends", "merges", "max_steps"}``; a node is the
                name of a function, or a mapping with one of function, agent, tool, ask, graph,
                parallel, foreach, and the arguments of ``Node``.
            functions: Nodes' functions and edges' conditions, by name.
            agents: By name.

        Raises:
            Misuse: The data has another form, or a name is unknown; the message says where.
        """
        return cls(**_Reader(functions or {}, agents or {}, make=cls).graph(data, ""))

    def __repr__(self) -> str:
        return f"Graph({list(self.nodes)}, start={self.start!r})"

    def edges_of(self, name: str) -> Sequence[Edge]:
        """Return the edges that start at a node."""
        return self._edges_of[name]

    def to_mermaid(self) -> str:
        """Return the graph as Mermaid text."""
        return _chart(self).to_mermaid()

    def agents(self) -> Iterator[Agent[Any]]:
        """Return the agents of its nodes, including nested nodes."""
        return _agents_in(self.nodes.values())

    @cached_property
    def digest(self) -> str:
        """A digest of the graph's behaviour.

        It covers nodes with their functions and agents, edges with their conditions, the start,
        the ends, the merges and the limit.
        """
        facts = facts_of(
            (self.nodes, self.edges, self.start, self.ends, self.merges, self.max_steps)
        )
        return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def _reach(self) -> Reach:
        return _reach_of(self.nodes, self._edges_of, self.start)

    def ready(self, arrived: Collection[str]) -> list[str]:
        """Return the nodes in *arrived* that no other of them can still reach, in node order."""
        if len(arrived) == 1:
            return [*arrived]
        bits, ahead = self._reach
        blocked = 0
        for name in arrived:
            blocked |= ahead[name]
        return sorted(
            (name for name in arrived if not bits[name] & blocked), key=self.places.__getitem__
        )

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
                # A graph has no tools to look names up in.
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
        raise Misuse(
            f"{edge!r} is not an edge: give (source, target) or (source, target, condition)"
        )
    read = Edge(*edge)
    if read.condition is not None and not callable(read.condition):
        raise Misuse(
            f"the condition from {read.source!r} to {read.target!r} is a "
            f"{type(read.condition).__name__}: give a function of the board"
        )
    if read.condition is not None:
        check_fit(read.condition, f"the condition from {read.source!r} to {read.target!r}", "board")
    return read


class Reach(NamedTuple):
    """Which nodes can be reached from which, as bits of integers.

    Attributes:
        bits: The bit of each node.
        ahead: The bits of all nodes that can be reached from each.
    """

    bits: Mapping[str, int]
    ahead: Mapping[str, int]


def _reach_of(names: Iterable[str], edges_of: Mapping[str, Sequence[Edge]], start: str) -> Reach:
    """Return what can be reached from each node, ignoring edges that close a cycle.

    The search is depth first, from the start and in the order of the edges. An edge back to a node
    that is still being searched closes a cycle.
    """
    bits: dict[str, int] = {}
    ahead: dict[str, int] = {}
    for root in (start, *names):
        left = [] if root in ahead else [(root, iter(edges_of[root]))]
        ahead.setdefault(root, 0)
        while left:
            name, edges = left[-1]
            edge = next(edges, None)
            if edge is None:
                left.pop()
                # The last nodes get the lowest bits, so that most numbers stay short.
                bits[name] = 1 << len(bits)
                if left:
                    ahead[left[-1][0]] |= bits[name] | ahead[name]
            elif edge.target in bits:
                ahead[name] |= bits[edge.target] | ahead[edge.target]
            elif edge.target not in ahead:
                ahead[edge.target] = 0
                left.append((edge.target, iter(edges_of[edge.target])))
    return Reach(bits, ahead)
