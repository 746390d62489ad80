"""Processes that tests start: none outlives its test by much, whatever it waits for.

``start_python`` forks from a server that has loaded upshot and its libraries: a process as any
other, with an id, streams and signals of its own, for a hundredth of what it costs to start Python
and to load all of that anew. ``launched`` is a command for other code that starts programs. The
executable, options of the interpreter, the cost of imports and what happens at the interpreter's
end are tried with ``subprocess``.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any, AnyStr, cast

from tests import launch
from tests.launch import MAX_S, ask, read_number

__all__ = [
    "LARGE_S",
    "LOADED",
    "MAX_S",
    "SHARED",
    "launched",
    "run_pytest",
    "run_python",
    "run_to_its_kill",
    "start_python",
    "start_server",
    "suspend",
    "watched",
]

ROOT = Path(__file__).resolve().parents[1]
LARGE_S = 3600
"""How long a process may live in tests that take minutes where that is asked for."""
LOADED = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
"""What some Pythons need to start; for processes started without our environment."""


def watched(process: subprocess.Popen[AnyStr], *, max_s: float = MAX_S) -> subprocess.Popen[AnyStr]:
    """Kill *process* after *max_s*, which ends every read from it and wait for it."""
    timer = threading.Timer(max_s, process.kill)
    timer.daemon = True
    timer.start()
    return process


def start_python(*arguments: object, max_s: float = MAX_S, **options: Any) -> subprocess.Popen[Any]:
    """Start ``python`` with *arguments* (``-m module``, ``-c code`` or a file) as a new process.

    Args:
        arguments: What follows ``python`` on a command line. Of its own options there is ``-W``.
        max_s: After how many seconds it is killed.
        options: Those of ``subprocess.Popen``.
    """
    return _Forked([sys.executable, *map(str, arguments)], max_s=max_s, **options)


def run_python(
    *arguments: object, said: Any = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a process of ``start_python`` to its end, with *said* on stdin; return its output."""
    if said is not None:
        options["stdin"] = subprocess.PIPE
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with start_python(*arguments, **options) as process:
        out, err = process.communicate(said)
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def run_pytest(folder: Path, *options: str) -> str:
    """Run a session of pytest in *folder*; return what it prints.

    Of the installed plugins it loads pytest-asyncio alone, to start in a third of the time.
    """
    # The modules of the process were loaded before pytest could rewrite them.
    ignored = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    program = ("-m", "pytest", "-q", "-p", "pytest_asyncio.plugin", *options, *ignored)
    done = run_python(*program, cwd=folder, env=environment, text=True)
    return done.stdout + done.stderr


def run_to_its_kill(program: Path, *arguments: object) -> None:
    """Run a Python *program* that ends by killing itself."""
    with start_python(program, *arguments) as process:
        process.wait()
    assert process.returncode == -signal.SIGKILL


def suspend(process: subprocess.Popen[Any]) -> None:
    """Send SIGSTOP to a process; return once all its threads have stopped."""
    process.send_signal(signal.SIGSTOP)
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        while (thread / "stat").read_text().rpartition(") ")[2][0] != "T":
            time.sleep(0.001)


def launched(*arguments: object) -> list[str]:
    """Return a command that does what ``python`` does with *arguments*, as ``start_python``."""
    return [sys.executable, "-IS", launch.__file__, _server(), *map(str, arguments)]


class _Forked(subprocess.Popen[Any]):
    """A process that the server has forked; the server reaps it and sends its exit code."""

    def __init__(self, args: list[str], *, max_s: float, **options: Any) -> None:
        self._max_s = max_s
        super().__init__(args, **options)

    def _execute_child(  # noqa: PLR0917
        self,
        args: list[str],
        executable: object,
        preexec_fn: object,
        close_fds: bool,
        pass_fds: object,
        cwd: str | Path | None,
        env: dict[str, str] | None,
        startupinfo: object,
        creationflags: object,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        restore_signals: bool,
        gid: object,
        gids: object,
        uid: object,
        umask: object,
        start_new_session: bool,
        process_group: int,
    ) -> None:
        """Ask the server for the process: what ``Popen`` calls where it would fork itself."""
        self._connection = ask(
            _server(),
            args[1:],
            folder=os.fspath(cwd or os.getcwd()),
            environment=dict(os.environ if env is None else env),
            own_session=start_new_session,
            max_s=self._max_s,
            fds=(
                0 if p2cread == -1 else p2cread,
                1 if c2pwrite == -1 else c2pwrite,
                2 if errwrite == -1 else errwrite,
            ),
        )
        self.pid = read_number(self._connection)
        self._child_created = True
        pipes = (p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        cast(Any, self)._close_pipe_fds(*pipes)

    def _internal_poll(self, _deadstate: object = None) -> int | None:
        """Return the exit code if it has come."""
        return self._await_code(0)

    def _wait(self, timeout: float | None) -> int:
        """Wait for the exit code."""
        code = self._await_code(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _await_code(self, timeout_s: float | None) -> int | None:
        # Without the lock: what waits in one thread can be killed by another.
        if self.returncode is None and select.select([self._connection], [], [], timeout_s)[0]:
            with _reading:
                if self.returncode is None:
                    self.returncode = read_number(self._connection)
        return self.returncode

    def __del__(self, *_: object) -> None:
        cast(Any, super()).__del__()
        if self.returncode is not None:
            self._connection.close()


_reading = threading.Lock()


SHARED = "UPSHOT_TEST_FORKS"
"""The variable that names the socket of a server which the parent of this process has started."""


@cache
def start_server() -> tuple[str, subprocess.Popen[bytes] | None]:
    """Start the process that forks for this one, and ends with it; return its socket too.

    There is no process if the parent of this one has started the server.
    """
    if shared := os.environ.get(SHARED):
        return shared, None
    folder = tempfile.mkdtemp(prefix="upshot-fork-")
    path = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fork_server", path],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src")))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    return path, process


@cache
def _server() -> str:
    """Return the socket of the server, once it has loaded what it forks with."""
    path, process = start_server()
    if process is not None:
        assert process.stdout is not None
        process.stdout.readline()
    return path
