"""Server-sent events: an incremental parser whose events do not depend on how bytes were cut."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["EventParser", "ServerEvent"]

ServerEvent: TypeAlias = "tuple[str, bytes]"
"""The event's name ("" where it has none) and its data."""

_BOM = b"\xef\xbb\xbf"


class EventParser:
    """Turns pieces of an event stream into events; one parser reads one stream.

    Lines may end in LF, CR or CRLF, comments and unknown fields are passed over, and several
    data lines make one event. An event without data is none, whatever its name.

    Source:
        WHATWG HTML, section 9.2.6 "Interpreting an event stream".
    """

    __slots__ = ("_after_cr", "_data", "_name", "_start", "_tail")

    def __init__(self) -> None:
        self._start: bytes | None = b""
        self._after_cr = False
        self._tail: list[bytes] = []
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take the next piece.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            The events that it completed, in order.
        """
        if self._start is not None:
            data = self._without_bom(self._start + data)
        if self._after_cr and data:
            # The CR ended the line already; the LF after it is not another end.
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
        """Take the end of the stream.

        Returns:
            What an unended last line completed. The standard drops it, but a provider that
            forgets the last line end has still said what it says.
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
            # Nearly every line is one of these two: a field is only taken apart if it is not.
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif line:
                self._read_field(line)
            else:
                if data:
                    events.append((self._name, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                self._name = ""
        return events

    def _read_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
