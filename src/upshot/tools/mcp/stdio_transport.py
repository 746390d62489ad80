"""Stdio: an MCP server that is a program, spoken to over its standard input and output.

The SDK's own reader joins all that it has of a line with every piece that comes, so that a line
of 30 MB takes it a dozen seconds; this one takes it once.

Source:
    modelcontextprotocol.io, specification 2025-11-25, basic/transports#stdio and
    basic/lifecycle#shutdown, read in 2026.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import IO, Self

import mcp_types
from anyio import ClosedResourceError, EndOfStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from upshot.tools.mcp.server_address import Server

__all__ = ["MAX_LINE_BYTES", "StdioReader", "StdioWriter", "open_stdio"]

MAX_LINE_BYTES = 64 * 1024 * 1024
"""What is still read of one message; a longer one breaks the connection."""

# As the SDK has it: time to leave by itself after its input has ended, and after TERM.
_LEAVE_S = 2.0


class StdioReader:
    """Reads the messages that a program writes, one a line."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or what is wrong with it.

        Raises:
            EndOfStream: There is none: the program has ended, or wrote too long a line.
        """
        try:
            line = await self._stream.readline()
        except (ValueError, OSError) as error:
            raise EndOfStream from error
        if not line.endswith(b"\n"):
            raise EndOfStream
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            return error
        return SessionMessage(message)

    async def aclose(self) -> None:
        """Read nothing any more; the pipe is closed with the process."""


class StdioWriter:
    """Writes messages for a program to read, one a line."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message.

        Raises:
            ClosedResourceError: The program reads nothing any more.
        """
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._stream.write(data.encode() + b"\n")
            await self._stream.drain()
        except (OSError, RuntimeError) as error:
            raise ClosedResourceError from error

    async def aclose(self) -> None:
        """Tell the program that nothing more will come."""
        self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def open_stdio(
    server: Server, *, stderr: IO[str]
) -> AsyncGenerator[tuple[StdioReader, StdioWriter]]:
    """Start a program, and end it and all that it has started with the block.

    Args:
        server: Which program.
        stderr: Where its other output goes.

    Yields:
        The way from it and the way to it.

    Raises:
        OSError: It cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *server.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env=get_default_environment() | server.env,
        cwd=server.cwd,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    try:
        yield StdioReader(process.stdout), StdioWriter(process.stdin)
    finally:
        await _end_for_certain(process)


async def _end_for_certain(process: asyncio.subprocess.Process) -> None:
    """End the program whatever cancels us: left behind, it would be there for ever."""
    ending = asyncio.ensure_future(_end(process))
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the program leave by itself, then make it."""
    if process.stdin is not None:
        process.stdin.close()
    draining = asyncio.ensure_future(_drain(process))
    for last_word in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _LEAVE_S)
        # Its children too, which may outlive it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, last_word)
    await process.wait()
    draining.cancel()


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what is left: a program that waits for a reader does not leave."""
    with suppress(OSError, RuntimeError, ValueError):
        while process.stdout is not None and await process.stdout.read(1 << 16):
            pass
