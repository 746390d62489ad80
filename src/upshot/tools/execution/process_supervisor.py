"""The supervisor process of an isolated tool: it watches the worker and leaves nothing behind.

It runs no code of the tool, so a hanging tool cannot block it: even after the calling process was
killed, the worker ends along with everything it started. A caller that gives the worker up says
so, and the worker gets a grace. If the caller is gone, the worker is killed at once: a process that
resumes the run must not find that nothing was done and then see it happen.

    caller ----order, end word----> warden --fork--> worker --fork--> grandchildren
    caller <------------- lines --------------------- worker
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

GRACE_S = 0.3
"""How long a worker may take to end after TERM."""

END_WORD = b"end\n"
"""Written by the caller after the order to give the worker up, before it closes the pipe."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IS_LINUX = sys.platform == "linux"
_ROUNDS = 50


def main() -> None:
    """Read an order from standard input, fork a worker for it, and clean up."""
    del sys.argv[1:]
    order = _read_order()
    if not order or _is_given_up():
        return
    bell = _open_signal_pipe()
    warden = os.getpid()
    if _IS_LINUX:
        # Grandchildren whose parent has ended become our children, so we do not lose track of them.
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
    worker = os.fork()
    if worker == 0:
        _become_worker(warden)
        from upshot.tools.execution.child_main import work

        work(order)
    with suppress(OSError):
        # Done in both processes, because either may need it first.
        os.setpgid(worker, worker)
    status = _Watch(worker, bell).run()
    # An empty line first, because a kill may have cut the worker's last line.
    with suppress(OSError):
        os.write(1, b'\n{"kind":"exited","status":%d}\n' % status)


def _read_order() -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(0, 1 << 16):
        pieces.append(piece)
        if piece.endswith(b"\n"):
            order, _, word = b"".join(pieces).partition(b"\n")
            # Given up before it was read completely.
            return b"" if word else order + b"\n"
    return b""


def _is_given_up() -> bool:
    """Whether the caller gave up before the worker was started."""
    ready, _, _ = select.select([0], [], [], 0)
    return bool(ready)


def _open_signal_pipe() -> int:
    """Write signals into a pipe; returns its end to read."""
    # A pipe, because a signal that arrives just before select would be missed.
    bell, rope = os.pipe()
    for end in (bell, rope):
        os.set_blocking(end, False)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(rope)
    return bell


def _become_worker(warden: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    if _IS_LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # If the warden died between the fork and prctl, the request to die with it came too late.
    if os.getppid() != warden:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class _Watch:
    """Waits for the worker to end, or for the caller to give it up."""

    def __init__(self, worker: int, bell: int) -> None:
        self._worker = worker
        self._signal_fd = bell
        self._status: int | None = None
        self._kill_at: float | None = None

    def run(self) -> int:
        """Return the worker's exit code; if negative, the signal that ended it."""
        self._reap()
        while self._status is None:
            self._wait()
            self._reap()
        self._kill_leftovers()
        return self._status

    def _wait(self) -> None:
        # A closed input stays readable, so once the end has started only signals are watched.
        watched = [self._signal_fd] if self._kill_at is not None else [self._signal_fd, 0]
        left = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
        ready, _, _ = select.select(watched, [], [], left)
        signals = os.read(self._signal_fd, 512) if self._signal_fd in ready else b""
        is_given_up = 0 in ready and bool(os.read(0, 512))
        is_orphaned = (0 in ready and not is_given_up) or signal.SIGHUP in signals
        if is_orphaned or not ready:
            _try_kill(os.kill, self._worker, signal.SIGKILL)
            self._signal_all(signal.SIGKILL)
            self._kill_at = time.monotonic() + GRACE_S
        elif is_given_up or signal.SIGTERM in signals:
            self._signal_all(signal.SIGTERM)
            self._kill_at = self._kill_at or time.monotonic() + GRACE_S

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._worker:
                    self._status = os.waitstatus_to_exitcode(found[1])

    def _kill_leftovers(self) -> None:
        """Kill what the worker has left behind."""
        # Repeated, because a process that is being killed may be starting another one.
        for _ in range(_ROUNDS):
            if not self._signal_all(signal.SIGKILL):
                return
            time.sleep(0.002)
            self._reap()

    def _signal_all(self, number: signal.Signals) -> bool:
        """Signal the worker and all its descendants; returns whether any was found."""
        if _IS_LINUX:
            found = _descendants(os.getpid())
            for pid in found:
                _try_kill(os.kill, pid, number)
            return bool(found)
        return _try_kill(os.killpg, self._worker, number)


def _try_kill(kill: Callable[[int, int], None], target: int, number: int) -> bool:
    try:
        kill(target, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _descendants(pid: int) -> list[int]:
    """Return the descendants of *pid*, including those in sessions of their own."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (parent := _parent_of(entry.name)):
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for one in found:
        found += children.get(one, ())
    return found


def _parent_of(pid: str) -> int:
    try:
        # The name may contain anything, so only what follows the last bracket is read.
        state, parent = (
            Path("/proc", pid, "stat").read_text("latin-1").rpartition(")")[2].split()[:2]
        )
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else int(parent)
