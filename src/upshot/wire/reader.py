"""Reads whole and streamed replies of any API surface; the table of the surfaces."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from msgspec.structs import replace

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelResponse
from upshot.contract.usage import Usage
from upshot.errors import Misuse
from upshot.wire.accumulator import ReplyAccumulator, StreamEvent, SurfaceStream
from upshot.wire.bedrock import (
    ConverseEncoder,
    ConverseStream,
    InvokeStream,
    read_converse,
    read_invoke,
)
from upshot.wire.chat import ChatEncoder, ChatStream, read_chat
from upshot.wire.decoding import parse_json, parse_object
from upshot.wire.encoding import RequestEncoder
from upshot.wire.error_classification import classify_error
from upshot.wire.gemini import GenerateEncoder, GenerateStream, read_generate
from upshot.wire.headers import Headers, normalize_headers
from upshot.wire.messages import MessagesEncoder, MessagesStream, read_messages
from upshot.wire.responses import ResponsesEncoder, ResponsesStream, read_responses
from upshot.wire.streams import ArrayParser, EventParser, FrameParser, ServerEvent


@dataclass(frozen=True, slots=True)
class Surface:
    """One API surface.

    Attributes:
        read: Reads a whole reply into an accumulator.
        open_stream: Makes the reader of one streamed reply into an accumulator.
        make_request_encoder: Makes an encoder without messages; takes ``provider``.
        done_mark: Data that ends the stream and is not JSON.
        arrays: Whether a stream may also come as a JSON array of its chunks.
    """

    read: Callable[[JsonObject, ReplyAccumulator], None]
    open_stream: Callable[[ReplyAccumulator], SurfaceStream]
    make_request_encoder: Callable[..., RequestEncoder]
    done_mark: bytes = b"[DONE]"
    arrays: bool = False


# The only place that lists the surfaces: a new surface is a new line.
SURFACES: Final[dict[str, Surface]] = {
    "chat": Surface(read_chat, ChatStream, ChatEncoder),
    "messages": Surface(read_messages, MessagesStream, MessagesEncoder),
    "responses": Surface(read_responses, ResponsesStream, ResponsesEncoder),
    "generate": Surface(read_generate, GenerateStream, GenerateEncoder, arrays=True),
    "converse": Surface(read_converse, ConverseStream, ConverseEncoder),
    "invoke": Surface(read_invoke, InvokeStream, MessagesEncoder),
}


def find_surface(name: str) -> Surface:
    """Return the surface called *name*.

    Raises:
        Misuse: There is no surface of that name.
    """
    surface = SURFACES.get(name)
    if surface is None:
        known = ", ".join(sorted(SURFACES))
        raise Misuse(f"there is no surface {name!r}: the surfaces are {known}")
    return surface


def make_request_encoder(surface: str, *, provider: str = "") -> RequestEncoder:
    """Make an encoder for requests to *surface*, with no messages yet.

    Args:
        surface: "chat", "responses", "messages", "generate", "converse", or "invoke" (for models
            of Anthropic).
        provider: The provider: its dialect is used, and its reasoning signatures are sent back.

    Raises:
        Misuse: There is no such surface.
    """
    return find_surface(surface).make_request_encoder(provider=provider)


Mode: TypeAlias = Literal["json", "sse", "aws-eventstream"]
"""How a body is framed."""

_MODES: dict[str, Mode] = {
    "text/event-stream": "sse",
    "application/vnd.amazon.eventstream": "aws-eventstream",
    "application/json": "json",
}
_EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_TELLING_BYTES = max(map(len, _EVENT_STARTS))
# Prefixes that may still become one of these.
_EVENT_BEGINNINGS = frozenset(mark[:size] for mark in _EVENT_STARTS for size in range(len(mark)))
_DOCUMENT_STARTS = (b"{", b"[", b"<")
# A frame starts with its length, whose first byte is zero below 16 MiB.
_FRAME_START = b"\0"
_BLANK = b" \t\r\n\xef\xbb\xbf"


def read_response(
    surface: str,
    *,
    status: int,
    headers: Headers,
    body: bytes,
    provider: str = "",
    mode: Mode | None = None,
    now: float | None = None,
) -> ModelResponse:
    """Read a whole reply, good or bad.

    Args:
        surface: "chat", "responses", "messages", "generate", "converse" or "invoke".
        status: The HTTP status.
        headers: A mapping, pairs, anything with ``items()``, or None.
        body: The reply's body, any bytes; it may be a whole stream.
        provider: The sender; reasoning signatures and errors are marked with it.
        mode: How the body is framed, used if its first bytes do not show it; None uses the content
            type.
        now: When it was received, in unix seconds; None is the current time.

    Returns:
        The response, with or without an error. Never raises on what a peer sends.

    Raises:
        Misuse: There is no such surface.
    """
    reader = StreamReader(surface, provider=provider, headers=headers, mode=mode, now=now)
    if status >= 400:
        return reader.refuse(status, body)
    reader.feed(body)
    return reader.close()


class _Parser(Protocol):
    """Turns the bytes of a stream into events."""

    def feed(self, data: bytes) -> list[ServerEvent]: ...

    def close(self) -> list[ServerEvent]: ...


class StreamReader:
    """Reads one streamed reply while it arrives.

    However the bytes are cut, the joined deltas and the response are the same. A stream that
    breaks off yields what has arrived, without a finish reason; ``provider_data["stream_done"]``
    says whether the stream reported its end.

    Args:
        surface: As for :func:`read_response`.
        provider: The sender.
        headers: The reply's headers, any container, or None.
        mode: How it is framed, used if the first bytes do not show it; None uses the content type.
        now: When the reply started, in unix seconds; None is the current time.

    Raises:
        Misuse: There is no such surface.
    """

    def __init__(
        self,
        surface: str,
        *,
        provider: str = "",
        headers: Headers = None,
        mode: Mode | None = None,
        now: float | None = None,
    ) -> None:
        self._surface = find_surface(surface)
        self._reply = ReplyAccumulator(
            provider, normalize_headers(headers), time.time() if now is None else now
        )
        self._mode = mode
        self._begun = False
        self._sniffed = False
        # None if the reply is one document.
        self._events: _EventReader | None = None
        self._body: list[bytes] = []
        self._response: ModelResponse | None = None

    @property
    def in_events(self) -> bool:
        """Whether the reply comes as events; False until the first bytes show it."""
        return self._events is not None

    @property
    def usage(self) -> Usage | None:
        """The tokens used, as far as the stream has reported them; None if it has not."""
        return self._reply.usage

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Read the next bytes.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The deltas that they completed, in order. Never raises on what a peer sends.
        """
        self._begun = True
        if not self._sniffed:
            self._body.append(data)
            data = b"".join(self._body)
            if not self._sniff(data):
                # Leading blanks are dropped instead of being joined again for each piece.
                self._body = [data.lstrip(_BLANK)]
                return []
            self._body.clear()
        if self._events is not None:
            return self._events.feed(data)
        self._body.append(data)
        return []

    def close(self) -> ModelResponse:
        """End the stream.

        Returns:
            The response, with or without an error; the same one if called again.
        """
        if self._response is None:
            rest = b"".join(self._body)
            if not self._sniffed:
                # Too short to show its framing, it may still be a whole reply.
                self._open(self._default_parser())
            if self._events is None:
                self._read_whole(rest)
            else:
                self._events.feed(rest)
                self._events.close()
            self._response = self._reply.to_response()
        return self._response

    def fail(self, error: AgentError) -> ModelResponse:
        """End the reading with *error*, which is not in the reply itself.

        Args:
            error: Such as a broken connection; it replaces an error in the reply.

        Returns:
            What was read so far, with the error.
        """
        self._reply.error = error
        if not self._begun:
            # Nothing arrived, so ``stream_done`` does not apply.
            return self._reply.to_response()
        return self.close()

    def refuse(self, status: int, body: bytes) -> ModelResponse:
        """Read a reply with an error status.

        Args:
            status: The HTTP status.
            body: The whole body.

        Returns:
            The response; its error is classified from status, body and headers.
        """
        document = parse_object(body)
        if document is None and body.lstrip(_BLANK).startswith(_EVENT_STARTS):
            # Some gateways send the error of a refused request as an event.
            parser = EventParser()
            events = parser.feed(body) + parser.close()
            body = events[0][1] if events else body
            document = parse_object(body)
        self._reply.raw = document
        self._reply.error = self._classify(status, body)
        return self._reply.to_response()

    def _classify(self, status: int, body: bytes) -> AgentError:
        reply = self._reply
        return classify_error(
            status=status, body=body, headers=reply.fields, provider=reply.provider, now=reply.now
        )

    def _read_whole(self, body: bytes) -> None:
        document = parse_json(body)
        if isinstance(document, list) and document:
            document = document[0]
        if isinstance(document, dict):
            self._reply.raw = document
            self._surface.read(document, self._reply)
        elif self._reply.error is None:
            # A page or a text may help to classify the failure, but is not a message for the user.
            error = self._classify(200, body)
            details: dict[str, Json] = {**error.details, "body": error.message}
            self._reply.error = replace(error, message=_NO_OBJECT, details=details)

    def _sniff(self, data: bytes) -> bool:
        """Detect the framing from the first bytes; False while there are too few.

        Servers answer a streamed request with one JSON document, or the other way round, and do
        not always say so in the content type.
        """
        start = data.lstrip(_BLANK)
        if len(start) < _TELLING_BYTES and start in _EVENT_BEGINNINGS:
            return False
        if start.startswith(_EVENT_STARTS):
            self._open(EventParser())
        elif start.startswith(b"[") and self._surface.arrays:
            self._open(ArrayParser())
        elif start.startswith(_FRAME_START):
            self._open(FrameParser())
        elif not start.startswith(_DOCUMENT_STARTS):
            self._open(self._default_parser(), is_unknown=True)
        self._sniffed = True
        return True

    def _default_parser(self) -> _Parser | None:
        """Return the parser for the given mode, else for the content type."""
        kind = self._reply.fields.get("content-type", "").partition(";")[0].strip().lower()
        match self._mode or _MODES.get(kind):
            case "json":
                return None
            case "aws-eventstream":
                return FrameParser()
            case _:
                return EventParser()

    def _open(self, parser: _Parser | None, *, is_unknown: bool = False) -> None:
        if parser is not None:
            self._events = _EventReader(parser, self._surface, self._reply, is_unknown=is_unknown)


