"""MCP servers as tool sets; the ``mcp`` package is loaded when one is opened."""
