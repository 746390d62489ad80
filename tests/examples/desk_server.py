"""The help desk's server, as a process that can be killed and started again."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Self

from tests.examples.conftest import ROOT
from tests.processes import MAX_S, start_python

SERVICE = ROOT / "examples" / "helpdesk" / "service.py"


class DeskServer:
    """Serves the desk on a free port, from one folder, however often it is started.

    Args:
        folder: Where its journal and its shop are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self, *bank_s: float) -> None:
        """Start it; returns once it answers."""
        command = [SERVICE, "--port", self.port, "--data", self.folder]
        more = ["--bank-s", *bank_s] if bank_s else []
        streams: Any = {"stdout": DEVNULL, "stderr": PIPE, "text": True}
        self._process = start_python(*command, *more, max_s=5 * MAX_S, **streams)
        until = time.monotonic() + MAX_S
        while not self._answers():
            assert self._process.poll() is None, self._process.communicate()[1]
            assert time.monotonic() < until

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """Kill it by SIGKILL, if it is there."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def refunds(self) -> list[int]:
        """The orders that the shop has paid back."""
        sys.path.insert(0, str(SERVICE.parent))
        try:
            from orders import Shop
        finally:
            sys.path.pop(0)
        return Shop(self.folder / "shop.db").refunds()
