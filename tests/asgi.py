"""A server of ASGI applications in the process of a test."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

__all__ = ["AsgiServer"]


class AsgiServer(uvicorn.Server):
    """A uvicorn that stops at once: its own one takes 0.15 s, as it looks ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self, *, cut_off: bool = False) -> None:
        """Have ``serve`` return once every response is sent, or at once if *cut_off* is true."""
        self.should_exit, self.force_exit = True, cut_off
        self._stopping.set()

    async def main_loop(self) -> None:
        # It prepares the headers of all responses.
        await self.on_tick(0)
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in (*self.servers, *(sockets or ())):
            one.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        while (state.connections or state.tasks) and not self.force_exit:
            await asyncio.sleep(0.002)
        if not self.force_exit:
            await self.lifespan.shutdown()
