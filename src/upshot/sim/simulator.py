"""Simulator: a provider on loopback, for tests, demonstrations and measurements."""

from __future__ import annotations

import asyncio
import base64
import operator
import random
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import check_whole
from upshot.contract.protocols import Clock
from upshot.errors import Misuse
from upshot.sim.exchange import Playback, Received
from upshot.sim.faults import Fault, to_fault
from upshot.sim.provider import Provider
from upshot.sim.scenario import Reply, Scenario, ScenarioSource, read_scenario
from upshot.sim.token_buckets import Limits

if TYPE_CHECKING:
    from upshot.sim.http_server import Listener, Source

_OK = Scenario(replies=(Reply(text="ok"),), when_spent="last")


class Simulator:
    """A real HTTP server that speaks Chat Completions and Messages, plain and streamed.

    An async context manager: it listens inside the block, and leaving the block breaks off replies
    in flight::

        async with Simulator(["Hello."]) as sim:
            client = OpenAI(base_url=sim.base_url, api_key="any")

    Args:
        script: A list of replies, a scenario, a mapping of that form or a scenario file's path;
            None answers ``ok`` to everything. The format: :mod:`upshot.sim.scenario`.
        limits: Rate limits, as ``Limits`` or a mapping of its fields; None uses the scenario's.
        faults: Faults, or mappings of that form, in addition to the scenario's.
        host: Where to listen.
        port: 0 lets the system choose.
        api_key: The only accepted key (others get 401); None accepts any.
        strict: Whether conversations that the real APIs refuse get their 400: calls without
            results, results without calls.
        keep_requests: How many of the latest requests ``requests`` keeps; 0 for a server that must
            not grow, None for all.
        clock: Time for buckets, dates and latencies; None is the system's.

    Raises:
        Misuse: The scenario or a fault is not valid; the message names the file, the place and what
            was expected.
    """

    def __init__(
        self,
        script: ScenarioSource | None = None,
        *,
        limits: Limits | Mapping[str, int] | None = None,
        faults: Sequence[Fault | Mapping[str, object]] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
        strict: bool = True,
        keep_requests: int | None = 10_000,
        clock: Clock | None = None,
    ) -> None:
        check_whole("port", port)
        check_whole("keep_requests", keep_requests, none="all")
        self._clock = clock or SYSTEM_CLOCK
        self._source: Source = Provider(
            _OK if script is None else read_scenario(script),
            str(script) if isinstance(script, (str, Path)) else "scenario",
            clock=self._clock,
            limits=_to_limits(limits),
            faults=[to_fault(fault) for fault in faults],
            api_key=api_key,
            strict=strict,
        )
        self._host = host
        self._wanted_port = port
        self._port: int | None = None
        self._requests: deque[Received] = deque(
            maxlen=None if keep_requests is None else operator.index(keep_requests)
        )
        self._listener: Listener | None = None

    @classmethod
    def recorded(
        cls,
        replies: Iterable[RecordedItem],
        *,
        pieces: int = 1,
        seed: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
        keep_requests: int | None = 10_000,
    ) -> Simulator:
        """Make a simulator that serves recorded replies byte for byte, whatever is asked.

        A request to a path below ``/x/KEY/`` (see :meth:`base_url_for`), or with the header
        ``x-sim-exchange: KEY``, gets the reply with that key, as often as it asks; any other
        request gets the next reply in order, and 404 after the last.

        Args:
            replies: ``Recorded`` values, triples of status, headers and body, or mappings with
                ``status``, ``headers``, ``body`` or ``body_b64``, and ``key``.
            pieces: The maximum number of pieces of random size that a body is cut into, each sent
                as a separate HTTP chunk.
            seed: Seed for the cutting.
            host: Where to listen.
            port: 0 lets the system choose.
            keep_requests: How many of the latest requests ``requests`` keeps.

        Raises:
            Misuse: An item is not a recorded reply.
        """
        simulator = cls(host=host, port=port, keep_requests=keep_requests)
        simulator._source = Tape(replies, pieces=pieces, seed=seed)
        return simulator

    def __repr__(self) -> str:
        return f"Simulator({'not running' if self._port is None else repr(self.base_url)})"

    @property
    def port(self) -> int:
        """The port it listens on. Raises Misuse if it is not running."""
        if self._port is None:
            raise Misuse("the simulator is not running: enter it with `async with` first")
        return self._port

    @property
    def base_url(self) -> str:
        """``http://HOST:PORT/v1``, for either API. Raises Misuse if it is not running."""
        return f"{self._root()}/v1"

    def base_url_for(self, key: str) -> str:
        """Return the base URL for the recorded reply with *key*. Raises Misuse if not running."""
        return f"{self._root()}/x/{key}/v1"

    @property
    def requests(self) -> list[Received]:
        """The latest requests, oldest first, without the headers that contain keys."""
        return list(self._requests)

    async def __aenter__(self) -> Simulator:
        # Imported here: it needs aiohttp, which a scenario check or a type hint does not.
        from upshot.sim.http_server import Listener

        if self._listener is not None:
            raise Misuse("the simulator is running already")
        listener = Listener(self._source, self._requests.append, self._clock)
        self._port = await listener.open(self._host, self._wanted_port)
        self._listener = listener
        return self

    async def __aexit__(self, *raised: object) -> None:
        # Forgotten before it is closed, so that the address of a closing server is never returned.
        listener, self._listener, self._port = self._listener, None, None
        if listener is not None:
            await listener.aclose()

    def _root(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"


async def serve_forever(
    scenario: ScenarioSource | None = None,
    port: int = 0,
    *,
    on_start: Callable[[Simulator], object] | None = None,
    host: str = "127.0.0.1",
    limits: Limits | Mapping[str, int] | None = None,
    faults: Sequence[Fault | Mapping[str, object]] = (),
    api_key: str | None = None,
) -> None:
    """Serve until cancelled; prints nothing and keeps no requests.

    Args:
        scenario: As for :class:`Simulator`.
        port: 0 lets the system choose.
        on_start: Called with the simulator once it listens, to print its ``base_url``.
        host: Where to listen.
        limits: As for :class:`Simulator`.
        faults: As for :class:`Simulator`.
        api_key: As for :class:`Simulator`.

    Raises:
        Misuse: The scenario is not valid, or the address is not available.
    """
    simulator = Simulator(
        scenario,
        limits=limits,
        faults=faults,
        host=host,
        port=port,
        api_key=api_key,
        keep_requests=0,
    )
    async with simulator:
        if on_start is not None:
            on_start(simulator)
        # A future that is never completed: only a cancel ends it.
        await asyncio.get_running_loop().create_future()


async def until_signal(serving: Coroutine[Any, Any, None]) -> None:
    """Run *serving* until SIGINT or SIGTERM, the usual way to end a server."""
    task = asyncio.ensure_future(serving)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


def _to_limits(limits: Limits | Mapping[str, int] | None) -> Limits | None:
    if limits is None or isinstance(limits, Limits):
        return limits
    try:
        return msgspec.convert(limits, Limits)
    except msgspec.ValidationError as error:
        raise Misuse(f"the simulator's limits are not valid: {error}") from error


KEY_HEADER = "x-sim-exchange"

# The body is stored decoded and is framed again, so these would be wrong.
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
        headers: As received; headers that frame the body (length, encoding, connection) are omitted
            when served.
        body: As received, after decompression.
        key: How a client asks for it: by a path below ``/x/KEY/`` or the header
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
        raise Misuse(f"a recorded reply is not valid: {error}") from error
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
    """Recorded replies that answer any request.

    A request that names a key gets that reply, as often as it asks; any other request gets the next
    reply in order.
    """

    def __init__(self, items: Iterable[RecordedItem], *, pieces: int = 1, seed: int = 0) -> None:
        if pieces < 1:
            raise Misuse(f"pieces must be at least 1, got {pieces}")
        self._replies = [to_recorded(item) for item in items]
        self._by_key = {reply.key: reply for reply in self._replies if reply.key}
        self._next = 0
        self._pieces = pieces
        # Seeded, so that a cut that breaks a reader can be repeated.
        self._random = random.Random(seed)

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """Return the recorded reply for *received*; the API *key* does not matter."""
        wanted = received.headers.get(KEY_HEADER) or _key_in(received.path)
        reply = self._by_key.get(wanted) if wanted else self._next_reply()
        if reply is None:
            return _nothing_left(wanted, len(self._replies))
        headers = {
            name: value for name, value in reply.headers.items() if name.lower() not in _FRAMING
        }
        chunks = cut_randomly(reply.body, self._pieces, self._random)
        return Playback(
            status=reply.status, headers=headers, chunks=chunks, streamed=len(chunks) > 1
        )

    def _next_reply(self) -> Recorded | None:
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
