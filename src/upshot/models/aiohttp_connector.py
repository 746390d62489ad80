"""aiohttp's pool of connections, with kept ones looked at first and small buffers for TLS.

Loading this module loads aiohttp.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any

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

__all__ = ["Connector"]

# A record of TLS holds no more. asyncio would keep 256 KiB for each connection.
_TLS_BUFFER_BYTES = 2**14
# asyncio would take 256 KiB at once, and parsing a hostile head of that size holds up the loop.
_READ_BYTES = 2**16


class Connector(TCPConnector):
    """Connects, keeps connections, and gives each request one that the server has not closed."""

    _kept: Connection | None = None

    async def lease(
        self, request: ClientRequest, timeout: ClientTimeout
    ) -> tuple[Connection, bool]:
        """A connection for *request*, and whether it had carried an earlier one."""
        connection = await self.connect(request, [], timeout)
        # A kept connection is handed on without waiting, so this is the one just found, or none.
        kept, self._kept = self._kept, None
        if connection is kept:
            return connection, True
        transport = connection.transport
        if hasattr(transport, "max_size"):
            setattr(transport, "max_size", _READ_BYTES)  # noqa: B010  # asyncio's, not declared
        return connection, False

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        connection = await super()._get(key, traces)
        # What closed while the loop was blocked has not been seen by the loop yet.
        while connection is not None and _is_stale(connection):
            connection.close()
            connection = await super()._get(key, traces)
        self._kept = connection
        return connection

    # Arguments as aiohttp passes them on to loop.create_connection.
    async def _wrap_create_connection(
        self,
        *args: Any,
        req: ClientRequest,
        client_error: type[Exception] = ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        context: ssl.SSLContext | None = kwargs.get("ssl")
        # Other loops, such as uvloop's, bring a TLS of their own.
        if context is None or not isinstance(self._loop, asyncio.BaseEventLoop):
            return await super()._wrap_create_connection(
                *args, req=req, client_error=client_error, **kwargs
            )
        make_protocol: Callable[[], ResponseHandler] = args[0]
        protocol = make_protocol()
        handshake = self._loop.create_future()
        host = kwargs["server_hostname"]
        transport, _ = await super()._wrap_create_connection(
            lambda: _SmallTLS(self._loop, protocol, context, handshake, server_hostname=host),
            req=req,
            client_error=client_error,
            **{**kwargs, "ssl": None, "server_hostname": None},
        )
        try:
            await handshake
            if protocol.transport is None:
                raise ConnectionResetError("closed during the handshake")
        except ssl.CertificateError as error:
            raise ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise ClientConnectorSSLError(req.connection_key, error) from error
        except OSError as error:
            raise client_error(req.connection_key, error) from error
        finally:
            if protocol.transport is None:
                transport.abort()
        return protocol.transport, protocol


class _SmallTLS(SSLProtocol):
    """asyncio's TLS, with a buffer of one record for a connection."""

    max_size = _TLS_BUFFER_BYTES


def _is_stale(connection: Connection) -> bool:
    """Whether the server has closed an idle connection, or sent what nobody asked for."""
    transport = connection.transport
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select((sock,), (), (), 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
