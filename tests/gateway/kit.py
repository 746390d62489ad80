"""A gateway as a process, before servers that are processes, and clients of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import yaml
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-of-the-shop"
REFUND: dict[str, Any] = {"effect": "write", "once": ["order_id"], "may_differ": ["note", "then"]}
VERIFY: dict[str, Any] = {
    "tool": "shop/list_refunds",
    "arguments": {"order_id": "{order_id}"},
    "found": "refunds.exists(r, r.order == order_id)",
}


class Place:
    """A folder with the file of a gateway, its journal and the book of its shop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.book = path / "book"
        self.book.touch()
        self.journal = str(path / "gateway.db")
        self.file = path / "desk.yml"

    def shop(self, **more: Any) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.gateway.shop", str(self.book)]
        return {"command": command, "env": {"SHOP_KEY": KEY}, "cwd": str(ROOT), **more}

    def write(self, tools: dict[str, Any] | None = None, **more: Any) -> None:
        """Write the file, with one server that is the shop."""
        given = {
            "journal": self.journal,
            "servers": {"shop": self.shop()},
            "tools": {"shop/refund": REFUND} if tools is None else tools,
            **more,
        }
        self.file.write_text(yaml.safe_dump(given, sort_keys=False))

    @property
    def lines(self) -> list[str]:
        return self.book.read_text().splitlines()

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "upshot", "gateway", str(self.file), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
        )

    @asynccontextmanager
    async def client(self, *words: str, **options: Any) -> AsyncGenerator[Client]:
        """A client of a new gateway over standard input and output."""
        program, *rest = self.command(*words)
        server = StdioServerParameters(
            command=program, args=rest, cwd=ROOT, env={**os.environ, "COLUMNS": "100"}
        )
        async with Client(stdio_client(server), **options) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(one.text for one in result.content if isinstance(one, types.TextContent))


def told(result: types.CallToolResult) -> dict[str, Any]:
    """What a gateway says of an outcome."""
    return (result.meta or {}).get("upshot/outcome", {})


def approving(*, decision: str = "approve", asked: list[str] | None = None) -> Any:
    """How a client answers elicitations."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": decision, "name": "Ann"})

    return elicit
