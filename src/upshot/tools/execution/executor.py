"""Running a body on the event loop or in a thread, within its time limit.

``process_runner`` runs bodies in separate processes. Plain functions run in reusable daemon threads
(``Workers``), not in the loop's default executor: its shutdown joins the threads, so one hung tool
would keep the interpreter from exiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias, cast

from upshot.contract.base.checks import check_whole
from upshot.contract.tool_context import CancelToken
from upshot.native.unsent import Proof

MAX_WORKERS = 128
_IDLE_S = 30.0


@dataclass(eq=False, slots=True)
class Job:
    """One call in a thread.

    Attributes:
        run: The work; it must not raise.
        started: Whether a thread has started it.
        ended: Whether it has ended.
        lost: Whether its thread was written off.
        withdrawn: Whether it was withdrawn before a thread started it.
    """

    run: Callable[[], None]
    started: bool = False
    ended: bool = False
    lost: bool = False
    withdrawn: bool = False


class Workers:
    """At most *cap* daemon threads.

    A thread whose call was abandoned is written off and counted; another replaces it if the cap
    allows. It becomes available again when the call ends after all. Idle threads end after half a
    minute.

    Attributes:
        cap: The maximum number of threads, including those written off.
    """

    def __init__(self, cap: int = MAX_WORKERS) -> None:
        check_whole("cap", cap, least=1)
        self.cap = cap
        self._lock = threading.Lock()
        self._reset()

    @property
    def alive(self) -> int:
        """The number of threads."""
        return self._alive

    @property
    def lost(self) -> int:
        """The number of threads that still run an abandoned call."""
        return self._lost

    def submit(self, job: Job) -> None:
        """Run *job* as soon as a thread is free."""
        with self._lock:
            if self._pid != os.getpid():
                # Threads do not survive a fork.
                self._reset()
            if self._idle:
                # The thread that became idle last, so that the others can time out.
                self._idle.pop().put(job)
            elif self._alive < self.cap:
                self._alive += 1
                worker: SimpleQueue[Job] = SimpleQueue()
                worker.put(job)
                thread = threading.Thread(
                    target=self._work, args=(worker,), name="upshot-tool", daemon=True
                )
                thread.start()
            else:
                self._waiting.append(job)

    def withdraw(self, job: Job) -> bool:
        """Withdraw a job that no thread has started; returns whether that was possible."""
        with self._lock:
            if job.started:
                return False
            job.withdrawn = True
            # A thread that has it already skips it.
            if job in self._waiting:
                self._waiting.remove(job)
            return True

    def write_off(self, job: Job) -> None:
        """Count the thread of *job* as lost until its work ends."""
        with self._lock:
            # It may have ended since the caller looked; its thread is then not lost.
            if not job.ended:
                job.lost = True
                self._lost += 1

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[SimpleQueue[Job]] = []
        self._waiting: deque[Job] = deque()
        self._alive = 0
        self._lost = 0

    def _work(self, worker: SimpleQueue[Job]) -> None:
        while True:
            try:
                job = worker.get(timeout=_IDLE_S)
            except Empty:
                with self._lock:
                    # A job may have arrived between the timeout and the lock.
                    if worker not in self._idle:
                        continue
                    self._idle.remove(worker)
                    self._alive -= 1
                    return
            with self._lock:
                # Under the lock: either withdraw() comes first and the body never starts, or it
                # returns False.
                job.started = not job.withdrawn
            if job.started:
                job.run()
            with self._lock:
                job.ended = True
                if job.lost:
                    self._lost -= 1
                if self._waiting:
                    worker.put(self._waiting.popleft())
                else:
                    self._idle.append(worker)
            # Its arguments and result must not live as long as the idle thread.
            del job


WORKERS = Workers()
"""The threads of this process."""

GRACE_S = 2.0
# Less than a cancelled caller waits for the whole batch.
_CANCEL_GRACE_S = 1.5
# How long a plain body that checks its token has to notice.
_THREAD_GRACE_S = 0.05

Late: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class BodyValue:
    """The body returned.

    Attributes:
        value: The returned value.
        lossy: Paths of values that were replaced on the way because JSON cannot represent them.
    """

    value: object
    lossy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised.

    Attributes:
        error: The exception.
        proof: Proof that nothing was sent, if another process found one.
    """

    error: BaseException
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The body was stopped or abandoned.

    Attributes:
        cancelled: Whether the caller cancelled it; otherwise it ran out of time.
        started: Whether it ever started.
        ended: Whether it has really ended; otherwise it may still be running.
    """

    cancelled: bool
    started: bool = True
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Died:
    """The body was cut off, but not by us.

    Attributes:
        message: What happened.
        code: A word for it.
        started: Whether it ever started.
    """

    message: str
    code: str
    started: bool = True


@dataclass(frozen=True, slots=True)
class Unusable:
    """The body returned a value that JSON cannot represent.

    Attributes:
        message: Why.
    """

    message: str


BodyEnd: TypeAlias = BodyValue | Raised | Stopped | Died | Unusable


async def run_body(
    body: Callable[[], object],
    *,
    is_async: bool,
    timeout_s: float | None,
    workers: Workers,
    late: Late,
    token: CancelToken | None = None,
    grace_s: float = GRACE_S,
) -> BodyEnd:
    """Run a function on the event loop or in a thread; see ``run_async`` and ``run_thread``.

    Args:
        body: The work.
        is_async: Whether it is a coroutine function. A decorated function may return an awaitable
            though its signature does not show it; it runs in a thread and is then awaited.
        timeout_s: See ``run_thread``, as for the others.
        workers: See there.
        late: See there.
        token: See there.
        grace_s: See ``run_async``.
    """
    if is_async:
        return await run_async(body, timeout_s=timeout_s, token=token, grace_s=grace_s)
    loop = asyncio.get_running_loop()
    began = loop.time()
    ending = await run_thread(body, timeout_s=timeout_s, workers=workers, late=late, token=token)
    if not isinstance(ending, BodyValue) or not inspect.isawaitable(ending.value):
        return ending
    waiting = cast("Awaitable[object]", ending.value)
    left = None if timeout_s is None else max(0.0, began + timeout_s - loop.time())
    return await run_async(lambda: waiting, timeout_s=left, token=token, grace_s=grace_s)


async def run_async(
    body: Callable[[], object],
    *,
    timeout_s: float | None,
    token: CancelToken | None = None,
    grace_s: float = GRACE_S,
) -> BodyEnd:
    """Run a coroutine function.

    Args:
        body: Returns the coroutine.
        timeout_s: After so many seconds it is cancelled, then abandoned if it outlives the grace.
            None means no limit.
        token: Set when the body is given up; None if the body cannot see it.
        grace_s: Seconds that it has to end after a timeout; a bit less after a cancellation.

    Returns:
        How it ended. Cancelling the caller cancels the body and is returned as ``Stopped``.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[BodyEnd | None] = loop.create_future()
    task = loop.create_task(_run_guarded(body, over))
    timer = None if timeout_s is None else loop.call_later(timeout_s, _wake, over)
    cancelled = False
    try:
        await over
    except asyncio.CancelledError:
        cancelled = True
    finally:
        if timer is not None:
            timer.cancel()
    # Cancelling the caller has cancelled the future too. If the body ended in the same moment, its
    # task is done, which is checked below.
    ending = None if over.cancelled() or not over.done() else over.result()
    if ending is not None:
        return ending
    if task.done():
        return _ending_of(task)
    if token is not None:
        token.set()
    grace_s = min(grace_s, _CANCEL_GRACE_S) if cancelled else grace_s
    return Stopped(cancelled, ended=await _cancel_task(task, grace_s))


