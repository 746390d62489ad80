"""An MCP server of version 2026-07-28 over HTTP, which asks before it does what it is told."""

import asyncio
from contextlib import asynccontextmanager

from aiohttp import web

VERSION = "2026-07-28"
FORM = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "minimum": 1},
        "note": {"type": "string", "default": "none"},
    },
    "required": ["cents"],
}
PAY = {
    "name": "pay",
    "description": "Pays.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}


def form(message="How much?", schema=None):
    """A question to the user, with the fields of its answer."""
    params = {"mode": "form", "message": message, "requestedSchema": schema or FORM}
    return {"method": "elicitation/create", "params": params}


def link(message="Sign in.", url="https://bank.example/in"):
    params = {"mode": "url", "message": message, "url": url}
    return {"method": "elicitation/create", "params": params}


def sample(text="Say hi.", **more):
    """A request for a reply of a model."""
    said = {"role": "user", "content": {"type": "text", "text": text}}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [said], "maxTokens": 100, **more},
    }


def asks(requests, state="s1"):
    """What a call returns that needs something first."""
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def text(said):
    return {"resultType": "complete", "content": [{"type": "text", "text": said}], "isError": False}


class Modern:
    """The server.

    Attributes:
        script: What calls return, in order; the last is repeated. "hang" never answers.
        calls: The parameters of the calls, in order.
        hung: Set once a call hangs.
        more: Results of other methods.
    """

    def __init__(self, *script, tools=(PAY,), more=None):
        self.script = list(script)
        self.tools = tools
        self.calls = []
        self.hung = asyncio.Event()
        self.more = more or {}
        self.asked = []
        self.url = ""

    @property
    def responses(self):
        """The responses to its own requests, by call."""
        return [one.get("inputResponses") for one in self.calls]

    async def handle(self, request):
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            return web.Response(status=202)
        self.asked.append(method)
        if method == "tools/call":
            self.calls.append(params)
            # Calls that were made before it was there count too.
            result = self.script[min(len(self.calls), len(self.script)) - 1]
            if "error" in result:
                return web.json_response({"jsonrpc": "2.0", "id": message["id"], **result})
            if result == "hang":
                self.hung.set()
                await asyncio.Event().wait()
        elif method in self.more:
            made = self.more[method]
            result = made(params) if callable(made) else made
        elif method == "server/discover":
            capabilities = {"tools": {}, **self.more.get("capabilities", {})}
            result = {"supportedVersions": [VERSION], "capabilities": capabilities}
        elif method == "tools/list":
            result = {"tools": list(self.tools)}
        else:
            error = {"code": -32601, "message": f"no {method}"}
            return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


@asynccontextmanager
async def serving(server):
    """Serve it at an address of its own."""
    app = web.Application()
    app.router.add_route("*", "/mcp", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    try:
        yield server
    finally:
        await runner.cleanup()
