"""Checks every request before a route sees it, adds headers to every response, and signs in the
user who started the server: by a link that works once, then by a cookie.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from upshot.contract.base.structs import JsonObject
from upshot.contract.user import User
from upshot.journal.audit import Actor, add_act, set_actor
from upshot.serve.permissions import NoUser

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from upshot.fleet.app import App
    from upshot.serve.site import Site

ErrorForm: TypeAlias = "Callable[[int, str], JsonObject]"
"""Turns an HTTP status and a sentence into an error of a protocol."""

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""The hosts by which a site can always be reached."""

_PORT = re.compile(r":\d+$")
# No script, style, picture or connection from elsewhere, and no framing.
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NAMING = "asgi(hosts=[...]), or in 'upshot serve --console-url'"
_TOO_MANY = 429
_STATES = ("http.response.start", "websocket.accept")


class RateCounter:
    """Counts requests within ten seconds, by sender.

    Args:
        rate: How many requests each sender may send within ten seconds.

    Attributes:
        refusal: The message to a sender of too many requests.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._window = 0
        self._sent: dict[Hashable, int] = {}
        self.refusal: str = f"more than {rate} requests in ten seconds: wait a little"

    def is_within(self, who: Hashable) -> bool:
        """Count a request; return whether it is within the rate."""
        window = int(time.monotonic() / 10)
        if window != self._window:
            self._window, self._sent = window, {}
        sent = self._sent[who] = self._sent.get(who, 0) + 1
        return sent <= self._rate


class Guard:
    """ASGI middleware that refuses requests from other sites, and too many requests.

    A page of another site can make a browser send requests here, and can read the responses through
    a host name that it points at this server. So the host of each request must be known, and its
    origin too if it has one.

    Args:
        app: The application to guard.
        hosts: The host names by which the site is reached, besides those of this machine.
        origins: Origins of pages of other sites that may send requests, "https://shop.example".
        counter: Counts the requests of each client address.
        is_known: Whether a known user sent a request.
        max_body: The maximum content length of a request, in bytes.
        forms: How protocols write their errors, by the path prefixes of their doors.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        counter: RateCounter,
        is_known: Callable[[Scope], Awaitable[bool]],
        max_body: int,
        forms: Mapping[str, ErrorForm],
    ) -> None:
        self._app = app
        self._forms = forms
        self._hosts = {host.lower() for host in (*LOCAL, *hosts)}
        self._origins = {origin.lower() for origin in origins}
        self._counter = counter
        self._is_known = is_known
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] in _STATES:
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope) or await self._excess(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_on)

    async def _excess(self, scope: Scope) -> JSONResponse | None:
        """Return the refusal of a request beyond the rate, or None.

        Behind a proxy all requests come from one address, so the user is looked up for an address
        that has sent many: known users are counted by name, in ``Site.user``.
        """
        address = (scope.get("client") or ("",))[0]
        if self._counter.is_within(address) or await self._is_known(scope):
            return None
        return refusal(self._forms, scope, _TOO_MANY, self._counter.refusal)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if _PORT.sub("", host) not in self._hosts:
            message = f"this site is not reached as {host[:80]!r}: name the host in {_NAMING}"
            return refusal(self._forms, scope, 421, message)
        origin = headers.get("origin", "").lower()
        if origin and _place_of(origin) != host and origin not in self._origins:
            message = f"requests of {origin[:80]!r} are not taken: name it in asgi(origins=[...])"
            return refusal(self._forms, scope, 403, message)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:18]) > self._max_body:
            message = f"the body has {length[:18]} bytes: at most {self._max_body} are taken"
            return refusal(self._forms, scope, 413, message)
        return None


def refusal(
    forms: Mapping[str, ErrorForm], scope: Scope, status: int, message: str
) -> JSONResponse:
    """Return the response to a request that no route sees, in the form of its protocol."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    headers = {"retry-after": "10"} if status == _TOO_MANY else None
    for prefix, form in forms.items():
        if path.startswith(prefix):
            return JSONResponse(form(status, message), status, headers)
    return JSONResponse({"error": message}, status, headers)


def _place_of(origin: str) -> str:
    """Return the host and port of an origin, or "" if it is not a URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def rpc_refusal(status: int, message: str) -> JsonObject:
    """Return a refusal in the form of a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}


# -- signing in

# Keys in the scope of a request: the id of its web session; and that it is looked at again while
# its stream is open, which is no new request.
SESSION, WATCHING = "upshot.session", "upshot.watching"
_DOORS = {"api": "console", "v1": "responses"}


def address_of(request: HTTPConnection) -> str:
    """Return the address of a client, "" if it is unknown."""
    return "" if request.client is None else request.client.host


def actor_of(user: User, request: HTTPConnection) -> Actor:
    """Return who acts with a request, and through which door."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    first = path.strip("/").partition("/")[0]
    door, session = _DOORS.get(first) or first, request.scope.get(SESSION, "")
    return Actor(user.id, user.tenant, door, session, address_of(request))


# How often the user of an open stream is looked up again.
_LOOK_AGAIN_S = 15.0


class UserChanges:
    """Tells streams when to look their users up again."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake all that wait."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait(self) -> None:
        """Wait until users may have changed, and at most 15 seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), _LOOK_AGAIN_S)


