"""Tool sets of a server behind an address."""

import asyncio
from contextlib import asynccontextmanager

from aiohttp import web

from tests.tools.mcp.server import answer
from upshot.contract import Effect, ToolArtifactReference, ToolTimeout
from upshot.tools import Toolbox, ToolCall, open_mcp


class Endpoint:
    """The small server behind an address; what a call wants of the connection is done here."""

    def __init__(self):
        self.calls = []
        self.token = "first"

    async def handle(self, request):
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        if message["method"] == "initialize":
            reply = answer(message, print)
            return web.json_response(reply, headers={"mcp-session-id": self.token})
        if request.headers.get("mcp-session-id") not in (None, self.token):
            return web.Response(status=404)
        if message["method"] == "tools/call":
            self.calls.append(message["params"]["name"])
            how = message["params"]["arguments"].get("how")
            if how == "stall":
                await asyncio.sleep(60)
            if how == "once" and len(self.calls) == 1:
                request.transport.close()
                return web.Response()
            message["params"].pop("_meta", None)
            message["params"]["arguments"].pop("how", None)
            if how is not None:
                message["params"]["name"] = "note"
        return web.json_response(answer(message, print))


@asynccontextmanager
async def served():
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_route("*", "/mcp", endpoint.handle)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        endpoint.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/mcp"
        yield endpoint
    finally:
        await runner.cleanup()


async def one(tools, name, arguments=None):
    (outcome,) = await Toolbox(tools).dispatch([ToolCall("c", name, arguments or {})])
    return outcome


async def test_a_tool_behind_an_address_is_called():
    async with served() as endpoint, open_mcp("web", url=endpoint.url, trusted=True) as tools:
        outcome = await one(tools, "web_add", {"a": 1, "b": 2})
        assert tools["add"].network
    assert outcome.output == {"result": 3}


async def test_a_session_that_the_server_forgot_is_begun_anew():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        endpoint.token = "second"
        outcome = await one(tools, "web_note", {"text": "x"})
    assert outcome.output == {"result": "done"}
    assert endpoint.calls == ["note"]


async def test_a_read_is_sent_again_when_the_connection_broke():
    async with served() as endpoint, open_mcp("web", url=endpoint.url, trusted=True) as tools:
        outcome = await one(tools, "web_look", {"how": "once"})
    assert outcome.output == {"result": "done"}
    assert endpoint.calls == ["look", "look"]


async def test_a_write_whose_connection_broke_is_not_sent_again():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_die", {"how": "once"})
        again = await one(tools, "web_note", {"text": "x"})
    assert (outcome.code, outcome.effect) == ("connection_lost", Effect.UNKNOWN)
    assert again.output == {"result": "done"}
    assert endpoint.calls == ["die", "note"]


async def test_a_stalled_server_times_out():
    async with (
        served() as endpoint,
        open_mcp("web", url=endpoint.url) as tools,
    ):
        outcome = await one([tools["die"].but(timeout_s=0.05)], "web_die", {"how": "stall"})
    assert isinstance(outcome, ToolTimeout)
    assert outcome.stopped


async def test_thirty_one_megabytes_become_an_artifact():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_show", {"kind": "large"})
    assert isinstance(outcome, ToolArtifactReference)
    assert outcome.size_bytes == 31 * 1024 * 1024
