"""A JSON array that comes in pieces: its objects, each as soon as it is whole."""

from __future__ import annotations

import re
from typing import Final

from .sse import ServerEvent

__all__ = ["ArrayParser"]

_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_IN_STRING: Final = re.compile(rb'"|\\.', re.DOTALL)


class ArrayParser:
    """Turns pieces of an array of objects into events without a name; one parser reads one array.

    It looks at brackets and strings only, so that what is inside an object may be wrong in any
    way. What is in the array beside objects is passed over.
    """

    __slots__ = ("_buffer", "_depth", "_place", "_quoted", "_start")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._place = 0
        self._start: int | None = None
        self._depth = 0
        self._quoted = False

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take the next piece.

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
        # A backslash at the very end waits for what it escapes, unless it was escaped itself.
        half = self._quoted and self._buffer.endswith(b"\\", self._place)
        self._place = len(self._buffer) - half
        if self._start is None:
            del self._buffer[: self._place]
            self._place = 0
        return events

    def close(self) -> list[ServerEvent]:
        """Take the end of the stream; what is left is part of an object, and no event."""
        return []

    def _step(self, mark: bytes) -> bytes | None:
        """Go in or out by one bracket, and give the object that ends with it."""
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
