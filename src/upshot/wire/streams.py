"""Parsers of the stream framings: server-sent events, AWS frames, a JSON array."""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from upshot.wire.decoding import as_text, encode_json, parse_object

ServerEvent: TypeAlias = "tuple[str, bytes]"
"""The event's name ("" if it has none) and its data."""

_MANY_LINES = 4096
_BOM = b"\xef\xbb\xbf"


class EventParser:
    """Turns pieces of an event stream into events; one parser reads one stream.

    Lines may end in LF, CR or CRLF, comments and unknown fields are ignored, and several data lines
    make one event. An event without data is dropped.

    Source:
        WHATWG HTML, section 9.2.6 "Interpreting an event stream".
    """

    __slots__ = ("_after_cr", "_data", "_joined", "_name", "_start", "_tail")

    def __init__(self) -> None:
        self._start: bytes | None = b""
        self._after_cr = False
        self._tail: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []
        # How many of these have already been joined from several lines.
        self._joined = 0

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Parse the next piece.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The events that it completed, in order.
        """
        # A byte-order mark may itself be cut, so the first bytes are kept until that is decided.
        if self._start is not None:
            data = self._without_bom(self._start + data)
        if self._after_cr and data:
            # The CR ended the line already; the LF belongs to it.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            # Kept apart and joined once: a long line in small pieces stays linear.
            if data:
                self._tail.append(data)
            return []
        if self._tail:
            data = b"".join((*self._tail, data))
            self._tail.clear()
        lines = data.split(b"\n")
        if rest := lines.pop():
            self._tail.append(rest)
        return self._read(lines)

    def close(self) -> list[ServerEvent]:
        """End the stream, and return the event of an unterminated last line.

        The standard drops it, but some providers omit the last line end.
        """
        rest = [(self._start or b"") + b"".join(self._tail), b""]
        self._start = None
        self._tail.clear()
        return self._read(rest)

    def _without_bom(self, data: bytes) -> bytes:
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._start = data
            return b""
        self._start = None
        return data.removeprefix(_BOM)

    def _read(self, lines: list[bytes]) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        data = self._data
        for line in lines:
            # The fast path: nearly every line is data or empty.
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif line:
                self._read_field(line)
            else:
                if data:
                    events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                    self._joined = 0
                self._name = ""
        if len(data) - self._joined > _MANY_LINES:
            # Each line is an object, and an empty one takes ten times the size of its content.
            data[self._joined :] = [b"\n".join(data[self._joined :])]
            self._joined += 1
        return events

    def _read_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")


EXCEPTION: Final = "exception"
"""The name of the event for an exception or an error of the stream."""

_PRELUDE: Final = Struct(">III")
_PRELUDE_BYTES: Final = 12
_CRC_BYTES: Final = 4
_MIN_BYTES: Final = _PRELUDE_BYTES + _CRC_BYTES
# Headers take at most 128 KiB and a payload 16 MiB: a longer frame is corrupt.
_MAX_BYTES: Final = 17 * 1024 * 1024
_DAMAGED: Final[ServerEvent] = (
    EXCEPTION,
    b'{"__type":"DamagedStream","message":"a frame of the stream is damaged"}',
)
# The length of a header's value, by its type: two booleans, four integers, a moment, a UUID.
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES: Final = 6
_TEXT: Final = 7


class FrameParser:
    """Turns pieces of an event stream into events; one parser reads one stream.

    An event is named by its ``:event-type``. An exception becomes an event called
    :data:`EXCEPTION`, whose data is a JSON object with ``__type`` and ``message``. So does a frame
    with a wrong checksum or length; nothing after it is read, since the start of the next frame is
    unknown.

    Source:
        https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html and
        https://smithy.io/2.0/aws/amazon-eventstream.html; read November 2025.
    """

    __slots__ = ("_buffer", "_damaged", "_wanted")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = _PRELUDE_BYTES
        self._damaged = False

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Parse the next piece.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The events that it completed, in order.
        """
        if self._damaged:
            return []
        buffer = self._buffer
        buffer += data
        events: list[ServerEvent] = []
        while len(buffer) >= self._wanted:
            event = self._read_frame()
            if event is not None:
                events.append(event)
        if self._damaged:
            buffer.clear()
        return events

    def close(self) -> list[ServerEvent]:
        """End the stream; the rest is part of a frame, not an event."""
        return []

    def _read_frame(self) -> ServerEvent | None:
        """Remove the next frame from the buffer, or read its length."""
        buffer = self._buffer
        if self._wanted == _PRELUDE_BYTES:
            total, header_bytes, checksum = _PRELUDE.unpack_from(buffer)
            # Checked before the frame arrives: a damaged length could ask for bytes that never
            # come.
            sound = crc32(buffer[:8]) == checksum and _MIN_BYTES <= total <= _MAX_BYTES
            if not sound or header_bytes > total - _MIN_BYTES:
                return self._stop()
            self._wanted = total
            return None
        frame = bytes(buffer[: self._wanted])
        del buffer[: self._wanted]
        self._wanted = _PRELUDE_BYTES
        if crc32(frame[:-_CRC_BYTES]) != int.from_bytes(frame[-_CRC_BYTES:], "big"):
            return self._stop()
        payload_at = _PRELUDE_BYTES + _PRELUDE.unpack_from(frame)[1]
        headers = _read_headers(frame[_PRELUDE_BYTES:payload_at])
        if headers is None:
            return self._stop()
        return _to_event(headers, frame[payload_at:-_CRC_BYTES])

    def _stop(self) -> ServerEvent:
        self._damaged = True
        # Larger than the buffer, so that the loop over frames ends.
        self._wanted = len(self._buffer) + 1
        return _DAMAGED


