"""Processes that tests start: none outlives its test by much, whatever it waits for."""

from __future__ import annotations

import subprocess
import threading
from typing import AnyStr

__all__ = ["watched"]

MAX_S = 60


def watched(process: subprocess.Popen[AnyStr]) -> subprocess.Popen[AnyStr]:
    """*process*, which is killed after a minute: then every read of it and wait for it ends."""
    timer = threading.Timer(MAX_S, process.kill)
    timer.daemon = True
    timer.start()
    return process
