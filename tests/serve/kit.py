"""A site served on loopback, and clients for it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
import uvicorn

from tests.asgi import AsgiServer
from upshot import App
from upshot.serve import User

USERS: Mapping[str, User] = {
    "ann": User("ann", ("own",)),
    "ben": User("ben", ("own",)),
    "cal": User("cal"),
    "sam": User("sam", ("view", "answer", "operate")),
    "vic": User("vic", ("view",)),
    "oz": User("oz", ("owner",)),
    "tia": User("tia", ("owner",), tenant="blue"),
    "una": User("una", ("own",), tenant="blue"),
}


def who(request: Any) -> User | None:
    """Return the user that a request names; a browser download sends only its cookie."""
    return USERS.get(request.headers.get("authorization") or request.cookies.get("user", ""))


class Client:
    """Sends requests as one user."""

    def __init__(self, session: aiohttp.ClientSession, url: str, name: str = "") -> None:
        self.session = session
        self.url = url
        self.name = name
        self.headers: dict[str, str] = {
            "x-upshot": "1",
            **({"authorization": name} if name else {}),
        }

    def by(self, name: str) -> Self:
        """The same client as another user; "" is no user."""
        return type(self)(self.session, self.url, name)

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Return the status and the JSON of the response."""
        given: Any = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": body}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        asking = self.session.request(
            method, self.url + path, headers={**self.headers, **named}, **given
        )
        async with asking as response:
            is_json = response.content_type == "application/json"
            return response.status, (await response.json() if is_json else await response.text())

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        return await self.ask("POST", path, {} if body is None else body, **headers)


@asynccontextmanager
async def served(app: App, **options: Any) -> AsyncGenerator[Client]:
    """Serve an App on a free port; yields a client without a user."""
    given: Any = {"user": who, **options}
    async with listening(app.asgi(**given)) as client:
        yield client


@asynccontextmanager
async def listening(served: Any) -> AsyncGenerator[Client]:
    """Serve an ASGI application on a free port; yields a client without a user."""
    config = uvicorn.Config(served, port=0, log_level="warning", lifespan="on")
    server = AsgiServer(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
        if task.done():
            task.result()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Client(session, f"http://127.0.0.1:{port}")
    finally:
        server.stop()
        await task
