"""Catalog: the tools of a Toolbox, and which of them are on offer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias, cast

from ..contract import ToolSpec
from ..errors import Misuse
from .definition import Tool, tool
from .fault import nearest

__all__ = ["Catalog", "Offered", "resolve_tools"]

Offered: TypeAlias = Callable[[], Collection[str]]


class Catalog:
    """Tools by name.

    Attributes:
        offers_reader: Whether ``read_artifact`` is offered: from the first stored output on.
    """

    def __init__(self, tools: Iterable[Tool], reader: Tool, offered: Offered | None) -> None:
        self._tools = {one.name: one for one in tools}
        if reader.name in self._tools:
            raise Misuse(
                f"{reader.name} is the name of a tool of the Toolbox itself; choose another"
            )
        self._reader = reader
        self._offered = offered
        self._specs: tuple[tuple[str, ...], tuple[ToolSpec, ...]] = ((), ())
        self.offers_reader = False

    def find(self, name: str) -> Tool | None:
        """The tool, None where there is none or it is not on offer."""
        if name == self._reader.name:
            return self._reader
        found = self._tools.get(name)
        return found if found is not None and self._is_offered(name) else None

    def known(self, name: str) -> Tool | None:
        """The tool, on offer or not."""
        return self._reader if name == self._reader.name else self._tools.get(name)

    def nearest(self, name: str) -> list[str]:
        """Names on offer that look like *name*, the nearest first, at most 3."""
        return nearest(name, self.names(), count=3)

    def names(self) -> tuple[str, ...]:
        """The names on offer, in order."""
        # The reader comes last: what stands before it stays the same for prompt caches.
        names = tuple(name for name in self._tools if self._is_offered(name))
        return (*names, self._reader.name) if self.offers_reader else names

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; the same tuple while nothing changes."""
        # The same object tells an encoder that its bytes of the tools are still right.
        names = self.names()
        if names != self._specs[0]:
            found = (self.known(name) for name in names)
            self._specs = (names, tuple(one.spec for one in found if one is not None))
        return self._specs[1]

    def _is_offered(self, name: str) -> bool:
        return self._offered is None or name in self._offered()


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
    by_name = {one.name: one for one in _flatten(named, {})}
    tools: dict[str, Tool] = {}
    for one in _flatten(items, by_name):
        if tools.setdefault(one.name, one) is not one:
            raise Misuse(f"two tools are called {one.name!r}: give one of them another name")
        # A parameter that no schema can describe is told now, and not in the middle of a run.
        one.parameters  # noqa: B018
    return tuple(tools.values())


def _flatten(items: Iterable[object], named: Mapping[str, Tool]) -> Iterable[Tool]:
    if isinstance(items, str) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"tools are {items!r}: give a list of them")
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
    if callable(item):
        return (tool(item),)
    if isinstance(item, Iterable):
        return _flatten(cast("Iterable[object]", item), named)
    raise Misuse(f"{item!r} is no tool: give a function, a Tool, a tool set or a name")
