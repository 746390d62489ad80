"""Tape: recorded replies, served byte for byte."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from upshot.errors import Misuse
from upshot.sim.exchange import Playback, Received

KEY_HEADER = "x-sim-exchange"

# The body is kept decoded and is framed anew, so these would lie about it.
_FRAMING = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Recorded(Struct, frozen=True):
    """One recorded reply.

    Attributes:
        status: HTTP status.
        headers: As received; those that frame the body (length, encoding, connection) are left out
            when served.
        body: As received, after decompression.
        key: What a client asks for it by: a path below ``/x/KEY/`` or the header
            ``x-sim-exchange``; "" for only in order.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    key: str = ""


RecordedItem: TypeAlias = Recorded | Mapping[str, object] | tuple[int, Mapping[str, str], bytes]
"""A recorded reply: as it is, a mapping of its fields (or ``body_b64``), or a triple."""


class _Item(Struct):
    status: int | None = None
    headers: dict[str, str] | None = None
    body: Any = None
    body_b64: str | None = None
    key: str = ""


def to_recorded(item: RecordedItem) -> Recorded:
    """Read one recorded reply from any of its forms; a status of None is 200."""
    if isinstance(item, Recorded):
        return item
    if isinstance(item, tuple):
        return Recorded(*item)
    try:
        read = msgspec.convert(item, _Item)
        body = _body_of(read)
    except (msgspec.ValidationError, ValueError) as error:
        raise Misuse(f"a recorded reply does not fit: {error}") from error
    return Recorded(read.status or 200, read.headers or {}, body, read.key)


def _body_of(item: _Item) -> bytes:
    if item.body_b64 is not None:
        return base64.b64decode(item.body_b64, validate=True)
    match item.body:
        case bytes():
            return item.body
        case str():
            return item.body.encode()
        case None:
            return b""
        case _:
            raise ValueError(f"`body` must be text or bytes, got {type(item.body).__name__}")


class Tape:
    """Recorded replies that answer requests, whatever those ask.

    A request that names a key gets that reply, as often as it asks; any other request gets the next
    one in order.
    """

    def __init__(self, items: Iterable[RecordedItem], *, pieces: int = 1, seed: int = 0) -> None:
        if pieces < 1:
            raise Misuse(f"pieces must be at least 1, got {pieces}")
        self._replies = [to_recorded(item) for item in items]
        self._by_key = {reply.key: reply for reply in self._replies if reply.key}
        self._next = 0
        self._pieces = pieces
        # Seeded: a cut that breaks a reader can be played again.
        self._random = random.Random(seed)

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """The recorded reply for *received*; the API *key* does not matter."""
        wanted = received.headers.get(KEY_HEADER) or _key_in(received.path)
        reply = self._by_key.get(wanted) if wanted else self._take()
        if reply is None:
            return _nothing_left(wanted, len(self._replies))
        headers = {
            name: value for name, value in reply.headers.items() if name.lower() not in _FRAMING
        }
        chunks = cut_randomly(reply.body, self._pieces, self._random)
        return Playback(
            status=reply.status, headers=headers, chunks=chunks, streamed=len(chunks) > 1
        )

    def _take(self) -> Recorded | None:
        if self._next >= len(self._replies):
            return None
        self._next += 1
        return self._replies[self._next - 1]


def cut_randomly(body: bytes, pieces: int, source: random.Random) -> tuple[bytes, ...]:
    """Cut *body* into at most *pieces* pieces, none of them empty, that join to it again."""
    # Places are drawn without repeats, so that no piece is empty: an empty chunk ends a body.
    most = min(pieces, len(body)) - 1
    if most < 1:
        return (body,)
    places = [0, *sorted(source.sample(range(1, len(body)), most)), len(body)]
    return tuple(body[start:end] for start, end in pairwise(places))


def _key_in(path: str) -> str:
    _, found, rest = path.partition("/x/")
    return rest.partition("/")[0] if found else ""


def _nothing_left(wanted: str, total: int) -> Playback:
    message = (
        f"no recorded reply has the key {wanted!r}"
        if wanted
        else f"all {total} recorded replies were served"
    )
    body = msgspec.json.encode(
        {"error": {"message": message, "type": "invalid_request_error", "code": "tape"}}
    )
    return Playback(status=404, headers={"content-type": "application/json"}, chunks=(body,))
