"""The connection to an MCP server, reopened when it is lost.

A server that is a program communicates over its standard input and output. The SDK's own reader
joins everything it has of a line with every piece that arrives, so that a line of 30 MB takes a
dozen seconds; the reader here joins it once.

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
from typing import IO, Any, Generic, Protocol, Self, TypeAlias, TypeVar, cast
from uuid import uuid4

import httpx2
import mcp_types
from anyio import ClosedResourceError, EndOfStream
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from upshot.contract.base.secrets import Secrets
from upshot.tools.mcp.oauth import OAuth, SignInState
from upshot.tools.mcp.server_address import Server
from upshot.tools.mcp.server_requests import SKILLS, ServerRequests, TasksExtension

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The size limit of one message; a longer one breaks the connection."""

# As in the SDK: the time to exit after its input has ended, and again after TERM.
_LEAVE_S = 2.0
# Every process that a server starts inherits this variable, so it is found when the server ends.
_MARK = "UPSHOT_MCP_SERVER"
_ROUNDS = 50


class StdioReader:
    """Reads the messages that a program writes, one per line."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or what is wrong with it.

        Raises:
            EndOfStream: There is none: the program has ended, or wrote a line that is too long.
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
        """Stop reading; the pipe is closed with the process."""


class StdioWriter:
    """Writes messages for a program to read, one per line."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message.

        Raises:
            ClosedResourceError: The program has stopped reading.
        """
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._stream.write(data.encode() + b"\n")
            await self._stream.drain()
        except (OSError, RuntimeError) as error:
            raise ClosedResourceError from error

    async def aclose(self) -> None:
        """Close the program's input."""
        self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
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
    """Start a program; at the end of the block, end it and everything it has started.

    Args:
        server: Which program.
        stderr: Where its standard error goes.

    Yields:
        Its standard output and its standard input.

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
        await _end_despite_cancel(process, mark.encode())


async def _end_despite_cancel(process: asyncio.subprocess.Process, mark: bytes) -> None:
    """End the program whatever cancels us; otherwise it would be left running forever."""
    ending = asyncio.ensure_future(_end(process, mark))
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            # Shielded and repeated: a cancel ends only the waiting, and is raised at the end.
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _end(process: asyncio.subprocess.Process, mark: bytes) -> None:
    """Give the program time to exit, then end it and everything it has started."""
    if process.stdin is not None:
        process.stdin.close()
    draining = asyncio.ensure_future(_drain(process))
    # Each signal comes after a wait: closing the input is how the protocol asks a server to exit.
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
    """Signal the processes that have the variable *mark*, in any session; needs ``/proc``."""
    # Killed repeatedly, because one of them may be starting another.
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
    """Read the rest of the output, because a program that waits for a reader does not exit."""
    with suppress(OSError, RuntimeError, ValueError):
        while process.stdout is not None and await process.stdout.read(1 << 16):
            pass


Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Writer = TypeVar("Writer")


class _Stream(Protocol[Item_co]):
    async def receive(self) -> Item_co: ...
    async def aclose(self) -> None: ...


def _ignore() -> None:
    """The end of a stream over HTTP says nothing of its requests."""


def _with_content(item: Item) -> Item:
    """Add what the SDK requires of every result of a call to one that is a task."""
    message = item.message if isinstance(item, SessionMessage) else None
    if isinstance(message, mcp_types.JSONRPCResponse) and "task" in message.result:
        message.result.setdefault("content", [])
    return item


class WatchedStream(Generic[Item_co]):
    """Reads another stream, and reports when that ends.

    The SDK raises the same error for a request that was never sent and one that was lost on the
    way. Code that knows of the end before it sends can distinguish the two.
    """

    def __init__(self, stream: _Stream[Item_co], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> Item_co:
        """Return the next message; an exception of the other stream is reported and raised."""
        try:
            return _with_content(await self._stream.receive())
        except BaseException:
            self._ended()
            raise

    async def aclose(self) -> None:
        """Close the other stream."""
        await self._stream.aclose()

    @property
    def last_context(self) -> object:
        """The context variables of the last message, where the other stream has them."""
        # The SDK handles what a server asks in this context.
        return getattr(self._stream, "last_context", None)

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

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


@asynccontextmanager
async def watch(
    opened: AbstractAsyncContextManager[tuple[_Stream[Item_co], Writer]], ended: Callable[[], None]
) -> AsyncGenerator[tuple[WatchedStream[Item_co], Writer]]:
    """Wrap the pair of streams that *opened* yields; the first of them is watched."""
    async with opened as (reader, writer):
        yield WatchedStream(reader, ended), writer


# The server gets two seconds to exit, two more after TERM, and is then killed.
_CLOSE_S = 10.0
_STDERR_CHARS = 500

_Dial: TypeAlias = Callable[["Line"], AbstractAsyncContextManager[Client]]


class CannotConnect(Exception):
    """The server did not start, did not answer, or is not an MCP server."""


class Line:
    """One established connection; the SDK requires it to be entered and left by the same task.

    Attributes:
        client: The SDK's client, once it is connected.
        broken: Whether it cannot be used for sending.
        stale: Whether the server announced that its tools have changed.
        watched: Whether *broken* is set as soon as the connection ends.
    """

    def __init__(self, *, watched: bool) -> None:
        self.watched = watched
        self.ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.broken: bool = False
        self.stale = False
        self._closing = asyncio.Event()

    @property
    def client(self) -> Client:
        """The SDK's client."""
        return self.ready.result()

    @property
    def is_legacy(self) -> bool:
        """Whether its protocol version has sessions: one before 2026-07-28."""
        return self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS

    def drop(self) -> None:
        """Make its task close it."""
        self.broken = True
        self._closing.set()

    async def hold(self, dialled: AbstractAsyncContextManager[Client]) -> None:
        """Keep it open until it is dropped."""
        try:
            async with dialled as client:
                if not self.ready.done():
                    self.ready.set_result(client)
                await self._closing.wait()
        except Exception as error:  # a server may fail in any way, and is then unavailable
            if not self.ready.done():
                self.ready.set_exception(CannotConnect(_describe_error(error)))
        finally:
            self.broken = True
            self.ready.cancel()


