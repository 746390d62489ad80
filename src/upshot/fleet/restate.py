"""A fleet on Restate, which drives the runs of a journal and holds nothing of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from upshot.contract.base.checks import Allowed, check_argument
from upshot.errors import JournalError, Misuse, need_of_extra
from upshot.fleet.app import App
from upshot.journal.shared import DueRun, needs_shared
from upshot.journal.watching import DUE

if TYPE_CHECKING:
    import restate
    from aiohttp import ClientSession

AsgiEvent = MutableMapping[str, object]
"""A scope or an event of ASGI."""

AsgiApp = Callable[
    [AsgiEvent, Callable[[], Awaitable[AsgiEvent]], Callable[[AsgiEvent], Awaitable[None]]],
    Awaitable[None],
]
"""An application as ASGI 3 has it."""

OBJECT = "upshot"
HANDLER = "activate"
INGRESS = "http://127.0.0.1:8080"
"""Where a Restate server takes requests, unless it was told otherwise."""

# So long one activation works on a run; then it sends the next one.
WORK_S = 60.0
# Above that: Restate asks what is silent for so long to end, and cuts it off as long again later.
_SILENT_S = 75.0
# How often what is due is looked for where no word of it comes.
_SWEEP_S = 2.0
# What was sent is sent again after this, should it be due still; so long Restate knows its key.
_AGAIN_S = 5.0
_SEND_S = 5.0
_MARGIN_S = 0.2

_APP = Allowed("an App", (App,))
_INGRESS = Allowed("a URL such as 'http://127.0.0.1:8080', or a list of them", (str, list, tuple))

logger: logging.Logger = logging.getLogger("upshot.fleet")


def restate_service(app: App, *, ingress: str | Iterable[str] = INGRESS) -> AsgiApp:
    """An ASGI service by which Restate drives the runs of an App.

    It has one virtual object, ``upshot``, whose key is a run and whose one handler, ``activate``,
    works on that run until it ends or parks, or for 60 s. While it serves, it sends an activation
    for each run that is due in the journal. Restate gets nothing but ids of runs.

    Args:
        app: What the runs are given. Its journal is opened and closed with the service; it should
            be in PostgreSQL, so that services on several machines share it.
        ingress: Where Restate takes requests, a URL; of several the next one is asked where one
            does not answer.

    Returns:
        The application, for an ASGI server that speaks HTTP/2, or HTTP/1.1 if it is registered
        with ``use_http_11``. When the server ends, it waits for the runs that are at work.

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
    driver = _Driver(app, _Ingress(cast("list[str]", urls)))
    return _served(driver, restate.app([_object(driver)]))


def _object(driver: _Driver) -> restate.VirtualObject:
    """The virtual object whose key is a run."""
    from restate import ObjectContext, TerminalError, VirtualObject

    silent = timedelta(seconds=_SILENT_S)
    runs = VirtualObject(
        OBJECT,
        inactivity_timeout=silent,
        abort_timeout=silent,
        idempotency_retention=timedelta(seconds=_AGAIN_S),
    )

    async def activate(ctx: ObjectContext) -> None:
        run_id = ctx.key()
        try:
            await driver.activate(run_id)
        except Misuse as error:
            logger.error("run %s cannot be taken up here: %s", run_id, error)
            raise TerminalError(f"run {run_id} cannot be taken up here") from None
        # The engine tries again, and is not told what an error says of the run.
        except Exception:
            logger.exception("run %s could not be worked on", run_id)
            raise ConnectionError(f"run {run_id} could not be worked on") from None

    # Its annotations are read here, where no module has their names.
    activate.__annotations__ = {"ctx": ObjectContext, "return": None}
    runs.handler(HANDLER)(activate)
    return runs


def _served(driver: _Driver, engine: Callable[[Any, Any, Any], Awaitable[None]]) -> AsgiApp:
    """The application: Restate's, and the driver for as long as it is served."""

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
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except (Misuse, JournalError) as error:
            ended = {"type": "lifespan.startup.failed", "message": str(error)}
        await send(ended)

    return serve


