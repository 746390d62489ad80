"""The connection to one server, which is dialled again after it breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias, cast

import httpx2
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, PROTOCOL_VERSION_META_KEY

from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import JsonObject
from upshot.gateway.channels import ProgramChannel, SdkChannel
from upshot.gateway.config import ServerTerms
from upshot.gateway.peer import About, Channel, Context, Id, OnProgress, Params, Peer
from upshot.tools.mcp.connection import MAX_LINE_BYTES, open_program

OnRequest: TypeAlias = Callable[["Link", Context, str, Params], Awaitable[dict[str, Any]]]
OnNotify: TypeAlias = Callable[["Link", str, Params], Awaitable[None]]

_CLOSE_S = 10.0
_STDERR_CHARS = 500


class CannotReach(MCPError):
    """The server does not start or does not answer; nothing was sent."""


class Link:
    """The connection to one server, for one session.

    Args:
        terms: The server.
        on_request: Answers the server's requests.
        on_notify: Handles its notifications.
        masks: Masks the progress that it reports; None masks nothing.

    Attributes:
        terms: The server.
        in_flight: The client requests that the server is answering, newest last.
        schemas: The schemas of its tools by name, for the headers of calls over HTTP.
    """

    def __init__(
        self,
        terms: ServerTerms,
        on_request: OnRequest,
        on_notify: OnNotify,
        masks: Secrets | None = None,
    ) -> None:
        self.terms = terms
        self.in_flight: list[Context] = []
        self.schemas: dict[str, object] = {}
        self._on_request = on_request
        self._on_notify = on_notify
        self._masks = masks
        self._secrets: Secrets = terms.server.secrets
        # A program may write its secrets there, so they are masked before a client reads them.
        self._stderr: IO[str] = TemporaryFile("w+", errors="replace")  # noqa: SIM115  # see aclose
        self._opening: asyncio.Future[Peer] | None = None
        self._peer: Peer | None = None
        self._leave = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshake: JsonObject | None = None
        self._version = ""
        self._is_closed = False

    @property
    def name(self) -> str:
        """The server's name in the file."""
        return self.terms.name

    async def initialize(self, params: JsonObject) -> JsonObject:
        """Shake hands as the client does; returns the server's answer.

        Raises:
            MCPError: The server refuses, or cannot be reached.
        """
        peer = await self._open()
        result = await self._shake(peer, params)
        self._handshake, self._version = dict(params), str(result.get("protocolVersion", ""))
        return result

    async def request(
        self,
        method: str,
        params: Params,
        on_progress: OnProgress | None = None,
        *,
        request_id: Id | None = None,
    ) -> dict[str, Any]:
        """Send a request, as ``Peer.request`` does; returns the server's raw result.

        Raises:
            CannotReach: Nothing was sent.
            MCPError: The server refuses it, or the connection broke.
        """
        peer = await self._open()
        about = About(self._headers(method, params))
        if on_progress is not None and self._masks is not None:
            on_progress = _masked(on_progress, self._masks)
        return await peer.request(method, params, on_progress, request_id=request_id, about=about)

    async def notify(self, method: str, params: Params) -> None:
        """Send a notification, or drop it if it cannot be sent."""
        if self._peer is not None:
            await self._peer.notify(method, params, About(self._headers(method, params)))

    async def aclose(self) -> None:
        """Close the connection and end the program, within 10 seconds."""
        self._is_closed = True
        self._leave.set()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=_CLOSE_S)
            for task in left:
                task.cancel()
        self._stderr.close()

    def _headers(self, method: str, params: Params) -> dict[str, str]:
        """Return the headers of a request over HTTP; a pipe ignores them."""
        given = params or {}
        envelope = cast("JsonObject", given.get("_meta") or {}).get(PROTOCOL_VERSION_META_KEY)
        if not isinstance(envelope, str):
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: envelope, MCP_METHOD_HEADER: method}
        key = NAME_BEARING_METHODS.get(method)
        if key is not None and isinstance(name := given.get(key), str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and name in self.schemas:
                fields = x_mcp_header_map(self.schemas[name])
                headers |= mcp_param_headers(fields, given.get("arguments") or {})
        return headers

    async def _open(self) -> Peer:
        if self._peer is not None:
            return self._peer
        if self._opening is None or self._opening.done():
            # Shared, so that two requests at once start the server once, and shielded, so that a
            # cancelled request does not end the start for the others.
            self._opening = asyncio.ensure_future(self._connect())
            self._opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._opening)

    async def _connect(self) -> Peer:
        peer = await self._dial()
        if self._handshake is not None:
            await self._shake_again(peer, self._handshake)
        if not self._leave.is_set():
            self._peer = peer
        return peer

    async def _shake_again(self, peer: Peer, params: JsonObject) -> None:
        try:
            await self._shake(peer, params)
        except MCPError as error:
            self._leave.set()
            raise self._unreachable(error.message) from None
        await peer.notify("notifications/initialized", None)

    async def _shake(self, peer: Peer, params: JsonObject) -> JsonObject:
        try:
            async with asyncio.timeout(self.terms.timeout_s):
                return await peer.request("initialize", params)
        except TimeoutError:
            self._leave.set()
            why = f"it did not answer initialize within {self.terms.timeout_s:g} s{self._wrote()}"
            raise self._unreachable(why) from None
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise
            raise self._unreachable(f"it ended at once{self._wrote()}") from None

    async def _dial(self) -> Peer:
        if self._is_closed:
            raise self._unreachable("the session is closed")
        ready: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        task = asyncio.create_task(self._hold(ready))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((ready,), timeout=self.terms.timeout_s)
        finally:
            if not ready.done():
                task.cancel()
        if not ready.done():
            why = f"it did not start within {self.terms.timeout_s:g} s{self._wrote()}"
            raise self._unreachable(why)
        if (error := ready.exception()) is not None:
            raise self._unreachable(f"{_first(error)}{self._wrote()}")
        return ready.result()

    def _wrote(self) -> str:
        self._stderr.seek(0)
        wrote = " ".join(self._stderr.read().split())[-_STDERR_CHARS:]
        return f"; it wrote: {wrote}" if wrote else ""

    async def _hold(self, ready: asyncio.Future[Peer]) -> None:
        """Keep the connection until it breaks or is left."""
        leave = self._leave
        try:
            async with self._channel() as channel:
                peer = Peer(channel)
                run = asyncio.ensure_future(
                    peer.run(partial(self._on_request, self), partial(self._on_notify, self))
                )
                run.add_done_callback(lambda _: leave.set())
                ready.set_result(peer)
                await leave.wait()
                # At once: the end of the program may take a while.
                self._drop(peer)
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
        except Exception as error:  # a server may fail in any way
            if not ready.done():
                ready.set_exception(error)
        finally:
            if ready.done() and ready.exception() is None:
                self._drop(ready.result())

    def _drop(self, peer: Peer) -> None:
        """Forget the connection, so that the next request dials again."""
        if self._peer is peer:
            self._peer = None

    @asynccontextmanager
    async def _channel(self) -> AsyncGenerator[Channel]:
        server = self.terms.server
        if not server.url:
            async with open_program(server, stderr=self._stderr) as streams:
                yield ProgramChannel(*streams)
            return
        # A tool may be silent for long.
        limits = httpx2.Timeout(self.terms.timeout_s, read=None)
        async with (
            httpx2.AsyncClient(headers=server.headers, timeout=limits) as http,
            streamable_http_client(
                server.url, http_client=http, max_sse_event_size=MAX_LINE_BYTES
            ) as streams,
        ):
            yield SdkChannel(*streams, is_server=False)

    def _unreachable(self, why: str) -> CannotReach:
        text = self._secrets.mask_text(why)
        return CannotReach(INTERNAL_ERROR, f"the server {self.name} cannot be reached: {text}")


def _masked(on_progress: OnProgress, masks: Secrets) -> OnProgress:
    async def progress(progress: JsonObject) -> None:
        await on_progress(masks.mask(progress))

    return progress


def _first(error: BaseException | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"