class Connection:
    """The way to reach one server.

    Args:
        server: Which server.
        timeout_s: Seconds that it may take to start and to complete the handshake.
        auth: What authorises requests over HTTP, None for nothing.
        requests: Answers what the server asks.

    Attributes:
        secrets: Parts of the server's address and settings that must not appear in errors.
        sign_in: Whether a user is signing in at it.
    """

    def __init__(
        self,
        server: Server,
        *,
        timeout_s: float,
        auth: httpx2.Auth | OAuth | None = None,
        requests: ServerRequests,
    ) -> None:
        self._server = server
        self.requests = requests
        self.secrets: Secrets = server.secrets
        self.sign_in: SignInState = SignInState()
        if isinstance(auth, OAuth):
            from upshot.tools.mcp.oauth_flow import make_auth

            auth = make_auth(auth, server.url, self.sign_in)
        self._auth = auth
        self._timeout_s = timeout_s
        self._stderr: IO[str] = TemporaryFile("w+", errors="replace")  # noqa: SIM115  # closed by aclose
        self._lock = asyncio.Lock()
        self._line: Line | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self) -> Line:
        """Return the line, reconnected if there is none or it broke.

        Raises:
            CannotConnect: The server cannot be reached; no request was sent.
        """
        # Otherwise two concurrent calls would start the server twice.
        async with self._lock:
            if self._line is None or self._line.broken:
                self._line = await self._dial()
            return self._line

    async def wait_for(self, future: asyncio.Future[Any], timeout_s: float) -> bool:
        """Wait for *future*, at most for *timeout_s*; returns whether it is done.

        While the user signs in, the time does not count.
        """
        while not future.done():
            await asyncio.wait((future,), timeout=timeout_s)
            if not self.sign_in.is_open:
                break
        return future.done()

    async def aclose(self) -> None:
        """Close every line and end the server; one that does not react is given up after 10 s."""
        # First of all, so that a call that comes now cannot start the server again.
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
            is_ready = await self.wait_for(line.ready, self._timeout_s)
        finally:
            if not line.ready.done():
                task.cancel()
        if not is_ready:
            text = self.secrets.mask_text(self._stderr_tail())
            raise CannotConnect(f"it did not answer within {self._timeout_s:g} s{text}")
        try:
            line.ready.result()
        except CannotConnect as error:
            raise CannotConnect(self.secrets.mask_text(f"{error}{self._stderr_tail()}")) from None
        return line

    @asynccontextmanager
    async def _over_stdio(self, line: Line) -> AsyncGenerator[Client]:
        opened = open_stdio(self._server, stderr=self._stderr)
        async with self._client(line, watch(opened, line.drop)) as client:
            yield client

    @asynccontextmanager
    async def _over_http(self, line: Line) -> AsyncGenerator[Client]:
        # No limit for reading, because a tool may be silent for long; its own timeout applies.
        limits = httpx2.Timeout(self._timeout_s, read=None)
        async with httpx2.AsyncClient(
            headers=self._server.headers,
            auth=self._auth,
            timeout=limits,
            event_hooks={"response": [_hide_body_of_404]},
        ) as http:
            opened = streamable_http_client(
                self._server.url, http_client=http, max_sse_event_size=MAX_LINE_BYTES
            )
            async with self._client(line, watch(opened, _ignore)) as client:
                yield client

    def _client(self, line: Line, transport: AbstractAsyncContextManager[object]) -> Client:
        async def listen(message: object) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                line.stale = True

        # Cached lists, which the server may allow, must not hide a change of its tools.
        requests = self.requests
        return Client(
            transport,  # pyright: ignore[reportArgumentType]  # the SDK does not export its own name for it
            message_handler=listen,
            cache=None,
            extensions=(TasksExtension(requests.task_listeners), advertise(SKILLS)),
            elicitation_callback=requests.elicit_live,
            sampling_callback=requests.sample_live if requests.abilities.sampling else None,
            list_roots_callback=requests.roots_live if requests.abilities.roots else None,
        )

    def _stderr_tail(self) -> str:
        self._stderr.seek(0)
        text = " ".join(self._stderr.read().split())[-_STDERR_CHARS:]
        return f"; it wrote: {text}" if text else ""


async def _hide_body_of_404(response: httpx2.Response) -> None:
    """Hide the body with which a server reports that it has forgotten the session.

    The protocol uses status 404 for that, and the SDK reports it so if there is no JSON in the
    response. But servers put an error with some code there, and the SDK then reports that instead.
    """
    if response.status_code == 404 and "mcp-session-id" in response.request.headers:
        response.headers.pop("content-type", None)


def _describe_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"
