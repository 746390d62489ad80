"""The client side: standard input and output, streamable HTTP, and ``--check``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
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
from upshot.contract.user import UserOf
from upshot.errors import Misuse
from upshot.gateway.access_tokens import MissingScope, NoKeys, TokenVerifier
from upshot.gateway.calls import Owner
from upshot.gateway.channels import SdkChannel, open_own_channel
from upshot.gateway.config import WELL_KNOWN, Config
from upshot.gateway.peer import Channel, OnProgress, Params, Peer
from upshot.gateway.session import Session
from upshot.journal.opening import open_journal
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_options import predicate_text
from upshot.version import __version__

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_IDLE_S = 1800.0
_MOST_SESSIONS = 1_000
# Requests under way when a client closes its output may take this long to finish. The SDKs kill a
# server 2 s after they closed its input.
_LINGER_S = 1.5
_OWNER = "upshot.owner"
# A client reads this before it signs in, and so may a page of any site.
_FOR_PAGES = {"access-control-allow-origin": "*"}


async def serve_stdio(config: Config, user: str) -> None:
    """Serve the client at standard input and output until it disconnects.

    Other output of the process goes to standard error.

    Args:
        config: The gateway.
        user: The user that the client's calls belong to.

    Raises:
        JournalError: The journal cannot be opened.
    """
    async with open_own_channel() as channel:
        await serve(config, user, channel)


async def serve(config: Config, user: str, channel: Channel) -> None:
    """Serve the client at the other end of a channel; see ``serve_stdio``."""
    async with open_journal(config.journal) as journal:
        peer = Peer(channel, linger_s=_LINGER_S)
        session = Session(config, journal, Owner(user or config.user), peer)
        try:
            await peer.run(session.on_request, session.on_notify)
        finally:
            await session.aclose()


@asynccontextmanager
async def serve_http(
    config: Config, user: str, hosts: Sequence[str], sign_in: UserOf | None = None
) -> AsyncGenerator[ASGIApp]:
    """The gateway as an ASGI app, for as long as the block runs.

    Args:
        config: The gateway.
        user: The user that calls belong to if no header names one.
        hosts: The host names that clients may use.
        sign_in: Returns a request's user, as for ``App.asgi(user=...)``. It is required
            if the file has ``sign_in``. Without either, ``oauth`` of the file says whose tokens
            are accepted.

    Yields:
        The app: streamable HTTP at every path.

    Raises:
        JournalError: The journal cannot be opened.
        Misuse: The file has ``sign_in``, and there is no function.
    """
    if config.sign_in and sign_in is None:
        raise Misuse(f"{config.file} has sign_in: give serve_http its function as sign_in=")
    async with open_journal(config.journal) as journal, anyio.create_task_group() as group:
        owner = Owner(user or config.user)
        if sign_in is None and config.oauth is not None:
            sign_in = TokenVerifier(config.oauth)
        names = [*hosts] if config.oauth is None else [*hosts, config.oauth.host]
        front = _HttpFront(config, journal, owner, sign_in, _security(names), group)
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
    owner: Owner


@dataclass(eq=False)
class _Shared:
    """The session of all clients of one user that send no handshake.

    Attributes:
        session: The session.
        under_way: How many of its requests are being answered.
        timer: Ends the session when it has been idle for long; None while it is busy.
    """

    session: Session
    under_way: int = 0
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class _HttpFront:
    """Serves clients of both versions: sessions after a handshake, and single requests."""

    config: Config
    journal: Journal
    owner: Owner
    sign_in: UserOf | None
    security: TransportSecuritySettings
    group: anyio.abc.TaskGroup
    sessions: dict[str, _Open] = field(default_factory=dict[str, _Open])
    shared: dict[Owner, _Shared] = field(default_factory=dict[Owner, _Shared])

    def __post_init__(self) -> None:
        server: Server[Any] = Server("upshot-gateway", version=__version__)
        server.middleware[:] = [cast("Any", self._serve_modern)]
        self.modern = StreamableHTTPSessionManager(server, security_settings=self.security)

    async def aclose(self) -> None:
        """End the sessions."""
        for one in tuple(self.sessions.values()):
            await one.transport.terminate()
        for shared in tuple(self.shared.values()):
            await self._end_shared(shared)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if self.config.oauth is not None and scope["path"].startswith(WELL_KNOWN):
            await JSONResponse(self.config.oauth.to_json(), headers=_FOR_PAGES)(
                scope, receive, send
            )
            return
        owner = await self._admit(request)
        if isinstance(owner, JSONResponse):
            await owner(scope, receive, send)
            return
        version = request.headers.get(_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.modern.handle_request({**scope, _OWNER: owner}, receive, send)
            return
        id = request.headers.get(_SESSION_HEADER)
        found = self.sessions.get(id or "")
        if id is None and len(self.sessions) >= _MOST_SESSIONS:
            await JSONResponse({"error": "too many sessions"}, 503)(scope, receive, send)
        elif id is None:
            await self._begin(owner, scope, receive, send)
        elif found is None or found.owner != owner:
            # The same as for a session that does not exist: a session belongs to its owner.
            await JSONResponse(_NO_SESSION, 404)(scope, receive, send)
        else:
            await found.transport.handle_request(scope, receive, send)

    async def _admit(self, request: Request) -> Owner | JSONResponse:
        """Return the owner of a request, or the response to one of an unknown user."""
        try:
            owner = await self._owner_of(request)
        except MissingScope:
            return self._refusal(request, "insufficient_scope")
        except NoKeys as error:
            return JSONResponse({"error": str(error)}, 503)
        return self._refusal(request, "invalid_token") if owner is None else owner

    async def _owner_of(self, request: Request) -> Owner | None:
        """Return the owner of a request, or None if it has to be known and is not."""
        if self.sign_in is not None:
            found = self.sign_in(request)
            user = await found if inspect.isawaitable(found) else found
            return None if user is None else Owner(user.id, user.tenant)
        if not self.config.user_header:
            return self.owner
        peer = "" if request.client is None else request.client.host
        named = request.headers.getlist(self.config.user_header)
        # If the proxy adds its header to the client's own, neither can be trusted.
        is_known = len(named) == 1 and named[0] and peer in self.config.proxies
        return Owner(named[0]) if is_known else None

    def _refusal(self, request: Request, error: str) -> JSONResponse:
        """Return the response to a request of an unknown user, or without a scope."""
        if self.sign_in is None:
            return JSONResponse(
                {"error": f"not one header {self.config.user_header} of a proxy"}, 401
            )
        facts = [f'error="{error}"'] if "authorization" in request.headers else []
        oauth = self.config.oauth
        if oauth is not None and oauth.scopes:
            facts.append(f'scope="{" ".join(oauth.scopes)}"')
        if oauth is not None:
            facts.append(f'resource_metadata="{oauth.metadata_url}"')
        challenge = " ".join(["Bearer", *([", ".join(facts)] if facts else [])])
        lacks = error == "insufficient_scope"
        text = "the token lacks a scope" if lacks else "not signed in"
        return JSONResponse({"error": text}, 403 if lacks else 401, {"www-authenticate": challenge})

    async def _begin(self, owner: Owner, scope: Scope, receive: Receive, send: Send) -> None:
        id = uuid4().hex
        transport = StreamableHTTPServerTransport(
            mcp_session_id=id, security_settings=self.security, idle_timeout=_IDLE_S
        )
        self.sessions[id] = _Open(transport, owner)
        status: list[int] = []

        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        await self.group.start(self._live, id, transport, owner)
        try:
            await transport.handle_request(scope, receive, watched)
        finally:
            if not status or status[0] >= 400:
                await transport.terminate()

    async def _live(
        self,
        id: str,
        transport: StreamableHTTPServerTransport,
        owner: Owner,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        """Serve a session until its client ends it, or sends nothing for half an hour."""
        async with transport.connect() as (reader, writer):
            peer = Peer(SdkChannel(reader, writer, is_server=True))
            session = Session(self.config, self.journal, owner, peer)
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
        owner: Owner = cast("Request", context.request).scope[_OWNER]
        with self._shared_by(owner) as session:
            return await self._answer(session, context)

    @contextmanager
    def _shared_by(self, owner: Owner) -> Generator[Session]:
        """The session of a user's requests; it ends when it has had none for half an hour."""
        shared = self.shared.get(owner)
        if shared is None:
            session = Session(self.config, self.journal, owner, None)
            shared = self.shared[owner] = _Shared(session)
        if shared.timer is not None:
            shared.timer.cancel()
            shared.timer = None
        shared.under_way += 1
        try:
            yield shared.session
        finally:
            shared.under_way -= 1
            if not shared.under_way:
                loop = asyncio.get_running_loop()
                shared.timer = loop.call_later(_IDLE_S, self._end_idle, owner)

    def _end_idle(self, owner: Owner) -> None:
        # Removed at once: a request that comes from now on gets a new session.
        if (shared := self.shared.pop(owner, None)) is not None:
            self.group.start_soon(self._end_shared, shared)

    async def _end_shared(self, shared: _Shared) -> None:
        if shared.timer is not None:
            shared.timer.cancel()
        # Shielded, because the gateway cancels its group when it ends.
        with anyio.CancelScope(shield=True):
            await shared.session.aclose()

    async def _answer(
        self, session: Session, context: ServerRequestContext[Any, Any]
    ) -> dict[str, Any]:
        work = session.on_request(_InRequest(context), context.method, context.params)
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The request's scope recognises only its own CancelledError. The Toolbox raises a new
            # one, which would end the connection.
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
    """The context of a single request; the client cannot be asked during it."""

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

    async def progress(self, progress: JsonObject) -> None:
        given: Any = progress
        total, message = given.get("total"), given.get("message")
        await self.within.session.report_progress(given["progress"], total, message)


# -- what will happen


async def check(config: Config) -> list[tuple[str, str]]:
    """Return each tool's full name, and what will happen to its calls, in words.

    Raises:
        Misuse: The file does not fit the tools, or a server cannot be reached.
    """
    async with open_journal("memory:") as journal:
        session = Session(config, journal, Owner(), None)
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
    """Return what happens to calls of a tool, in words."""
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
