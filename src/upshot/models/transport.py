"""The transport protocol: time limits, and errors that say how far a request got."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from upshot.contract.base.checks import check_amount, check_whole


class Timeouts(msgspec.Struct, frozen=True):
    """How long one HTTP request may take; None means no limit.

    Attributes:
        connect_s: Seconds until there is a connection, including name look-up and TLS.
        read_s: Seconds without progress: until the head of the reply, then between two pieces of
            its body. Reasoning models are silent for minutes before the first one.
        total_s: Seconds from the start to the last byte.
    """

    connect_s: float | None = 10
    read_s: float | None = 300
    total_s: float | None = 1200

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_amount(name, getattr(self, name), above=0, none="no limit")


class ReplyLimits(msgspec.Struct, frozen=True):
    """How much of a reply is read; a larger reply is an error value.

    Attributes:
        reply_bytes: Bytes of a whole reply, unpacked.
        error_bytes: Bytes of the body of a refusal; the rest is not read.
        line_bytes: Bytes of one line of a streamed reply.
    """

    reply_bytes: int = 64 * 2**20
    error_bytes: int = 2**16
    line_bytes: int = 16 * 2**20

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_whole(name, getattr(self, name), least=1)


Answered: TypeAlias = tuple[int, Iterable[tuple[str, str]], AsyncIterator[bytes]]
"""Status, headers as pairs, and the body as it arrives."""


class Transport(Protocol):
    """Sends one request. Any object with this method is a transport."""

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, *, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Answered]:
        """Send a request and receive its reply.

        A transport neither retries nor follows redirects, and returns a reply of any status.
        ``upshot.testing.check_transport`` tests a transport for all of this.

        Args:
            method: Such as "POST".
            url: The whole address.
            headers: The headers of the request. They contain the key, so do not log them.
            body: The request's body.
            timeouts: How long it may take.

        Returns:
            A context manager of the status, the headers and the pieces of the body, with any
            content coding decoded. Leaving it frees the connection. If it is left before the end of
            the body, or cancelled, the connection is closed at once.

        Raises:
            TransportError: The exchange failed, on entering or while reading. After any other
                exception the request counts as sent.
        """
        ...


FailurePhase: TypeAlias = Literal["unsent", "sent", "answered"]
"""How far a request got: none of it was sent; some may have been sent; its reply had started."""

FailureKind: TypeAlias = Literal[
    "dns", "refused", "tls", "certificate", "proxy", "timeout", "reset", "cut", "protocol"
]
"""What went wrong: see ``TransportError``."""

LimitName: TypeAlias = Literal["connect_s", "read_s", "total_s"]


class TransportError(Exception):
    """An exchange with a server failed.

    Args:
        reason: What happened, in a few words.
        phase: "unsent" only if not one byte of the request was sent; "sent" if it may have been;
            "answered" once the head of the reply has arrived.
        kind: "dns" (no such host), "refused" (no connection), "tls" (the handshake failed),
            "certificate" (it is not trusted), "proxy" (the proxy refused), "timeout" (a limit
            passed), "reset" (closed before a reply), "cut" (closed in the middle of it) or
            "protocol" (the data is not HTTP, or does not match its headers).
        limit: The field of ``Timeouts`` that passed, None for any other failure.
        reused: Whether the connection had carried an earlier request.

    Attributes:
        reason: As given, like the others.
    """

    def __init__(
        self,
        reason: str,
        *,
        phase: FailurePhase,
        kind: FailureKind,
        limit: LimitName | None = None,
        reused: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.phase: FailurePhase = phase
        self.kind: FailureKind = kind
        self.limit: LimitName | None = limit
        self.reused = reused

    def __str__(self) -> str:
        reused = ", on a kept connection" if self.reused else ""
        return f"{self.reason} ({self.kind}, {self.phase}{reused})"


async def decode_body(pieces: AsyncIterator[bytes], coding: str) -> AsyncIterator[bytes]:
    """Unpack a body a bounded piece at a time, so that a few bytes cannot fill the memory.

    For a transport whose client unpacks without a limit, as ``httpx`` 0.28 does.

    Args:
        pieces: The body as it arrives, packed.
        coding: Its ``Content-Encoding``; "" for none.

    Yields:
        The unpacked body, at most 64 KiB at a time.

    Raises:
        TransportError: The coding is neither gzip nor deflate, or the body is not packed that way,
            or ends too early.
    """
    unpacker = open_unpacker(coding)
    async for packed in pieces:
        if unpacker is None or not packed:
            yield packed
            continue
        unpacker.feed(packed)
        try:
            while piece := unpacker.next_piece():
                yield piece
                # Give other tasks a turn: a few bytes may unpack to many.
                await asyncio.sleep(0)
        except zlib.error as error:
            raise TransportError(str(error), phase="answered", kind="protocol") from error
    if unpacker is not None and not unpacker.is_over:
        raise TransportError("the packed body ends too early", phase="answered", kind="cut")


def open_unpacker(coding: str) -> Unpacker | None:
    """Make the unpacker for a body with the content coding *coding*; None if it is not packed.

    Raises:
        TransportError: The coding is unknown.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return None
    if coding not in ("gzip", "x-gzip", "deflate"):
        why = f"the body is packed as {coding!r}, but only gzip and deflate can be unpacked"
        raise TransportError(why, phase="answered", kind="protocol")
    return Unpacker()


