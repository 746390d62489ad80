"""The Claude Agent SDK's tools and permissions, without its command-line program.

The SDK hands calls to the program ``claude``, which asks the model. What is tried here is the part
that is in this process: a tool of ``create_sdk_mcp_server``, called as the program calls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server, tool
from mcp import Client

from bench.effects.play import Play

PACKAGES = ("claude-agent-sdk",)


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool."""

    @tool("refund", "Refund an order.", {"order_id": str, "cents": int})
    async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
        text = await asyncio.to_thread(refund, **arguments)
        return {"content": [{"type": "text", "text": text}]}

    return handle


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """Make the calls of a conversation."""
    asyncio.run(_talk(refund, play))


async def _talk(refund: Callable[..., Any], play: Play) -> None:
    server = create_sdk_mcp_server("desk", tools=[tool_of(refund)])
    async with Client(server["instance"]) as client:
        while calls := play.next():
            made = [client.call_tool("refund", one.arguments) for one in calls]
            for one, result in zip(calls, await asyncio.gather(*made), strict=True):
                play.read(one.id, result.content[0].text)
