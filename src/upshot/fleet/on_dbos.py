"""A fleet on DBOS, which drives the runs of a journal and stores nothing of them."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from upshot.contract.base.checks import Allowed, check_argument
from upshot.errors import Misuse, need_of_extra
from upshot.fleet.app import App
from upshot.fleet.driver import Driver, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

QUEUE = "upshot"
_CONCURRENCY = 100
_POLL_S = 0.2
# A run that is still due is sent again in the next period, unless it waits in the queue.
_AGAIN_S = 10.0

_APP = Allowed("an App", (App,))
_NAME = Allowed("a name", (str,))
_COUNT = Allowed("a whole number from 1", (int,), but=(bool,))


def dbos_driver(
    app: App, *, queue: str = QUEUE, worker_concurrency: int = _CONCURRENCY
) -> DbosDriver:
    """Let DBOS drive the runs of an App in this process, through a queue of DBOS.

    Call it before ``DBOS.launch()``, since it registers a workflow; then, after the launch, enter
    what it returns, for as long as the process works. Each activation is a workflow that works on
    one run until it ends or parks. DBOS gets only the ids of runs. While entered, it also
    enqueues each run that is due in the journal.

    Args:
        app: The App with the runs. Its journal is opened and closed with the driver. It should be
            in PostgreSQL, so that processes on several machines share it; the database of DBOS may
            be the same one.
        queue: The name of the queue, by which you find it in DBOS. Each App needs its own.
        worker_concurrency: How many runs this process works on at the same time.

    Returns:
        The driver, an async context manager. At its end, runs in progress are left to other
        processes after their current step, which has 25 s.

    Raises:
        Misuse: An argument is wrong, or the extra ``dbos`` is not installed.
    """
    check_argument("app of a DBOS driver", app, _APP)
    check_argument("queue", queue, _NAME)
    check_argument("worker_concurrency", worker_concurrency, _COUNT)
    if not queue or worker_concurrency < 1:
        raise Misuse(
            "a DBOS driver needs the name of a queue and a worker_concurrency of at least 1, got "
            f"{queue!r} and {worker_concurrency}"
        )
    try:
        import dbos  # pyright: ignore[reportUnusedImport]  # only whether it is there  # noqa: F401
    except ImportError as error:
        raise Misuse(need_of_extra("a DBOS driver", "dbos")) from error
    return DbosDriver(app, queue, worker_concurrency)


class DbosDriver:
    """Works on the runs that DBOS activates; see ``dbos_driver``, which makes one."""

    def __init__(self, app: App, queue: str, worker_concurrency: int) -> None:
        from dbos import DBOS

        self._queue = queue
        self._concurrency = worker_concurrency
        self._loop: asyncio.AbstractEventLoop | None = None
        self._block: AbstractAsyncContextManager[None] | None = None
        # Does not carry what an error says about a run into the database of DBOS.
        work = DBOS.workflow(name=f"upshot.{queue}")(self._activation())
        # One activation lasts as long as the session of its run.
        self._driver = Driver(app, DbosQueue(queue, work), work_s=None)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._register_queue)
        self._loop = asyncio.get_running_loop()
        self._block = self._driver.at_work()
        await self._block.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block, self._block = self._block, None
        if block is not None:
            await block.__aexit__(kind, error, trace)
        self._loop = None

    def _register_queue(self) -> None:
        from dbos import DBOS
        from dbos import error as faults

        try:
            DBOS.register_queue(
                self._queue,
                worker_concurrency=self._concurrency,
                polling_interval_sec=_POLL_S,
            )
        except faults.DBOSException as error:
            raise Misuse(
                f"the queue {self._queue!r} cannot be registered: {error}; call DBOS(config=...), "
                "dbos_driver(...) and DBOS.launch(), in this order, before you enter the driver"
            ) from error

    def _activation(self) -> Callable[[str], Coroutine[Any, Any, None]]:
        async def activate(run_id: str) -> None:
            if self._loop is None:
                raise ConnectionError("this process does not work on runs now")
            # DBOS runs workflows in an event loop of its own; an App belongs to one loop.
            working = asyncio.run_coroutine_threadsafe(self._driver.activate(run_id), self._loop)
            try:
                await asyncio.wrap_future(working)
            except Exception:
                logger.exception("run %s could not be worked on", run_id, extra={"run_id": run_id})
                raise ConnectionError(f"run {run_id} could not be worked on") from None

        return activate


class DbosQueue:
    """Enqueues activations.

    Args:
        queue: The name of the queue.
        work: The workflow.
    """

    name = "DBOS"

    def __init__(self, queue: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._queue = queue
        self._work = work

    async def send(self, run_id: str, key: str, *, delay_s: float = 0) -> None:
        """Enqueue an activation of a run, unless one with this key is in the queue."""
        # A run that another process holds is due when its lease has ended, and sent then.
        if not delay_s:
            await asyncio.to_thread(self._enqueue, run_id, key)

    async def aclose(self) -> None:
        """Do nothing: the connections are those of DBOS."""

    def _enqueue(self, run_id: str, key: str) -> None:
        from dbos import DBOS, SetWorkflowID

        # The workflows of another version wait for processes that may be gone.
        waiting = DBOS.list_workflows(
            workflow_id_prefix=f"{key}#",
            status="ENQUEUED",
            app_version=DBOS.application_version,
            limit=1,
            load_input=False,
            load_output=False,
        )
        if not waiting:
            with SetWorkflowID(f"{key}#{time.time() // _AGAIN_S:.0f}"):
                DBOS.enqueue_workflow(self._queue, self._work, run_id)