# Cached, because most frames of a stream have the same headers.
@lru_cache(maxsize=64)
def _read_headers(data: bytes) -> Mapping[str, str] | None:
    """Return the headers that are text, by name; None if they do not fill *data* exactly."""
    headers: dict[str, str] = {}
    place = 0
    while place < len(data):
        value_at = place + 2 + data[place]
        if value_at > len(data):
            return None
        name = data[place + 1 : value_at - 1].decode("utf-8", "replace")
        kind = data[value_at - 1]
        size = _SIZES.get(kind)
        if size is None:
            if kind not in (_BYTES, _TEXT) or value_at + 2 > len(data):
                return None
            size = int.from_bytes(data[value_at : value_at + 2], "big")
            value_at += 2
        place = value_at + size
        if place > len(data):
            return None
        if kind == _TEXT:
            headers[name] = data[value_at:place].decode("utf-8", "replace")
    return headers


def _to_event(headers: Mapping[str, str], payload: bytes) -> ServerEvent:
    match headers.get(":message-type"):
        case "exception":
            return _to_exception(headers.get(":exception-type", ""), payload)
        case "error":
            message = headers.get(":error-message", "").encode()
            return _to_exception(headers.get(":error-code", ""), message)
        case _:
            return headers.get(":event-type", ""), payload


def _to_exception(kind: str, payload: bytes) -> ServerEvent:
    document = parse_object(payload)
    if document is None:
        message = payload.decode("utf-8", "replace")
    else:
        names = ("message", "Message", "originalMessage")
        message = next((text for name in names if (text := as_text(document.get(name)))), "")
    return EXCEPTION, encode_json({"__type": kind, "message": message})


_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_IN_STRING: Final = re.compile(rb'"|\\.', re.DOTALL)


class ArrayParser:
    """Turns pieces of an array of objects into events without a name; one parser reads one array.

    It looks at brackets and strings only, so that the content of an object need not be valid. Items
    that are not objects are ignored.
    """

    __slots__ = ("_buffer", "_depth", "_place", "_quoted", "_start")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._place = 0
        self._start: int | None = None
        self._depth = 0
        self._quoted = False

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Parse the next piece.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The objects that it completed, in order.
        """
        self._buffer += data
        events: list[ServerEvent] = []
        while found := (_IN_STRING if self._quoted else _OUTSIDE).search(self._buffer, self._place):
            self._place = found.end()
            mark = found[0]
            if mark == b'"':
                self._quoted = not self._quoted
            elif not self._quoted and (element := self._step(mark)) is not None:
                events.append(("", element))
        # A backslash at the end waits for the character that it escapes, unless escaped itself.
        half = self._quoted and self._buffer.endswith(b"\\", self._place)
        self._place = len(self._buffer) - half
        # Between two objects nothing has to be kept.
        if self._start is None:
            del self._buffer[: self._place]
            self._place = 0
        return events

    def close(self) -> list[ServerEvent]:
        """End the stream; the rest is part of an object, not an event."""
        return []

    def _step(self, mark: bytes) -> bytes | None:
        """Enter or leave a bracket, and return the object that ends with it."""
        if mark in b"[{":
            self._depth += 1
            if self._depth == 2 and mark == b"{":
                self._start = self._place - 1
            return None
        self._depth -= 1
        if self._depth != 1 or self._start is None:
            return None
        element = bytes(self._buffer[self._start : self._place])
        del self._buffer[: self._place]
        self._place = 0
        self._start = None
        return element
