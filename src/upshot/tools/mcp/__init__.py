"""MCP servers as tool sets; the ``mcp`` package is loaded when one is opened."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.tools.mcp.mcp_toolset import McpTools
    from upshot.tools.mcp.open_mcp import open_mcp

__all__ = ["McpTools", "open_mcp"]

__getattr__: Callable[[str], object] = lazy_names(
    __name__, globals(), {"open_mcp": "open_mcp", "mcp_toolset": "McpTools"}
)
