"""TransportContract and check_transport: what every transport must do, against a real server."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias
from unittest import SkipTest

from upshot.models.transport import Timeouts, Transport, TransportError
from upshot.testing.suite import Role, Suite

# Limits that no check reaches, except those about limits.
_WIDE = Timeouts(20, 20, 20)
_SHORT = Timeouts(5, 0.2, 1)
_OK = b"HTTP/1.1 200 OK\r\n"
_WHOLE = _OK + b"content-length: 5\r\n\r\nhello"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
_BOMB_BYTES = 2**26
_MAX_PIECE_BYTES = 2**23


class TransportContract(Suite[Transport]):
    """A suite for pytest: inherit, and define a ``make`` that returns a transport.

    Each check has a server of its own on loopback, in a thread. The transport may raise any
    exception; if it is a TransportError, its phase must be true. A transport with ``aclose`` is
    closed after each check.
    """

    _role: Role = Role("a transport", ("send",))

    async def _close(self, subject: Any) -> None:
        if hasattr(subject, "aclose"):
            await subject.aclose()

    async def test_it_sends_the_request_as_it_is(self) -> None:
        """Method, path, headers and body arrive, once."""
        body = bytes(range(256)) * 8192
        with _serving(_answer_with(_WHOLE)) as server:
            await self._fetch(f"{server.url}/v1?a=b", {"Authorization": "Bearer k"}, body)
        (asked,) = server.asked
        assert asked.head.startswith(b"POST /v1?a=b HTTP/1.1\r\n"), asked.head[:60]
        assert b"bearer k" in asked.head.lower(), "the header did not arrive"
        assert asked.body == body, f"{len(asked.body)} bytes came instead of {len(body)}"

    async def test_it_gives_any_reply(self) -> None:
        """A refusal and a redirect are replies; neither is raised or followed."""
        head = (
            b"HTTP/1.1 %d X\r\nlocation: /next\r\nx-a: 1\r\nX-A: 2\r\ncontent-length: 2\r\n\r\nno"
        )
        for status in (404, 429, 500, 307):
            with _serving(_answer_with(head % status)) as server:
                got = await self._fetch(server.url)
            assert (got.status, got.body) == (status, b"no"), f"{status} became {got}"
            assert [value for name, value in got.headers if name.lower() == "x-a"] == ["1", "2"]
            assert len(server.asked) == 1, f"a {status} was followed or tried again"

    async def test_it_unpacks_the_body(self) -> None:
        """The reader gets the decoded body."""
        packed = gzip.compress(b"clear text")
        head = _OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
        with _serving(_answer_with(head + packed)) as server:
            got = await self._fetch(server.url)
        assert got.body == b"clear text", got.body[:60]

    async def test_a_reply_that_is_cut_is_an_error(self) -> None:
        """No part of it is returned as the whole, wherever it is cut."""
        for whole in (_WHOLE, _CHUNKED):
            async with self._against(_cut(whole)) as (transport, server):
                for size in range(len(whole)):
                    await _broken(transport, f"{server.url}/{size}", f"cut after {size}")

    async def test_nothing_is_sent_twice(self) -> None:
        """A connection that breaks after the request is an error; the request is not repeated."""
        for method in ("POST", "GET"):
            async with self._against(_reset) as (transport, server):
                error = await _broken(transport, server.url, "a reset", method=method)
            assert len(server.asked) == 1, f"{method} was sent {len(server.asked)} times"
            assert _phase(error) != "unsent", "the request was sent, and the error denies it"

    async def test_a_closed_port_is_an_error(self) -> None:
        """The error does not claim that the request was sent."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
            async with self._made() as transport:
                error = await _broken(transport, url, "a refused connection")
        assert _phase(error) in (None, "unsent"), "nothing was sent, and the error denies it"

    async def test_a_connection_that_the_server_closed_is_not_used(self) -> None:
        """Even if it was closed while the event loop was blocked."""
        async with self._against(_answer_with(_WHOLE, then="close")) as (transport, server):
            for _ in range(3):
                assert (await _fetch(transport, server.url)).body == b"hello"
                # The loop must not notice: it is blocked until the server has closed.
                server.closed.wait(20)
                server.closed.clear()

    async def test_a_cancel_while_it_waits_closes_the_connection(self) -> None:
        """A reply that is not read must not be paid for."""
        async with self._against(_answer_with(b"", then="wait")) as (transport, server):
            task = asyncio.ensure_future(_fetch(transport, server.url))
            try:
                await _until(server.received)
            finally:
                task.cancel()
                await asyncio.wait((task,))
            assert task.cancelled(), "the cancellation was swallowed"
            await _until(server.closed)

    async def test_a_cancel_in_the_body_closes_the_connection(self) -> None:
        """So does leaving the block before the body ends."""
        first = _OK + b"content-length: 1000\r\n\r\nfirst"
        for cancels in (True, False):
            async with self._against(_answer_with(first, then="wait")) as (transport, server):
                begun = asyncio.Event()
                waiting = begun if cancels else None
                task = asyncio.ensure_future(_read_some(transport, server.url, waiting))
                if cancels:
                    await begun.wait()
                    task.cancel()
                await asyncio.wait((task,))
                await _until(server.closed)

    async def test_limits_end_the_request(self) -> None:
        """Silence ends at read_s, a trickle of bytes at total_s."""
        replies = {
            "silence": _answer_with(b"", then="wait"),
            "a drip": _endless(_OK + b"content-length: 100000\r\n\r\n", b".", 0.01),
        }
        for name, answer in replies.items():
            async with self._against(answer) as (transport, server):
                await _broken(transport, server.url, name, timeouts=_SHORT)

    async def test_hostile_replies_come_to_an_end(self) -> None:
        """What is not HTTP is an error, and floods end at a limit."""
        chunk = _OK + b"transfer-encoding: chunked\r\n\r\n"
        replies: dict[str, _Answer] = {
            "garbage": _answer_with(b"garbage\r\n\r\n"),
            "a bad chunk": _answer_with(chunk + b"2\r\nhi\r\nzz\r\n", then="wait"),
            "an endless header": _endless(_OK + b"x: ", b"a" * 65536, 0),
            "endless headers": _endless(_OK, b"x: a\r\n" * 8192, 0),
            "endless interim replies": _endless(b"", b"HTTP/1.1 100 C\r\n\r\n" * 4096, 0),
            "an endless chunk extension": _endless(chunk + b"5;", b"a" * 65536, 0),
            "bytes that are not gzip": _answer_with(
                _OK + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello"
            ),
        }
        for name, answer in replies.items():
            async with self._against(answer) as (transport, server):
                await _broken(transport, server.url, name, timeouts=_SHORT)

    async def test_a_bomb_is_unpacked_piece_by_piece(self) -> None:
        """The reader can stop before it fills memory."""
        packed = gzip.compress(bytes(_BOMB_BYTES), 6)
        head = _OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
        async with self._against(_answer_with(head + packed)) as (transport, server):
            send = transport.send("POST", server.url, {}, b"", timeouts=_WIDE)
            async with send as (_, _, chunks):
                piece = await anext(aiter(chunks))
        assert len(piece) <= _MAX_PIECE_BYTES, f"the first piece has {len(piece):,} bytes"

    async def test_it_serves_several_event_loops(self) -> None:
        """One after another, and at the same time in threads."""
        async with self._against(_answer_with(_WHOLE)) as (transport, server):

            async def once() -> bytes:
                body = (await _fetch(transport, server.url)).body
                await self._close(transport)
                return body

            found = [await _in_other_loop(once) for _ in "ab"]
            found += await asyncio.gather(once(), _in_other_loop(once), _in_other_loop(once))
        assert found == [b"hello"] * 5, f"five loops got {found}"

    @asynccontextmanager
    async def _against(self, answer: _Answer) -> AsyncGenerator[tuple[Transport, _Server]]:
        """Yield the transport, and a server that answers with *answer*."""
        with _serving(answer) as server:
            async with self._made() as transport:
                yield transport, server

    async def _fetch(
        self, url: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> _Got:
        async with self._made() as transport:
            return await _fetch(transport, url, headers, body)


def check_transport(factory: Callable[[], Any]) -> None:
    """Run all checks of :class:`TransportContract` on the transports that *factory* makes.

    Args:
        factory: Returns a transport, a coroutine of one, or an async context manager of one.

    Raises:
        AssertionError: A check failed; its message says which.
    """

    class _Checked(TransportContract):
        def make(self) -> Any:
            return factory()

    for name in dir(_Checked):
        if name.startswith("test_"):
            try:
                asyncio.run(getattr(_Checked(), name)())
            except SkipTest:
                continue
            except Exception as error:
                raise AssertionError(f"{name[5:].replace('_', ' ')}: {error}") from error


class _Got(NamedTuple):
    """A whole reply."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


async def _fetch(
    transport: Transport,
    url: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    method: str = "POST",
    timeouts: Timeouts = _WIDE,
) -> _Got:
    async with transport.send(method, url, headers or {}, body, timeouts=timeouts) as answered:
        status, fields, chunks = answered
        return _Got(status, list(fields), b"".join([chunk async for chunk in chunks]))


async def _broken(
    transport: Transport,
    url: str,
    what: str,
    *,
    method: str = "POST",
    timeouts: Timeouts = _WIDE,
) -> Exception:
    """Return the exception of a request that must fail."""
    try:
        got = await _fetch(transport, url, method=method, timeouts=timeouts)
    except Exception as error:
        return error
    raise AssertionError(f"{what} was given as a whole reply: {got!r:.100}")


async def _read_some(transport: Transport, url: str, begun: asyncio.Event | None) -> None:
    """Read one piece; then leave, or set *begun* and wait for the next."""
    async with transport.send("POST", url, {}, b"", timeouts=_WIDE) as (_, _, chunks):
        pieces = aiter(chunks)
        await anext(pieces)
        if begun is not None:
            begun.set()
            await anext(pieces)


def _phase(error: Exception) -> str | None:
    return error.phase if isinstance(error, TransportError) else None


async def _in_other_loop(once: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
    return await asyncio.to_thread(lambda: asyncio.run(once()))


async def _until(event: threading.Event) -> None:
    """Wait for what the server reports, without blocking the loop."""
    await asyncio.to_thread(event.wait)


class _Asked(NamedTuple):
    """One request as received."""

    head: bytes
    body: bytes


_Answer: TypeAlias = Callable[[_Asked, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request; False closes the connection."""


class _Server:
    """What a check sees of the server."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[_Asked] = []
        self.received = threading.Event()
        self.closed = threading.Event()


@contextmanager
def _serving(answer: _Answer) -> Generator[_Server]:
    """Serve in a thread of its own, so that the client's loop may be blocked."""
    server, ready, runner = _Server(), threading.Event(), asyncio.Runner()
    loop, over = runner.get_loop(), asyncio.Event()

    async def serve() -> None:
        async with _listening(server, answer):
            ready.set()
            await over.wait()

    def run() -> None:
        with runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True, name="upshot-transport-check")
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        # Release the threads of a check that ran out of time.
        server.received.set()
        server.closed.set()


