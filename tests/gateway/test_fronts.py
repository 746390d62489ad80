"""Several servers, HTTP on both sides, the check, and mistakes in the file."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from subprocess import PIPE, STDOUT
from typing import Any, cast

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.kit import REFUND, ROOT, Place, approving, serving, text_of, told
from tests.processes import start_python, watched
from upshot import open_journal
from upshot.errors import Misuse
from upshot.gateway import check, read_config, serve_http
from upshot.serve import User

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


@asynccontextmanager
async def program(*words: str, really: bool = False) -> AsyncGenerator[str]:
    """A program that serves over HTTP, and prints its address in a line of its own.

    It is forked, or started by the interpreter if *really* is true.
    """
    options: Any = {"cwd": ROOT, "stdout": PIPE, "stderr": STDOUT}
    if really:
        process = watched(subprocess.Popen([sys.executable, *words], **options))
    else:
        process = start_python(*words, **options)
    assert process.stdout is not None
    try:
        said = b""
        while b"http://" not in (line := await asyncio.to_thread(process.stdout.readline)):
            said += line
            assert line, said.decode()
        yield line[line.index(b"http://") :].decode().split()[0]
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate)


@pytest.mark.slow("legacy")
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
    async with place.over_http("ann") as url:
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


async def test_programs_that_clients_share_end_when_idle(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write(servers={"shop": place.program()}, default="read")
    config = read_config(str(place.file))
    async with (
        serve_http(config, "ann", []) as app,
        serving(app) as url,
        Client(url, mode="auto") as client,
    ):
        await client.list_tools()
        (shared,) = cast("Any", app).shared.values()
        monkeypatch.setattr("upshot.gateway.front._IDLE_S", 0)
        await client.list_tools()
        # A request under way when it ends sees its connection closed; later ones cannot be sent.
        with pytest.raises(MCPError, match=r"cannot be reached|Connection closed"):
            while True:
                await shared.session.links["shop"].request("tools/list", {})
        # The next request starts them again.
        assert (await client.list_tools()).tools


@pytest.mark.slow("interpreter")
@pytest.mark.parametrize("really", [False, True], ids=["fork", "interpreter"])
async def test_a_program_serves_http_for_the_user_that_it_is_told(place: Place, *, really: bool):
    place.write()
    async with (
        program(*place.command("--port", "0", "--as", "ann"), really=really) as url,
        Client(url, mode="legacy") as client,
    ):
        assert text_of(await client.call_tool("refund", {"order_id": "7"})) == "re_7"
    assert await owners_of_effects(place) == [("ann", "")]


async def owners_of_effects(place: Place) -> list[tuple[str, str]]:
    async with open_journal(place.journal) as journal:
        return [(one.user, one.tenant) for one in await journal.effects()]


HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "refund", "arguments": {"order_id": "7"}},
}
READY: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def send(url: str, body: Any = None, **headers: str) -> httpx2.Response:
    """Send a message as a client that knows nothing of sessions; GET without one."""
    accept = "application/json, text/event-stream"
    async with httpx2.AsyncClient(headers={"Accept": accept, **headers}, timeout=60) as http:
        return await (http.get(url) if body is None else http.post(url, json=body))


async def session_of(url: str, **headers: str) -> dict[str, str]:
    """The headers of a session that shook hands."""
    begun = await send(url, HELLO, **headers)
    assert begun.status_code == 200
    id = begun.headers["mcp-session-id"]
    theirs = {"Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25"}
    assert (await send(url, READY, **theirs, **headers)).status_code == 202
    return theirs


async def test_the_user_is_whom_a_trusted_proxy_names(place: Place):
    place.write(user_header="X-User")
    ann, bob = {"X-User": "ann"}, {"X-User": "bob"}
    async with place.over_http() as url:
        assert (await send(url, HELLO)).status_code == 401
        theirs = await session_of(url, **ann)
        assert (await send(url, CALL, **theirs, **bob)).status_code == 404
        assert (await send(url, CALL, **theirs, **ann)).status_code == 200
        assert (await send(url, HELLO, Host="evil.example", **ann)).status_code == 421
    assert await owners_of_effects(place) == [("ann", "")]


async def test_a_header_of_somebody_else_than_the_proxy_is_not_believed(place: Place):
    place.write(user_header="X-User", proxies=["192.0.2.1"])
    async with place.over_http() as url:
        assert (await send(url, HELLO, **{"X-User": "ann"})).status_code == 401


async def test_two_headers_with_users_name_nobody(place: Place):
    place.write(user_header="X-User")
    headers = [("X-User", "boss"), ("X-User", "ann")]
    async with place.over_http() as url, httpx2.AsyncClient(headers=headers) as http:
        assert (await http.post(url, json=HELLO)).status_code == 401


async def test_the_command_knows_its_proxy_by_no_header(place: Place):
    place.write(user_header="X-User", proxies=["192.0.2.1"])
    async with program(*place.command("--port", "0")) as url:
        said = {"X-User": "ann", "X-Forwarded-For": "192.0.2.1"}
        assert (await send(url, HELLO, **said)).status_code == 401


async def test_nothing_is_served_without_the_function_of_the_file(place: Place):
    place.write(sign_in="users.py:signed_in")
    with pytest.raises(Misuse, match="give serve_http its function"):
        async with place.over_http():
            pass


TOKENS = {"Bearer of-ann": User("ann", tenant="acme"), "Bearer of-bob": User("bob")}


async def signed_in(request: Any) -> User | None:
    return TOKENS.get(request.headers.get("authorization", ""))


@pytest.mark.slow("legacy")
@MODES
async def test_the_user_is_the_subject_of_a_token(place: Place, mode: Any):
    refund = {**REFUND, "scope": "tenant"}
    place.write({"shop/refund": refund}, sign_in="users.py:signed_in")
    async with place.over_http(sign_in=signed_in) as url:
        for token in TOKENS:
            async with (
                httpx2.AsyncClient(headers={"Authorization": token}) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                # Each tenant has effects of its own.
                assert text_of(await client.call_tool("refund", {"order_id": "7"})) == "re_7"
    assert sorted(await owners_of_effects(place)) == [("ann", "acme"), ("bob", "")]


async def test_whoever_has_no_good_token_is_told_where_to_get_one(place: Place):
    oauth = {"resource": "https://tools.example/mcp", "servers": ["https://login.example"]}
    place.write(sign_in="users.py:signed_in", oauth=oauth)
    ann, bob = {"Authorization": "Bearer of-ann"}, {"Authorization": "Bearer of-bob"}
    path = "/.well-known/oauth-protected-resource/mcp"
    async with place.over_http(sign_in=signed_in) as url:
        without = await send(url, HELLO)
        wrong = await send(url, HELLO, Authorization="Bearer of-eve")
        metadata = await send(url.replace("/mcp", path))
        theirs = await session_of(url, **ann, Host="tools.example")
        assert (await send(url, CALL, **theirs, **bob)).status_code == 404
        assert (await send(url, CALL, **theirs)).status_code == 401
    assert without.status_code == wrong.status_code == 401
    place_of_it = f'resource_metadata="https://tools.example{path}"'
    assert without.headers["www-authenticate"] == f"Bearer {place_of_it}"
    assert wrong.headers["www-authenticate"] == f'Bearer error="invalid_token", {place_of_it}'
    assert metadata.json() == {
        "resource": "https://tools.example/mcp",
        "authorization_servers": ["https://login.example"],
        "bearer_methods_supported": ["header"],
    }


async def test_the_command_finds_the_function_that_signs_in(place: Place):
    users = place.path / "users.py"
    users.write_text(
        "from upshot.serve import User\n"
        "def who(request):\n"
        "    return User(request.headers['token']) if 'token' in request.headers else None\n"
    )
    place.write(sign_in=f"{users}:who")
    async with program(*place.command("--port", "0")) as url:
        assert (await send(url, HELLO)).headers["www-authenticate"] == "Bearer"
        await session_of(url, token="ann")


@pytest.mark.slow("legacy")
@MODES
async def test_a_gateway_may_stand_before_a_gateway(place: Place, mode: Any):
    outer = Place(place.path / "outer" if (place.path / "outer").mkdir() is None else place.path)
    place.write(default="read", user_header="X-User")
    async with place.over_http() as url:
        server = {"url": url, "headers": {"X-User": "the-outer-one"}}
        outer.write({"far/refund": REFUND}, servers={"far": server})
        async with outer.client(mode=mode) as client:
            assert text_of(await client.call_tool("refund", {"order_id": "7"})) == "re_7"
            again = await client.call_tool("refund", {"order_id": "7"})
    assert "done before" in text_of(again) and place.lines == ["refund 7"]


async def test_a_gateway_that_is_terminated_ends_its_log_and_its_calls(place: Place):
    place.write()
    process = await place.hanging()
    process.terminate()
    await asyncio.to_thread(process.communicate)
    assert process.returncode == 0
    async with open_journal(place.journal) as journal:
        assert [one.status for one in await journal.runs()] == ["completed"]
        assert [one.state for one in await journal.effects()] == ["unknown"]


def test_the_check_says_what_will_happen_to_each_tool(bare_place: Place):
    place = bare_place
    shop = place.program(trusted=True)
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
            "the name 'cent': expected a known name",
        ),
        ({"shop/refund": {"once": ["order"]}}, "it has no argument 'order': it has order_id"),
    ],
)
async def test_a_file_that_does_not_fit_the_tools_is_told(
    place: Place, tools: dict[str, Any], said: str
):
    place.write(tools)
    with pytest.raises(Misuse) as caught:
        await check(read_config(str(place.file)))
    assert str(place.file) in str(caught.value) and said in str(caught.value)


async def test_no_call_is_made_while_the_file_does_not_fit(place: Place):
    place.write({"shop/refnd": REFUND}, default="read")
    async with place.client(mode="legacy") as client:
        with pytest.raises(MCPError, match=r"no calls are made: .* no tool shop/refnd"):
            await client.call_tool("refund", {"order_id": "7"})
    assert place.lines == []


async def test_a_server_that_hangs_in_its_handshake_is_told(bare_place: Place):
    place = bare_place
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    place.write({}, servers={"shop": {"command": command, "timeout_s": 1}})
    with pytest.raises(Misuse, match="did not answer initialize within 1 s"):
        await check(read_config(str(place.file)))


def test_a_server_that_does_not_start_is_told_without_its_secrets(bare_place: Place):
    place = bare_place
    code = "import sys; sys.exit('bad key sk-of-the-shop')"
    shop = {"command": [sys.executable, "-c", code], "env": {"SHOP_KEY": "sk-of-the-shop"}}
    place.write(servers={"shop": shop})
    done = place.run("--check")
    assert done.returncode == 2 and "sk-of" not in done.stdout + done.stderr
    assert "the server shop cannot be reached" in " ".join(done.stderr.split())
