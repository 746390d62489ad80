"""Validated tools, tool sets, and which of them are on offer."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Literal, TypeAlias, cast

from upshot.contract.base.checks import did_you_mean, nearest
from upshot.contract.tool_calls import ToolSpec
from upshot.errors import Misuse
from upshot.tools.artifacts import READER_NAME
from upshot.tools.definition.tool import Tool, tool
from upshot.tools.secrets import UNTRUSTED

__all__ = ["OfferedTools", "ToolCatalog", "Offered", "ToolSet", "kit_of", "resolve_tools"]

# Enough for the agents of a program; the tools of one that came before them are let go.
_KEPT = 64


class ToolCatalog:
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
def kit_of(tools: tuple[Tool, ...]) -> ToolCatalog:
    """The kit of these very tools, the same each time.

    Raises:
        Misuse: See ``ToolCatalog``.
    """
    return ToolCatalog(tools)


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
            hint = did_you_mean(item, named, f"known are: {', '.join(named) or 'none'}")
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


Offered: TypeAlias = Callable[[], Container[str]]


class OfferedTools:
    """Tools by name, ``read_artifact`` among them.

    Args:
        kit: The tools.
        make_reader: Makes the tool ``read_artifact``; most runs never need it.
        offered: The names that are on offer now; None offers all.

    Attributes:
        offers_reader: Whether ``read_artifact`` is offered: from the first stored output on.
    """

    def __init__(
        self, kit: ToolCatalog, make_reader: Callable[[], Tool], offered: Offered | None
    ) -> None:
        self._kit = kit
        self._make_reader = make_reader
        self._reader: Tool | None = None
        self._offered = offered
        self._specs: tuple[tuple[str, ...], tuple[ToolSpec, ...]] = ((), ())
        self.offers_reader = False

    def find(self, name: str) -> Tool | None:
        """The tool, None where there is none or it is not on offer."""
        found = self.known(name)
        if found is None or self._offered is None or name == READER_NAME:
            return found
        return found if name in self._offered() else None

    def known(self, name: str) -> Tool | None:
        """The tool, on offer or not."""
        return self.reader if name == READER_NAME else self._kit.tools.get(name)

    @property
    def reader(self) -> Tool:
        """The tool ``read_artifact``."""
        if self._reader is None:
            self._reader = self._make_reader()
        return self._reader

    def nearest(self, name: str) -> list[str]:
        """Names on offer that look like *name*, the nearest first, at most 3."""
        return nearest(name, self.names(), count=3)

    def names(self) -> tuple[str, ...]:
        """The names on offer, in order."""
        names = self._kit.names
        if self._offered is not None:
            offered = self._offered()
            names = tuple(name for name in names if name in offered)
        # The reader comes last: what stands before it stays the same for prompt caches.
        return (*names, READER_NAME) if self.offers_reader else names

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; the same tuple while nothing changes."""
        if self._offered is None and not self.offers_reader:
            return self._kit.specs
        # The same object tells an encoder that its bytes of the tools are still right.
        names = self.names()
        if names != self._specs[0]:
            found = (self.known(name) for name in names)
            self._specs = (names, tuple(one.spec for one in found if one is not None))
        return self._specs[1]


class ToolSet:
    """Tools that are listed and trusted together; an item of ``Agent.tools`` and of Toolboxes.

    Attributes:
        tools: They, in order.
    """

    def __init__(
        self, items: Iterable[object], *, trust: Literal["untrusted", ""] | None = None
    ) -> None:
        """Make a set.

        Args:
            items: Tools, functions, and tool sets, such as those of ``open_mcp``.
            trust: "untrusted" where the results of all of them may hold words of strangers,
                "" where those of none do; None leaves it to each tool.

        Raises:
            Misuse: An item is no tool, or *trust* is another word.
        """
        if trust not in (None, "", UNTRUSTED):
            raise Misuse(f'trust is {trust!r}; give "untrusted", "" or None')
        tools = resolve_tools(items)
        # Made once, so that the set's tools stay the same ones from run to run.
        self.tools: tuple[Tool, ...] = tuple(
            one if trust is None or one.trust == trust else one.but(trust=trust) for one in tools
        )

    def __repr__(self) -> str:
        return f"ToolSet({[tool.name for tool in self.tools]})"

    def __iter__(self) -> Iterator[Tool]:
        """The tools, in order."""
        return iter(self.tools)
