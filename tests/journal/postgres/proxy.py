"""A proxy between a journal and its server that cuts connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias

__all__ = ["CuttingProxy", "Cut", "cutting_proxy"]

Cut: TypeAlias = Literal["request", "answer", "both"]


class CuttingProxy:
    """Passes bytes on, and cuts every connection a few requests after it was made.

    A cut loses a request before the server gets it ("request"), its answer after the server has
    done it ("answer"), or cuts both sides while the server may be at it ("both").

    Attributes:
        port: Where it listens.
        cuts: How many connections it cut, by what was lost.
        left: How many it may still cut.
    """

    def __init__(self, server_port: int, *, seed: int) -> None:
        self.port = 0
        self.cuts: dict[Cut, int] = {"request": 0, "answer": 0, "both": 0}
        self.left = 0
        self._server_port = server_port
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            # The server is away: who connects is told so at once.
            writer.close()
            self._tasks.discard(task)
            return
        lost_answer = asyncio.Event()
        back = asyncio.create_task(self._pass_back(up_reader, writer, lost_answer))
        try:
            # A peer that is killed resets its connection.
            with suppress(ConnectionError):
                await self._pass_on(reader, up_writer, lost_answer, back)
        finally:
            back.cancel()
            for one in (writer, up_writer):
                one.close()
            self._tasks.discard(task)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        up: asyncio.StreamWriter,
        lost_answer: asyncio.Event,
        back: asyncio.Task[None],
    ) -> None:
        # The first two are the handshake.
        until = self._random.randint(3, 100)
        while data := await reader.read(1 << 16):
            until -= 1
            if until > 0 or not self.left:
                up.write(data)
                continue
            self.left -= 1
            cut: Cut = self._random.choice(("request", "answer", "answer", "both"))
            self.cuts[cut] += 1
            if cut == "answer":
                lost_answer.set()
            if cut != "request":
                up.write(data)
                await up.drain()
            if cut == "answer":
                # It ends with the first byte of the answer.
                await back
            return

    async def _pass_back(
        self, up: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        with suppress(ConnectionError):
            while data := await up.read(1 << 16):
                if lost.is_set():
                    return
                writer.write(data)
        writer.close()

    async def aclose(self) -> None:
        """End all connections."""
        for task in tuple(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await task


@asynccontextmanager
async def cutting_proxy(server_port: int, *, seed: int = 1) -> AsyncIterator[CuttingProxy]:
    """A proxy that cuts nothing until its ``left`` is set."""
    proxy = CuttingProxy(server_port, seed=seed)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.aclose()
