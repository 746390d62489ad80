"""The checked tools of an agent or a Toolbox, and sets of tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from types import FunctionType
from typing import cast

from upshot.contract.agent import Agent, AgentTool
from upshot.contract.base.checks import check_tool_item, did_you_mean, two_tools
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.pending import TaintOrigin
from upshot.contract.tool_calls import UNTRUSTED, ToolSpec
from upshot.errors import Misuse
from upshot.tools.artifacts import READER_NAME
from upshot.tools.definition.lookup import Lookup
from upshot.tools.definition.tool import Tool, tool
from upshot.tools.definition.tool_options import TRUSTS, Trust

# Enough for the agents of a program; the least recently used ones are dropped.
_KEPT = 64


class ToolCatalog:
    """Checked tools by name; immutable, so all runs of an agent share it.

    Attributes:
        tools: The tools by name, in order.
        names: Their names, in order.
        taint: The untrusted content in their names, descriptions and schemas, which a model reads
            before it calls anything; None if there is none.
    """

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        """Check the tools.

        Raises:
            Misuse: Two tools have the same name, a name is reserved, or JSON cannot express a
                parameter.
        """
        self.tools: dict[str, Tool] = {}
        for one in tools:
            if self.tools.setdefault(one.name, one) is not one:
                raise two_tools(one.name)
            # A parameter without a schema is reported now, and not in the middle of a run.
            one.parameters  # noqa: B018
        if READER_NAME in self.tools:
            raise Misuse(
                f"{READER_NAME} is reserved for a tool of the Toolbox; choose another name"
            )
        self.names: tuple[str, ...] = tuple(self.tools)
        foreign = (one.name for one in tools if one.foreign and one.trust == UNTRUSTED)
        name = next(foreign, None)
        self.taint: TaintOrigin | None = None
        if name is not None:
            self.taint = TaintOrigin(source=f"the description of {name}")
        for one in tools:
            if isinstance(one.verify, Lookup):
                self._check_lookup(one.name, one.verify.tool)
                _check_arguments(one, one.verify)

    def _check_lookup(self, name: str, asked: str) -> None:
        found = self.tools.get(asked)
        if found is None:
            hint = did_you_mean(asked, self.tools, "give it to the same agent")
            raise Misuse(
                f"verify of {name!r} looks up {asked!r}, which is not among the tools; {hint}"
            )
        if found.declared_effect is not Effect.READ:
            raise Misuse(
                f"verify of {name!r} looks up {asked!r}, which may write, but a lookup "
                "runs without approval: declare effect='read' if it only reads"
            )
        if found.isolation is not None:
            raise Misuse(
                f"verify of {name!r} looks up {asked!r}, which runs in a separate process: "
                "name a tool that runs in this one"
            )

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as they are offered to a model, in order; always the same tuple."""
        return tuple(one.spec for one in self.tools.values())


def _check_arguments(one: Tool, lookup: Lookup) -> None:
    known = cast("JsonObject", one.parameters.get("properties") or {})
    for name in sorted(lookup.reads - known.keys()):
        hint = did_you_mean(name, known, f"it has {', '.join(known) or 'none'}")
        raise Misuse(
            f"verify of {one.name!r} names {{{name}}}, which is not one of its arguments; {hint}"
        )


@lru_cache(maxsize=_KEPT)
def catalog_of(tools: tuple[Tool, ...]) -> ToolCatalog:
    """Return the catalog of exactly these tools, the same one each time.

    Raises:
        Misuse: See ``ToolCatalog``.
    """
    return ToolCatalog(tools)


def resolve_tools(items: Iterable[object], *, named: Iterable[object] = ()) -> tuple[Tool, ...]:
    """Turn what an agent lists into tools.

    Args:
        items: Tools, functions, tool sets (iterables of these), or names found in *named*.
        named: Where names are looked up; the same kinds of items, except names.

    Returns:
        The tools, in order.

    Raises:
        Misuse: A name is unknown, two different tools have the same name, an item is none of
            these, or JSON cannot express a parameter.
    """
    by_name = {one.name: one for one in _flatten(named, {})} if named else {}
    found = tuple(dict.fromkeys(_flatten(items, by_name)))
    catalog_of(found)
    return found


def _flatten(items: Iterable[object], named: Mapping[str, Tool]) -> Iterable[Tool]:
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"tools must be a list of tools, got {items!r:.100}")
    for item in items:
        yield from _resolve(item, named)


def _resolve(item: object, named: Mapping[str, Tool]) -> Iterable[Tool]:
    if isinstance(item, Tool):
        found = cast("Tool", item)
        if found.is_unbound:
            raise Misuse(f"tool {found.name!r} is a method without its object: give object.method")
        return (found,)
    if isinstance(item, str):
        if item not in named:
            hint = did_you_mean(item, named, f"known are: {', '.join(named) or 'none'}")
            raise Misuse(f"there is no tool {item!r}; {hint}")
        return (named[item],)
    if isinstance(item, Agent | AgentTool):
        raise Misuse("an agent is a tool only of an agent: give Agent(tools=[...]), not a Toolbox")
    check_tool_item(item)
    if isinstance(item, FunctionType):
        return (_tool_of(item),)
    if callable(item):
        return (tool(item),)
    return _flatten(cast("Iterable[object]", item), named)


@lru_cache(maxsize=_KEPT)
def _tool_of(function: FunctionType) -> Tool:
    # Cached, because reading a signature would dominate the cost of a short run.
    return tool(function)


class ToolSet:
    """Tools that are listed and trusted together; an item of ``Agent.tools`` and of Toolboxes.

    Attributes:
        tools: The tools, in order.
    """

    def __init__(self, items: Iterable[object], *, trust: Trust | None = None) -> None:
        """Create a set.

        Args:
            items: Tools, functions and tool sets, such as those of ``open_mcp``.
            trust: The trust of all of them, see ``Tool``; None leaves it to each tool.

        Raises:
            Misuse: An item is not a tool, or *trust* is another word.
        """
        if trust not in (None, *TRUSTS):
            raise Misuse(f'trust is {trust!r}; give "untrusted", "trusted", "" or None')
        tools = resolve_tools(items)
        # Made once, so that the set's tools are the same objects from run to run.
        self.tools: tuple[Tool, ...] = tuple(
            one if trust is None or one.trust == trust else one.but(trust=trust) for one in tools
        )

    def __repr__(self) -> str:
        return f"ToolSet({[tool.name for tool in self.tools]})"

    def __iter__(self) -> Iterator[Tool]:
        """Iterate over the tools, in order."""
        return iter(self.tools)
