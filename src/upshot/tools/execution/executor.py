"""Runs a body on the event loop or in a thread, within its time.

``process_runner`` runs one in a process of its own. Plain tools run in daemon threads of our own,
``Workers``, which are reused. Never in the loop's default executor, whose shutdown joins: one hung
tool would keep the interpreter from exiting.
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
        started: Whether a thread has begun with it.
        ended: Whether its work is over.
        lost: Whether it was written off.
        withdrawn: Whether it was taken back before a thread had begun with it.
    """

    run: Callable[[], None]
    started: bool = False
    ended: bool = False
    lost: bool = False
    withdrawn: bool = False


class Workers:
    """Daemon threads, at most *cap* of them.

    A thread that outlives its call is written off and counted; another takes its place as
    long as there is room. It comes back when its work ends after all. Idle threads end after
    half a minute.

    Attributes:
        cap: The most threads, those written off included.
    """

    def __init__(self, cap: int = MAX_WORKERS) -> None:
        check_whole("cap", cap, least=1)
        self.cap = cap
        self._lock = threading.Lock()
        self._reset()

    @property
    def alive(self) -> int:
        """How many threads there are."""
        return self._alive

    @property
    def lost(self) -> int:
        """How many of them still run a call that was given up."""
        return self._lost

    def submit(self, job: Job) -> None:
        """Run *job* as soon as a thread is free."""
        with self._lock:
            if self._pid != os.getpid():
                # Threads do not survive a fork.
                self._reset()
            if self._idle:
                # The one that was idle last: the others may come to their end.
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
        """Take back a job that no thread has begun with; returns whether it could be."""
        with self._lock:
            if job.started:
                return False
            job.withdrawn = True
            # A thread that has it already passes over it.
            if job in self._waiting:
                self._waiting.remove(job)
            return True

    def write_off(self, job: Job) -> None:
        """Count the thread of *job* as lost until its work ends."""
        with self._lock:
            # It may have ended between the last look and this one; its thread is then not lost.
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
                    # A job may have been given between the timeout and the lock.
                    if worker not in self._idle:
                        continue
                    self._idle.remove(worker)
                    self._alive -= 1
                    return
            with self._lock:
                # Under the lock: either withdraw() comes first and the body never starts, or it is
                # told no.
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
# Less than what a cancelled caller waits for the whole batch.
_CANCEL_GRACE_S = 1.5
# A plain body that looks at its token gets this long to notice.
_THREAD_GRACE_S = 0.05

Late: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class BodyValue:
    """The body returned.

    Attributes:
        value: What it returned.
        lossy: Paths of what was replaced in it on its way, for JSON cannot hold it.
    """

    value: object
    lossy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised.

    Attributes:
        error: What it raised.
        proof: Proof that nothing was sent, if another process found one; None is not looked for.
    """

    error: BaseException
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The body was given up.

    Attributes:
        cancelled: Whether the caller took it back, else its time was over.
        started: Whether it ever ran.
        ended: Whether the work really ended, or goes on unwatched.
    """

    cancelled: bool
    started: bool = True
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Died:
    """The body was cut off, and not by us.

    Attributes:
        message: How.
        code: A word for it.
        started: Whether it ever ran.
    """

    message: str
    code: str
    started: bool = True


