"""The HTTP server of the simulator: plays the answers of a source.

The only module here that needs aiohttp; it is imported when a simulator starts.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Mapping
from typing import Protocol

from aiohttp import web

from upshot.contract.protocols import Clock
from upshot.errors import Misuse
from upshot.sim.exchange import SECRET_HEADERS, Playback, Received

# A thousand clients may connect at the same moment; with the usual 128 they would wait and retry.
BACKLOG = 2048

# How long a closing server waits for handlers before it cancels them; hanging ones would never
# end.
CLOSE_GRACE_S = 0.02

# On close, linger for 0 s: the kernel then answers with RST instead of FIN.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Source(Protocol):
    """Decides the answers: a provider or a tape."""

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """Return the answer to *received*, which came with that API *key*."""
        ...


class Observer(Protocol):
    """Called with every request before it is answered."""

    def __call__(self, received: Received, /) -> object: ...


class Listener:
    """A bound HTTP server."""

    def __init__(self, source: Source, observer: Observer, clock: Clock) -> None:
        self._source = source
        self._observer = observer
        self._clock = clock
        self._runner: web.ServerRunner | None = None

    async def open(self, host: str, port: int) -> int:
        """Bind and serve; returns the port, which the system chooses if *port* is 0."""
        # Not an Application: there is nothing to route, and its router costs more than the answer.
        # Cancelling handlers lets a hanging reply end with its client.
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=CLOSE_GRACE_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, backlog=BACKLOG).start()
        except OSError as error:
            await self.aclose()
            raise Misuse(_bind_failure(host, port, error)) from error
        return int(self._runner.addresses[0][1])

    async def aclose(self) -> None:
        """Stop serving; replies in flight are broken off."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # Not request.read(), which refuses bodies over a megabyte: long conversations exceed that.
        raw = await request.content.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        key = _key_of(headers)
        open_headers = {
            name: value for name, value in headers.items() if name not in SECRET_HEADERS
        }
        received = Received(request.method, request.path, open_headers, raw)
        # Reported before the answer, so that a test also sees requests that are never answered.
        self._observer(received)
        return await self._play(request, self._source.answer(received, key=key))

    async def _play(self, request: web.BaseRequest, playback: Playback) -> web.StreamResponse:
        if playback.first_byte_s > 0:
            await self._clock.sleep(playback.first_byte_s)
        if playback.ending == "reset":
            return _reset(request)
        if playback.ending == "hang" and not playback.chunks:
            await _hang()
        # The fast path: one write for headers and body.
        if playback.ending == "whole" and not playback.streamed:
            return web.Response(
                status=playback.status, headers=playback.headers, body=playback.chunks[0]
            )
        return await self._stream(request, playback)

    async def _stream(self, request: web.BaseRequest, playback: Playback) -> web.StreamResponse:
        response = web.StreamResponse(status=playback.status, headers=playback.headers)
        # A cut plain reply is sent here as well: its announced length is longer than its body.
        if playback.streamed:
            response.enable_chunked_encoding()
        else:
            response.content_length = playback.length_bytes
        await response.prepare(request)
        for number, chunk in enumerate(playback.chunks):
            if number and playback.between_s > 0:
                await self._clock.sleep(playback.between_s)
            await response.write(chunk)
        if playback.ending == "hang":
            await _hang()
        if playback.ending == "cut" and request.transport is not None:
            # Close, not abort: what was written so far is still sent.
            request.transport.close()
        return response


async def _hang() -> None:
    """Wait until the handler is cancelled: the client left, or the server closes."""
    await asyncio.get_running_loop().create_future()


def _reset(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        connection: socket.socket = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        request.transport.abort()
    # Never sent: the server finds the connection gone and stops quietly.
    return web.Response()


def _key_of(headers: Mapping[str, str]) -> str:
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return headers.get("x-api-key") or headers.get("api-key") or bearer


def _bind_failure(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        why = "the port is in use; 0 chooses a free one"
    else:
        why = error.strerror or str(error)
    return f"the simulator cannot listen on {host}:{port}: {why}"