async def run_thread(
    body: Callable[[], object],
    *,
    timeout_s: float | None,
    workers: Workers,
    late: Late,
    token: CancelToken | None = None,
) -> BodyEnd:
    """Run a plain function in a thread, with the caller's context variables.

    Args:
        body: The work.
        timeout_s: After so many seconds it is abandoned; waiting for a free thread counts.
            None means no limit.
        workers: The threads.
        late: Called on the event loop when an abandoned body ends after all.
        token: Set when the body is given up; None if the body cannot see it.

    Returns:
        How it ended. Cancelling the caller is returned as ``Stopped``.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[BodyEnd | None] = loop.create_future()
    # Read and set only on the loop, where deliver runs too, so no lock is needed.
    given_up = False
    # A thread starts with an empty context; tasks copy theirs automatically.
    context = contextvars.copy_context()

    found: BodyEnd | None = None

    def deliver(ending: BodyEnd) -> None:
        nonlocal found
        if given_up:
            late()
            _discard_result(ending)
        found = ending
        _wake(over)

    def work() -> None:
        try:
            ending: BodyEnd = BodyValue(context.run(body))
        except BaseException as error:  # whatever a tool raises is its call's outcome
            ending = Raised(error)
        try:
            loop.call_soon_threadsafe(deliver, ending)
        except RuntimeError:
            # The loop was closed while the body ran: the result is dropped.
            _discard_result(ending)

    job = Job(work)
    workers.submit(job)
    cancelled = await _wait_until(over, timeout_s)
    if found is not None:
        return found
    if token is not None:
        token.set()
    if workers.withdraw(job):
        return Stopped(cancelled, started=False)
    # A new future, because the timer or a cancellation has settled the first one.
    over = loop.create_future()
    await _wait_until(over, _THREAD_GRACE_S)
    if found is not None:
        _discard_result(found)
        return Stopped(cancelled)
    given_up = True
    # A thread cannot be stopped: it is written off, so that another one may replace it.
    workers.write_off(job)
    return Stopped(cancelled, ended=False)


def discard(value: object) -> None:
    """Close *value* if it is a coroutine or generator, which would warn when it is collected.

    Args:
        value: What a body returned after it was abandoned.
    """
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        # It may raise while closing, or refuse to close; nothing can be done about either.
        with contextlib.suppress(Exception):
            value.close()


def _discard_result(ending: BodyEnd) -> None:
    if isinstance(ending, BodyValue):
        discard(ending.value)


async def _run_guarded(body: Callable[[], object], over: asyncio.Future[BodyEnd | None]) -> BodyEnd:
    ending: BodyEnd | None = None
    try:
        value = body()
        ending = BodyValue(
            await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value
        )
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a tool raises is its call's outcome
        ending = Raised(error)
    finally:
        # Here and not in a callback of the task, which would run one loop iteration later.
        _wake(over, ending)
    return ending or Raised(asyncio.CancelledError())


def _ending_of(task: asyncio.Task[BodyEnd]) -> BodyEnd:
    if task.cancelled():
        return Raised(asyncio.CancelledError())
    return task.result()


def _wake(future: asyncio.Future[BodyEnd | None], value: BodyEnd | None = None) -> None:
    if not future.done():
        future.set_result(value)


async def _wait_until(future: asyncio.Future[BodyEnd | None], delay_s: float | None) -> bool:
    """Wait for *future*, at most *delay_s*; returns whether the caller was cancelled."""
    # Not asyncio.wait, which takes one more iteration of the loop.
    loop = asyncio.get_running_loop()
    timer = None if delay_s is None else loop.call_later(delay_s, _wake, future)
    try:
        await future
    except asyncio.CancelledError:
        return True
    finally:
        if timer is not None:
            timer.cancel()
    return False


async def _cancel_task(task: asyncio.Task[BodyEnd], grace_s: float) -> bool:
    """Cancel *task*; returns whether it ended within the grace."""
    task.cancel()
    # If the caller is cancelled once more, there is no time left for the grace.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait((task,), timeout=grace_s)
    if not task.done():
        # Otherwise its exception would be reported as never retrieved.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return False
    return True
