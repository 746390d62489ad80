"""Tool sets of a server behind an address."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.tools.mcp.server import answer, text
from upshot.contract import Effect, ToolArtifactReference, ToolFailure, ToolTimeout
from upshot.errors import Misuse
from upshot.tools import Toolbox, ToolCall, open_mcp

UNREADABLE = {"cut": ('{"jsonrpc', "application/json"), "page": ("<p>Welcome", "text/html")}


def forget(code, said):
    """The answer to a session that nobody knows, in the words of one server or another."""

    def make():
        error = {"code": code, "message": said}
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=404)

    return make


class Endpoint:
    """The small server behind an address; what a call wants of the connection is done here."""

    def __init__(self):
        self.calls = []
        self.token = "first"
        self.headers = set()
        self.starts = 0
        self.lists = 0
        self.moved = False
        self.forget = lambda: web.Response(status=404)
        self.forgets_a_list = False

    async def handle(self, request):
        if request.method != "POST":
            return web.Response(status=405)
        self.headers.add(request.headers.get("x-key"))
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        if self.moved:
            return forget(-32601, "nobody lives here")()
        if message["method"] == "initialize":
            self.starts += 1
            reply = answer(message, print)
            return web.json_response(reply, headers={"mcp-session-id": self.token})
        if request.headers.get("mcp-session-id") not in (None, self.token):
            return self.forget()
        self.lists += message["method"] == "tools/list"
        if message["method"] == "tools/list" and self.starts == 2 and self.forgets_a_list:
            self.forgets_a_list = False
            self.token = "third"
            return self.forget()
        if message["method"] == "tools/call" and (reply := await self.call(request, message)):
            return reply
        return web.json_response(answer(message, print))

    async def call(self, request, message):
        """Do what a call asks for; None where it is to be answered as ever."""
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
        if how == "event":
            result = {"content": [text("0123456789abcde\n" * 131_072)]}
            event = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            return web.Response(text=f"data: {event}\n\n", content_type="text/event-stream")
        if how == "stream":
            return web.Response(text=": it begins\n\n", content_type="text/event-stream")
        if how in UNREADABLE:
            body, kind = UNREADABLE[how]
            return web.Response(text=body, content_type=kind)
        return None


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


@pytest.mark.parametrize("code", [-32600, -32001, -32603])
async def test_a_session_that_was_forgotten_with_an_error_is_begun_anew(code):
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        endpoint.forget = forget(code, "Session not found")
        endpoint.token = "second"
        outcome = await one(tools, "web_note", {"text": "x"})
    assert outcome.output == {"result": "done"}
    assert (endpoint.calls, endpoint.starts) == (["note"], 2)


async def test_a_session_that_was_forgotten_before_the_look_at_its_tools_is_begun_anew():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        endpoint.token = "second"
        endpoint.forgets_a_list = True
        lost = await one(tools, "web_note", {"text": "x"})
        outcome = await one(tools, "web_note", {"text": "x"})
    assert (lost.code, lost.effect, lost.retryable) == ("connection_lost", Effect.NONE, True)
    assert outcome.output == {"result": "done"}
    assert endpoint.calls == ["note"]


async def test_reads_that_run_together_look_at_the_tools_once():
    async with served() as endpoint, open_mcp("web", url=endpoint.url, trusted=True) as tools:
        endpoint.token = "second"
        sums = [one(tools, "web_add", {"a": 1, "b": n}) for n in range(5)]
        outcomes = await asyncio.gather(*sums)
    assert [outcome.output for outcome in outcomes] == [{"result": n + 1} for n in range(5)]
    assert (endpoint.starts, endpoint.lists) == (2, 2)


@pytest.mark.parametrize("how", UNREADABLE)
async def test_a_write_whose_answer_cannot_be_read_is_unknown(how):
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_die", {"how": how})
    assert isinstance(outcome, ToolFailure)
    assert outcome.effect == Effect.UNKNOWN
    assert endpoint.calls == ["die"]


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        (-32601, Effect.NONE),
        (-32602, Effect.NONE),
        (-32603, Effect.UNKNOWN),
        (-32600, Effect.UNKNOWN),
        (-32700, Effect.UNKNOWN),
    ],
)
async def test_only_a_call_that_was_refused_behind_an_address_had_no_effect(code, effect):
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_refuse", {"code": code, "said": "will not do"})
    assert (outcome.error, outcome.effect) == ("will not do", effect)
    assert endpoint.starts == 1


async def test_words_of_the_sdk_beside_another_code_are_the_servers_own():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_refuse", {"code": -32603, "said": "Session terminated"})
    assert (outcome.error, outcome.effect) == ("Session terminated", Effect.UNKNOWN)
    assert endpoint.calls == ["refuse"]


async def test_words_of_an_address_where_no_server_is_are_told():
    async with served() as endpoint:
        endpoint.moved = True
        with pytest.raises(Misuse, match="nobody lives here"):
            async with open_mcp("web", url=endpoint.url):
                pass


async def test_headers_are_sent_with_every_request():
    async with served() as endpoint, open_mcp("w", url=endpoint.url, headers={"X-Key": "k"}):
        pass
    assert endpoint.headers == {"k"}


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


async def test_a_stream_that_ends_before_the_answer_is_a_lost_connection():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_die", {"how": "stream"})
        again = await one(tools, "web_note", {"text": "x"})
    assert (outcome.code, outcome.effect) == ("connection_lost", Effect.UNKNOWN)
    assert again.output == {"result": "done"}
    assert (endpoint.calls, endpoint.starts) == (["die", "note"], 2)


async def test_a_stalled_server_times_out():
    async with (
        served() as endpoint,
        open_mcp("web", url=endpoint.url) as tools,
    ):
        outcome = await one([tools["die"].but(timeout_s=0.05)], "web_die", {"how": "stall"})
    assert isinstance(outcome, ToolTimeout)
    assert outcome.stopped


@pytest.mark.slow
async def test_thirty_one_megabytes_become_an_artifact():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_show", {"kind": "large"})
    assert isinstance(outcome, ToolArtifactReference)
    assert outcome.size_bytes == 31 * 1024 * 1024


async def test_two_megabytes_in_one_event_are_read():
    async with served() as endpoint, open_mcp("web", url=endpoint.url) as tools:
        outcome = await one(tools, "web_look", {"how": "event"})
    assert isinstance(outcome, ToolArtifactReference)
    assert outcome.size_bytes == 2 * 1024 * 1024
