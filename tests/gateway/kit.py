"""Gateways in this process and in separate processes, their shop, and clients for them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import mcp_types as types
import uvicorn
import yaml
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.memory import create_client_server_memory_streams

from tests.asgi import AsgiServer
from tests.gateway.shop import make
from tests.processes import launched, run_python, start_python
from upshot.gateway import read_config, serve_http
from upshot.gateway.channels import SdkChannel
from upshot.gateway.front import serve

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-of-the-shop"
REFUND: dict[str, Any] = {"effect": "write", "once": ["order_id"], "may_differ": ["note", "then"]}
VERIFY: dict[str, Any] = {
    "tool": "shop/list_refunds",
    "arguments": {"order_id": "{order_id}"},
    "found": "refunds.exists(r, r.order == order_id)",
}


@asynccontextmanager
async def serving(
    app: Any, *, lifespan: Any = "off", listening: socket.socket | None = None
) -> AsyncGenerator[str]:
    """Serve an ASGI application in this process; yields its address."""
    server = AsgiServer(
        uvicorn.Config(app, port=0, log_level="critical", lifespan=lifespan, ws="none")
    )
    task = asyncio.create_task(server.serve(None if listening is None else [listening]))
    while not server.started:
        await asyncio.sleep(0.001)
        if task.done():
            task.result()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        # Open streams are cut off, because a client may stay until the gateway stops.
        server.stop(cut_off=True)
        await task


class Place:
    """A folder with the configuration of a gateway, its journal and the book of its shop.

    Attributes:
        url: The URL of the shop in this process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.book = path / "book"
        self.book.touch()
        self.journal = str(path / "gateway.db")
        self.file = path / "desk.yml"
        self.url = ""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Place]:
        """Run a shop in this process."""
        app = make(self.book).streamable_http_app()
        async with serving(app, lifespan="on") as self.url:
            yield self

    def shop(self) -> dict[str, Any]:
        """Return the configuration of the shop in this process, which is reached over HTTP."""
        assert self.url, "this test has no shop in its process"
        return {"url": self.url}

    def program(self, **more: Any) -> dict[str, Any]:
        """Return the configuration of a shop that is a program, and may be killed."""
        command = launched("-m", "tests.gateway.shop", self.book)
        return {"command": command, "env": {"SHOP_KEY": KEY}, "cwd": str(ROOT), **more}

    def write(self, tools: dict[str, Any] | None = None, **more: Any) -> None:
        """Write the configuration, with the shop as the only server."""
        given = {
            "journal": self.journal,
            "servers": more.pop("servers", None) or {"shop": self.shop()},
            "tools": {"shop/refund": REFUND} if tools is None else tools,
            **more,
        }
        self.file.write_text(yaml.safe_dump(given, sort_keys=False))

    @property
    def lines(self) -> list[str]:
        return self.book.read_text().splitlines()

    def command(self, *words: str) -> list[str]:
        return ["-m", "upshot", "gateway", str(self.file), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_python(*self.command(*words), text=True, cwd=ROOT)

    @asynccontextmanager
    async def client(self, user: str = "", **options: Any) -> AsyncGenerator[Client]:
        """Yield a client of a new gateway in this process."""
        async with create_client_server_memory_streams() as (own, theirs):
            channel = SdkChannel(*theirs, is_server=True)
            task = asyncio.create_task(serve(read_config(str(self.file)), user, channel))
            try:
                async with Client(_opened(own), **options) as client:
                    yield client
            finally:
                # It stops once its client has left.
                await own[1].aclose()
                await task

    @asynccontextmanager
    async def over_http(self, user: str = "", sign_in: Any = None) -> AsyncGenerator[str]:
        """Run the gateway over HTTP in this process; yields its address."""
        config = read_config(str(self.file))
        async with serve_http(config, user, [], sign_in) as app, serving(app) as url:
            yield url

    @asynccontextmanager
    async def client_over_http(self, **options: Any) -> AsyncGenerator[Client]:
        """Yield a client of a new gateway over HTTP in this process."""
        async with self.over_http() as url, Client(url, **options) as client:
            yield client

    async def hanging(self) -> subprocess.Popen[bytes]:
        """Start a gateway process with a refund of order 7 that was made and now hangs."""
        process = start_python(*self.command(), stdin=PIPE, stdout=PIPE, cwd=ROOT)
        assert process.stdin is not None and process.stdout is not None
        client_info = {"name": "a", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info}
        call = {"name": "refund", "arguments": {"order_id": "7", "then": "hang"}}
        for method, params in (
            ("initialize", hello),
            ("notifications/initialized", None),
            ("tools/call", {**call, "_meta": {"progressToken": 1}}),
        ):
            id = None if params is None else method
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            said = {name: value for name, value in message.items() if value is not None}
            process.stdin.write(json.dumps(said).encode() + b"\n")
            process.stdin.flush()
            # The progress of the call is read: the refund is made then, and the call hangs.
            assert id is None or await asyncio.to_thread(process.stdout.readline)
        assert self.lines == ["refund 7"]
        return process

    @asynccontextmanager
    async def client_of_process(self, *words: str, **options: Any) -> AsyncGenerator[Client]:
        """Yield a client of a new gateway process, over standard input and output."""
        program, *rest = launched(*self.command(*words))
        server = StdioServerParameters(
            command=program, args=rest, cwd=ROOT, env={**os.environ, "COLUMNS": "100"}
        )
        async with Client(stdio_client(server), **options) as client:
            yield client


@asynccontextmanager
async def _opened(streams: Any) -> AsyncGenerator[Any]:
    yield streams


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(one.text for one in result.content if isinstance(one, types.TextContent))


def told(result: types.CallToolResult) -> dict[str, Any]:
    """Return what a gateway says about an outcome."""
    return (result.meta or {}).get("upshot/outcome", {})


def approving(*, decision: str = "approve", asked: list[str] | None = None) -> Any:
    """Return a function that answers elicitations as a client."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": decision, "name": "Ann"})

    return elicit
