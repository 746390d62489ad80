"""ToolSet: tools that are listed and trusted together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from ..errors import Misuse
from .definition import Tool
from .fence import UNTRUSTED
from .kit import resolve_tools

__all__ = ["ToolSet"]


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
