"""The plain data form of a graph, in which functions and agents are names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..contract import Agent
from ..contract.article import kind_of
from ..errors import Misuse
from .graph_node import AgentTask, ForEach, Node, Parallel, Question, ToolTask

__all__ = ["read_graph"]

_GRAPH_FIELDS = {"nodes", "edges", "start", "ends", "merges", "max_steps"}
_NODE_FIELDS = {"attempts", "backoff_s", "effect", "idempotent", "output"}
# What each kind of node may say besides.
_KINDS = {
    "function": set[str](),
    "agent": {"request", "request_from"},
    "tool": {"arguments", "arguments_from"},
    "ask": {"choices"},
    "graph": set[str](),
    "parallel": set[str](),
    "foreach": {"do", "as", "at_once"},
}


def read_graph(
    data: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]],
    agents: Mapping[str, Agent[Any]],
    *,
    make: Callable[..., object],
) -> dict[str, Any]:
    """Resolve the names in *data*.

    Args:
        data: What ``Graph.from_data`` takes.
        functions: By name.
        agents: By name.
        make: Makes a subgraph of such arguments.

    Returns:
        The arguments of a graph.

    Raises:
        Misuse: A name is nowhere or a field unknown; the message says where.
    """
    return _Reader(functions, agents, make).graph(data, "")


class _Reader:
    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        agents: Mapping[str, Agent[Any]],
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
            case "graph":
                return self._make(**self.graph(named, f"{place}/graph"))
            case "parallel":
                return Parallel(self._nodes(named, f"{place}/parallel"))
            case _:
                do = self._node(fields.get("do"), f"{place}/do")
                return ForEach(named, do, fields.get("as", "item"), fields.get("at_once"))

    def _either(self, fields: Mapping[str, Any], name: str, place: str) -> Any:
        """A value, or the function that gives it."""
        source = fields.get(f"{name}_from")
        return fields.get(name) if source is None else self._function(source, place)

    def _function(self, name: Any, place: str) -> Callable[..., Any]:
        return _found(name, self._functions, "function", place)

    def _agent(self, name: Any, place: str) -> Agent[Any]:
        return _found(name, self._agents, "agent", place)


def _found(name: Any, known: Mapping[str, Any], what: str, place: str) -> Any:
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
