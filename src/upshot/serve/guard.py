"""What every request passes before a route sees it, and what every response carries."""

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
"""What tells an HTTP status and a sentence as an error of a protocol."""

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""The hosts under which a site is always reached."""

_PORT = re.compile(r":\d+$")
# No script, style, picture or connection of elsewhere, and no frame round it.
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
    """Counts requests within ten seconds, of whoever they are.

    Args:
        rate: How many requests may come of each within ten seconds.

    Attributes:
        refusal: What the one is told who sent too many.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._window = 0
        self._sent: dict[Hashable, int] = {}
        self.refusal: str = f"more than {rate} requests in ten seconds: wait a little"

    def is_within(self, who: Hashable) -> bool:
        """Count a request; returns whether it is one of those that are allowed."""
        window = int(time.monotonic() / 10)
        if window != self._window:
            self._window, self._sent = window, {}
        sent = self._sent[who] = self._sent.get(who, 0) + 1
        return sent <= self._rate


class Guard:
    """Refuses requests from elsewhere and too many of them; ASGI middleware.

    A page of another site can have a browser send requests here, and by a name that is made to
    point here it can read what they give. So the host of each request, and its origin where it has
    one, must be known.

    Args:
        app: What it guards.
        hosts: The names under which the site is reached, beside those of this machine.
        origins: Origins of pages of other sites that may send requests, "https://shop.example".
        counter: Counts the requests of each client address.
        is_known: Whether a known user sent a request.
        max_body: How many bytes a request may say that it has.
        forms: Those of the errors of protocols, by how the paths of their doors begin.
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
        """The refusal of a request that is one too many.

        Behind a proxy all requests come from one address, so an address that has sent many is
        asked who it is: users who are known are counted by name, in ``Site.user``.
        """
        address = (scope.get("client") or ("",))[0]
        if self._counter.is_within(address) or await self._is_known(scope):
            return None
        return self._refused(scope, _TOO_MANY, self._counter.refusal)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if _PORT.sub("", host) not in self._hosts:
            said = f"this site is not reached as {host[:80]!r}: name the host in {_NAMING}"
            return self._refused(scope, 421, said)
        origin = headers.get("origin", "").lower()
        if origin and _place_of(origin) != host and origin not in self._origins:
            said = f"requests of {origin[:80]!r} are not taken: name it in asgi(origins=[...])"
            return self._refused(scope, 403, said)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:18]) > self._max_body:
            said = f"the body has {length[:18]} bytes: at most {self._max_body} are taken"
            return self._refused(scope, 413, said)
        return None

    def _refused(self, scope: Scope, status: int, said: str) -> JSONResponse:
        return refusal(self._forms, scope, status, said)


def refusal(forms: Mapping[str, ErrorForm], scope: Scope, status: int, said: str) -> JSONResponse:
    """The response to a request that no route sees, in the form of its protocol."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    headers = {"retry-after": "10"} if status == _TOO_MANY else None
    for prefix, form in forms.items():
        if path.startswith(prefix):
            return JSONResponse(form(status, said), status, headers)
    return JSONResponse({"error": said}, status, headers)


def _place_of(origin: str) -> str:
    """The host and port of an origin, "" for what is no URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def rpc_refusal(status: int, said: str) -> JsonObject:
    """A sentence in the form that JSON-RPC has for a request that is not taken."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": said}}
