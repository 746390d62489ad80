"""Serves an App from the command line."""

from __future__ import annotations

import importlib.util
import signal
import socket
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from upshot.cli.approve import user_name
from upshot.cli.loading import Target, load_app
from upshot.cli.lookup import journal_of
from upshot.cli.terminal import Terminal
from upshot.errors import Misuse, need_of_extra
from upshot.fleet.notifier import notifying

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_STOPS = (signal.SIGINT, signal.SIGTERM)
# So long requests under way may take after a signal; streams are ended at once.
_ENDING_S = 5


async def serve_app(
    terminal: Terminal,
    *,
    target: str,
    journal: str,
    host: str,
    port: int,
    no_work: bool,
    opens: bool,
    notify_url: str,
    console_url: str,
    trace_url: str,
) -> int:
    """Serve the App of a file until a signal."""
    for package in ("starlette", "sse_starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise Misuse(need_of_extra("upshot serve", "serve"))
    from upshot.serve.sign_in import OwnerSignIn, key_path, read_key
    from upshot.serve.site import Site

    app, _ = load_app(Target(target))
    app.journal = journal_of(app.journal, journal or None)
    path = key_path()
    try:
        sign_in = OwnerSignIn(read_key(path))
    except OSError as error:
        raise Misuse(
            f"{path} cannot be used, which has the key of sign-ins: {error.strerror}; name another "
            "folder in XDG_STATE_HOME"
        ) from None
    hosts = [name for name in (host, urlsplit(console_url).hostname) if name]
    site = Site(app, user=sign_in.user, hosts=hosts, work=not no_work, trace_url=trace_url)
    listening = _listen(host, port)
    # Before it is told where to go: what is wrong with the journal is a line, and no page.
    await app.open()
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}{sign_in.path}"
    terminal.tell(f"serving {', '.join(app.agents)}, version {app.version}; Ctrl-C ends it")
    terminal.hint(url)
    if opens:
        webbrowser.open(url)
    console_url = console_url or url.removesuffix(sign_in.path)
    async with notifying(app, notify_url, console_url):
        return await _serve(site.asgi(routes=[sign_in.route]), listening)


async def serve_mcp(terminal: Terminal, *, target: str, journal: str, no_work: bool) -> int:
    """Serve the agents of the App of a file as MCP tools over standard input and output."""
    if importlib.util.find_spec("mcp") is None:
        raise Misuse(need_of_extra("upshot mcp", "mcp"))
    from upshot.serve.doors.mcp import serve_stdio
    from upshot.serve.site import Site, working
    from upshot.serve.users import User

    app, _ = load_app(Target(target))
    app.journal = journal_of(app.journal, journal or None)
    user = User(user_name() or "local")
    async with app, nullcontext() if no_work else working(app):
        terminal.tell(f"serving {', '.join(app.agents)} over standard input and output")
        await serve_stdio(Site(app, user=lambda _: user), user)
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """A socket that takes requests.

    Raises:
        Misuse: There is no such host, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # From here on the link can be followed: the first request waits until all is there.
        listening.listen()
        return listening
    except OSError as error:
        raise Misuse(
            f"{host}:{port} cannot be listened on: {error.strerror}; name another --port, or 0 for "
            "a free one"
        ) from None


async def _serve(application: ASGIApp, listening: socket.socket) -> int:
    import uvicorn

    class Server(uvicorn.Server):
        """Ends by a signal as by a wish; uvicorn's own gives itself the signal again."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            before = {number: signal.signal(number, self.handle_exit) for number in _STOPS}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    config: Any = uvicorn.Config(
        application,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=_ENDING_S,
        server_header=False,
    )
    server = Server(config)
    with listening:
        await server.serve(sockets=[listening])
    return 0 if server.started else 1
