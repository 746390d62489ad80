"""aiohttp's connection pool, which checks idle connections before reuse and has small TLS buffers.

Importing this module imports aiohttp.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, cast

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientRequest,
    ClientTimeout,
    TCPConnector,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

_Connect: TypeAlias = Callable[..., Awaitable[tuple[asyncio.Transport, ResponseHandler]]]

# The maximum size of a TLS record. asyncio would keep 256 KiB for each connection.
_TLS_BUFFER_BYTES = 2**14
# asyncio would read 256 KiB at once, and parsing a hostile head of that size blocks the loop.
_READ_BYTES = 2**16


class Connector(TCPConnector):
    """A pool that never reuses a connection that the server has closed."""

    def __init__(self, **options: Any) -> None:
        # aiohttp's types for addresses are incomplete; the options are checked at run time.
        cast("Any", super()).__init__(**options)
        self._factory = partial(_Protocol, loop=self._loop)

    async def lease(
        self, request: ClientRequest, timeout: ClientTimeout
    ) -> tuple[Connection, bool]:
        """Return a connection for *request*, and whether it had carried an earlier one."""
        connection = await self.connect(request, [], timeout)
        protocol = connection.protocol
        assert isinstance(protocol, _Protocol)
        was_used, protocol.was_used = protocol.was_used, True
        if not was_used and isinstance(self._loop, asyncio.SelectorEventLoop):
            _limit_buffers(connection.transport)
        return connection, was_used

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        connection = await super()._get(key, traces)
        # The loop may have been blocked, and not have noticed yet which connections closed.
        while connection is not None and _is_stale(connection):
            connection.close()
            connection = await super()._get(key, traces)
        return connection

    # Arguments as aiohttp passes them on to loop.create_connection.
    async def _wrap_create_connection(
        self,
        *args: Any,
        req: ClientRequest,
        client_error: type[Exception] = ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        connect: _Connect = cast("Any", super())._wrap_create_connection
        context: ssl.SSLContext | None = kwargs.get("ssl")
        # Other loops, such as uvloop's, have their own TLS.
        if context is None or not isinstance(self._loop, asyncio.BaseEventLoop):
            return await connect(*args, req=req, client_error=client_error, **kwargs)
        make_protocol: Callable[[], ResponseHandler] = args[0]
        protocol = make_protocol()
        handshake = self._loop.create_future()
        host = kwargs["server_hostname"]
        transport, _ = await connect(
            lambda: _SmallTLS(self._loop, protocol, context, handshake, server_hostname=host),
            req=req,
            client_error=client_error,
            **{**kwargs, "ssl": None, "server_hostname": None},
        )
        try:
            # The connection is returned only after the handshake: until then nothing may be
            # written.
            await handshake
            if (encrypted := protocol.transport) is None:
                raise ConnectionResetError("closed during the handshake")
            return encrypted, protocol
        except ssl.CertificateError as error:
            raise ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise ClientConnectorSSLError(req.connection_key, error) from error
        except OSError as error:
            raise client_error(req.connection_key, error) from error
        finally:
            if protocol.transport is None:
                transport.abort()


class _Protocol(ResponseHandler):
    """aiohttp's protocol, which also fails the reader of a body if invalid HTTP follows."""

    was_used = False

    def set_exception(self, exc: BaseException, *cause: Any, **more: Any) -> None:
        super().set_exception(exc, *cause, **more)
        payload = self._payload
        if payload is not None and payload.exception() is None and not payload.is_eof():
            # Otherwise the reader would wait until its time limit.
            payload.set_exception(exc)


class _SmallTLS(SSLProtocol):
    """asyncio's TLS, with a buffer of one record for each connection."""

    max_size = _TLS_BUFFER_BYTES


def _limit_buffers(transport: Any) -> None:
    """Make asyncio read in small pieces, on a loop that cannot read while other code runs."""
    if hasattr(transport, "max_size"):
        transport.max_size = _READ_BYTES
    # Through a proxy's tunnel, aiohttp starts TLS by the loop, which does not accept our protocol.
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is not None and len(tls._ssl_buffer) > _TLS_BUFFER_BYTES:
        tls.max_size = _TLS_BUFFER_BYTES
        tls._ssl_buffer = bytearray(_TLS_BUFFER_BYTES)
        tls._ssl_buffer_view = memoryview(tls._ssl_buffer)


def _is_stale(connection: Connection) -> bool:
    """Whether the server has closed an idle connection, or sent unrequested data."""
    transport = connection.transport
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select((sock,), (), (), 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
