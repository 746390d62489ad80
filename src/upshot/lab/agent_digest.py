"""Digests of what is tried: they change with agents, and with everything that agents refer to.

An experiment is named by such a digest, so a changed agent is never served the results of the old
one. What cannot be told apart counts as it is named; a digest that is too new only costs a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import asdict

from upshot.contract.agent import Agent, AgentTool
from upshot.runs.plan import OutputType
from upshot.tools.definition.tool import Tool, tool

# What the lab does not call, and what is read in another way.
_LEFT_OUT: dict[type, tuple[str, ...]] = {
    Agent: ("observers", "committers", "dependencies", "tools", "output_type"),
    AgentTool: ("input",),
    Tool: ("body", "about"),
}
# What decides what an object of ours does; the rest changes while it works.
_DECIDING = {
    "ScriptedModel": ("_name", "_script", "_every", "_per_conversation"),
    "HttpModel": ("name", "_settings"),
    "Fallback": ("models", "_on"),
    "BatchEngine": ("_batches", "_every_s"),
    "LoopEngine": ("model", "corrective_turns"),
    "Graph": ("nodes", "edges", "start", "ends", "merges", "max_steps"),
    "MachineEngine": ("machine", "_resolver"),
    "Resolver": ("_given", "_functions", "_tools"),
    "Machine": ("data", "states", "initial", "context", "agents", "max_steps"),
}


def digest_of(*values: object) -> str:
    """Return a digest of agents and of other data; it is the same in every process.

    A function counts by its code, and by the data and functions that it refers to in its module.
    """
    text = repr(_Reader().facts(values))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class _Reader:
    """Reads what decides what values do, as plain data."""

    def __init__(self) -> None:
        # What was read already, with its number; kept, so that no id is used again.
        self._seen: dict[int, tuple[int, object]] = {}
        self._within: list[int] = []

    def facts(self, value: object, *, is_part: bool = True) -> object:
        """Return the facts of a value.

        Args:
            value: Any value.
            is_part: Whether it is part of an agent; otherwise a function refers to it, and an
                object that is no data counts by its class.
        """
        if value is None or isinstance(value, str | bytes | int | float | complex):
            return str(value) if isinstance(value, Enum) else value
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._items(cast("Iterable[object]", value), is_part=is_part)
        if isinstance(value, type):
            return value.__qualname__
        number, _ = self._seen.setdefault(id(value), (len(self._seen), value))
        if number < len(self._seen) - 1 or id(value) in self._within:
            return ["as", number]
        self._within.append(id(value))
        found = [_name_of(value), *self._parts_of(value, is_part=is_part)]
        self._within.pop()
        return found

    def _items(self, value: Iterable[object], *, is_part: bool) -> object:
        if id(value) in self._within:
            return "..."
        self._within.append(id(value))
        several = (
            cast("Mapping[object, object]", value).items() if isinstance(value, Mapping) else value
        )
        found = [self.facts(one, is_part=is_part) for one in several]
        self._within.pop()
        return sorted(map(repr, found)) if isinstance(value, set | frozenset) else found

    def _parts_of(self, value: object, *, is_part: bool) -> Iterator[object]:
        match value:
            case FunctionType():
                yield from self._function(value)
            case MethodType():
                yield self.facts(value.__func__)
                yield self.facts(value.__self__, is_part=is_part)
            case partial():
                whole = cast("partial[object]", value)
                yield self.facts((whole.func, whole.args, whole.keywords))
            case Struct():
                yield self.facts(asdict(value))
            case Agent() | AgentTool() | Tool():
                yield from self._declared(cast("Any", value))
            case _ if names := _deciding(value):
                yield from (self.facts(getattr(value, name, None)) for name in names)
            case _ if is_dataclass(value):
                given = [getattr(value, one.name) for one in fields(value) if one.init]
                yield self.facts(given, is_part=is_part)
            case _ if is_part:
                yield from self._object(value)
            case _:
                pass

    def _declared(self, value: Agent[Any] | AgentTool | Tool[..., object]) -> Iterator[object]:
        """Yield the fields of an agent or a tool, with its tools and schemas."""
        left_out = next(names for kind, names in _LEFT_OUT.items() if isinstance(value, kind))
        for one in fields(value):
            if one.name not in left_out:
                yield one.name, self.facts(getattr(value, one.name))
        if isinstance(value, Agent):
            yield self.facts([*_tools_of(value.tools or ())])
            yield _schema_of(cast("object", value.output_type))
        elif isinstance(value, Tool):
            yield value.description, value.parameters
            # No body runs in the lab, except those of reads if the caller wants that.
            function: object = getattr(value.body, "function", None)
            if isinstance(function, FunctionType | MethodType):
                yield _code(function.__code__)
        else:
            yield _schema_of(value.input)

    def _function(self, function: FunctionType) -> Iterator[object]:
        code = function.__code__
        yield _code(code)
        used: dict[str, object] = {
            name: function.__globals__[name]
            for name in sorted({*_names_in(code)})
            if name in function.__globals__
        }
        cells = map(_content_of, function.__closure__ or ())
        used |= dict(zip(code.co_freevars, cells, strict=True))
        for name, one in used.items():
            # What other modules define is not followed.
            if not isinstance(one, FunctionType) or one.__module__ == function.__module__:
                yield name, self.facts(one, is_part=False)
        yield self.facts((function.__defaults__, function.__kwdefaults__), is_part=False)

    def _object(self, value: object) -> Iterator[object]:
        """Yield the methods and the data of any other object, such as a model of the user's."""
        if isinstance(name := getattr(value, "name", None), str):
            yield name
        kind: type = type(value)
        if not _is_ours(kind):
            for name, method in sorted(vars(kind).items()):
                if isinstance(method, FunctionType):
                    yield name, _code(method.__code__)
        kept: dict[str, object] = getattr(value, "__dict__", {})
        for name, one in sorted(kept.items()):
            yield name, self.facts(one, is_part=_is_ours(one.__class__))


def _tools_of(items: Iterable[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, FunctionType):
            yield tool(item)
        elif isinstance(item, str | Tool | AgentTool) or not isinstance(item, Iterable):
            yield item
        else:
            yield from _tools_of(cast("Iterable[object]", item))


def _code(code: CodeType) -> object:
    constants = [
        _code(one)
        if isinstance(one, CodeType)
        else sorted(map(repr, cast("frozenset[object]", one)))
        if isinstance(one, frozenset)
        else one
        for one in code.co_consts
    ]
    return [code.co_code, code.co_names, code.co_varnames, constants]


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in(one)


def _content_of(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # A variable that is assigned later.
        return None


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "upshot"


def _deciding(value: object) -> tuple[str, ...]:
    ours = (one.__name__ for one in type(value).__mro__ if _is_ours(one))
    return next((_DECIDING[name] for name in ours if name in _DECIDING), ())


def _schema_of(wanted: object) -> object:
    return _Reader().facts((wanted, OutputType.of(wanted).schema))


def _name_of(value: object) -> str:
    named: Callable[..., object] | type = cast("Any", value if callable(value) else type(value))
    return str(getattr(named, "__qualname__", type(value).__qualname__))