class _Ingress:
    """Where Restate takes what is sent to its objects."""

    def __init__(self, urls: list[str]) -> None:
        # The one that answered last is asked first.
        self._urls = [url.rstrip("/") for url in urls]
        self._session: ClientSession | None = None

    async def send(self, run_id: str, wish: str, *, delay_s: float = 0) -> None:
        """Have a run activated; what has one key is done once.

        Raises:
            ConnectionError: No node took it.
        """
        from aiohttp import ClientError, ClientSession, ClientTimeout

        if self._session is None:
            self._session = ClientSession(timeout=ClientTimeout(total=_SEND_S))
        path = f"/{OBJECT}/{quote(run_id, safe='')}/{HANDLER}/send"
        said = ""
        for url in [*self._urls]:
            try:
                async with self._session.post(
                    url + path,
                    params={"delay": f"{delay_s * 1000:.0f}ms"} if delay_s else {},
                    headers={"idempotency-key": f"{run_id}:{wish}"},
                ) as reply:
                    if reply.ok:
                        return
                    said = f"{url} answered {reply.status}"
            except (ClientError, TimeoutError) as error:
                said = f"{url}: {str(error) or type(error).__name__}"
            self._urls.remove(url)
            self._urls.append(url)
        raise ConnectionError(f"Restate takes no request: {said}")

    async def aclose(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Driver:
    """Works on the runs that Restate activates, and has it activate those that are due."""

    def __init__(self, app: App, ingress: _Ingress) -> None:
        self._app = app
        self._ingress = ingress
        # The sessions at work. A request that is cut off ends none of them.
        self._tasks: dict[str, asyncio.Task[object]] = {}
        # When what is due may be sent again, by the key it was sent under.
        self._sent: dict[str, float] = {}

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Send what is due, and close the App once the runs at work have ended or parked."""
        async with self._app:
            sweep = asyncio.create_task(self._sweep())
            try:
                yield
            finally:
                sweep.cancel()
                await asyncio.wait({sweep, *self._tasks.values()})
                await self._ingress.aclose()

    async def activate(self, run_id: str) -> None:
        """Work on a run until it ends, parks or waits, or for a while.

        Raises:
            Misuse: The run cannot be taken up with what the App has.
            JournalError: The journal cannot be read or written.
            ConnectionError: No node took the next activation.
        """
        task = self._tasks.get(run_id)
        if task is None:
            shared = needs_shared(await self._app.open())
            due = await shared.due_runs(self._app.agents, run_id=run_id)
            if not due:
                await self._wait_for_lease(run_id)
                return
            task = self._tasks.get(run_id) or asyncio.create_task(self._work(due[0]))
            self._tasks[run_id] = task
        done, _ = await asyncio.wait({task}, timeout=WORK_S)
        if not done:
            await self._ingress.send(run_id, f"on@{time.time():.0f}")
        elif await task is None:
            await self._wait_for_lease(run_id)

    async def _work(self, due: DueRun) -> object:
        """One session of a run; None where another one has it."""
        try:
            return await self._app.activate(due.run_id)
        except Misuse:
            # Nothing here can change that.
            self._sent[_wish(due)] = float("inf")
            raise
        finally:
            del self._tasks[due.run_id]

    async def _wait_for_lease(self, run_id: str) -> None:
        """Have the run looked at again when the lease of its holder ends, if it has one."""
        holders = getattr(await self._app.open(), "holders", None)
        holder = None if holders is None else (await holders()).get(run_id)
        if holder is not None and holder.may_work:
            left_s = _AGAIN_S if holder.lease_s is None else max(holder.lease_s, 0) + _MARGIN_S
            # One for all who find it held at about the same time.
            end = (time.time() + left_s) // _AGAIN_S
            await self._ingress.send(run_id, f"lease@{end:.0f}", delay_s=left_s)

    async def _sweep(self) -> None:
        """Send an activation for each run that is due, as soon as that is known."""
        was_refused = False
        shared = needs_shared(await self._app.open())
        with shared.watch(DUE) as watch:
            while True:
                try:
                    await self._send_due()
                    was_refused = False
                # It goes on whatever went wrong: what is due stays in the journal until it is sent.
                except Exception as error:
                    if not was_refused:
                        logger.warning("runs that are due are not sent to Restate: %s", error)
                    was_refused = True
                await watch.changed(_SWEEP_S)

    async def _send_due(self) -> None:
        """Send what is due and was not sent just now."""
        due = {_wish(one): one for one in await self._app.due()}
        now = time.monotonic()
        self._sent = {wish: until for wish, until in self._sent.items() if wish in due}
        for wish, one in due.items():
            if self._sent.get(wish, 0) <= now:
                await self._ingress.send(one.run_id, wish)
                self._sent.setdefault(wish, 0)
                self._sent[wish] = max(self._sent[wish], now + _AGAIN_S)


def _wish(due: DueRun) -> str:
    """What makes a run due, so that the same is sent under one key by every service."""
    return f"{due.epoch}:{due.reason}@{'' if due.at is None else due.at.isoformat()}"
