"""AWS event streams: an incremental parser of their binary frames, with both checksums."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Final

from .document import as_text, encode_json, parse_object
from .sse import ServerEvent

__all__ = ["EXCEPTION", "FrameParser"]

EXCEPTION: Final = "exception"
"""The name of the event that an exception or an error of the stream becomes."""

_PRELUDE: Final = Struct(">III")
_PRELUDE_BYTES: Final = 12
_CRC_BYTES: Final = 4
_MIN_BYTES: Final = _PRELUDE_BYTES + _CRC_BYTES
# Headers take at most 128 KiB and a payload 16 MiB: more than this is no frame.
_MAX_BYTES: Final = 17 * 1024 * 1024
_DAMAGED: Final[ServerEvent] = (
    EXCEPTION,
    b'{"__type":"DamagedStream","message":"a frame of the stream is damaged"}',
)
# How long a header's value is, by its type: two truths, integers of four sizes, a moment, a UUID.
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES: Final = 6
_TEXT: Final = 7


class FrameParser:
    """Turns pieces of an event stream into events; one parser reads one stream.

    An event is named by its ``:event-type``. An exception becomes an event called
    :data:`EXCEPTION`, whose data is a JSON object with ``__type`` and ``message``. So does a frame
    whose checksums or lengths are wrong; nothing after it is read, since nothing tells where the
    next frame begins.

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
        """Take the next piece.

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
            event = self._take()
            if event is not None:
                events.append(event)
        if self._damaged:
            buffer.clear()
        return events

    def close(self) -> list[ServerEvent]:
        """Take the end of the stream; what is left is part of a frame, and no event."""
        return []

    def _take(self) -> ServerEvent | None:
        """Take the frame that is due off the buffer, or learn how long it is."""
        buffer = self._buffer
        if self._wanted == _PRELUDE_BYTES:
            total, header_bytes, checksum = _PRELUDE.unpack_from(buffer)
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
        # More than any buffer holds: the loop over frames ends.
        self._wanted = len(self._buffer) + 1
        return _DAMAGED


# Most frames of a stream have the same headers.
@lru_cache(maxsize=64)
def _read_headers(data: bytes) -> Mapping[str, str] | None:
    """The headers that are text, by name; None where they do not fill *data*."""
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
