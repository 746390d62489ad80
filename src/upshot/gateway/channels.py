"""The channels that carry messages: pipes, standard input and output, and HTTP by the SDK."""

from __future__ import annotations

import asyncio
import json
import os
import select
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import anyio
import msgspec
from mcp.shared.message import ClientMessageMetadata, ServerMessageMetadata, SessionMessage
from mcp_types import INTERNAL_ERROR, jsonrpc_message_adapter

from upshot.contract.base.structs import JsonObject
from upshot.gateway.peer import NOTHING, About, ErrorData, Message

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode
# A pipe that is ready takes at least this many bytes, so that a write never blocks.
_PIECE_BYTES = select.PIPE_BUF
_READ_BYTES = 65_536
# At the end, a client has this long to read what was sent.
_FLUSH_S = 5.0


def _read(line: bytes | bytearray) -> tuple[Message, About] | None:
    """Return the message in a line, or None if there is none."""
    try:
        return _decode(line), NOTHING
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _read_invalid(line, str(error))


def _read_invalid(line: bytes | bytearray, fault: str) -> tuple[Message, About] | None:
    """Return the message in an invalid line, so that every request gets an answer.

    A response is repaired, because its client has to know the result. A request is not, because a
    call must be made with exactly the given arguments.
    """
    try:
        found = json.loads(line.decode("utf-8", "replace"), parse_constant=_null)
        # Lone surrogates cannot be sent on.
        valid = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None
    raw = cast("JsonObject", json.loads(valid)) if isinstance(found, dict) else {}
    id = raw.get("id")
    if not isinstance(id, str | int) or isinstance(id, bool):
        return None
    if "method" in raw:
        method = str(raw["method"]) or "unknown"
        return Message("2.0", id=id, method=method), About(fault=f"Invalid request: {fault}")
    with suppress(msgspec.DecodeError):
        return _decode(valid), NOTHING
    error = raw.get("error")
    given = error if isinstance(error, dict) else {}
    code, message = given.get("code"), given.get("message")
    error_data = ErrorData(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else f"The response is invalid: {fault}",
    )
    return Message("2.0", id=id, error=error_data), NOTHING


def _null(constant: str) -> None:
    """Replace NaN and the infinities, which JSON does not have, with null."""


class ProgramChannel:
    """The input and output of a program, one message a line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> tuple[Message, About] | None:
        """Return the next message; None if the program ended or wrote too long a line."""
        while True:
            try:
                line = await self._reader.readline()
            except (ValueError, OSError):
                return None
            if not line.endswith(b"\n"):
                return None
            if (item := _read(line)) is not None:
                return item

    async def send(self, message: Message, about: About) -> None:
        """Write a message; raise OSError if the program is gone."""
        if self._writer.is_closing():
            raise BrokenPipeError
        self._writer.write(_encode(message) + b"\n")
        await self._writer.drain()


class OwnChannel:
    """The standard input and output of this process, one message a line.

    Neither is made non-blocking, because other processes may share them.
    """

    def __init__(self, input: int, output: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._input, self._output = input, output
        self._lines = deque[bytearray]()
        self._unread = bytearray()
        self._unsent = bytearray()
        self._sent = asyncio.Event()
        self._is_waiting = False
        self._is_broken = False

    async def receive(self) -> tuple[Message, About] | None:
        """The next message; None at the end of the input."""
        while True:
            while self._lines:
                if (item := _read(self._lines.popleft())) is not None:
                    return item
            if not await self._read_more():
                return None

    async def _read_more(self) -> bool:
        """Read what is there, or wait for it; return False at the end of the input."""
        is_ready = asyncio.Event()
        try:
            self._loop.add_reader(self._input, is_ready.set)
        except PermissionError:
            # An event loop cannot wait for a file, but a file can always be read.
            await asyncio.sleep(0)
        else:
            try:
                await is_ready.wait()
            finally:
                self._loop.remove_reader(self._input)
        try:
            piece = os.read(self._input, _READ_BYTES)
        except OSError:
            piece = b""
        # The last line need not end with a newline.
        self._unread += piece or b"\n"
        if b"\n" in piece or not piece:
            *lines, self._unread = self._unread.split(b"\n")
            self._lines.extend(lines)
        return bool(piece) or any(self._lines)

    async def send(self, message: Message, about: About) -> None:
        """Write a message, as fast as it is read; raise OSError if the reader is gone."""
        self._unsent += _encode(message) + b"\n"
        if not self._is_waiting:
            self._write()
        while self._unsent:
            await self._sent.wait()
        if self._is_broken:
            raise BrokenPipeError

    async def flush(self) -> None:
        """Write what was sent; give up if the client does not read it within 5 seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                while self._unsent:
                    await self._sent.wait()

    def _write(self) -> None:
        """Write as much as does not block, and the rest when there is room."""
        try:
            while self._unsent and select.select((), (self._output,), (), 0)[1]:
                del self._unsent[: os.write(self._output, self._unsent[:_PIECE_BYTES])]
        except OSError:
            self._is_broken = True
            self._unsent.clear()
        if bool(self._unsent) is self._is_waiting:
            return
        self._is_waiting = bool(self._unsent)
        if self._is_waiting:
            self._sent.clear()
            self._loop.add_writer(self._output, self._write)
        else:
            self._sent.set()
            self._loop.remove_writer(self._output)


@asynccontextmanager
async def open_own_channel() -> AsyncGenerator[OwnChannel]:
    """Yield standard input and output as a channel; other prints go to standard error."""
    input, output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        channel = OwnChannel(input, output)
        yield channel
        await channel.flush()
    finally:
        for own, standard in ((input, 0), (output, 1)):
            os.dup2(own, standard)
            os.close(own)


class SdkChannel:
    """A transport of the SDK: the HTTP of a server or of a client."""

    def __init__(self, reader: Any, writer: Any, *, is_server: bool) -> None:
        self._reader, self._writer, self._is_server = reader, writer, is_server

    async def receive(self) -> tuple[Message, About] | None:
        """Return the next message; None if the transport was closed."""
        while True:
            try:
                item: SessionMessage | Exception = await self._reader.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return None
            if isinstance(item, Exception):
                continue
            raw = item.message.model_dump(by_alias=True, exclude_unset=True)
            about, of = NOTHING, item.metadata
            if isinstance(of, ServerMessageMetadata):
                about = About(
                    can_send_request=of.can_send_request, on_unanswered=of.on_request_unanswered
                )
            return msgspec.convert(raw, Message), about

    async def send(self, message: Message, about: About) -> None:
        """Send a message; raise OSError if the transport was closed."""
        raw = jsonrpc_message_adapter.validate_python(msgspec.to_builtins(message))
        of = (
            ServerMessageMetadata(related_request_id=about.within)
            if self._is_server
            else ClientMessageMetadata(headers=about.headers)
        )
        try:
            await self._writer.send(SessionMessage(raw, of))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise BrokenPipeError from error
