"""The connection to an MCP server, dialled again when lost.

A server that is a program is spoken to over its standard input and output. The SDK's own reader
joins all that it has of a line with every piece that comes, so that a line of 30 MB takes it a
dozen seconds; the one here takes it once.

Source:
    modelcontextprotocol.io, specification 2025-11-25, basic/transports#stdio and
    basic/lifecycle#shutdown, read in 2026.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Generic, Protocol, Self, TypeAlias, TypeVar, cast
from uuid import uuid4

import httpx2
import mcp_types
from anyio import ClosedResourceError, EndOfStream
from mcp import Client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from upshot.contract.base.secrets import Secrets
from upshot.tools.mcp.server_address import Server

MAX_LINE_BYTES = 64 * 1024 * 1024
"""What is still read of one message; a longer one breaks the connection."""

# As the SDK has it: time to leave by itself after its input has ended, and after TERM.
_LEAVE_S = 2.0
# All that a server starts inherits it, by which it is found when the server ends.
_MARK = "UPSHOT_MCP_SERVER"
_ROUNDS = 50


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
    """``open_program``, with its lines as messages of the SDK."""
    async with open_program(server, stderr=stderr) as (reader, writer):
        yield StdioReader(reader), StdioWriter(writer)


@asynccontextmanager
async def open_program(
    server: Server, *, stderr: IO[str]
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Start a program, and end it and all that it has started with the block.

    Args:
        server: Which program.
        stderr: Where its other output goes.

    Yields:
        The way from it and the way to it.

    Raises:
        OSError: It cannot be started.
    """
    mark = f"{_MARK}={uuid4().hex}"
    process = await asyncio.create_subprocess_exec(
        *server.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env={**get_default_environment(), **server.env, _MARK: mark.partition("=")[2]},
        cwd=server.cwd,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    try:
        yield process.stdout, process.stdin
    finally:
        await _end_for_certain(process, mark.encode())


async def _end_for_certain(process: asyncio.subprocess.Process, mark: bytes) -> None:
    """End the program whatever cancels us: left behind, it would be there for ever."""
    ending = asyncio.ensure_future(_end(process, mark))
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            # Shielded and repeated: each cancel ends only the waiting, and is raised at the end.
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _end(process: asyncio.subprocess.Process, mark: bytes) -> None:
    """Let the program leave by itself, then make it and what it has started."""
    if process.stdin is not None:
        process.stdin.close()
    draining = asyncio.ensure_future(_drain(process))
    # With a wait before each: the closed input is how the protocol asks a server to leave.
    for last_word in (signal.SIGTERM, signal.SIGKILL):
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _LEAVE_S)
        # Its children too, which may outlive it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, last_word)
        await asyncio.to_thread(_signal_marked, mark, last_word)
    await process.wait()
    draining.cancel()


def _signal_marked(mark: bytes, number: signal.Signals) -> None:
    """Signal what has the variable *mark*, also in sessions of their own; needs ``/proc``."""
    # Killed more than once, for one may be starting another at that very moment.
    for _ in range(_ROUNDS if number is signal.SIGKILL else 1):
        found = [pid for pid in _pids() if mark in _variables_of(pid)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), number)
        if not found:
            return


def _pids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _variables_of(pid: str) -> list[bytes]:
    try:
        return Path("/proc", pid, "environ").read_bytes().split(b"\0")
    except OSError:
        return []


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what is left: a program that waits for a reader does not leave."""
    with suppress(OSError, RuntimeError, ValueError):
        while process.stdout is not None and await process.stdout.read(1 << 16):
            pass


Item_co = TypeVar("Item_co", covariant=True)
Writer = TypeVar("Writer")


class _Stream(Protocol[Item_co]):
    async def receive(self) -> Item_co: ...
    async def aclose(self) -> None: ...


class WatchedStream(Generic[Item_co]):
    """Reads another stream, and tells when that ends.

    The SDK says the same of a request that was never sent and of one that was lost under way;
    who knows of the end before sending can tell them apart.
    """

    def __init__(self, stream: _Stream[Item_co], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> Item_co:
        """The next message; raises as the other stream does, and tells then."""
        try:
            return await self._stream.receive()
        except BaseException:
            self._ended()
            raise

    async def aclose(self) -> None:
        """Close the other stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item_co:
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

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
async def watch(
    opened: AbstractAsyncContextManager[tuple[_Stream[Item_co], Writer]], ended: Callable[[], None]
) -> AsyncGenerator[tuple[WatchedStream[Item_co], Writer]]:
    """The pair of streams that *opened* gives, the first of them watched."""
    async with opened as (reader, writer):
        yield WatchedStream(reader, ended), writer


# The server gets two seconds to leave by itself, two after TERM, and is then killed.
_CLOSE_S = 10.0
_STDERR_CHARS = 500

_Dial: TypeAlias = Callable[["Line"], AbstractAsyncContextManager[Client]]


