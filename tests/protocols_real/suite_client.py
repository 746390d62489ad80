"""``suite_client.py URL``, or ``suite_client.py --gateway URL``: a client that plays the suite's
scenarios for clients, at the server itself or at a gateway before it.

The suite names the scenario in the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}


async def fill_in(context: Any, params: Any) -> types.ElicitResult:
    """Accept, with the defaults of the form."""
    fields = params.requested_schema["properties"]
    content = {name: one["default"] for name, one in fields.items() if "default" in one}
    return types.ElicitResult(action="accept", content=content)


async def play(url: str, *, is_behind: bool, folder: str) -> None:
    place: Any = url
    if is_behind:
        file = Path(folder, "desk.yml")
        journal = str(Path(folder, "gateway.db"))
        terms = {"journal": journal, "default": "read", "servers": {"suite": {"url": url}}}
        # JSON is YAML too.
        file.write_text(json.dumps(terms))
        words = ["-m", "upshot", "gateway", str(file)]
        server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        place = stdio_client(server)
    async with Client(place, mode="legacy", elicitation_callback=fill_in) as client:
        await client.list_tools()
        if (call := CALLS.get(os.environ["MCP_CONFORMANCE_SCENARIO"])) is not None:
            await client.call_tool(*call)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(play(sys.argv[-1], is_behind="--gateway" in sys.argv, folder=made))