@asynccontextmanager
async def _listening(server: _Server, answer: _Answer) -> AsyncGenerator[None]:
    talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks[asyncio.ensure_future(talk(reader, writer))] = writer

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            early: bytes | None = b""
            while early is not None:
                early = await _answer_one(server, answer, reader, writer, early)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            await asyncio.wait((asyncio.ensure_future(writer.wait_closed()),))
            server.closed.set()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, limit=2**24)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        listener.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in talks.values():
            # A task that was cancelled before it started has closed nothing.
            writer.transport.abort()
        await asyncio.sleep(0)


async def _answer_one(
    server: _Server,
    answer: _Answer,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    early: bytes,
) -> bytes | None:
    """Answer one request, whose *early* bytes were read, unless the client disconnects."""
    asked = await _read_request(reader, early)
    server.asked.append(asked)
    server.received.set()
    work = asyncio.ensure_future(answer(asked, writer))
    seen = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((work, seen), return_when=asyncio.FIRST_COMPLETED)
        if not work.done() or not work.result():
            return None
        return seen.result() or None if seen.done() else b""
    finally:
        work.cancel()
        seen.cancel()
        await asyncio.gather(work, seen, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader, early: bytes) -> _Asked:
    head = early + await reader.readuntil(b"\r\n\r\n")
    sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return _Asked(head, await reader.readexactly(int(sizes[0][15:]) if sizes else 0))


def _answer_with(data: bytes, *, then: Literal["listen", "close", "wait"] = "listen") -> _Answer:
    """Send *data*; then listen for the next request, close, or wait forever."""

    async def answer(asked: _Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(data)
        await writer.drain()
        if then == "wait":
            await asyncio.Event().wait()
        return then == "listen"

    return answer


def _endless(start: bytes, more: bytes, pause_s: float) -> _Answer:
    async def answer(asked: _Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(start)
        while True:
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return answer


def _cut(whole: bytes) -> _Answer:
    async def answer(asked: _Asked, writer: asyncio.StreamWriter) -> bool:
        size = int(asked.head.split(b" ")[1].strip(b"/"))
        writer.write(whole[:size])
        await writer.drain()
        return False

    return answer


async def _reset(asked: _Asked, writer: asyncio.StreamWriter) -> bool:
    no_linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
    writer.transport.abort()
    return False
