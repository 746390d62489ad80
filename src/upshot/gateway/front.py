"""The side of the clients: standard input and output, streamable HTTP, and ``--check``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from uuid import uuid4

import anyio
import anyio.abc
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import NoBackChannelError
from mcp_types import Notification
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from upshot.contract.base.structs import JsonObject
from upshot.contract.protocols import Journal
from upshot.errors import Misuse
from upshot.gateway.channels import SdkChannel, open_own_channel
from upshot.gateway.config import Config
from upshot.gateway.peer import OnProgress, Params, Peer
from upshot.gateway.session import Session
from upshot.journal.opening import open_journal
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_options import predicate_text
from upshot.version import __version__

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_IDLE_S = 1800.0
_MOST_SESSIONS = 1_000
_USER = "upshot.user"


async def serve_stdio(config: Config, user: str) -> None:
    """Serve the client at the other end of the standard input and output until it goes.

    What the process prints meanwhile goes to the standard error.

    Args:
        config: The gateway.
        user: Whose calls those of the client are.

    Raises:
        JournalError: The journal cannot be opened.
    """
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(open_journal(config.journal))
        peer = Peer(await stack.enter_async_context(open_own_channel()))
        session = Session(config, journal, user or config.user, peer)
        stack.push_async_callback(session.aclose)
        await peer.run(session.on_request, session.on_notify)


@asynccontextmanager
async def serve_http(config: Config, user: str, hosts: Sequence[str]) -> AsyncGenerator[ASGIApp]:
    """The gateway as an ASGI app, for as long as the block runs.

    Args:
        config: The gateway.
        user: Whose calls those of all clients are, where no header names the user.
        hosts: The names by which clients may reach it.

    Yields:
        The app: streamable HTTP at every path.

    Raises:
        JournalError: The journal cannot be opened.
    """
    async with open_journal(config.journal) as journal, anyio.create_task_group() as group:
        front = _HttpFront(config, journal, user or config.user, _security(hosts), group)
        async with front.modern.run():
            try:
                yield front
            finally:
                await front.aclose()
                group.cancel_scope.cancel()


def _security(hosts: Sequence[str]) -> TransportSecuritySettings:
    names = [*dict.fromkeys(("127.0.0.1", "localhost", "[::1]", *hosts))]
    allowed = [one for name in names for one in (name, f"{name}:*")]
    origins = [f"{kind}://{one}" for kind in ("http", "https") for one in allowed]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)


class _Open(NamedTuple):
    """A session of a client that shook hands."""

    transport: StreamableHTTPServerTransport
    user: str


@dataclass(eq=False)
class _HttpFront:
    """Serves clients of both versions: sessions after a handshake, and single requests."""

    config: Config
    journal: Journal
    user: str
    security: TransportSecuritySettings
    group: anyio.abc.TaskGroup
    sessions: dict[str, _Open] = field(default_factory=dict[str, _Open])
    # What clients without a handshake share, by user.
    shared: dict[str, Session] = field(default_factory=dict[str, Session])

    def __post_init__(self) -> None:
        server: Server[Any] = Server("upshot-gateway", version=__version__)
        server.middleware[:] = [cast("Any", self._serve_modern)]
        self.modern = StreamableHTTPSessionManager(server, security_settings=self.security)

    async def aclose(self) -> None:
        """End the sessions."""
        for one in tuple(self.sessions.values()):
            await one.transport.terminate()
        for session in self.shared.values():
            await session.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        user = self._user_of(request)
        if user is None:
            refused = JSONResponse({"error": f"no header {self.config.user_header}"}, 401)
            await refused(scope, receive, send)
            return
        version = request.headers.get(_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.modern.handle_request({**scope, _USER: user}, receive, send)
            return
        id = request.headers.get(_SESSION_HEADER)
        found = self.sessions.get(id or "")
        if id is None and len(self.sessions) >= _MOST_SESSIONS:
            await JSONResponse({"error": "too many sessions"}, 503)(scope, receive, send)
        elif id is None:
            await self._begin(user, scope, receive, send)
        elif found is None or found.user != user:
            # As if it did not exist: a session belongs to who began it.
            await JSONResponse(_NO_SESSION, 404)(scope, receive, send)
        else:
            await found.transport.handle_request(scope, receive, send)

    def _user_of(self, request: Request) -> str | None:
        """Who sent a request; None where a trusted proxy has to say it, and does not."""
        if not self.config.user_header:
            return self.user
        peer = "" if request.client is None else request.client.host
        if peer not in self.config.proxies:
            return None
        return request.headers.get(self.config.user_header) or None

    async def _begin(self, user: str, scope: Scope, receive: Receive, send: Send) -> None:
        id = uuid4().hex
        transport = StreamableHTTPServerTransport(
            mcp_session_id=id, security_settings=self.security, idle_timeout=_IDLE_S
        )
        self.sessions[id] = _Open(transport, user)
        status: list[int] = []

        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        await self.group.start(self._live, id, transport, user)
        try:
            await transport.handle_request(scope, receive, watched)
        finally:
            if not status or status[0] >= 400:
                await transport.terminate()

    async def _live(
        self,
        id: str,
        transport: StreamableHTTPServerTransport,
        user: str,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        """Serve a session until its client ends it, or says nothing for half an hour."""
        async with transport.connect() as (reader, writer):
            peer = Peer(SdkChannel(reader, writer, is_server=True))
            session = Session(self.config, self.journal, user, peer)
            task_status.started()
            try:
                with transport.idle_scope or anyio.CancelScope():
                    await peer.run(session.on_request, session.on_notify)
            finally:
                self.sessions.pop(id, None)
                with anyio.CancelScope(shield=True):
                    await transport.terminate()
                    await session.aclose()

    async def _serve_modern(
        self, context: ServerRequestContext[Any, Any], call_next: object
    ) -> dict[str, Any] | None:
        """Serve one request of a client that sends envelopes."""
        if context.request_id is None:
            return None
        user = cast("Request", context.request).scope[_USER]
        session = self.shared.get(user)
        if session is None:
            session = self.shared[user] = Session(self.config, self.journal, user, None)
        work = session.on_request(_InRequest(context), context.method, context.params)
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The scope of a request knows only the very cancel that it gave, and a Toolbox raises
            # one of its own: that would end the connection.
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,))
            raise


_NO_SESSION = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32600, "message": "Session not found"},
}


class _Raw(Notification[dict[str, Any], str]):
    """A notification as it is."""


@dataclass(eq=False)
class _InRequest:
    """What a session needs of a request that comes alone: no client can be asked during it."""

    within: ServerRequestContext[Any, Any]

    @property
    def can_send_request(self) -> bool:
        return False

    @property
    def request_id(self) -> str | int | None:
        return self.within.request_id

    async def request(
        self, method: str, params: Params, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Params) -> None:
        raw: Any = _Raw(method=method, params=dict(params or {}))
        await self.within.session.send_notification(raw, self.within.request_id)

    async def progress(self, said: JsonObject) -> None:
        given: Any = said
        total, message = given.get("total"), given.get("message")
        await self.within.session.report_progress(given["progress"], total, message)


# -- what will happen


async def check(config: Config) -> list[tuple[str, str]]:
    """What will happen to each tool of the servers: its full name, and that in words.

    Raises:
        Misuse: The file does not fit the tools, or a server cannot be reached.
    """
    async with open_journal("memory:") as journal:
        session = Session(config, journal, "", None)
        try:
            for link in session.links.values():
                await link.initialize(_HELLO)
                await link.notify("notifications/initialized", None)
            await session.load({})
        except MCPError as error:
            raise Misuse(f"{config.file}: {session.calls.mask(error.message)}") from None
        finally:
            await session.aclose()
        return [(name, _fate(tool)) for name, tool in session.found()]


_HELLO: dict[str, Any] = {
    "protocolVersion": LATEST_HANDSHAKE_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "upshot-gateway", "version": __version__},
}


def _fate(tool: Tool) -> str:
    """What happens to calls of a tool, in words."""
    if tool.deny is True:
        return "denied"
    words = [str(tool.declared_effect)]
    if not isinstance(tool.deny, bool):
        words.append(f"denied if {predicate_text(tool.deny)}")
    if tool.always_asks:
        words.append("asks a person")
    elif not isinstance(tool.approval, bool | None):
        words.append(f"asks a person if {predicate_text(tool.approval)}")
    if tool.once is not None:
        named = "a function" if callable(tool.once) else ", ".join(cast("tuple[str]", tool.once))
        words.append(f"once for each {named}")
    if tool.verify is not None:
        words.append("verified")
    return "; ".join(words)
