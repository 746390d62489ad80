"""Names of tools, where a provider takes fewer characters than upshot does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from ..contract import ModelResponse, StreamItem, ToolCall, ToolCallDelta, ToolSpec
from ..errors import Misuse
from ..wire.transcript import to_wire_name

__all__ = ["Renamed"]

Item = TypeVar("Item", bound=StreamItem)


class Renamed:
    """Gives the calls in a reply the names under which their tools were offered.

    Args:
        tools: On offer.

    Raises:
        Misuse: Two of them have one name on the wire.
    """

    __slots__ = ("_names",)

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._names: dict[str, str] = {}
        for tool in tools:
            if "." in tool.name:
                name = to_wire_name(tool.name)
                other = self._names.setdefault(name, tool.name)
                if other != tool.name or any(name == one.name for one in tools):
                    raise Misuse(
                        f"the tools {tool.name!r} and {name if other == tool.name else other!r} "
                        "have one name for providers that take no dots: rename one of them"
                    )

    def __call__(self, item: Item) -> Item:
        """*item* with those names."""
        if not self._names:
            return item
        if isinstance(item, ToolCallDelta):
            return replace(item, name=self._names.get(item.name, item.name))
        if isinstance(item, ModelResponse) and item.tool_calls:
            return replace(item, tool_calls=tuple(map(self._rename, item.tool_calls)))
        return item

    def _rename(self, call: ToolCall) -> ToolCall:
        name = self._names.get(call.name)
        return call if name is None else replace(call, name=name)
