"""Kit: tools that were looked over once, and serve any number of Toolboxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from types import FunctionType
from typing import cast

from ..contract import ToolSpec
from ..errors import Misuse
from .artifacts import READER_NAME
from .definition import Tool, tool
from .fault import nearest

__all__ = ["Kit", "kit_of", "resolve_tools"]

# Enough for the agents of a program; the tools of one that came before them are let go.
_KEPT = 64


class Kit:
    """Tools by name; it never changes, so that runs of one agent share it.

    Attributes:
        tools: They, in order.
    """

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        """Look the tools over.

        Raises:
            Misuse: Two have one name, one has a name that is taken, or a parameter that JSON
                cannot give.
        """
        self.tools: dict[str, Tool] = {}
        for one in tools:
            if self.tools.setdefault(one.name, one) is not one:
                raise Misuse(f"two tools are called {one.name!r}: give one of them another name")
            # A parameter that no schema can describe is told now, and not in the middle of a run.
            one.parameters  # noqa: B018
        if READER_NAME in self.tools:
            raise Misuse(
                f"{READER_NAME} is the name of a tool of the Toolbox itself; choose another"
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self.tools)

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """They as they are offered to a model, in order."""
        return tuple(one.spec for one in self.tools.values())


@lru_cache(maxsize=_KEPT)
def kit_of(tools: tuple[Tool, ...]) -> Kit:
    """The kit of these very tools, the same each time.

    Raises:
        Misuse: See ``Kit``.
    """
    return Kit(tools)


def resolve_tools(items: Iterable[object], *, named: Iterable[object] = ()) -> tuple[Tool, ...]:
    """Make tools of what an agent lists.

    Args:
        items: Tools, functions, tool sets (iterables of these), or names found in *named*.
        named: Where names are looked up, of the same forms but names.

    Returns:
        The tools, in order.

    Raises:
        Misuse: A name is nowhere, two different tools have one name, an item is none of these,
            or has a parameter that JSON cannot give.
    """
    by_name = {one.name: one for one in _flatten(named, {})} if named else {}
    found = tuple(dict.fromkeys(_flatten(items, by_name)))
    kit_of(found)
    return found


def _flatten(items: Iterable[object], named: Mapping[str, Tool]) -> Iterable[Tool]:
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"tools are {items!r:.100}: give a list of them")
    for item in items:
        yield from _resolve(item, named)


def _resolve(item: object, named: Mapping[str, Tool]) -> Iterable[Tool]:
    if isinstance(item, Tool):
        if item.is_unbound:
            raise Misuse(f"tool {item.name!r} is a method without its object: give object.method")
        return (item,)
    if isinstance(item, str):
        if item not in named:
            near = nearest(item, named)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(named) or 'none'}"
            )
            raise Misuse(f"there is no tool {item!r}; {hint}")
        return (named[item],)
    if isinstance(item, Mapping):
        raise Misuse(
            f"{_shown(cast('Mapping[str, object]', item))} is a description without a function: "
            "give Tool.from_schema(name, description, parameters, call)"
        )
    if isinstance(item, FunctionType):
        return (_tool_of(item),)
    if callable(item):
        return (tool(item),)
    if isinstance(item, Iterable):
        return _flatten(cast("Iterable[object]", item), named)
    raise Misuse(f"{item!r} is no tool: give a function, a Tool, a tool set or a name")


def _shown(item: Mapping[str, object]) -> str:
    # A provider's form of a tool has its name one level down.
    inner = item.get("function", item)
    name = cast("Mapping[str, object]", inner).get("name") if isinstance(inner, Mapping) else None
    return f"{name!r:.60}" if name else f"{item!r:.60}"


@lru_cache(maxsize=_KEPT)
def _tool_of(function: FunctionType) -> Tool:
    # The same each time: reading a signature anew would be most of what a short run costs.
    return tool(function)