_PIECE_BYTES = 2**16


class Unpacker:
    """Unpacks gzip and deflate, a bounded piece at a time."""

    __slots__ = ("_packed", "_stream", "is_over")

    def __init__(self) -> None:
        self._stream = None
        self._packed = b""
        self.is_over: bool = True

    def feed(self, packed: bytes) -> None:
        """Add packed bytes; then call ``take`` until it returns b""."""
        if self._stream is None:
            # gzip, zlib, or data without any header, which some servers call "deflate".
            headed = packed[0] == 0x1F or (packed[0] & 0x0F == 8 and packed[0] >> 4 <= 7)
            self._stream = zlib.decompressobj(47 if headed else -15)
            self.is_over = False
        self._packed += packed

    def next_piece(self) -> bytes:
        """Return the next unpacked piece; b"" if more input is needed."""
        stream = self._stream
        if stream is None or self.is_over:
            return b""
        piece = stream.decompress(self._packed, _PIECE_BYTES)
        self._packed = stream.unconsumed_tail
        self.is_over = stream.eof
        return piece


_CAUSES = 8
# By parts of class names, which also covers exceptions of other clients.
_TIMEOUT_NAMES: Final[tuple[tuple[tuple[str, ...], LimitName], ...]] = (
    (("ConnectionTimeout", "ConnectTimeout"), "connect_s"),
    (("SocketTimeout", "ReadTimeout"), "read_s"),
    (("Timeout",), "total_s"),
)
_KIND_CLASSES: Final[tuple[tuple[type[BaseException], FailureKind], ...]] = (
    (ssl.SSLCertVerificationError, "certificate"),
    (ssl.SSLError, "tls"),
    (socket.gaierror, "dns"),
    (ConnectionRefusedError, "refused"),
)
_PROXY_NAMES = ("ProxyError", "ProxyConnectionError")
_UNREACHABLE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
_KIND_NAMES: Final[tuple[tuple[tuple[str, ...], FailureKind], ...]] = (
    (("PayloadError",), "cut"),
    (("ProtocolError", "HttpProcessingError", "DecodingError"), "protocol"),
    (("ReadError", "WriteError", "ServerDisconnected", "ConnectionResetError"), "reset"),
    (("ConnectorDNSError",), "dns"),
    (("ConnectError", "ConnectorError", "ConnectionRefusedError"), "refused"),
)


def to_transport_error(
    exception: BaseException, *, phase: FailurePhase, reused: bool = False
) -> TransportError | None:
    """Convert an HTTP client's *exception*; None if it is not about the network."""
    causes = tuple(_causes_of(exception))
    for cause in causes:
        if isinstance(cause, TransportError):
            return cause
    found = _kind_of(causes)
    if found is None:
        return None
    kind, reason, limit = found
    # The reply had started, so it was cut.
    if kind == "reset" and phase == "answered":
        kind = "cut"
    return TransportError(reason, phase=phase, kind=kind, limit=limit, reused=reused)


def _kind_of(causes: tuple[BaseException, ...]) -> tuple[FailureKind, str, LimitName | None] | None:
    names = {each.__name__ for cause in causes for each in type(cause).__mro__}
    words = _words_of(causes[-1])
    # Before the causes, which would only name the failure below the proxy.
    if any(part in name for part in _PROXY_NAMES for name in names):
        return "proxy", words, None
    for cause in causes:
        for classes, kind in _KIND_CLASSES:
            if isinstance(cause, classes):
                return kind, _reason_of(kind, cause, causes), None
        if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
            return "refused", os.strerror(cause.errno), None
    for parts, limit in _TIMEOUT_NAMES:
        if any(part in name for part in parts for name in names):
            return "timeout", "it took too long", limit
    for parts, kind in _KIND_NAMES:
        if any(part in name for part in parts for name in names):
            return kind, words, None
    return None


def _reason_of(kind: FailureKind, cause: BaseException, causes: tuple[BaseException, ...]) -> str:
    if kind == "certificate":
        # A client's own exception class does not have this field, but its cause does.
        why = filter(None, (getattr(each, "verify_message", "") for each in causes))
        return next(why, "its certificate cannot be verified")
    if kind == "tls":
        return str(getattr(cause, "reason", "") or cause)
    return "there is no such host" if kind == "dns" else "connection refused"


def _words_of(exception: BaseException) -> str:
    """Return its message in one line, or its class name if it has none."""
    # aiohttp's parser puts "400, message:" before its message.
    message = getattr(exception, "message", None)
    return (
        " ".join((message if isinstance(message, str) else str(exception)).split())
        or type(exception).__name__
    )


def _causes_of(exception: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = exception
    for _ in range(_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__
