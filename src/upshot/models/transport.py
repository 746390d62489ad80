"""The one seam for bytes, and its aiohttp implementation."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from upshot.contract.base.checks import check_amount
from upshot.errors import Misuse

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout

__all__ = [
    "AiohttpTransport",
    "Answered",
    "Timeouts",
    "Transport",
    "aclose_transports",
    "default_transport",
]


class Timeouts(msgspec.Struct, frozen=True):
    """How long one HTTP request may take; None is no limit.

    Attributes:
        connect_s: Seconds until there is a connection, name look-up and TLS included.
        read_s: Seconds without a single byte from the server. Reasoning models are silent for
            minutes before the first one.
        total_s: Seconds from the start to the last byte.
    """

    connect_s: float | None = 10
    read_s: float | None = 300
    total_s: float | None = 1200

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_amount(name, getattr(self, name), above=0, none="no limit")


Answered: TypeAlias = tuple[int, Iterable[tuple[str, str]], AsyncIterator[bytes]]
"""Status, headers as pairs, and the body as it arrives."""


class Transport(Protocol):
    """Sends one request; anything with this method will do."""

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        timeouts: Timeouts,
    ) -> AbstractAsyncContextManager[Answered]:
        """Send a request and hand out its reply.

        A transport neither retries nor follows redirects, and takes any status as a reply.

        Args:
            method: Such as "POST".
            url: The whole address.
            headers: What to send; they hold the key, so they are not to be logged.
            body: The request's body.
            timeouts: How long it may take.

        Returns:
            A context manager that gives status, headers and the pieces of the body, decoded from
            any content coding. Leaving it frees the connection, also in the middle of a body.
            Entering it and reading may raise any exception for what the network does.
        """
        ...


# aiohttp warns of larger bodies in one piece, since writing them would hold up the loop.
_PIECE_BYTES = 2**18
_WHOLE_BYTES = 2**20


class AiohttpTransport:
    """Sends requests by aiohttp and keeps connections for the next ones.

    Each event loop has its own session, opened by its first request and closed with the loop, so
    one transport serves any number of loops, one after another or in several threads. There is no
    limit on connections: who starts 1,000 runs has 1,000 requests in flight.

    Args:
        proxy: Address of an HTTP proxy, None for none.
        trust_env: Whether ``HTTPS_PROXY`` and its relatives name the proxy.
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
        self._kept: _Kept = {}
        self._limits: dict[Timeouts, ClientTimeout] = {}
        weakref.finalize(self, _let_go, self._kept)

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        timeouts: Timeouts,
    ) -> AbstractAsyncContextManager[Answered]:
        """Send a request; see ``Transport``."""
        return _Exchange(self, method, url, headers, body, timeouts)

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next request opens new ones."""
        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await kept[1].aclose()

    async def open_response(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        timeouts: Timeouts,
    ) -> ClientResponse:
        """Send a request and return once the headers of the reply are there."""
        session = await self._session()
        data: bytes | AsyncIterator[bytes] = body
        if len(body) > _WHOLE_BYTES:
            headers = {**headers, "Content-Length": str(len(body))}
            data = _pieces(body)
        return await session.request(
            method,
            url,
            data=data,
            headers=headers,
            timeout=self._limit(timeouts),
            # A redirected POST becomes a GET, and the key would go wherever it points.
            allow_redirects=False,
            proxy=self._proxy or (_proxy_of(url) if self._trust_env else None),
        )

    async def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is not None and not kept[0].closed:
            return kept[0]
        for other in [other for other in list(self._kept) if other.is_closed()]:
            _close_at_once(self._kept.pop(other)[0])
        session = self._open_session()
        keeper = _keep(session)
        await anext(keeper)
        self._kept[loop] = session, keeper
        return session

    def _open_session(self) -> ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                limit_per_host=0,
                keepalive_timeout=self._keepalive_s,
                ttl_dns_cache=300,
                ssl=self._ssl,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Unpacking costs more than the few KiB it saves; what comes packed is unpacked.
            headers={"Accept-Encoding": "identity"},
        )

    def _limit(self, timeouts: Timeouts) -> ClientTimeout:
        limit = self._limits.get(timeouts)
        if limit is None:
            from aiohttp import ClientTimeout

            # Not sock_connect, which leaves out the look-up of the name.
            limit = ClientTimeout(
                total=timeouts.total_s, connect=timeouts.connect_s, sock_read=timeouts.read_s
            )
            self._limits[timeouts] = limit
        return limit


@cache
def default_transport() -> AiohttpTransport:
    """The transport of all models that are given none, one in the process."""
    return AiohttpTransport()


async def aclose_transports() -> None:
    """Close the default transport's connections of the running loop.

    They close by themselves when the loop is shut down as ``asyncio.run`` does it. This is for
    who wants them closed sooner.
    """
    await default_transport().aclose()


_Kept: TypeAlias = "dict[asyncio.AbstractEventLoop, tuple[ClientSession, AsyncGenerator[None]]]"


class _Exchange:
    """One request and its reply."""

    __slots__ = ("_asked", "_response", "_transport")

    def __init__(
        self,
        transport: AiohttpTransport,
        *asked: *tuple[str, str, Mapping[str, str], bytes, Timeouts],
    ) -> None:
        self._transport = transport
        self._asked = asked
        self._response: ClientResponse | None = None

    async def __aenter__(self) -> Answered:
        response = await self._transport.open_response(*self._asked)
        self._response = response
        # Lower-cased, since that makes plain strings of aiohttp's own kind, which is slow to use.
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        return response.status, headers, response.content.iter_any()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        response = self._response
        if response is None:
            return
        if exception is None and response.content.at_eof():
            response.release()
        else:
            response.close()


async def _keep(session: ClientSession) -> AsyncGenerator[None]:
    """Hold *session* open; whoever shuts down the loop's generators closes it, in its own loop.

    Nothing else tells a library that a loop is about to end.
    """
    try:
        yield
    finally:
        await session.close()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE_BYTES):
        yield body[start : start + _PIECE_BYTES]


def _let_go(kept: _Kept) -> None:
    """Close what is still open when the transport, or the process, ends."""
    for loop, (session, keeper) in list(kept.items()):
        if loop.is_closed():
            _close_at_once(session)
        elif not loop.is_running() and not _in_a_loop():
            loop.run_until_complete(keeper.aclose())
    kept.clear()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _close_at_once(session: ClientSession) -> None:
    """Close a session whose loop is closed: there is nothing left to wait for."""
    closing = session.close()
    try:
        closing.send(None)
    except StopIteration:
        return
    closing.close()


def _tls(
    *, verify: bool, ca_file: str | None, context: ssl.SSLContext | None
) -> ssl.SSLContext | bool:
    if context is not None:
        if ca_file is not None or not verify:
            raise Misuse("ssl_context is the whole of TLS: set verify and ca_file in it")
        return context
    if not verify:
        if ca_file is not None:
            raise Misuse("ca_file is of no use with verify=False: leave one of them out")
        return False
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise Misuse(f"cannot read certificates from ca_file {ca_file!r}: {error}") from error


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for *url*.

    aiohttp's own way also takes keys from .netrc, which then collide with ours.
    """
    import urllib.request

    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