_NO_OBJECT = "the reply has status 200 but is not a JSON object"


class _EventReader:
    """Reads a reply that comes as events. With *is_unknown*, its first bytes fit no framing."""

    __slots__ = ("_done_mark", "_has_objects", "_is_unknown", "_parser", "_reply", "_stream")

    def __init__(
        self, parser: _Parser, surface: Surface, reply: ReplyAccumulator, *, is_unknown: bool
    ) -> None:
        self._is_unknown = is_unknown
        self._parser = parser
        self._stream = surface.open_stream(reply)
        self._reply = reply
        self._done_mark = surface.done_mark
        self._has_objects = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        return self._read(self._parser.feed(data))

    def close(self) -> None:
        # Text without a line end may be half an event: the stream was cut, which is not an error.
        self._read(self._parser.close(), whole=False)
        self._reply.done = bool(self._reply.done)
        self._stream.finish()
        if isinstance(self._parser, ArrayParser) and not self._has_objects:
            self._reply.fail_unreadable("the reply is an array without an object")
        elif self._is_unknown and not self._has_objects and not self._reply.done:
            self._reply.fail_unreadable("the reply has status 200 but neither JSON nor events")

    def _read(self, events: list[ServerEvent], *, whole: bool = True) -> list[StreamEvent]:
        deltas: list[StreamEvent] = []
        for name, data in events:
            document = parse_json(data)
            if isinstance(document, dict):
                self._has_objects = True
                deltas += self._stream.read(name, document)
            elif data.strip() == self._done_mark:
                self._reply.done = True
            elif whole and data.lstrip().startswith(_DOCUMENT_STARTS):
                self._reply.fail_unreadable("an event of the stream is not JSON")
        return deltas
