"""Running a body in a separate process, within its time limit."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO

from upshot.contract.base.structs import Json
from upshot.native.unsent import Proof
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.execution.child_main import (
    Began,
    Exited,
    Gave,
    Line,
    Order,
    Progressed,
    Raise,
    Unloadable,
    Unwritable,
    decode_line,
    encode_line,
)
from upshot.tools.execution.executor import BodyEnd, BodyValue, Died, Raised, Stopped, Unusable
from upshot.tools.execution.process_supervisor import END_WORD, GRACE_S

_MAX_OUTPUT_BYTES = 256 * 1024 * 1024
_PIECE_BYTES = 1 << 18
# The supervisor kills after its grace; past this time it must be stuck itself.
_END_S = GRACE_S + 1.0
# A killed process takes a moment to end.
_KILLED_S = 1.0
_REAP_TRIES = 5_000
_INHERITED = frozenset(
    (
        *("HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TERM"),
        *("SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    )
)
_BOOTSTRAP = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    f"from {__package__}.process_supervisor import main; main()"
)


async def run_process(
    order: Order,
    *,
    env: Mapping[str, str],
    timeout_s: float | None,
    slots: asyncio.Semaphore,
    tell: Callable[[str, Json], None],
) -> BodyEnd:
    """Run a function in a separate process, which ends along with everything it started.

    Args:
        order: The function and its arguments.
        env: Environment variables in addition to those it inherits.
        timeout_s: After so many seconds it is given up; waiting for a slot and starting the
            process count. None means no limit.
        slots: Limits the number of processes at a time.
        tell: Called with each progress report.

    Returns:
        How it ended. Cancelling the caller is returned as ``Stopped``.
    """
    loop = asyncio.get_running_loop()
    until = None if timeout_s is None else loop.time() + timeout_s
    try:
        async with asyncio.timeout_at(until):
            await slots.acquire()
    except (TimeoutError, asyncio.CancelledError) as error:
        return Stopped(isinstance(error, asyncio.CancelledError), started=False)
    try:
        try:
            # The slot is held until the process is gone, even if it is slow to die.
            talk = _Conversation(order, env, tell)
        except OSError as error:
            return Died(f"No process could be started: {error}", "worker_failed", started=False)
        cancelled = await _wait_until(talk.over, None if until is None else until - loop.time())
        if not talk.over.done():
            ended = await talk.end()
            # Checked only now: it may have started in between, and if it is not gone it still may.
            return Stopped(cancelled, started=talk.began or not ended, ended=ended)
        await talk.end()
        return talk.over.result()
    finally:
        slots.release()


class _Conversation:
    """The conversation with one process."""

    def __init__(
        self, order: Order, env: Mapping[str, str], tell: Callable[[str, Json], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.began = False
        self.over: asyncio.Future[BodyEnd] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._report = tell
        self._pieces: list[bytes] = []
        self._size = 0
        self._order = memoryview(encode_line(order))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_inherited(), **env},
            start_new_session=True,
        )
        self._inlet, self._outlet = (
            _to_nonblocking_fd(self._process.stdin),
            _to_nonblocking_fd(self._process.stdout),
        )
        self._loop.add_writer(self._inlet, self._write)
        self._loop.add_reader(self._outlet, self._read)

    async def end(self) -> bool:
        """End the process and wait for that; returns whether it ended."""
        self._loop.remove_writer(self._inlet)
        # If the pipe is full, the order was not read completely and will not be started.
        with suppress(OSError):
            os.write(self._inlet, END_WORD)
        if self._process.stdin is not None:
            self._process.stdin.close()
        await _wait_until(self._gone, _END_S)
        ended = self._gone.done()
        if not ended:
            self._process.kill()
            await _wait_until(self._gone, _KILLED_S)
            # If the function had not started, it has left nothing behind that could keep running.
            ended = self._gone.done() and not self.began
        self._loop.remove_reader(self._outlet)
        if self._process.stdout is not None:
            self._process.stdout.close()
        # It has closed its output, so this takes next to no time, or a while on a busy machine.
        for _ in range(_REAP_TRIES if self._gone.done() else 1):
            if self._process.poll() is not None:
                break
            await _wait_until(self._loop.create_future(), 0.002)
        return ended

    def _write(self) -> None:
        try:
            self._order = self._order[os.write(self._inlet, self._order) :]
        except BlockingIOError:
            return
        except OSError:
            # It has ended already; what it wrote, or did not write, explains why.
            self._order = self._order[:0]
        if not self._order:
            self._loop.remove_writer(self._inlet)

    def _read(self) -> None:
        try:
            piece = os.read(self._outlet, _PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._finish(None)
            return
        *lines, rest = piece.split(b"\n")
        for line in lines:
            whole = b"".join((*self._pieces, line))
            self._pieces, self._size = [], 0
            if whole and (message := decode_line(whole)) is not None:
                self._handle_line(message)
        self._pieces.append(rest)
        self._size += len(rest)
        # An answer without an end must not fill our memory.
        if self._size > _MAX_OUTPUT_BYTES:
            self._conclude(Unusable(f"it is larger than {_MAX_OUTPUT_BYTES} bytes"))

    def _handle_line(self, line: Line) -> None:
        match line:
            case Began():
                self.began = True
            case Progressed(text=text, data=data):
                self._report(text, data)
            case Exited(status=status):
                self._finish(status)
            case _:
                self._conclude(_ending_of(line))

    def _finish(self, status: int | None) -> None:
        self._loop.remove_reader(self._outlet)
        self._conclude(_to_died(status, started=self.began))
        if not self._gone.done():
            self._gone.set_result(None)

    def _conclude(self, ending: BodyEnd) -> None:
        if not self.over.done():
            self.over.set_result(ending)


def _ending_of(line: Gave | Raise | Unwritable | Unloadable) -> BodyEnd:
    match line:
        case Gave(value=value, lossy=lossy):
            return BodyValue(value, lossy)
        case Raise(cut=True):
            return Died(line.message, line.code or "cancelled")
        case Raise():
            error = ToolError(
                line.message,
                code=line.code,
                retryable=line.retryable,
                retry_after_s=line.retry_after_s,
                effect=line.effect,
            )
            return Raised(error, None if line.unsent is None else Proof(line.unsent))
        case Unwritable(message=message):
            return Unusable(message)
        case Unloadable(message=message):
            return Died(f"The tool could not be loaded: {message}", "worker_failed", started=False)


def _to_died(status: int | None, *, started: bool) -> Died:
    if status == -signal.SIGXCPU:
        text = "The tool needed more processor time than it may use."
        return Died(text, "cpu_limit", started=started)
    how = "unexpectedly"
    if status is not None:
        how = f"with code {status}" if status >= 0 else f"by signal {-status}"
    return Died(f"The tool's process ended {how}.", "worker_failed", started=started)


def _to_nonblocking_fd(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise RuntimeError("the process was started without its pipes")
    os.set_blocking(pipe.fileno(), False)
    return pipe.fileno()


def _inherited() -> dict[str, str]:
    """Return the variables that the process inherits; any other may hold a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED or name.startswith(("LC_", "PYTHON"))
    }


async def _wait_until(
    future: asyncio.Future[BodyEnd] | asyncio.Future[None], delay_s: float | None
) -> bool:
    """Wait for *future*, at most *delay_s*; returns whether the caller was cancelled."""
    try:
        await asyncio.wait((future,), timeout=delay_s)
    except asyncio.CancelledError:
        return True
    return False
