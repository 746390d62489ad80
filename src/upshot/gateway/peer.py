"""The peer at the other end of a channel: its requests and ours, matched with their answers.

The SDK has this too, but checks each message twice with pydantic and hands it through four
streams, which is most of what a call through the gateway would cost. Here a message is decoded
once, and its params and result are passed on as they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import NoBackChannelError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

from upshot.contract.base.structs import JsonObject

Id: TypeAlias = str | int
Params: TypeAlias = Mapping[str, Any] | None
OnProgress: TypeAlias = Callable[[JsonObject], Awaitable[None]]

_CANCELLED = "notifications/cancelled"
_PROGRESS = "notifications/progress"
# Later requests and notifications wait until it is answered, except for pings.
_FIRST = "initialize"
_PING = "ping"
# A peer that asks for more than this at once is refused, so that a flood does not fill the memory.
_MOST_AT_ONCE = 1_000
_log = logging.getLogger("upshot.gateway")


class ErrorData(msgspec.Struct, omit_defaults=True):
    """An error of JSON-RPC."""

    code: int
    message: str
    data: Any = None


class Message(msgspec.Struct, omit_defaults=True):
    """A message of JSON-RPC: a request, a notification, a result or an error."""

    jsonrpc: str
    id: Id | None = None
    method: str = ""
    params: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class About:
    """Facts about a message that only the transport needs; a pipe ignores them.

    Attributes:
        headers: For the request over HTTP that carries it.
        within: The other side's request whose stream carries it; None for none.
        can_send_request: Whether the other side can be asked during this request of it.
        on_unanswered: Called if this request ends without an answer.
        fault: Why this request is invalid; "" if it is valid.
    """

    headers: dict[str, str] | None = None
    within: Id | None = None
    can_send_request: bool = True
    on_unanswered: Callable[[], Awaitable[None]] | None = None
    fault: str = ""


NOTHING = About()


class Channel(Protocol):
    """Carries messages both ways."""

    async def receive(self) -> tuple[Message, About] | None:
        """The next message; None at the end."""
        ...

    async def send(self, message: Message, about: About) -> None:
        """Send a message.

        Raises:
            OSError: The other side is gone.
        """
        ...


class Front(Protocol):
    """Sends to a client outside its requests; impossible for 2026 clients over HTTP."""

    async def request(
        self, method: str, params: Params, on_progress: OnProgress | None = None
    ) -> dict[str, Any]: ...
    async def notify(self, method: str, params: Params) -> None: ...


class Context(Front, Protocol):
    """A request of the other side that is being answered, and the way to ask back."""

    @property
    def request_id(self) -> Id | None: ...
    @property
    def can_send_request(self) -> bool: ...
    async def progress(self, progress: JsonObject) -> None:
        """Report progress, if the other side wants it; *progress* needs no token."""
        ...


OnRequest: TypeAlias = Callable[[Context, str, Params], Awaitable[dict[str, Any]]]
OnNotify: TypeAlias = Callable[[str, Params], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Pending:
    """A request of ours without an answer yet."""

    answer: asyncio.Future[dict[str, Any]]
    on_progress: OnProgress | None


class _Incoming:
    """A request of the other side that is being answered; a ``Context``."""

    def __init__(self, peer: Peer, message: Message, about: About) -> None:
        self.request_id: Id = cast("Id", message.id)
        self.about = about
        self.task: asyncio.Task[None] | None = None
        self.is_cancelled: bool = False
        self.is_over: bool = False
        self._peer = peer
        self._within = About(within=self.request_id)
        self._token: object = _meta_of(message.params).get("progressToken")

    @property
    def can_send_request(self) -> bool:
        return self.about.can_send_request and not self.is_over

    def cancel(self) -> None:
        """Cancel the work on the answer, unless it is finished and may be on its way."""
        if self.task is not None and not self.is_over:
            self.task.cancel()

    async def request(
        self, method: str, params: Params, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        if not self.can_send_request:
            raise NoBackChannelError(method)
        return await self._peer.request(method, params, on_progress, about=self._within)

    async def notify(self, method: str, params: Params) -> None:
        if not self.is_over:
            await self._peer.notify(method, params, self._within)

    async def progress(self, progress: JsonObject) -> None:
        if self._token is not None:
            await self.notify(_PROGRESS, {**progress, "progressToken": self._token})


class Peer:
    """The other side of a channel.

    Args:
        channel: The way to it.
        linger_s: After the end of the input, requests under way may take this long to finish.
    """

    def __init__(self, channel: Channel, *, linger_s: float = 0.0) -> None:
        self._channel = channel
        self._linger_s = linger_s
        self._pending: dict[Id, _Pending] = {}
        self._incoming: dict[Id, _Incoming] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        # The handshake holds it. Waiters proceed in order of arrival.
        self._handshake = asyncio.Lock()
        self._is_closed = False

    async def run(self, on_request: OnRequest, on_notify: OnNotify) -> None:
        """Read and answer messages until the input ends, then cancel requests still under way.

        Args:
            on_request: Answers a request; an MCPError is the answer too.
            on_notify: Takes a notification.
        """
        try:
            while (item := await self._channel.receive()) is not None:
                message, about = item
                if not message.method:
                    self._settle(message)
                elif len(self._tasks) >= _MOST_AT_ONCE and message.method != _CANCELLED:
                    await self._refuse(message)
                elif message.id is not None:
                    self._begin(message, about, on_request)
                else:
                    self._handle_notification(message.method, message.params, on_notify)
            # A request that waits for this peer never gets its answer now.
            self._fail_pending()
            if self._linger_s and self._tasks:
                await asyncio.wait(self._tasks, timeout=self._linger_s)
        finally:
            self._fail_pending()
            # Every task takes its first step before it is cancelled; otherwise it answers nothing.
            await asyncio.sleep(0)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _fail_pending(self) -> None:
        self._is_closed = True
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(_closed())

    async def _refuse(self, message: Message) -> None:
        """Refuse a request, or drop a notification, because too many are under way.

        The read loop awaits this: a peer that reads no answers is not read from either.
        """
        if message.id is not None:
            text = f"too many requests: {_MOST_AT_ONCE} are under way; send it again later"
            await self._send(_failed(message.id, INTERNAL_ERROR, text))

    async def request(
        self,
        method: str,
        params: Params,
        on_progress: OnProgress | None = None,
        *,
        request_id: Id | None = None,
        about: About = NOTHING,
    ) -> dict[str, Any]:
        """Send a request; returns its result. If it is cancelled here, it is cancelled there too.

        Args:
            method: Which.
            params: What it is about.
            on_progress: Takes its progress, without the token, if *params* ask for it.
            request_id: Its id; None makes one.
            about: What the transport has to know.

        Raises:
            MCPError: It was refused, or the channel broke.
        """
        if self._is_closed:
            raise _closed()
        if request_id is None:
            self._count += 1
            request_id = self._count
        sent = dict(params or {})
        if on_progress is not None and "progressToken" in (meta := _meta_of(sent)):
            sent["_meta"] = {**meta, "progressToken": request_id}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = _Pending(answer, on_progress)
        message = Message("2.0", id=request_id, method=method, params=sent or None)
        try:
            await self._channel.send(message, about)
            return await answer
        except OSError:
            raise _closed() from None
        except asyncio.CancelledError:
            # A handshake may not be cancelled.
            if method != _FIRST:
                reason = {"requestId": request_id, "reason": "cancelled"}
                self._spawn(self.notify(_CANCELLED, reason, About(within=about.within)))
            raise
        finally:
            del self._pending[request_id]

    async def notify(self, method: str, params: Params, about: About = NOTHING) -> None:
        """Send a notification, or drop it if it cannot be sent."""
        given = None if params is None else dict(params)
        await self._send(Message("2.0", method=method, params=given), about)

    async def _send(self, message: Message, about: About = NOTHING) -> None:
        with suppress(OSError):
            await self._channel.send(message, about)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _settle(self, message: Message) -> None:
        """Settle the request that waits for this answer."""
        pending = self._pending.get(_key(message.id))
        if pending is None or pending.answer.done():
            return
        if (error := message.error) is not None:
            pending.answer.set_exception(MCPError(error.code, error.message, error.data))
        else:
            pending.answer.set_result(message.result or {})

    def _handle_notification(self, method: str, params: Params, on_notify: OnNotify) -> None:
        """Handle a notification: a cancel, progress of a request, or any other."""
        given = params or {}
        if method == _CANCELLED:
            incoming = self._incoming.get(_key(given.get("requestId")))
            if incoming is not None and incoming.task is not None:
                incoming.is_cancelled = True
                # Later, because a task that is cancelled before its first step never notices.
                asyncio.get_running_loop().call_soon(incoming.cancel)
        elif method == _PROGRESS:
            pending = self._pending.get(_key(given.get("progressToken")))
            if pending is not None and pending.on_progress is not None:
                progress = {name: given[name] for name in given if name != "progressToken"}
                self._spawn(_contained(pending.on_progress(progress)))
        else:
            self._spawn(_contained(self._notify_in_turn(method, params, on_notify)))

    async def _notify_in_turn(self, method: str, params: Params, on_notify: OnNotify) -> None:
        async with self._handshake:
            pass
        await on_notify(method, params)

    async def _answer_in_turn(
        self, incoming: _Incoming, message: Message, on_request: OnRequest
    ) -> dict[str, Any]:
        if incoming.about.fault:
            raise MCPError(INVALID_REQUEST, incoming.about.fault)
        if message.method == _FIRST:
            async with self._handshake:
                return await on_request(incoming, message.method, message.params)
        if message.method != _PING:
            async with self._handshake:
                pass
        return await on_request(incoming, message.method, message.params)

    def _begin(self, message: Message, about: About, on_request: OnRequest) -> None:
        incoming = _Incoming(self, message, about)
        self._incoming[_key(incoming.request_id)] = incoming
        incoming.task = self._spawn(self._answer(incoming, message, on_request))

    async def _answer(self, incoming: _Incoming, message: Message, on_request: OnRequest) -> None:
        id = incoming.request_id
        try:
            result = await self._answer_in_turn(incoming, message, on_request)
            answer = Message("2.0", id=id, result=result)
        except MCPError as error:
            answer = _failed(id, error.code, error.message, error.data)
        except asyncio.CancelledError:
            answer = _failed(id, CONNECTION_CLOSED, "Connection closed")
        # A fault of the gateway fails one request and not the connection.
        except Exception:
            _log.exception("%s failed", message.method)
            answer = _failed(id, INTERNAL_ERROR, "Internal error")
        incoming.is_over = True
        if self._incoming.get(_key(id)) is incoming:
            del self._incoming[_key(id)]
        if not incoming.is_cancelled:
            await self._send(answer)
        elif incoming.about.on_unanswered is not None:
            await _contained(incoming.about.on_unanswered())


def _failed(id: Id, code: int, message: str, data: Any = None) -> Message:
    return Message("2.0", id=id, error=ErrorData(code, message, data))


def _closed() -> MCPError:
    return MCPError(CONNECTION_CLOSED, "Connection closed")


def _key(id: object) -> Id:
    """Return an id in the form that is looked up: "7" is 7, since some peers change it."""
    return coerce_request_id(id) if isinstance(id, str | int) else ""


def _meta_of(params: object) -> JsonObject:
    meta = cast("JsonObject", params).get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


async def _contained(work: Awaitable[None]) -> None:
    """Await *work*, and log what it raises."""
    try:
        await work
    # A fault in one notification does not end the connection.
    except Exception:
        _log.exception("a notification failed")
