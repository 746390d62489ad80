"""``python -IS tests/launch.py SOCKET ARGUMENTS``: runs a program that a fork server starts.

For code under test that starts a command. The program gets its streams, SIGTERM and SIGINT, is
killed with it, and it ends as the program does. It loads as little as it can.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys

__all__ = ["INT_BYTES", "MAX_S", "ask", "read_number"]

INT_BYTES = 4
MAX_S = 60
"""How long a process lives at most, so that none outlives its test by much."""


def ask(
    path: str,
    arguments: list[str],
    *,
    folder: str,
    environment: dict[str, str],
    own_session: bool = False,
    max_s: float = MAX_S,
    fds: tuple[int, int, int] = (0, 1, 2),
) -> socket.socket:
    """Ask the server at *path* for a process; return the connection with its id and exit code."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    packed = marshal.dumps((arguments, folder, environment, own_session, max_s))
    socket.send_fds(connection, [len(packed).to_bytes(INT_BYTES, "big")], fds)
    connection.sendall(packed)
    return connection


def read_number(connection: socket.socket) -> int:
    """Return the next number that the server sends."""
    said = connection.recv(INT_BYTES, socket.MSG_WAITALL)
    assert said, "the server that forks has ended"
    return int.from_bytes(said, "big", signed=True)


def main(path: str, *arguments: str) -> None:
    """Run the program to its end."""
    connection = ask(path, [*arguments], folder=os.getcwd(), environment=dict(os.environ))
    pid = read_number(connection)
    for passed_on in (signal.SIGTERM, signal.SIGINT):
        signal.signal(passed_on, lambda number, _: os.kill(pid, number))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    code = read_number(connection)
    if code < 0:
        if code != -signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
