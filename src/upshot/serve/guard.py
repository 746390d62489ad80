"""Checks every request before a route sees it, and adds headers to every response."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from upshot.contract.base.structs import JsonObject

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ErrorForm: TypeAlias = "Callable[[int, str], JsonObject]"
"""Turns an HTTP status and a sentence into an error of a protocol."""

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""The hosts by which a site can always be reached."""

_PORT = re.compile(r":\d+$")
# No script, style, picture or connection from elsewhere, and no framing.
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
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
        return self._refuse(scope, _TOO_MANY, self._counter.refusal)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if _PORT.sub("", host) not in self._hosts:
            said = f"this site is not reached as {host[:80]!r}: name the host in {_NAMING}"
            return self._refuse(scope, 421, said)
        origin = headers.get("origin", "").lower()
        if origin and _place_of(origin) != host and origin not in self._origins:
            said = f"requests of {origin[:80]!r} are not taken: name it in asgi(origins=[...])"
            return self._refuse(scope, 403, said)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:18]) > self._max_body:
            said = f"the body has {length[:18]} bytes: at most {self._max_body} are taken"
            return self._refuse(scope, 413, said)
        return None

    def _refuse(self, scope: Scope, status: int, said: str) -> JSONResponse:
        return refusal(self._forms, scope, status, said)


def refusal(forms: Mapping[str, ErrorForm], scope: Scope, status: int, said: str) -> JSONResponse:
    """Return the response to a request that no route sees, in the form of its protocol."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    headers = {"retry-after": "10"} if status == _TOO_MANY else None
    for prefix, form in forms.items():
        if path.startswith(prefix):
            return JSONResponse(form(status, said), status, headers)
    return JSONResponse({"error": said}, status, headers)


def _place_of(origin: str) -> str:
    """Return the host and port of an origin, or "" if it is not a URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def rpc_refusal(status: int, said: str) -> JsonObject:
    """Return a refusal in the form of a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": said}}