class CannotConnect(Exception):
    """The server did not start, did not answer, or is no MCP server."""


class Line:
    """One established connection; the SDK wants it entered and left by the same task.

    Attributes:
        client: The SDK's client, once it is connected.
        broken: Whether nothing can be sent over it any more.
        stale: Whether the server said that its tools have changed.
        watched: Whether *broken* is known as soon as it is so.
    """

    def __init__(self, *, watched: bool) -> None:
        self.watched = watched
        self.ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.broken: bool = False
        self.stale = False
        self._leave = asyncio.Event()

    @property
    def client(self) -> Client:
        """The SDK's client."""
        return self.ready.result()

    def drop(self) -> None:
        """Let its task close it."""
        self.broken = True
        self._leave.set()

    async def hold(self, dialled: AbstractAsyncContextManager[Client]) -> None:
        """Keep it open until it is dropped."""
        try:
            async with dialled as client:
                if not self.ready.done():
                    self.ready.set_result(client)
                await self._leave.wait()
        except Exception as error:  # a server may fail in any way, and is then not there
            if not self.ready.done():
                self.ready.set_exception(CannotConnect(_told(error)))
        finally:
            self.broken = True
            self.ready.cancel()


class Connection:
    """The way to one server.

    Args:
        server: Which server.
        timeout_s: How long it may take to start and to shake hands.

    Attributes:
        secrets: What no error may repeat of how the server is reached.
    """

    def __init__(self, server: Server, *, timeout_s: float) -> None:
        self._server = server
        self.secrets: Secrets = server.secrets
        self._timeout_s = timeout_s
        self._stderr: IO[str] = TemporaryFile("w+", errors="replace")  # noqa: SIM115  # closed by aclose
        self._lock = asyncio.Lock()
        self._line: Line | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self) -> Line:
        """The line, dialled anew where there is none or it broke.

        Raises:
            CannotConnect: The server cannot be reached; nothing was asked of it.
        """
        # Two calls at once would otherwise start the server twice.
        async with self._lock:
            if self._line is None or self._line.broken:
                self._line = await self._dial()
            return self._line

    async def aclose(self) -> None:
        """Close every line and end the server; one that keeps silent is given up after 10 s."""
        # First of all: a call that comes now must not start the server again.
        self._closed = True
        if self._line is not None:
            self._line.drop()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=_CLOSE_S)
            for task in left:
                task.cancel()
        self._stderr.close()

    async def _dial(self) -> Line:
        if self._closed:
            raise CannotConnect("the tool set was closed")
        line = Line(watched=not self._server.url)
        dial: _Dial = self._over_http if self._server.url else self._over_stdio
        task = asyncio.get_running_loop().create_task(line.hold(dial(line)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((line.ready,), timeout=self._timeout_s)
        finally:
            if not line.ready.done():
                task.cancel()
        if not line.ready.done():
            said = self.secrets.mask_text(self._said())
            raise CannotConnect(f"it did not answer within {self._timeout_s:g} s{said}")
        try:
            line.ready.result()
        except CannotConnect as error:
            raise CannotConnect(self.secrets.mask_text(f"{error}{self._said()}")) from None
        return line

    @asynccontextmanager
    async def _over_stdio(self, line: Line) -> AsyncGenerator[Client]:
        opened = open_stdio(self._server, stderr=self._stderr)
        async with self._client(line, watch(opened, line.drop)) as client:
            yield client

    @asynccontextmanager
    async def _over_http(self, line: Line) -> AsyncGenerator[Client]:
        # No limit on reading, since a tool may be silent for long: its own timeout holds.
        limits = httpx2.Timeout(self._timeout_s, read=None)
        async with httpx2.AsyncClient(
            headers=self._server.headers,
            timeout=limits,
            event_hooks={"response": [_leave_the_status]},
        ) as http:
            opened = streamable_http_client(
                self._server.url, http_client=http, max_sse_event_size=MAX_LINE_BYTES
            )
            async with self._client(line, opened) as client:
                yield client

    def _client(self, line: Line, transport: AbstractAsyncContextManager[object]) -> Client:
        async def listen(message: object) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                line.stale = True

        # What the server lets be cached must not hide a change of its tools.
        return Client(transport, message_handler=listen, cache=None)  # pyright: ignore[reportArgumentType]  # the SDK does not export its own name for it

    def _said(self) -> str:
        self._stderr.seek(0)
        said = " ".join(self._stderr.read().split())[-_STDERR_CHARS:]
        return f"; it wrote: {said}" if said else ""


async def _leave_the_status(response: httpx2.Response) -> None:
    """Hide the words with which a server tells that it has forgotten the session.

    By the protocol status 404 says it, and the SDK tells it so where there is no JSON beside it;
    but servers put an error of one code or another there, and the SDK then tells that instead.
    """
    if response.status_code == 404 and "mcp-session-id" in response.request.headers:
        response.headers.pop("content-type", None)


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"
