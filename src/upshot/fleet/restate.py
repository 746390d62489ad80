"""A fleet on Restate, which drives the runs of a journal and stores nothing of them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from upshot.contract.base.checks import Allowed, check_argument
from upshot.errors import JournalError, Misuse, need_of_extra
from upshot.fleet.app import App, AsgiApp, AsgiEvent
from upshot.fleet.driver import AGAIN_S, SWEEP_S, Driver, logger

if TYPE_CHECKING:
    import restate
    from aiohttp import ClientSession

OBJECT = "upshot"
HANDLER = "activate"
INGRESS = "http://127.0.0.1:8080"
"""The default address where a Restate server accepts requests."""

# Longer than that: Restate asks a silent handler to end after this, and aborts it after twice this.
_SILENT_S = 75.0
_SEND_S = 2.0
# How soon Restate retries what failed, and how often in all.
_TRY_S = 0.1
_TRIES = 10
_SAID_CHARS = 200

_APP = Allowed("an App", (App,))
_INGRESS = Allowed("a URL such as 'http://127.0.0.1:8080', or a list of them", (str, list, tuple))


def restate_service(app: App, *, ingress: str | Iterable[str] = INGRESS) -> AsgiApp:
    """Return an ASGI service through which Restate drives the runs of an App.

    It has one virtual object, ``upshot``, keyed by run. Its only handler, ``activate``, works on
    that run until it ends or parks; after 60 s it sends itself again and returns, and the run
    continues. While it serves, it sends an activation for each run that is due in the journal.
    Restate gets only the ids of runs.

    Args:
        app: The App with the runs. Its journal is opened and closed with the service; it should
            be in PostgreSQL, so that services on several machines share it.
        ingress: The URL where Restate accepts requests, or several; if one does not answer, the
            next is tried.

    Returns:
        The application, for an ASGI server that speaks HTTP/2, or HTTP/1.1 if it is registered
        with ``use_http_11``. When the server ends, runs in progress are left to other services
        after their current step, which has 25 s.

    Raises:
        Misuse: An argument is wrong, or the extra ``restate`` is not installed.
    """
    check_argument("app of a Restate service", app, _APP)
    check_argument("ingress", ingress, _INGRESS)
    urls: list[object] = [ingress] if isinstance(ingress, str) else [*ingress]
    for url in urls:
        if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
            raise Misuse(f"ingress is a URL such as {INGRESS!r}, or a list of them, got {url!r}")
    if not urls:
        raise Misuse(f"ingress is an empty list: give a URL such as {INGRESS!r}")
    try:
        import restate
    except ImportError as error:
        raise Misuse(need_of_extra("a Restate service", "restate")) from error
    driver = Driver(app, RestateIngress(cast("list[str]", urls)))
    return _with_driver(driver, restate.app([_virtual_object(driver)]))


def _virtual_object(driver: Driver) -> restate.VirtualObject:
    """Return the virtual object, keyed by run."""
    from restate import InvocationRetryPolicy, ObjectContext, TerminalError, VirtualObject

    silent = timedelta(seconds=_SILENT_S)
    # After this many failures Restate gives up: the run is still due in the journal and is resent.
    tries = InvocationRetryPolicy(
        initial_interval=timedelta(seconds=_TRY_S),
        max_interval=timedelta(seconds=SWEEP_S),
        max_attempts=_TRIES,
        on_max_attempts="kill",
    )
    runs = VirtualObject(
        OBJECT,
        inactivity_timeout=silent,
        abort_timeout=silent,
        # A run that is still due is sent again under the same key.
        idempotency_retention=timedelta(seconds=AGAIN_S),
        invocation_retry_policy=tries,
    )

    async def activate(ctx: ObjectContext) -> None:
        run_id = ctx.key()
        try:
            await driver.activate(run_id)
        except Misuse:
            # The worker has logged why.
            raise TerminalError(f"run {run_id} cannot be worked on here") from None
        # Restate tries again; it must not see what an error says about the run.
        except Exception:
            logger.exception("run %s could not be worked on", run_id, extra={"run_id": run_id})
            raise ConnectionError(f"run {run_id} could not be worked on") from None

    # Its annotations are read here, where no module has their names.
    activate.__annotations__ = {"ctx": ObjectContext, "return": None}
    runs.handler(HANDLER)(activate)
    return runs


def _with_driver(driver: Driver, engine: Callable[[Any, Any, Any], Awaitable[None]]) -> AsgiApp:
    """Return the application: Restate's, with the driver running while it is served."""

    async def serve(
        scope: AsgiEvent,
        receive: Callable[[], Awaitable[AsgiEvent]],
        send: Callable[[AsgiEvent], Awaitable[None]],
    ) -> None:
        if scope["type"] != "lifespan":
            await engine(scope, receive, send)
            return
        await receive()
        ended: AsgiEvent = {"type": "lifespan.shutdown.complete"}
        try:
            async with driver.at_work():
                _at_sigterm(driver.begin_end)
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (Misuse, JournalError) as error:
            ended = {"type": "lifespan.startup.failed", "message": str(error)}
        await send(ended)

    return serve


def _at_sigterm(begin_end: Callable[[], object]) -> None:
    """Start to end on SIGTERM, because the server waits for all requests to be answered first.

    Restate's application takes over the signal at its first request, and would keep it from a
    server that set its handler with ``signal``, as uvicorn does.
    """
    from restate.server import install_shutdown_hook

    handler = signal.getsignal(signal.SIGTERM)

    def tell() -> None:
        begin_end()
        if callable(handler):
            handler(signal.SIGTERM, None)

    # Fails on Windows, and outside the main thread.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        install_shutdown_hook(asyncio.get_running_loop(), tell)


class RestateIngress:
    """The address where Restate accepts what is sent to its objects."""

    name = "Restate"

    def __init__(self, urls: list[str]) -> None:
        # The one that answered last is tried first.
        self._urls = [url.rstrip("/") for url in urls]
        self._session: ClientSession | None = None

    async def send(self, run_id: str, key: str, *, delay_s: float = 0) -> None:
        """Send an activation of a run; one key is activated once.

        Raises:
            ConnectionError: No node accepted it.
        """
        from aiohttp import ClientError, ClientSession, ClientTimeout

        if self._session is None:
            # A handler without input refuses a request that has a content type.
            self._session = ClientSession(
                timeout=ClientTimeout(total=_SEND_S), skip_auto_headers=["content-type"]
            )
        path = f"/{OBJECT}/{quote(run_id, safe='')}/{HANDLER}/send"
        problem = ""
        for url in [*self._urls]:
            try:
                async with self._session.post(
                    url + path,
                    params={"delay": f"{delay_s * 1000:.0f}ms"} if delay_s else {},
                    headers={"idempotency-key": key},
                ) as reply:
                    if reply.ok:
                        return
                    text = (await reply.text(errors="replace"))[:_SAID_CHARS]
                    problem = f"{url} answered {reply.status}: {text}"
            except (ClientError, TimeoutError) as error:
                problem = f"{url}: {str(error) or type(error).__name__}"
            if url == self._urls[0]:
                self._urls.append(self._urls.pop(0))
        raise ConnectionError(f"Restate accepts no request: {problem}")

    async def aclose(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
