"""AiohttpTransport: the default transport, on aiohttp's connections and parser.

A request is written and its reply read on a connection of aiohttp's pool, without aiohttp's
session. So a failed request reports how far it got, nothing is silently sent twice, and a request
in flight takes half the memory.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from math import isfinite
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from upshot.contract.base.checks import check_amount
from upshot.errors import Misuse
from upshot.models.transport import (
    Answered,
    FailureKind,
    FailurePhase,
    LimitName,
    Timeouts,
    TransportError,
    Unpacker,
    open_unpacker,
    to_transport_error,
)

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientTimeout, StreamReader
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection

    from upshot.models.aiohttp_connector import Connector


class AiohttpTransport:
    """Sends requests with aiohttp and keeps the connections for later requests.

    It is the default transport. Each event loop has its own connections, opened by its first
    request and closed with the loop, so one transport serves any number of loops, one after
    another or in several threads. There is no limit on connections: 1,000 concurrent runs have
    1,000 requests in flight.

    Args:
        proxy: Address of an HTTP proxy, None for none.
        trust_env: Whether to read the proxy from ``HTTPS_PROXY`` and the like.
        verify: Whether certificates are checked.
        ca_file: PEM file of the authorities to trust, None for the system's.
        ssl_context: Full control over TLS, instead of *verify* and *ca_file*.
        keepalive_s: Seconds that an idle connection is kept.

    Raises:
        Misuse: The TLS options contradict each other, or *ca_file* cannot be read.
    """

    def __init__(
        self,
        *,
        proxy: str | None = None,
        trust_env: bool = False,
        verify: bool = True,
        ca_file: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        keepalive_s: float = 30,
    ) -> None:
        check_amount("keepalive_s", keepalive_s)
        self._proxy = proxy
        self._trust_env = trust_env
        self._ssl = _tls(verify=verify, ca_file=ca_file, context=ssl_context)
        self._keepalive_s = keepalive_s
        self._pools: _Pools = {}
        weakref.finalize(self, _close_all, self._pools)

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, *, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Answered]:
        """Send a request; see ``Transport``."""
        proxy = self._proxy or (_proxy_of(url) if self._trust_env else None)
        return _Exchange(self, (method, url, proxy, headers), body, timeouts)

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next request opens new ones."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.keeper.aclose()

    async def pool_of(self, loop: asyncio.AbstractEventLoop) -> _Pool:
        """Return the connections of the running *loop*."""
        pool = self._pools.get(loop)
        if pool is not None and not pool.connector.closed:
            return pool
        # A loop that was closed without shutting down its generators has left its pool here.
        for other in [other for other in list(self._pools) if other.is_closed()]:
            _close_at_once(self._pools.pop(other).connector)
        pool = _Pool(self._open_connector())
        await anext(pool.keeper)
        self._pools[loop] = pool
        return pool

    def _open_connector(self) -> Connector:
        from upshot.models.aiohttp_connector import Connector

        return Connector(
            limit=0,
            limit_per_host=0,
            keepalive_timeout=self._keepalive_s,
            ttl_dns_cache=300,
            ssl=self._ssl,
        )


@cache
def default_transport() -> AiohttpTransport:
    """Return the default transport of all models, one in the process."""
    return AiohttpTransport()


async def aclose_transports() -> None:
    """Close the default transport's connections of the running loop.

    They are closed automatically when the loop shuts down, as in ``asyncio.run``; call this to
    close them sooner.
    """
    await default_transport().aclose()


# More than any program needs; a program that makes a new URL for each request must not fill memory.
_MAX_TARGETS = 256


class _Pool:
    """The connections of one event loop, and what is cached for each address."""

    __slots__ = ("connector", "keeper", "limits", "targets")

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self.keeper = _keep_open(connector)
        self.targets: dict[tuple[str, str | None], _Target] = {}
        self.limits: dict[Timeouts, ClientTimeout] = {}

    def target(self, url: str, proxy: str | None) -> _Target:
        """Return what all requests to *url* share."""
        target = self.targets.get((url, proxy))
        if target is None:
            if len(self.targets) >= _MAX_TARGETS:
                self.targets.clear()
            target = self.targets[url, proxy] = _Target(url, proxy)
        return target

    def connect_limit(self, timeouts: Timeouts) -> ClientTimeout:
        limit = self.limits.get(timeouts)
        if limit is None:
            from aiohttp import ClientTimeout

            # aiohttp cannot round infinity.
            amounts = [
                each
                for each in (timeouts.connect_s, timeouts.total_s)
                if each is not None and isfinite(each)
            ]
            # Not sock_connect, which excludes the look-up of the name.
            limit = ClientTimeout(total=None, connect=min(amounts, default=None))
            self.limits[timeouts] = limit
        return limit


_Pools: TypeAlias = "dict[asyncio.AbstractEventLoop, _Pool]"


class _Target:
    """One address in the connector's form, and the part of a head that names it."""

    __slots__ = ("_fixed", "path", "request")

    def __init__(self, url: str, proxy: str | None) -> None:
        from aiohttp import ClientRequest
        from yarl import URL

        address = URL(url)
        if address.scheme not in ("http", "https") or not address.raw_host:
            raise ValueError("it is not an http address")
        self.request: ClientRequest = ClientRequest(
            "GET",
            address,
            # Unpacking costs more than the few KiB it saves; packed replies are unpacked
            # nevertheless.
            headers={"Accept-Encoding": "identity"},
            skip_auto_headers=("User-Agent",),
            proxy=None if proxy is None else URL(proxy),
            loop=asyncio.get_running_loop(),
        )
        plain_proxy = proxy is not None and not self.request.is_ssl()
        self.path: str = str(self.request.url) if plain_proxy else self.request.url.raw_path_qs
        self._fixed = [(name.lower(), f"{name}: {value}") for name, value in self._own_headers()]

    def head(self, method: str, headers: Mapping[str, str], length: int) -> bytes:
        """Return the head of one request."""
        names = {name.lower() for name in headers}
        lines = [f"{method} {self.path} HTTP/1.1"]
        lines += [line for name, line in self._fixed if name not in names]
        if self.request.proxy is not None and not self.request.is_ssl():
            # The connector sets it when it connects.
            key = self.request.headers.get("Proxy-Authorization")
            lines += [f"Proxy-Authorization: {key}"] if key else []
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if "content-length" not in names:
            lines.append(f"Content-Length: {length}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        if head.count("\n") != len(lines) + 1 or head.count("\r") != len(lines) + 1 or "\0" in head:
            raise ValueError("a header holds a line break or a NUL")
        return head.encode()

    def _own_headers(self) -> list[tuple[str, str]]:
        return [
            (str(name), value)
            for name, value in self.request.headers.items()
            if name.lower() != "proxy-authorization"
        ]


# Written in pieces, since encrypting a large body at once blocks the loop.
_PIECE_BYTES = 2**16
# A server may send a few interim replies while it is busy, but a flood of them must end.
_MAX_INTERIM_REPLIES = 64


class _Exchange:
    """One request and its reply, whose body it iterates over."""

    def __init__(
        self,
        transport: AiohttpTransport,
        asked: tuple[str, str, str | None, Mapping[str, str]],
        body: bytes,
        timeouts: Timeouts,
    ) -> None:
        self._transport = transport
        self._asked = asked
        self._body = body
        self._timeouts = timeouts
        self._phase: FailurePhase = "unsent"
        self._reused = False
        self._connection: Connection | None = None
        self._payload: StreamReader | None = None
        self._unpacker: Unpacker | None = None
        self._upload: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None

    async def __aenter__(self) -> Answered:
        self._loop = asyncio.get_running_loop()
        total_s = self._timeouts.total_s
        self._deadline = None if total_s is None else self._loop.time() + total_s
        try:
            protocol = await self._send()
            return await self._receive_head(protocol)
        # A cancel too: a connection with half an exchange on it must not go back to the pool.
        except BaseException as error:
            self._close()
            # Everything that aiohttp and the network raise becomes a TransportError.
            if isinstance(error, Exception):
                raise self._to_transport_error(error) from error
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        payload, connection = self._payload, self._connection
        if (
            connection is not None
            and payload is not None
            and exception is None
            # A connection is kept only if the whole reply was read from it, and the whole request
            # written.
            and payload.at_eof()
            and payload.exception() is None
            and (self._upload is None or self._upload.done())
        ):
            self._stop_timer()
            self._connection = None
            connection.release()
        else:
            self._close()

    def __aiter__(self) -> _Exchange:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece of the body, unpacked."""
        try:
            piece = await (self._read() if self._unpacker is None else self._read_packed())
        except Exception as error:
            raise self._to_transport_error(error) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def _send(self) -> ResponseHandler:
        """Connect and write the request, or start to write it."""
        method, url, proxy, headers = self._asked
        pool = await self._transport.pool_of(self._loop)
        try:
            target = pool.target(url, proxy)
        except ValueError as error:
            raise self._error("protocol", f"the address cannot be used: {error}") from error
        limit = pool.connect_limit(self._timeouts)
        connection, self._reused = await pool.connector.lease(target.request, limit)
        self._connection = connection
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None or transport.is_closing():
            raise self._error("reset", "the connection was closed before it was used")
        body = self._body
        head = target.head(method, headers, len(body))
        # aiohttp's own timer for reading would restart at every byte, even in a flood of bytes
        # that makes no progress with the reply.
        protocol.set_response_params(
            skip_payload=method == "HEAD", read_until_eof=True, auto_decompress=False
        )
        self._phase = "sent"
        if len(body) <= _PIECE_BYTES:
            # Joined, so that a typical request is one write to the socket.
            transport.write(head + body)
        else:
            transport.write(head)
            self._upload = self._loop.create_task(self._write(protocol, transport))
        return protocol

    async def _write(self, protocol: ResponseHandler, transport: asyncio.Transport) -> None:
        """Write a large body as fast as the server reads it; the reply has any error."""
        from aiohttp.http import StreamWriter

        writer, body = StreamWriter(protocol, self._loop), self._body
        try:
            for start in range(0, len(body), _PIECE_BYTES):
                transport.write(body[start : start + _PIECE_BYTES])
                await writer.drain()
                self._waiting_since = self._loop.time()
        except (OSError, RuntimeError):
            # The connection is gone: the reader of the reply gets the error.
            return

    async def _receive_head(self, protocol: ResponseHandler) -> Answered:
        """Wait for the head of the reply."""
        self._waiting_since = self._loop.time()
        self._set_timer()
        for _ in range(_MAX_INTERIM_REPLIES):
            message, payload = await protocol.read()
            if message.code >= 200 or message.code == 101:
                break
        else:
            raise self._error("protocol", "the server sent one interim reply after another")
        self._waiting_since = None
        self._phase = "answered"
        self._payload = payload
        # lower() also turns aiohttp's own string type, which is slow, into plain strings.
        headers = [(name.lower(), value) for name, value in message.headers.items()]
        if message.compression or "content-encoding" in message.headers:
            self._unpacker = open_unpacker(message.headers["content-encoding"])
        return message.code, headers, self

    async def _read(self) -> bytes:
        payload = self._payload
        assert payload is not None, "the reply has been left"
        self._waiting_since = self._loop.time()
        piece = await payload.readany()
        self._waiting_since = None
        return piece

    async def _read_packed(self) -> bytes:
        unpacker = self._unpacker
        assert unpacker is not None
        while True:
            if piece := unpacker.next_piece():
                # A few bytes may unpack to many: other tasks get a turn in between.
                await asyncio.sleep(0)
                return piece
            packed = await self._read()
            if not packed:
                if not unpacker.is_over:
                    raise self._error("cut", "the packed body ends too early")
                return b""
            unpacker.feed(packed)

    def _set_timer(self) -> None:
        """Schedule the next check of the limits for when one of them may have passed."""
        moments: list[float] = [] if self._deadline is None else [self._deadline]
        if self._timeouts.read_s is not None:
            since = self._waiting_since
            moments.append((self._loop.time() if since is None else since) + self._timeouts.read_s)
        self._timer = self._loop.call_at(min(moments), self._check_limits) if moments else None

    def _check_limits(self) -> None:
        """End the exchange if a limit has passed."""
        now, since, limit = self._loop.time(), self._waiting_since, None
        if self._deadline is not None and now >= self._deadline:
            limit = "total_s"
        elif since is not None and now >= since + (self._timeouts.read_s or now):
            limit = "read_s"
        # The timer is not moved with every byte: when it fires, it checks whether data has arrived.
        if limit is None:
            self._set_timer()
            return
        error = self._error("timeout", "it took too long", limit=limit)
        protocol = None if self._connection is None else self._connection.protocol
        if protocol is not None:
            protocol.set_exception(error)

    def _to_transport_error(self, error: Exception) -> TransportError:
        """Convert *error* to a TransportError."""
        transport_error = to_transport_error(error, phase=self._phase, reused=self._reused)
        if transport_error is None:
            return self._error("protocol", str(error) or type(error).__name__)
        # aiohttp does not say which limit it was: connecting had the smaller of the two.
        if transport_error.kind == "timeout" and transport_error.phase == "unsent":
            connect_s, total_s = self._timeouts.connect_s, self._timeouts.total_s
            is_total = connect_s is None or (total_s is not None and total_s < connect_s)
            transport_error.limit = "total_s" if is_total else "connect_s"
        return transport_error

    def _error(
        self, kind: FailureKind, reason: str, *, limit: LimitName | None = None
    ) -> TransportError:
        return TransportError(
            reason, phase=self._phase, kind=kind, limit=limit, reused=self._reused
        )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        """Close the connection at once, whatever is in progress on it."""
        self._stop_timer()
        if self._upload is not None:
            self._upload.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.transport is not None:
                # close() would send the remaining data, and TLS would wait for the server's
                # goodbye.
                connection.transport.abort()
            connection.close()


async def _keep_open(connector: Connector) -> AsyncGenerator[None]:
    """Keep *connector* open; shutting down the loop's generators closes it, in its own loop.

    No other event tells a library that a loop is about to end.
    """
    try:
        yield
    finally:
        await connector.close()


def _close_all(pools: _Pools) -> None:
    """Close what is still open when the transport, or the process, ends."""
    for loop, pool in list(pools.items()):
        if loop.is_closed():
            _close_at_once(pool.connector)
        elif not loop.is_running() and not _in_a_loop():
            loop.run_until_complete(pool.keeper.aclose())
    pools.clear()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _close_at_once(connector: Connector) -> None:
    """Close a connector whose loop is closed: there is nothing left to wait for."""
    closing = connector.close().__await__()
    try:
        next(closing)
    except StopIteration:
        return
    closing.close()


def _tls(
    *, verify: bool, ca_file: str | None, context: ssl.SSLContext | None
) -> ssl.SSLContext | bool:
    if context is not None:
        if ca_file is not None or not verify:
            raise Misuse("ssl_context replaces verify and ca_file: set them in the context")
        return context
    if not verify:
        if ca_file is not None:
            raise Misuse("ca_file has no effect with verify=False: leave out one of them")
        return False
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise Misuse(f"cannot read certificates from ca_file {ca_file!r}: {error}") from error


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for *url*.

    aiohttp's own way also reads keys from .netrc, which then collide with ours.
    """
    import urllib.request

    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
