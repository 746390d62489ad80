"""What drives the runs of an App from outside: another system decides where and when.

The journal is the outbox. A driver sends an activation for each run that is due in it, and works on
the runs that the system activates in its process. The system stores nothing of a run but its id.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.fleet.schedules import Scheduler
from upshot.fleet.worker import Worker, keep_index
from upshot.journal.shared import DueRun, needs_shared
from upshot.journal.watching import DUE

WORK_S = 60.0
"""How long one activation waits for its run; then it sends the next one, and the run continues."""
SWEEP_S = 2.0
"""How often due runs are looked for when no notification comes."""
AGAIN_S = 5.0
"""A run that is still due is sent again after this."""
_AT_ONCE = 20
_MARGIN_S = 0.2

logger: logging.Logger = logging.getLogger("upshot.fleet")


class Sender(Protocol):
    """Sends activations to the system that drives the runs."""

    @property
    def name(self) -> str:
        """The name of the system, for messages."""
        ...

    async def send(self, run_id: str, key: str, *, delay_s: float = 0) -> None:
        """Send an activation of a run; one key is activated once.

        Raises:
            ConnectionError: The system did not accept it.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class Driver:
    """Works on the runs that another system activates, and sends it activations for due runs.

    Args:
        app: The App with the runs.
        sender: Sends activations to the system.
        work_s: How long one activation waits for its run; None waits until it ends or parks.
    """

    def __init__(self, app: App, sender: Sender, *, work_s: float | None = WORK_S) -> None:
        self._app = app
        self._sender = sender
        self._worker = Worker(app)
        self._work_s = work_s
        self._draining: asyncio.Task[bool] | None = None
        # When a due run may be sent again, by the key it was sent under.
        self._sent: dict[str, float] = {}

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Send due runs; at the end leave the runs in progress to others, and close the App."""
        async with self._app:
            sweep = asyncio.create_task(self._sweep())
            schedules = asyncio.create_task(Scheduler(self._app).work())
            indexing = asyncio.create_task(keep_index(self._app))
            try:
                yield
            finally:
                sweep.cancel()
                schedules.cancel()
                indexing.cancel()
                await asyncio.wait({sweep, schedules, indexing, self.begin_end()})
                await self._sender.aclose()

    def begin_end(self) -> asyncio.Task[bool]:
        """Start nothing more, and leave the runs in progress to others after their current step."""
        if self._draining is None:
            self._worker.stop()
            self._draining = asyncio.create_task(self._worker.drain())
        return self._draining

    async def activate(self, run_id: str) -> None:
        """Work on a run until it ends, parks or waits, or for a while.

        Raises:
            Misuse: The run cannot be worked on here.
            JournalError: The journal cannot be read.
            ConnectionError: The next activation was not accepted, or the service is ending.
        """
        task = self._worker.at_work(run_id) or await self._start_session(run_id)
        if task is not None:
            # Cancelling a request must not end the session.
            await asyncio.wait({task}, timeout=self._work_s)
        if task is None or not task.done() or not task.result():
            await self._wait_for_lease(run_id)
        elif self._worker.is_put_off(run_id):
            raise Misuse(self._worker.refused.get(run_id, "it is left to others"))

    async def _start_session(self, run_id: str) -> asyncio.Task[bool] | None:
        """Start a session of a run; None if it is not due."""
        shared = needs_shared(await self._app.open())
        due = await shared.due_runs(self._app.agents, run_id=run_id)
        if self._draining is not None:
            raise ConnectionError("the service is ending: another one will work on the run")
        return self._worker.start_work(due[0]) if due else None

    async def _wait_for_lease(self, run_id: str) -> None:
        """Send an activation for when the lease of the run's holder ends, if it has one."""
        holders = getattr(await self._app.open(), "holders", None)
        holder = None if holders is None else (await holders()).get(run_id)
        if holder is not None and holder.may_work:
            left_s = AGAIN_S if holder.lease_s is None else max(holder.lease_s, 0) + _MARGIN_S
            # One key for all that find it held at about the same time.
            end = (time.time() + left_s) // AGAIN_S
            await self._sender.send(run_id, f"{run_id}::lease@{end:.0f}", delay_s=left_s)

    async def _sweep(self) -> None:
        """Send an activation for each due run, as soon as that is known."""
        was_refused = False
        with needs_shared(await self._app.open()).watch(DUE) as watch:
            while self._draining is None:
                try:
                    await self._send_due()
                    was_refused = False
                # Continue after any error: due runs stay in the journal until they are sent.
                except Exception as error:
                    if not was_refused:
                        logger.warning(
                            "runs that are due are not sent to %s: %s", self._sender.name, error
                        )
                    was_refused = True
                await watch.changed(SWEEP_S)

    async def _send_due(self) -> None:
        """Send what is due and was not sent just now."""
        due = {_key(one): one.run_id for one in await self._app.due()}
        now = time.monotonic()
        self._sent = {key: until for key, until in self._sent.items() if key in due}
        room = asyncio.Semaphore(_AT_ONCE)

        async def send(key: str) -> None:
            async with room:
                await self._sender.send(due[key], key)
                self._sent[key] = now + AGAIN_S

        # A run that is not accepted yet must not block the others.
        wanted = [
            send(key)
            for key, run_id in due.items()
            if self._sent.get(key, 0) <= now and not self._worker.is_put_off(run_id)
        ]
        for error in await asyncio.gather(*wanted, return_exceptions=True):
            if error is not None:
                raise error


def _key(due: DueRun) -> str:
    """Return run, epoch and reason as one key, so that every service sends the same one."""
    since = "" if due.at is None else due.at.isoformat()
    return f"{due.run_id}:{due.epoch}:{due.reason}@{since}"
