"""What a process tells a monitor: ``/health``, ``/ready`` and ``/metrics``.

The metrics have two origins. What this process did is counted in it, by
``upshot.telemetry.prometheus``. What the journal has (queue, inbox, unknown effects, leases) is
read from its rows when a monitor asks. So it is true whichever processes were killed, and every
process says the same. Its names start with ``upshot_journal_``. Add up the former; take the largest
of the latter.

No text, id or secret of a run is in any of the three, so none asks who reads it. Their port is for
this machine or a private network.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from aiohttp import web

from upshot.contract.base.structs import JsonObject
from upshot.contract.protocols import Journal
from upshot.errors import Misuse, UpshotError, need_of_extra
from upshot.fleet.app import App
from upshot.fleet.schedules import ScheduleState
from upshot.fleet.worker import Worker
from upshot.journal.run_counts import OpenWork
from upshot.journal.shared import JournalAway, shared_journal
from upshot.journal.sql.health import JournalHealth
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.version import __version__

if TYPE_CHECKING:
    from upshot.fleet.exposition import Exposition

# A journal that takes longer to answer counts as away.
_PATIENCE_S = 5.0
# How long to wait for the open journal where it needs to be opened first.
_GLANCE_S = 0.5
# Figures of the journal are read at most this often, however many monitors ask.
_KEPT_S = 2.0
ALIVE: JsonObject = {"status": "ok", "version": __version__}
"""What ``/health`` says of a process that needs no restart."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NEEDS_EXTRA: str = need_of_extra("/metrics", "metrics")
_CLIENT = "prometheus_client"
_AWAY = "the journal cannot be reached"
_UNUSABLE = "the journal cannot be used: the log of this process says why"

logger: logging.Logger = logging.getLogger("upshot.status")


class Facts(NamedTuple):
    """What was read from the journal.

    Attributes:
        problem: Why the journal cannot be used, "" if it can.
        health: Its health; None if it cannot be read, or is in memory.
        work: What has not ended yet; None if it cannot be read.
        schedules: The schedules of the App.
    """

    problem: str = ""
    health: JournalHealth | None = None
    work: OpenWork | None = None
    schedules: tuple[ScheduleState, ...] = ()


@dataclass(eq=False)
class Status:
    """The state of this process and its journal; as a context manager it counts what happens.

    Args:
        journal: Returns the open journal.
        app: The App of the journal; None for a gateway.
        is_draining: Whether the process is about to end: it is sent no new work.

    Attributes:
        worker: The worker of this process, once there is one.
    """

    journal: Callable[[], Awaitable[Journal]]
    app: App | None = None
    is_draining: Callable[[], bool] = lambda: False
    worker: Worker | None = None
    _exposition: Exposition | None = None
    _users: int = 0
    _facts: Facts = Facts()
    _read_at: float = float("-inf")
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __enter__(self) -> Self:
        self._users += 1
        if self._exposition is None and importlib.util.find_spec(_CLIENT):
            from upshot.fleet.exposition import Exposition

            self._exposition = Exposition(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self._users -= 1
        if self._exposition is not None and not self._users:
            self._exposition.close()
            self._exposition = None

    async def metrics(self) -> bytes | None:
        """Return the metrics in Prometheus's text format; None without the extra ``metrics``."""
        facts = await self.read()
        return None if self._exposition is None else self._exposition.to_text(facts)

    async def healthy(self) -> tuple[bool, JsonObject]:
        """Return whether the process lives, and needs no restart; it reads nothing."""
        try:
            async with asyncio.timeout(_GLANCE_S):
                journal = await self.journal()
        except (TimeoutError, UpshotError):
            # A restart would not bring a database back.
            return True, ALIVE
        if isinstance(journal, SqlJournal) and not journal.usable:
            why = "a commit has failed, and no other is tried: restart this process"
            return False, {"status": "broken", "why": why}
        return True, ALIVE

    async def ready(self) -> tuple[bool, JsonObject]:
        """Return whether the process can do its work now, and why not."""
        facts = await self.read()
        why_not = "it is draining" if self.is_draining() else facts.problem
        return not why_not, {"ready": not why_not, **({"why_not": why_not} if why_not else {})}

    async def read(self) -> Facts:
        """Read what the journal has, unless that was done just now."""
        async with self._reading:
            loop = asyncio.get_running_loop()
            if loop.time() - self._read_at > _KEPT_S:
                self._facts = await self._read()
                self._read_at = loop.time()
            return self._facts

    async def _read(self) -> Facts:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                journal = await self.journal()
                health = await journal.health() if isinstance(journal, SqlJournal) else None
                shared = shared_journal(journal)
                work = None if shared is None else await shared.open_work()
                states = () if self.app is None else await self.app.schedule_states()
        except TimeoutError:
            return Facts(f"the journal has not answered within {_PATIENCE_S:g} s")
        except UpshotError as error:
            # The message names the journal's place, which is for the log alone.
            if not self._facts.problem:
                logger.warning("this process is not ready: %s", error)
            return Facts(_AWAY if isinstance(error, JournalAway) else _UNUSABLE)
        problem = "" if health is None or health.is_writable else "the journal cannot be written"
        return Facts(problem, health, work, states)


# -- over HTTP


def parse_place(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; ``:9464`` and ``9464`` are of this machine.

    Raises:
        Misuse: It is neither.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise Misuse(f"--status is {text!r}: give HOST:PORT, such as 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


@asynccontextmanager
async def serving_status(status: Status, listening: socket.socket) -> AsyncGenerator[None]:
    """Serve ``/health``, ``/ready`` and ``/metrics`` on a listening socket inside the block."""

    async def health(_: web.Request) -> web.Response:
        is_healthy, body = await status.healthy()
        return web.json_response(body, status=200 if is_healthy else 503)

    async def ready(_: web.Request) -> web.Response:
        is_ready, body = await status.ready()
        return web.json_response(body, status=200 if is_ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        text = await status.metrics()
        if text is None:
            return web.json_response({"error": NEEDS_EXTRA}, status=501)
        return web.Response(body=text, headers={"content-type": METRICS_TYPE})

    site = web.Application()
    for path, handler in (("/health", health), ("/ready", ready), ("/metrics", metrics)):
        site.router.add_get(path, handler)
    runner = web.AppRunner(site, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()
