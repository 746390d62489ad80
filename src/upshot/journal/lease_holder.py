"""Which process works on a run, and whether it still does.

With an expiring lease alone, a killed run would have to wait. On one machine it is known at once
that a process has ended; across machines without leases only the epoch protects the log.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from upshot.contract.base.structs import Value
from upshot.errors import JournalError

NOBODY = ""
"""The stored holder of a run that was released before it settled."""
LEASE_S = 10.0
"""A process keeps its runs for this long after it last renewed its lease."""
RENEW_S = 3.0
"""How often a process renews its lease."""
MARGIN_S = 2.0
"""In this last part of its lease a process starts no more work."""

# This clock runs on while the machine is suspended; the monotonic clock of Linux does not.
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
boot_s: Callable[[], float] = (
    time.monotonic if _BOOT_CLOCK is None else partial(time.clock_gettime, _BOOT_CLOCK)
)
"""Seconds since the machine was started, including time spent suspended."""

_PROC = "/proc"
_ENDED_STATES = ("Z", "X")
# Stopped by a signal; a process stopped by a debugger has another state and may continue any time.
_STOPPED_STATE = "T"
# Flag bit of a task that is exiting.
_EXITING = 0x4
_KILLED = 1 << (signal.SIGKILL - 1) if hasattr(signal, "SIGKILL") else 0


class LeaseHolder(Value, frozen=True, kw_only=True):
    """The process that claimed a run.

    Attributes:
        pid: Its process id; 0 for none.
        host: The name of its machine.
        boot: The boot id of that machine, "" if the platform has none.
        space: The machine's pid namespace that the process is in, "" if there is only one.
        started: When the process was started, in the platform's ticks; None if not available.
        lease_s: Seconds left of its lease when that was read, by the database's clock; below 0 if
            it has lapsed, None if the journal has no leases.
    """

    pid: int
    host: str = ""
    boot: str = ""
    space: str = ""
    started: int | None = None
    lease_s: float | None = None

    @property
    def state(self) -> Literal["lives", "stopped", "gone", "unknown"]:
        """Whether the process is alive. On another machine, whether its lease is valid.

        "unknown" is a process on another machine without a valid lease. "stopped" is one that was
        suspended, as by Ctrl-Z. A process that was killed but not yet waited for is "gone".
        """
        if self.pid < 1:
            return "gone"
        if not self.is_near or os.name != "posix":
            return "lives" if self.lease_s is not None and self.lease_s > 0 else "unknown"
        seen = _read_process(self.pid)
        if seen is None:
            return "lives" if _is_there(self.pid) else "gone"
        # Another process may have the same id now.
        if seen.is_ending or self.started not in (None, seen.started):
            return "gone"
        return "stopped" if seen.is_stopped else "lives"

    @property
    def may_work(self) -> bool:
        """Whether it may be at work: neither known to have ended nor past its lease."""
        state = self.state
        if state in ("lives", "gone"):
            return state == "lives"
        return self.lease_s is None or self.lease_s > 0

    @property
    def is_this_process(self) -> bool:
        """Whether it is the current process."""
        return replace(self, lease_s=None) == this_process()

    @property
    def is_near(self) -> bool:
        """Whether its pid means the same process here; a machine may be renamed while it is up."""
        here = this_process()
        if self.boot or here.boot:
            return (self.boot, self.space) == (here.boot, here.space)
        return self.host == here.host


class _Seen(msgspec.Struct, frozen=True):
    """What the platform knows about a process."""

    started: int
    is_ending: bool
    is_stopped: bool


def this_process() -> LeaseHolder:
    """Return the current process."""
    return _describe(os.getpid())


def lease_left_s(holder: str, until: float | None) -> float:
    """Return what is left of a lease that ends at *until* on the clock of ``boot_s``.

    A lease from before the machine was restarted has lapsed.
    """
    return -math.inf if until is None or this_process().boot not in holder else until - boot_s()


def read_holder(text: str | None) -> LeaseHolder | None:
    """Parse a holder as a journal stores it; None if there is none or it cannot be read.

    If the journal has leases, a second line has the seconds left of this one.
    """
    if text is None:
        return None
    description, _, left_s = text.partition("\n")
    if description == NOBODY:
        return LeaseHolder(pid=0)
    try:
        holder = msgspec.json.decode(description, type=LeaseHolder)
        return replace(holder, lease_s=float(left_s)) if left_s else holder
    except (msgspec.MsgspecError, UnicodeError, ValueError):
        return None


class RunHeld(JournalError):
    """Another session works on the run."""


def held_error(run_id: str, holder: LeaseHolder) -> RunHeld:
    """Return the exception for a run that another living process works on."""
    where, onward = "this machine", "wait for its end, stop that process"
    if not holder.is_near and holder.lease_s is not None:
        where = f"{holder.host or 'another machine'}, whose lease ends in {holder.lease_s:.0f} s"
        onward = "wait for its end, or until the lease ends unrenewed"
    return RunHeld(
        f"run {run_id} is being worked on by process {holder.pid} on {where}: {onward}, or give "
        "take_over=True / --take-over",
        run_id=run_id,
    )


@lru_cache(maxsize=1)
def _describe(pid: int) -> LeaseHolder:
    # Keyed by the pid, because a forked process is another one.
    seen = _read_process(pid)
    return LeaseHolder(
        pid=pid,
        host=os.uname().nodename if os.name == "posix" else "",
        boot=_text_of(f"{_PROC}/sys/kernel/random/boot_id").strip(),
        space=_link_of(f"{_PROC}/self/ns/pid"),
        started=None if seen is None else seen.started,
    )


def _read_process(pid: int) -> _Seen | None:
    """Return what is known about the process; None if it does not exist or that is unknown."""
    # The program's name is in brackets and may contain anything, including brackets.
    fields = _text_of(f"{_PROC}/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    is_ending = fields[0] in _ENDED_STATES or bool(int(fields[6]) & _EXITING) or _is_killed(pid)
    return _Seen(
        started=int(fields[19]), is_ending=is_ending, is_stopped=fields[0] == _STOPPED_STATE
    )


def _is_killed(pid: int) -> bool:
    """Whether it was killed but has not ended yet."""
    for line in _text_of(f"{_PROC}/{pid}/status").splitlines():
        name, _, value = line.partition(":")
        if name in ("SigPnd", "ShdPnd") and int(value, 16) & _KILLED:
            return True
    return False


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        # It belongs to another user.
        return True
    return True


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
