"""MCP servers as tool sets; the ``mcp`` package is loaded when one is opened."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...lazy import lazy_names

if TYPE_CHECKING:
    from .opening import open_mcp
    from .toolset import McpTools

__all__ = ["McpTools", "open_mcp"]

__getattr__: Callable[[str], object] = lazy_names(
    __name__, globals(), {"opening": "open_mcp", "toolset": "McpTools"}
)
