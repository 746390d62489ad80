"""Workers: reused daemon threads of our own for plain tools.

Never the loop's default executor, whose shutdown joins: one hung tool would keep the
interpreter from exiting.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from ..contract.number import check_whole

__all__ = ["MAX_WORKERS", "WORKERS", "Job", "Workers"]

MAX_WORKERS = 128
_IDLE_S = 30.0


class Job:
    """One call in a thread.

    Attributes:
        run: The work; it must not raise.
        started: Whether a thread has begun with it.
        ended: Whether its work is over.
        lost: Whether it was written off.
        withdrawn: Whether it was taken back before a thread had begun with it.
    """

    __slots__ = ("ended", "lost", "run", "started", "withdrawn")

    def __init__(self, run: Callable[[], None]) -> None:
        self.run: Callable[[], None] = run
        self.started: bool = False
        self.ended: bool = False
        self.lost: bool = False
        self.withdrawn: bool = False


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
        """How many of them still run a call that nobody waits for."""
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
