"""``python -m tests.fork_server SOCKET``: starts Python programs by forking, with modules loaded.

It has one thread and no event loop, and ends with its standard input. A client connects to its
socket, sends a ``Request`` with three file descriptors, and reads the id of the process and, once
that has ended, its exit code. The process is killed if the connection is closed before.

A child closes all other descriptors, gets what the request says of its environment and executes the
program as ``python`` would. It ends without freeing its memory, which would take ten times as long
as to start it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
import types
import warnings
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, cast

from tests.launch import INT_BYTES

# What the programs of most tests load, some of it at its first use.
PRELOADED = (
    "jsonschema_rs",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server",
    "psycopg",
    "pytest",
    "pytest_asyncio.plugin",
    "sse_starlette",
    "starlette",
    "uvicorn",
    "upshot.cli.commands",
    "upshot.engines",
    "upshot.fleet.worker",
    "upshot.gateway",
    "upshot.journal.postgres.postgres_journal",
    "upshot.journal.sqlite.sqlite_journal",
    "upshot.models.aiohttp_connector",
    "upshot.serve",
    "upshot.sim",
    "upshot.testing",
)


class Request(NamedTuple):
    """A process to start.

    Attributes:
        arguments: Those of ``python``: ``-W error`` if wanted, then ``-m module``, ``-c code`` or a
            file, then those of the program.
        folder: Its working directory.
        environment: Its whole environment.
        own_session: Whether it leads a new session.
        max_s: After how many seconds it is killed.
    """

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    own_session: bool
    max_s: float


class _Child(NamedTuple):
    asked_by: socket.socket
    ends_at: float


def main() -> None:
    """Serve until standard input ends; in a child, execute its program."""
    base = sys.path[1:]
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(sys.argv[1])
    listening.listen(100)
    for name in PRELOADED:
        # Environments apart have only some of them.
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    # Neither a collection here nor one in a child looks at what was loaded.
    gc.collect()
    gc.freeze()
    print(flush=True)
    if (request := _serve(listening)) is not None:
        _execute(request, base)


def _serve(listening: socket.socket) -> Request | None:
    """Start and watch children; return a request in the child that is to execute it."""
    awake, wake = socket.socketpair()
    awake.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    children: dict[int, _Child] = {}
    selector = selectors.DefaultSelector()
    for watched in (awake, listening, sys.stdin):
        selector.register(watched, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select(1 if children else None):
            if key.fileobj is sys.stdin:
                # Its worker has died: nobody else would end them.
                for pid in children:
                    os.kill(pid, signal.SIGKILL)
                return None
            elif key.fileobj is awake:
                awake.recv(4096)
            elif key.fileobj is listening:
                asked_by = listening.accept()[0]
                fds, request = _read(asked_by)
                if not (pid := os.fork()):
                    sockets = [child.asked_by for child in children.values()]
                    _free(selector, awake, wake, listening, asked_by, *sockets)
                    _use(fds)
                    return request
                for fd in fds:
                    os.close(fd)
                children[pid] = _Child(asked_by, time.monotonic() + request.max_s)
                selector.register(asked_by, selectors.EVENT_READ, pid)
                _tell(asked_by, pid)
            else:
                # Who asked for it is gone, as there is nothing else to read.
                selector.unregister(key.fileobj)
                os.kill(key.data, signal.SIGKILL)
        _reap(children, selector)


def _read(asked_by: socket.socket) -> tuple[list[int], Request]:
    head, fds, _, _ = socket.recv_fds(asked_by, INT_BYTES, 3, socket.MSG_WAITALL)
    packed = asked_by.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return fds, Request(*marshal.loads(packed))


def _tell(asked_by: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        asked_by.sendall(number.to_bytes(INT_BYTES, "big", signed=True))


def _reap(children: dict[int, _Child], selector: selectors.BaseSelector) -> None:
    """Report the children that have ended, and kill those that live for too long."""
    for pid, child in list(children.items()):
        if time.monotonic() > child.ends_at:
            os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[pid]
            with suppress(KeyError):
                selector.unregister(child.asked_by)
            with child.asked_by:
                _tell(child.asked_by, os.waitstatus_to_exitcode(status))


def _ignore(number: int, frame: types.FrameType | None) -> None:
    """Handle a signal that only wakes the loop."""


def _free(selector: selectors.BaseSelector, *sockets: socket.socket) -> None:
    """In a child, undo what only the server needs.

    Nothing is left to the garbage collector: it would close descriptors that are others by then.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    selector.close()
    for one in sockets:
        one.close()


def _use(fds: list[int]) -> None:
    """Make *fds* the standard streams."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)


def _execute(request: Request, base: list[str]) -> NoReturn:
    """Execute the program of *request* as ``python`` does, and end."""
    if request.own_session:
        os.setsid()
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    _open_streams(unbuffered="PYTHONUNBUFFERED" in request.environment)
    arguments = list(request.arguments)
    while arguments[0] == "-W":
        sys.warnoptions.append(arguments[1])
        warnings.simplefilter(cast(Any, arguments[1]))
        del arguments[:2]
    named = request.environment.get("PYTHONPATH", "")
    sys.path[:] = ["", *filter(None, named.split(os.pathsep)), *base]
    code = 1
    try:
        _run(arguments)
        code = 0
    except SystemExit as end:
        code = _code_of(end)
    except BaseException as error:
        _show(error)
        if isinstance(error, KeyboardInterrupt):
            code = -signal.SIGINT
    _end(code)


def _run(arguments: list[str]) -> None:
    """Execute ``-m module``, ``-c code`` or a file as the main program."""
    match arguments:
        case ["-m", module, *more]:
            sys.argv[:] = [module, *more]
            sys.path[0] = os.getcwd()
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *more]:
            sys.argv[:] = ["-c", *more]
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(code, "<string>", "exec", dont_inherit=True), main.__dict__)
        case [file, *more]:
            sys.argv[:] = [file, *more]
            sys.path[0] = os.path.dirname(os.path.abspath(file))
            runpy.run_path(file, run_name="__main__")
        case _:
            raise ValueError("there is no program to run")


def _open_streams(*, unbuffered: bool) -> None:
    """Open stdin, stdout and stderr anew."""

    def opened(fd: int, mode: str, errors: str) -> io.TextIOWrapper:
        stream: Any = io.FileIO(fd, mode, closefd=False)
        if mode == "r":
            stream = io.BufferedReader(stream)
        elif not unbuffered:
            stream = io.BufferedWriter(stream)
        # A terminal and stderr are written line by line.
        is_by_line = fd == 2 or os.isatty(fd)
        return io.TextIOWrapper(stream, "utf-8", errors, None, is_by_line, unbuffered)

    streams: Any = sys
    streams.stdin = streams.__stdin__ = opened(0, "r", "strict")
    streams.stdout = streams.__stdout__ = opened(1, "w", "strict")
    streams.stderr = streams.__stderr__ = opened(2, "w", "backslashreplace")


def _code_of(end: SystemExit) -> int:
    """Return the exit code of *end*, and print its message."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Print the traceback without the frames of this file."""
    where = error.__traceback__
    while where is not None and where.tb_frame.f_code.co_filename == __file__:
        where = where.tb_next
    sys.excepthook(type(error), error.with_traceback(where), where)


def _end(code: int) -> NoReturn:
    """End as the interpreter does, but free nothing."""
    cast(Any, threading)._shutdown()
    cast(Any, atexit)._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            code = code or 120
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
