"""What every request passes before a route sees it, and what every response carries."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
_STATES = ("http.response.start", "websocket.accept")


class Guard:
    """Refuses requests from elsewhere and too many of them; ASGI middleware.

    A page of another site can have a browser send requests here, and by a name that is made to
    point here it can read what they give. So the host of each request, and its origin where it has
    one, must be known.

    Args:
        app: What it guards.
        hosts: The names under which the site is reached, beside those of this machine.
        origins: Origins of pages of other sites that may send requests, "https://shop.example".
        rate: How many requests a client address may send within ten seconds.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Collection[str], origins: Collection[str], rate: int
    ) -> None:
        self._app = app
        self._hosts = {host.lower() for host in (*LOCAL, *hosts)}
        self._origins = {origin.lower() for origin in origins}
        self._rate = rate
        self._window = 0
        self._sent: dict[str, int] = {}

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

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_on)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if _PORT.sub("", host) not in self._hosts:
            said = f"this site is not reached as {host[:80]!r}: name the host in {_NAMING}"
            return _refused(421, said)
        origin = headers.get("origin", "").lower()
        if origin and urlsplit(origin).netloc != host and origin not in self._origins:
            said = f"requests of {origin[:80]!r} are not taken: name it in asgi(origins=[...])"
            return _refused(403, said)
        if self._is_too_often((scope.get("client") or ("",))[0]):
            said = f"more than {self._rate} requests in ten seconds: wait a little"
            return _refused(429, said, {"retry-after": "10"})
        return None

    def _is_too_often(self, client: str) -> bool:
        window = int(time.monotonic() / 10)
        if window != self._window:
            self._window, self._sent = window, {}
        sent = self._sent[client] = self._sent.get(client, 0) + 1
        return sent > self._rate


def _refused(status: int, said: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": said}, status, headers)