@dataclass(frozen=True, slots=True)
class Unusable:
    """The body returned what JSON cannot hold.

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
        is_async: Whether it is a coroutine function. Of another one that gives an awaitable, as
            decorators make them, no signature tells: that is awaited after its thread.
        timeout_s: As there, like the others.
        workers: As there.
        late: As there.
        token: As there.
        grace_s: As there.
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
        body: Makes the coroutine.
        timeout_s: After so many seconds it is cancelled, given the grace, then abandoned.
            None waits for as long as it takes.
        token: Set when it is given up; None where the body cannot look at it.
        grace_s: How long it may take to end then; after a cancel of the caller a bit less.

    Returns:
        How it ended. A cancel of the caller ends the body and comes back as ``Stopped``.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[BodyEnd | None] = loop.create_future()
    task = loop.create_task(_guard(body, over))
    timer = None if timeout_s is None else loop.call_later(timeout_s, _wake, over)
    cancelled = False
    try:
        await over
    except asyncio.CancelledError:
        cancelled = True
    finally:
        if timer is not None:
            timer.cancel()
    # A cancel of the caller has cancelled the future too. A body that ended in that same moment is
    # found by its task below.
    ending = None if over.cancelled() or not over.done() else over.result()
    if ending is not None:
        return ending
    if task.done():
        return _ending_of(task)
    if token is not None:
        token.set()
    grace_s = min(grace_s, _CANCEL_GRACE_S) if cancelled else grace_s
    return Stopped(cancelled, ended=await _stop(task, grace_s))


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
        timeout_s: After so many seconds it is given up; the time until a thread is free
            counts. None waits for as long as it takes.
        workers: Whose threads.
        late: Called on the event loop when a body that was given up ends after all.
        token: Set when it is given up; None where the body cannot look at it.

    Returns:
        How it ended. A cancel of the caller comes back as ``Stopped``.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[BodyEnd | None] = loop.create_future()
    # Read and set on the loop only, where deliver runs as well: no lock is needed.
    given_up = False
    # A thread begins with an empty context; tasks copy theirs by themselves.
    context = contextvars.copy_context()

    found: BodyEnd | None = None

    def deliver(ending: BodyEnd) -> None:
        nonlocal found
        if given_up:
            late()
            _drop(ending)
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
            # The loop was closed while the body ran: nobody is left to be told.
            _drop(ending)

    job = Job(work)
    workers.submit(job)
    cancelled = await _until(over, timeout_s)
    if found is not None:
        return found
    if token is not None:
        token.set()
    if workers.withdraw(job):
        return Stopped(cancelled, started=False)
    # A new one, since the timer has settled the first, or a cancel has.
    over = loop.create_future()
    await _until(over, _THREAD_GRACE_S)
    if found is not None:
        _drop(found)
        return Stopped(cancelled)
    given_up = True
    # A thread cannot be stopped: it is counted out, and another one may take its place.
    workers.write_off(job)
    return Stopped(cancelled, ended=False)


def discard(value: object) -> None:
    """Close *value* if it is a coroutine or generator; it would warn when it is collected.

    Args:
        value: What a body returned after it was given up.
    """
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        # Its last block may raise, or it may refuse to end: there is nobody left to tell.
        with contextlib.suppress(Exception):
            value.close()


def _drop(ending: BodyEnd) -> None:
    if isinstance(ending, BodyValue):
        discard(ending.value)


async def _guard(body: Callable[[], object], over: asyncio.Future[BodyEnd | None]) -> BodyEnd:
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
        # Told from here, not by a callback of the task: that is a turn of the loop earlier.
        _wake(over, ending)
    return ending or Raised(asyncio.CancelledError())


def _ending_of(task: asyncio.Task[BodyEnd]) -> BodyEnd:
    if task.cancelled():
        return Raised(asyncio.CancelledError())
    return task.result()


def _wake(future: asyncio.Future[BodyEnd | None], value: BodyEnd | None = None) -> None:
    if not future.done():
        future.set_result(value)


async def _until(future: asyncio.Future[BodyEnd | None], delay_s: float | None) -> bool:
    """Wait for *future* or *delay_s*; returns whether the caller was cancelled meanwhile."""
    # Not asyncio.wait: it takes the loop once more round.
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


async def _stop(task: asyncio.Task[BodyEnd], grace_s: float) -> bool:
    """Cancel *task*; returns whether it ended within the grace."""
    task.cancel()
    # Cancelled again, the caller has no time for the grace any more.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait((task,), timeout=grace_s)
    if not task.done():
        # Its exception must not be reported as never retrieved.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return False
    return True
