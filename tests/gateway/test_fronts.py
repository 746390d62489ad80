"""Several servers, HTTP on both sides, the check, and mistakes in the file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.gateway.kit import REFUND, ROOT, Place, approving, text_of, told
from upshot import open_journal

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


@asynccontextmanager
async def program(*words: str) -> AsyncGenerator[str]:
    """A program that serves over HTTP, and prints its address in a line of its own."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        said = b""
        while b"http://" not in (line := await process.stdout.readline()):
            said += line
            assert line, said.decode()
        yield line[line.index(b"http://") :].decode().split()[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def gateway(place: Place, *words: str) -> Any:
    return program(*place.command("--port", "0", *words))


@MODES
async def test_tools_of_several_servers_have_the_name_of_theirs(place: Place, mode: Any):
    servers = {"shop": place.shop(), "mall": place.shop()}
    place.write({"shop/refund": REFUND, "mall/refund": REFUND}, servers=servers, default="read")
    async with place.client(mode=mode) as client:
        names = [one.name for one in (await client.list_tools()).tools]
        assert [one for one in names if "refund" in one and "list" not in one] == [
            "shop_refund",
            "mall_refund",
        ]
        assert client.server_info is not None and client.server_info.name == "upshot-gateway"
        for name in ("shop_refund", "mall_refund", "shop_refund"):
            await client.call_tool(name, {"order_id": "7"})
        prompts = await client.list_prompts()
        assert [one.name for one in prompts.prompts] == ["shop_greet", "mall_greet"]
        assert "greet" in str((await client.get_prompt("mall_greet")).messages[0].content)
        assert (await client.read_resource("shop://hours")).contents
        with pytest.raises(MCPError, match="no server lists the resource"):
            await client.read_resource("shop://nothing")
    assert place.lines == ["refund 7"] * 2


@MODES
async def test_clients_over_http_share_the_journal_and_nothing_else(place: Place, mode: Any):
    place.write(
        {"shop/refund": {**REFUND, "approval": "cents > 5000"}, "shop/ask": {"effect": "read"}}
    )
    asked: list[str] = []
    async with gateway(place, "--as", "ann") as url:
        elicit = approving(asked=asked)
        async with (
            Client(url, mode=mode, elicitation_callback=elicit) as one,
            Client(url, mode="legacy") as other,
        ):
            first = await one.call_tool("refund", {"order_id": "7", "cents": 9000})
            again = await other.call_tool("refund", {"order_id": "7", "cents": 9000})
            if mode == "legacy":
                assert "accept" in text_of(await one.call_tool("ask", {}))
    assert text_of(first) == "re_7" and len(asked) == (2 if mode == "legacy" else 1)
    # The question about the same call is asked before the ledger knows that it was made.
    assert "done before" in text_of(again) or told(again)["kind"] == "waiting"
    assert place.lines == ["refund 7"]


async def test_the_user_is_whom_a_trusted_proxy_names(place: Place):
    place.write(user_header="X-User")
    hello: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        },
    }

    def send(url: str, body: dict[str, Any], **headers: str) -> tuple[int, str]:
        accept = "application/json, text/event-stream"
        given = {"Content-Type": "application/json", "Accept": accept, **headers}
        request = urllib.request.Request(url, json.dumps(body).encode(), given)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                reply.read()
                return reply.status, reply.headers.get("mcp-session-id", "")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""

    async with gateway(place) as url:
        assert (await asyncio.to_thread(send, url, hello))[0] == 401
        status, session = await asyncio.to_thread(send, url, hello, **{"X-User": "ann"})
        assert status == 200
        call: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "refund", "arguments": {"order_id": "7"}},
        }
        theirs = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        other = await asyncio.to_thread(send, url, call, **theirs, **{"X-User": "bob"})
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await asyncio.to_thread(send, url, ready, **theirs, **{"X-User": "ann"})
        own = await asyncio.to_thread(send, url, call, **theirs, **{"X-User": "ann"})
        strange = await asyncio.to_thread(
            send, url, hello, Host="evil.example", **{"X-User": "ann"}
        )
    assert (other[0], own[0], strange[0]) == (404, 200, 421)
    async with open_journal(place.journal) as journal:
        assert len(await journal.effects(user="ann")) == 1


@MODES
async def test_a_server_is_reached_over_http(place: Place, tmp_path: Path, mode: Any):
    inner = Place(tmp_path / "inner" if (tmp_path / "inner").mkdir() is None else tmp_path)
    inner.write(default="read")
    async with gateway(inner) as url:
        server = {"url": url, "headers": {"Authorization": "Bearer of-the-shop"}}
        place.write({"far/refund": REFUND}, servers={"far": server})
        async with place.client(mode=mode) as client:
            assert text_of(await client.call_tool("refund", {"order_id": "7"})) == "re_7"
            again = await client.call_tool("refund", {"order_id": "7"})
    assert "done before" in text_of(again) and inner.lines == ["refund 7"]


def test_the_check_says_what_will_happen_to_each_tool(place: Place):
    shop = place.shop(trusted=True)
    asking = {**REFUND, "approval": "cents > 5000", "deny": "cents <= 0"}
    place.write({"shop/refund": asking, "shop/secret": {"deny": True}}, servers={"shop": shop})
    done = place.run("--check")
    assert done.returncode == 0, done.stderr
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()] == [
        [
            "shop/refund",
            "write; denied if cents <= 0; asks a person if cents > 5000; once for each order_id",
        ],
        ["shop/list_refunds", "read"],
        ["shop/wipe", "write; asks a person"],
        ["shop/ask", "write; asks a person"],
        ["shop/secret", "denied"],
    ]


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ({"shop/refnd": {}}, "the server shop has no tool shop/refnd: did you mean 'shop/refund'?"),
        (
            {"shop/refund": {"approval": "cent > 5"}},
            "the name 'cent': expected a name",
        ),
        ({"shop/refund": {"once": ["order"]}}, "it has no argument 'order': it has order_id"),
    ],
)
def test_a_file_that_does_not_fit_the_tools_is_told(place: Place, tools: dict[str, Any], said: str):
    place.write(tools)
    done = place.run("--check")
    assert done.returncode == 2
    assert str(place.file) in done.stderr.replace("\n", "")
    assert said in " ".join(done.stderr.split()), done.stderr


async def test_no_call_is_made_while_the_file_does_not_fit(place: Place):
    place.write({"shop/refnd": REFUND}, default="read")
    async with place.client(mode="legacy") as client:
        with pytest.raises(MCPError, match=r"no calls are made: .* no tool shop/refnd"):
            await client.call_tool("refund", {"order_id": "7"})
    assert place.lines == []


async def test_a_server_that_does_not_start_is_told_without_its_secrets(place: Place):
    code = "import sys; sys.exit('bad key sk-of-the-shop')"
    shop = {"command": [sys.executable, "-c", code], "env": {"SHOP_KEY": "sk-of-the-shop"}}
    place.write(servers={"shop": shop})
    done = await asyncio.to_thread(place.run, "--check")
    assert done.returncode == 2 and "sk-of" not in done.stdout + done.stderr
    assert "the server shop cannot be reached" in " ".join(done.stderr.split())
