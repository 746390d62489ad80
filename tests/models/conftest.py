"""A server on loopback that answers with exactly the bytes that a test gives it."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# An untrusted key and certificate for 127.0.0.1, for tests only.
CERTIFICATE = Path(__file__).with_name("loopback.pem")


@dataclass
class Asked:
    """One request as it was received."""

    line: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """The server as a test sees it."""

    url: str = ""
    connections: int = 0
    asked: list[Asked] = field(default_factory=list)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(head[0], headers, body)


def reply(
    body: bytes | str | dict[str, Any],
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    length: int | None = None,
) -> bytes:
    """Return a whole HTTP reply; *length* may be a wrong length of the body."""
    if isinstance(body, dict):
        body = json.dumps(body)
        headers = {"content-type": "application/json", **(headers or {})}
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@asynccontextmanager
async def _serve(
    answer: Answer | bytes | list[bytes], *, tls: bool = False
) -> AsyncIterator[Server]:
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    async def send(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if callable(answer):
            await answer(asked, writer)
            return
        data = answer if isinstance(answer, bytes) else answer[len(server.asked) - 1]
        writer.write(data)
        await writer.drain()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        server.connections += 1
        try:
            while not writer.is_closing():
                asked = await _read(reader)
                server.asked.append(asked)
                await send(asked, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
    listener = await asyncio.start_server(talk, "127.0.0.1", 0, limit=2**24, ssl=context)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def serve():
    """``async with serve(answer) as server``: bytes, one for each request, or a function."""
    return _serve


@pytest.fixture
def refusing_url() -> Iterator[str]:
    """A URL where every connection is refused, because the port stays reserved."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def certificate() -> Path:
    """The certificate shown with ``tls=True``, as a PEM file."""
    return CERTIFICATE


@pytest.fixture
def http_reply():
    return reply