class StreamGuard:
    """ASGI middleware that ends a stream when its user signs out or gets other permissions.

    The client connects again, and is then refused or shown what it may see now.

    Args:
        app: The application.
        is_current: Whether the sender of a request is still the same user, with the same rights.
        changed: Waits until that may have changed.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_current: Callable[[Scope], Awaitable[bool]],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._app = app
        self._is_current = is_current
        self._changed = changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        over, is_done = asyncio.Event(), False
        watching: list[asyncio.Task[None]] = []

        async def send_on(message: Message) -> None:
            nonlocal is_done
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind.startswith("text/event-stream"):
                    watching.append(asyncio.create_task(self._watch(scope, over)))
            elif message["type"] == "http.response.body":
                is_done = not message.get("more_body", False)
            await send(message)

        async def receive_on() -> Message:
            # Before the response starts this is the body of the request.
            return await (_first(receive(), over) if watching else receive())

        try:
            await self._app(scope, receive_on, send_on)
        finally:
            for task in watching:
                task.cancel()
        if over.is_set() and not is_done:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _watch(self, scope: Scope, over: asyncio.Event) -> None:
        await self._changed()
        while await self._is_current(scope):
            await self._changed()
        over.set()


async def _first(coming: Awaitable[Message], over: asyncio.Event) -> Message:
    """Return what comes, or that the client is gone once the stream is over."""
    getting, ending = asyncio.ensure_future(coming), asyncio.ensure_future(over.wait())
    try:
        await asyncio.wait({getting, ending}, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else {"type": "http.disconnect"}
    finally:
        getting.cancel()
        ending.cancel()


OWNER = User("owner", ("owner",))
_COOKIE = "upshot"
_LIFE_S = 30 * 24 * 3600
_KEY_BYTES = 32
_NOT_THE_LINK = (
    "this link is not the one that the server printed, or it was used before: start the server "
    "again for another one"
)
_REFUSED = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · upshot</title><link rel="stylesheet" href="{root}/static/console.css"></head>
<body><main><h1>This link does not sign in</h1><p>{text}</p></main></body></html>
"""


class OwnerSignIn:
    """Signs in the visitor who has the link that the server printed, as owner.

    The cookie is signed with a key of this account of the machine, so it survives a restart. A new
    key voids all cookies signed before, even in a running server.

    Args:
        path: The file of the key.

    Raises:
        OSError: The key can be neither read nor written.

    Attributes:
        path: The link, without the address of the server.
    """

    _app: App | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = read_key(path)
        self._key_at = _changed_at(path)
        self._token = secrets.token_urlsafe(24)
        self.path: str = f"/sign-in?token={self._token}"

    def routes(self, site: Site) -> list[BaseRoute]:
        """Return the route of the link."""
        self._app = site.app
        return [Route("/sign-in", self._sign_in)]

    def __call__(self, request: HTTPConnection) -> User | None:
        """Return the owner if the request has the cookie."""
        until, _, mark = request.cookies.get(_COOKIE, "").partition(".")
        # Only what was signed here is parsed as a number.
        is_ours = hmac.compare_digest(mark.encode(), self._mark(until).encode())
        return OWNER if is_ours and int(until) >= time.time() else None

    async def _sign_in(self, request: Request) -> Response:
        given = request.query_params.get("token", "")
        if not self._token or not hmac.compare_digest(given.encode(), self._token.encode()):
            if "text/html" in request.headers.get("accept", ""):
                return self._refused_page(request)
            raise NoUser(_NOT_THE_LINK)
        token, self._token = self._token, ""
        try:
            if self._app is not None:
                set_actor(Actor(OWNER.id, "", "link", "", address_of(request)))
                await add_act(await self._app.open(), "sign_in")
        except BaseException:
            # Nobody is signed in, so the link is still good.
            self._token = token
            raise
        until = str(int(time.time()) + _LIFE_S)
        response = RedirectResponse(request.scope.get("root_path", "") + "/", 303)
        response.set_cookie(
            _COOKIE,
            f"{until}.{self._mark(until)}",
            max_age=_LIFE_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    def _refused_page(self, request: Request) -> Response:
        """Return a page for a link that does not sign in."""
        root = escape(request.scope.get("root_path", ""))
        text = f"{_NOT_THE_LINK[0].upper()}{_NOT_THE_LINK[1:]}."
        if self(request) is not None:
            text = f'You are signed in already: <a href="{root}/">open the console</a>.'
        return HTMLResponse(_REFUSED.format(root=root, text=text), 401)

    def _mark(self, until: str) -> str:
        if (changed := _changed_at(self._path)) != self._key_at:
            with suppress(OSError):
                self._key, self._key_at = read_key(self._path), changed
        return hmac.new(self._key, until.encode(), hashlib.sha256).hexdigest()


def read_key(path: Path) -> bytes:
    """Return the key in a file that only this account can read; create it if there is none.

    Raises:
        OSError: It can be neither read nor written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
    return path.read_bytes()


def renew_key(path: Path) -> None:
    """Replace the key in a file, so that every cookie signed before is void.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    read_key(fresh)
    fresh.replace(path)


def _changed_at(path: Path) -> tuple[int, int]:
    """Return which file is at *path* and when it last changed; (0, 0) if there is none."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_ino, found.st_mtime_ns


def key_path() -> Path:
    """Return the path of this account's key."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "upshot" / "serve.key"
